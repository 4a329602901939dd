"""A policy-gradient training that was stopped goes on as if it had not been."""

from __future__ import annotations

import contextlib
import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import hindsight
from conftest import fingerprint
from hindsight.training.progress import Progress
from hindsight.training.run import Run
from hindsight.training.verify import verify

QUICK: dict[str, Any] = {
    "quiet": True,
    "num_envs": 4,
    "episodes_per_cycle": 4,
    "eval_episodes": 4,
    "eval_every": 2,
    "agent.net_arch": (16,),
    "agent.goals": 8,
    "agent.rows": 64,
    "checkpoint.minutes": 0.0,
}


REPLAYED = {
    **{name: value for name, value in QUICK.items() if name != "agent.goals"},
    "gradient_steps": 8,
    "batch_size": 64,
    "agent.gamma": 0.9,
    "agent.random_actions": 0.3,
}
METHODS: dict[str, dict[str, Any]] = {
    "hpg": {},
    "a2c": {},
    "a3c": {"agent.deterministic": True},
    "ppo": {},
    "trpo": {},
}
FAST = [
    ("hindsight/BitFlip-v0", "hpg"),  # in JAX
    ("hindsight/BitFlip-v0", "trpo"),
    ("test/Line-v0", "a2c"),  # by the collector
    ("test/Line-v0", "a3c"),
    ("FetchReach-v4", "ppo"),
]
STEPS = {"hindsight/BitFlip-v0": 400, "test/Line-v0": 300, "FetchReach-v4": 1200}
SLOW = [(env, method) for env in STEPS for method in METHODS if (env, method) not in FAST]


@pytest.mark.parametrize(
    ("env", "method"), [*FAST, *(pytest.param(*case, marks=pytest.mark.slow) for case in SLOW)]
)
def test_resumed_is_the_same_as_uncut(env: str, method: str, tmp_path: Path) -> None:
    cut_and_resume(env, method, tmp_path, QUICK | METHODS[method])


def test_a_critic_of_actions_goes_on_too(tmp_path: Path) -> None:
    by_actions = {"agent.critic": "action", "agent.gamma": 0.9, "agent.policy_updates": 2}
    unread = {"agent.within_box": False}
    cut_and_resume("test/Line-v0", "a2c", tmp_path, QUICK | by_actions | unread)


@pytest.mark.parametrize(
    "env", ["test/Line-v0", pytest.param("hindsight/BitFlip-v0", marks=pytest.mark.slow)]
)
def test_what_is_replayed_goes_on_too(env: str, tmp_path: Path) -> None:
    cut_and_resume(env, "replayed-ac", tmp_path, REPLAYED)


def cut_and_resume(env: str, method: str, tmp_path: Path, settings: dict[str, Any]) -> None:
    def copy(progress: Progress) -> None:
        while progress.cycle in (3, 4) and not any(
            (tmp_path / "cut" / "checkpoints").glob("0*[0-9]")
        ):
            shutil.rmtree(tmp_path / "cut", ignore_errors=True)
            with contextlib.suppress(shutil.Error):  # something was renamed or removed meanwhile
                shutil.copytree(tmp_path / "whole", tmp_path / "part", dirs_exist_ok=True)
                (tmp_path / "part").rename(tmp_path / "cut")
            shutil.rmtree(tmp_path / "part", ignore_errors=True)

    settings = settings | {"steps": STEPS[env]}
    whole = hindsight.train(
        env, method=method, seed=5, run_dir=tmp_path / "whole", callbacks=[copy], **settings
    )
    assert len(Run.open(tmp_path / "cut").metrics) < len(whole.metrics)
    resumed = hindsight.resume(tmp_path / "cut", quiet=True)
    assert fingerprint(resumed) == fingerprint(whole)
    assert not [finding for finding in verify(resumed.path) if finding.state == "BROKEN"]


KILLED = """
import json, os, sys, hindsight
env, method, path, settings = sys.argv[1:]
kill = lambda progress: progress.cycle >= 6 and os.kill(os.getpid(), 9)
hindsight.train(env, method=method, seed=5, run_dir=path, callbacks=[kill], **json.loads(settings))
"""


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("env", ["hindsight/BitFlip-v0", "FetchReach-v4"])
def test_killed_and_resumed(env: str, method: str, tmp_path: Path) -> None:
    settings = QUICK | METHODS[method] | {"steps": STEPS[env]}
    command = [
        sys.executable,
        "-c",
        KILLED,
        env,
        method,
        str(tmp_path / "killed"),
        json.dumps(settings),
    ]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == -9, result.stderr
    whole = hindsight.train(env, method=method, seed=5, run_dir=tmp_path / "whole", **settings)
    assert fingerprint(hindsight.resume(tmp_path / "killed", quiet=True)) == fingerprint(whole)


def test_asynchronous_training_goes_on_from_where_it_was(tmp_path: Path) -> None:
    run = hindsight.train(
        "test/Line-v0", method="a3c", run_dir=tmp_path / "run", **(QUICK | {"steps": 60})
    )
    before = run.metrics[-1]
    after = hindsight.resume(tmp_path / "run", steps=100, quiet=True).metrics
    assert before in after
    assert after[-1]["step"] >= 160
