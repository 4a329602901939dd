"""What is seen of a training: on a real terminal of 80 columns, in a notebook's kernel, in a
pipe."""

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
from typing import Any

import nbformat
from nbclient import NotebookClient

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


def test_a_pipe_has_lines_the_first_of_them_at_once(tmp_path: Path) -> None:
    options = ["--steps", "2000", "--run-dir", str(tmp_path / "run"), "--eval-episodes", "8"]
    command = [sys.executable, "-m", "hindsight.cli", "train", ENV, *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == f"{ENV}, seed 0: compiling ...\n"
        assert not (tmp_path / "run").exists()  # the networks are still to be made
        lines = child.stdout.read().splitlines()
    line = re.compile(rf"{ENV}  step [\d,]+/2,000  success \d\.\d\d  \d+ s, about \d+ s left")
    shown = [text for text in lines if text.startswith(ENV)]
    assert len(shown) >= 2
    assert all(line.fullmatch(text) for text in shown)


class Listening(NotebookClient):  # type: ignore[misc]
    """Keeps what the kernel sends to be shown, in the order it comes."""

    def process_message(self, message: Any, cell: Any, cell_index: int) -> Any:
        if message["msg_type"] in ("display_data", "update_display_data", "stream"):
            self.shown = [*getattr(self, "shown", []), (message["msg_type"], message["content"])]
        return super().process_message(message, cell, cell_index)


def test_a_notebook_has_one_display_that_is_updated(tmp_path: Path) -> None:
    train = f"""import hindsight
run = hindsight.train("{ENV}", steps=1500, eval_episodes=8, run_dir="run")"""
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(train)])
    client = Listening(notebook, resources={"metadata": {"path": str(tmp_path)}}, timeout=120)
    client.execute()
    kinds = [kind for kind, _ in client.shown]
    assert kinds[0] == "display_data"
    assert set(kinds[1:]) == {"update_display_data"}
    texts = [content["data"]["text/plain"] for _, content in client.shown]
    assert texts[0] == f"{ENV}, seed 0: compiling ..."
    numbers = r"success \d\.\d\d · step 1,500 of 1,500 · [\d,]+ steps/s · 0 s left"
    assert re.fullmatch(f"{ENV}, seed 0: {numbers}", texts[-1])
    (output,) = notebook.cells[0].outputs  # what is left in the file
    assert output["data"]["text/plain"] == texts[-1]
    assert '<progress value="1500" max="1500"' in output["data"]["text/html"]
