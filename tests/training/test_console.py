"""The display of a training on a real terminal of 80 columns."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from pathlib import Path

ENV = "hindsight/BitFlip-v0"


def on_terminal(*arguments: object, columns: int = 80, rows: int = 24) -> str:
    """What the command writes to a terminal of this size."""
    here, there = pty.openpty()
    fcntl.ioctl(there, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    unset = ("COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR")
    variables = {k: v for k, v in os.environ.items() if k not in unset} | {"TERM": "xterm"}
    command = [sys.executable, "-m", "hindsight.cli", *map(str, arguments)]
    with subprocess.Popen(command, stdin=there, stdout=there, stderr=there, env=variables) as child:
        os.close(there)
        out = b""
        try:
            while chunk := os.read(here, 4096):
                out += chunk
        except OSError:  # Linux says so when the other end is closed
            pass
        os.close(here)
    assert child.returncode == 0, out.decode()
    return re.sub(r"\x1b\[[\d;?]*[a-zA-Z]", "", out.decode())


def test_all_of_it_is_seen_in_80_columns(tmp_path: Path) -> None:
    options = ["--steps", 2000, "--run-dir", tmp_path / "run", "--eval-episodes", 8]
    lines = re.split(r"[\r\n]+", on_terminal("train", ENV, *options))
    bars = [line for line in lines if "steps/s" in line]
    assert lines[0] == f"{ENV}, seed 0"
    assert bars[0].startswith("compiling ...")
    assert re.fullmatch(
        r"success \d\.\d\d .* 2000/2000 [\d,]+ steps/s · left \d:\d\d:\d\d", bars[-1].rstrip()
    )
    assert all(len(line) <= 80 and "…" not in line for line in bars)
