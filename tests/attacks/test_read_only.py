"""A container in which nothing can be written but the run directory."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

# Root may write everywhere: Numba is told that it may not, neither into the package nor into the
# home directory.
PROGRAM = """
import numba.core.caching as caching
def refuse(*_):
    raise OSError("Read-only file system")
for name, locator in vars(caching).items():
    if name.endswith("CacheLocator"):
        locator.ensure_cache_path = refuse
from hindsight.cli import main
main()
"""


def test_nothing_can_be_written_but_the_run(tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-c",
        PROGRAM,
        "train",
        "hindsight/BitFlip-v0",
        "--steps",
        "60",
        "--quiet",
    ]
    command += [
        "--priority.sampling",
        "rank",
        "--eval-episodes",
        "2",
        "--agent.net_arch",
        "8",
        "--run-dir",
        "run",
    ]
    env = {
        **os.environ,
        "HOME": "/nowhere",
        "XDG_STATE_HOME": "/nowhere",
        "MPLCONFIGDIR": str(tmp_path),
    }
    result = subprocess.run(
        command, env=env, cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr[-2000:]
    assert result.stderr == ""
