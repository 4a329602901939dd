"""What each page shows is run: its `hindsight` commands and Python blocks, from top to bottom, in
one directory, shortened."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

NOT_RUN = {
    "reproduce (?!--list|.*--plan)": "takes hours, or writes into the repository",
}
"""Commands that are left out, and why."""

SMALL = "--steps 100 --eval-episodes 2 --episodes-per-cycle 2 --num-envs 2 --net-arch 16 16"
SHORTER = {
    "train": SMALL,
    "resume": "--steps 100",
    "sweep": f"{SMALL} --seeds 0",
    "tune": f"{SMALL} --seeds 10 --trials 2",
    "eval": "--episodes 2",
    "watch": "--episodes 1",
    "export": "--episodes 2",
}
"""Options that are added to a command: the last one counts."""

INSTEAD = {
    "s3://bucket": "file://bucket",
    "--ray auto": "--ray",
    'ray="auto"': 'ray="local"',
    "--collectors 16": "--collectors 2",
    "collectors=16": "collectors=2",
    "--cores 4": "--cores 1",
    "model.learn(10_000": "model.learn(300",
}
"""What needs a network, a cluster or minutes, and what is taken instead of it."""

OWN_ENV = "from my_module import MyEnv\nobservation, _ = MyEnv().reset(seed=0)"
READER_HAS = {
    "docs/index.md": """
import gymnasium, gymnasium_robotics
gymnasium.register_envs(gymnasium_robotics)
observation, _ = gymnasium.make("FetchPush-v4").reset(seed=0)
""",
    "docs/notebook.md": f"{OWN_ENV}\nopen('video.mp4', 'w').close()",
    "docs/report.md": "shell('hindsight train hindsight/BitFlip-v0 --steps 100')",
    "docs/robots.md": "import numpy\nobservation, goal = numpy.zeros(25), numpy.zeros(3)",
    "docs/your-env.md": OWN_ENV,
}
"""What a page takes for granted. On every page there is `my_module.py`, with an env."""

NEEDS = {
    "docs/notebook.md": ["pandas"],
    "docs/offline.md": ["minari"],
    "docs/stable-baselines3.md": ["sb3_contrib"],
    "docs/tracking.md": ["wandb", "mlflow"],
}
"""Packages of extras; without them the page is skipped."""

BEGIN = """
import subprocess
import hindsight as _hindsight


def _shorter(function, **less):
    return lambda *args, **settings: function(*args, **{**settings, **less})


_hindsight.train = _shorter(_hindsight.train, steps=100, eval_episodes=2)
_hindsight.resume = _shorter(_hindsight.resume, steps=100)


def shell(line):
    print("$", line, flush=True)
    subprocess.run(line, shell=True, check=True)
"""


def shortened(line: str) -> str:
    """A command with fewer steps, as the shell gets it."""
    line = line.partition(" #")[0]
    return f"{line} {SHORTER.get(line.split()[1], '')}"


def program(name: str) -> str:
    """All that the page shows, as one Python program."""
    parts = []
    text = (ROOT / name).read_text()
    for language, code in re.findall(r"^```(.*)\n((?s:.*?))^```$", text, re.M):
        if language == "python":
            parts.append(code)
        for line in code.replace("\\\n", " ").splitlines() if language in ("", "bash") else ():
            if line.startswith("hindsight ") and not any(re.search(x, line) for x in NOT_RUN):
                parts.append(f"shell({shortened(line)!r})")
    whole = "\n".join(parts)
    for shown, run in INSTEAD.items():
        whole = whole.replace(shown, run)
    return whole


PROGRAMS = {
    name: program(name)
    for name in ("README.md", *(f"docs/{path.name}" for path in sorted(ROOT.glob("docs/*.md"))))
}

QUICK = "docs/robots.md"  # seconds, so it runs with the fast tests


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[] if name == QUICK else pytest.mark.slow)
        for name, text in PROGRAMS.items()
        if text
    ],
)
def test_a_page_runs(name: str, tmp_path: Path) -> None:
    for package in NEEDS.get(name, []):
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"needs an extra: {package}")
    env = (ROOT / "examples" / "own_env.py").read_text().replace("Boat", "MyEnv")
    (tmp_path / "my_module.py").write_text(env)
    settings = {
        "DISPLAY": "",
        "MINARI_DATASETS_PATH": str(tmp_path / "minari"),
        "MLFLOW_TRACKING_URI": "sqlite:///mlflow.db",
        "MPLBACKEND": "agg",
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "WANDB_MODE": "offline",
    }
    subprocess.run(
        [sys.executable, "-"],
        input="\n".join([BEGIN, READER_HAS.get(name, ""), PROGRAMS[name]]),
        text=True,
        check=True,
        cwd=tmp_path,
        env=os.environ | settings,
    )


def test_every_exception_is_still_needed() -> None:
    text = "\n".join((ROOT / name).read_text() for name in PROGRAMS)
    assert all(re.search(f"^hindsight {command}", text, re.M) for command in NOT_RUN)
    assert all(shown in text for shown in INSTEAD)
    assert {*READER_HAS, *NEEDS, QUICK} <= {name for name, text in PROGRAMS.items() if text}
