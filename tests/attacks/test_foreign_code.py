"""A run that names code: it is imported only if the run was made here, or the user says so."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import hindsight
from hindsight.errors import HindsightError
from hindsight.training.run import Run
from hindsight.training.trust import MARK, is_made_here

ENV = """
import os, pathlib
pathlib.Path({flag!r}).touch()
from gymnasium import register
from hindsight.envs.bit_flip import BitFlipEnv
register("Foreign-v0", BitFlipEnv)
"""
SETTINGS = [
    "--steps",
    "60",
    "--episodes-per-cycle",
    "2",
    "--eval-episodes",
    "2",
    "--eval-every",
    "1",
    "--quiet",
]
SETTINGS += ["--batch-size", "16", "--agent.net_arch", "8", "--checkpoint.minutes", "0"]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with the module foreign_env, which leaves a file when it is imported; a user
    with a key."""
    (tmp_path / "foreign_env.py").write_text(ENV.format(flag=str(tmp_path / "imported")))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path


def call(*arguments: Any) -> tuple[int, str]:
    command = [sys.executable, "-m", "hindsight.cli", *map(str, arguments)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    return result.returncode, result.stdout + result.stderr


def was_imported(place: Path) -> bool:
    found = (place / "imported").exists()
    (place / "imported").unlink(missing_ok=True)
    return found


def test_code_is_imported_only_with_trust(place: Path) -> None:
    run, page = place / "run", place / "page.html"
    code, text = call("train", "foreign_env:Foreign-v0", "--run-dir", run, *SETTINGS)
    assert code == 0, text
    assert was_imported(place)
    assert os.stat(place / "state" / "hindsight" / "key").st_mode & 0o077 == 0
    assert call("eval", run, "--episodes", 2)[0] == 0  # it was made here
    assert was_imported(place)
    assert call("verify", run)[0] == 0

    # The same run on another machine: the key is another one.
    (place / "state" / "hindsight" / "key").write_bytes(bytes(32))
    (run / "summary.json").unlink()
    shutil.rmtree(run / "checkpoints")
    for command in (
        ["eval", run],
        ["watch", run],
        ["resume", run],
        ["train", "--config", run / "config.json"],
    ):
        code, text = call(*command)
        assert code == 2, text
        assert text.count("\n") == 1
        assert "foreign_env" in text
        assert ("name it" if command[0] == "train" else "--trust") in text
    for command in (["compare", run], ["verify", run], ["plot", run, "-o", place / "curve.png"]):
        assert call(*command)[0] == 0
    code, text = call("report", run, "-o", page)
    assert code == 0, text
    assert "was not made here" in page.read_text()
    hindsight.load(run)
    assert not was_imported(place)
    assert not (run / "lock").exists() or call("resume", run)[0] == 2  # and it can be asked again

    assert call("resume", run, "--trust", "--quiet")[0] == 0
    assert was_imported(place)
    assert call("eval", run, "--episodes", 2)[0] == 0  # asked once per run
    assert was_imported(place)


def test_a_mark_is_not_forged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    run = hindsight.train(
        "hindsight/BitFlip-v0", run_dir=tmp_path / "run", quiet=True, steps=100, eval_episodes=2
    )
    assert not (run.path / MARK).exists()  # its env is ours
    config = json.loads((run.path / "config.json").read_bytes())
    for env, mark in (
        ("evil_module:X-v0", b""),
        ("evil_module:X-v0", b"0" * 64),
        ("a:b:c", b"x" * 2000),
    ):
        (run.path / "config.json").write_text(json.dumps(config | {"env": env}))
        (run.path / MARK).write_bytes(mark)
        assert not is_made_here(run.path, env, {})
        with pytest.raises(HindsightError, match="was not made here"):
            hindsight.evaluate(run.path, 1)
    (tmp_path / "state").write_text("no directory")
    with pytest.raises(HindsightError, match="was not made here"):
        hindsight.evaluate(run.path, 1)


def test_a_function_in_place_of_the_env_is_no_trust(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Training a stranger's run on an env of one's own does not make its module ours."""
    from hindsight.envs.bit_flip import BitFlipEnv

    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    settings: dict[str, Any] = {
        "quiet": True,
        "steps": 100,
        "eval_episodes": 2,
        "callbacks": [lambda p: True],
    }
    run = hindsight.train("hindsight/BitFlip-v0", run_dir=tmp_path / "run", **settings)
    for path in (run.path, *(run.path / "checkpoints").iterdir()):
        config = json.loads((path / "config.json").read_bytes())
        (path / "config.json").write_text(json.dumps(config | {"env": "evil_module:X-v0"}))
    shutil.rmtree(run.path / "checkpoints")
    hindsight.resume(run.path, env=BitFlipEnv, quiet=True)
    assert Run.open(run.path).config.env == "evil_module:X-v0"
    with pytest.raises(HindsightError, match="was not made here"):
        hindsight.evaluate(run.path, 1)
