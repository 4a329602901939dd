"""A run that is cut and resumed gives the same bytes as one that was not: weights, optimiser,
replay, metrics."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hindsight
from conftest import LineEnv, fingerprint
from hindsight.errors import HindsightError
from hindsight.training.progress import Progress
from hindsight.training.run import Run

QUICK: dict[str, Any] = {
    "quiet": True,
    "num_envs": 2,
    "episodes_per_cycle": 2,
    "gradient_steps": 4,
    "batch_size": 16,
    "eval_episodes": 2,
    "eval_every": 2,
    "agent.net_arch": (16,),
    "checkpoint.minutes": 0.0,
}
STORED = {"replay.goals_chosen": "stored"}
OFTEN = {"priority.updates_per_draw": 2}
METHODS: dict[str, dict[str, Any]] = {
    "HER": {"overlap": True, "policy_ema": 0.9, "replay.buffer_size": 250},
    "HER, moved": {"replay.moved_share": 0.5},
    "HER, rare moves": {
        "replay.moved_share": 0.5,
        "replay.moved_power": 1.0,
        "replay.moved_unit": "usual",
    },
    "prioritised HER": {
        **OFTEN,
        "priority.sampling": "rank",
        "priority.shared": 0.5,
        "replay.moved_power": 0.5,
    },
    "HPER, one queue": {
        **STORED,
        **OFTEN,
        "priority.sampling": "rank_heap",
        "overlap": True,
        "replay.replay_k": "linear(8, 2)",
    },
    "HPER, two queues": {
        **STORED,
        **OFTEN,
        "priority.sampling": "proportional",
        "priority.queues": "two_queues",
        "priority.initial": "predicted",
        "priority.fresh": 2,
        "replay.drop_achieved": 1.0,
        "replay.other_goals": "step(0, 0.5, 0.2)",
        "replay.buffer_size": 300,
    },
}
STEPS = {"hindsight/BitFlip-v0": 100, "FetchReach-v4": 600}


def copy_at(cycle: int, to: Path) -> Callable[[Progress], None]:
    """A callback that copies the run directory as a kill at that moment would leave it, a
    half-written save and all."""

    def copy(progress: Progress) -> None:
        while progress.cycle == cycle and not (to / "metrics.jsonl").exists():
            try:
                shutil.copytree(to.parent / "whole", to)
            except shutil.Error:  # something was renamed meanwhile
                shutil.rmtree(to)

    return copy


FAST = [("hindsight/BitFlip-v0", method) for method in METHODS if method != "HER, moved"]
FAST += [("FetchReach-v4", method) for method in ("HPER, one queue",)]
SLOW = [(env, method) for env in STEPS for method in METHODS if (env, method) not in FAST]


@pytest.mark.parametrize(
    ("env", "method"), [*FAST, *(pytest.param(*case, marks=pytest.mark.slow) for case in SLOW)]
)
def test_resumed_is_the_same_as_uncut(env: str, method: str, tmp_path: Path) -> None:
    settings = QUICK | METHODS[method] | {"steps": STEPS[env]}
    settings |= {"agent.random_hold": 2.0} if env.startswith("Fetch") else {}
    callbacks = [copy_at(3, tmp_path / "cut")]
    whole = hindsight.train(
        env, seed=5, run_dir=tmp_path / "whole", callbacks=callbacks, **settings
    )
    assert len(Run.open(tmp_path / "cut").metrics) < len(whole.metrics)
    assert fingerprint(hindsight.resume(tmp_path / "cut", quiet=True)) == fingerprint(whole)
    assert whole.metrics[-1]["time/checkpoint"] > 0
    names = set(fingerprint(whole))
    assert {"normalizer/goal/mean", "replay/storage/observation"} <= names
    assert any("optimizer" in name for name in names)


@pytest.mark.parametrize("simulator", ["threads", pytest.param("inline", marks=pytest.mark.slow)])
def test_episodes_that_depend_on_those_before_them(simulator: str, tmp_path: Path) -> None:
    env = "HandManipulateBlockRotateZ-v1"
    settings = QUICK | {"steps": 600, "overlap": True, "gradient_steps": 1, "simulator": simulator}
    settings["final_episodes"] = 2
    whole = hindsight.train(
        env, run_dir=tmp_path / "whole", callbacks=[copy_at(2, tmp_path / "cut")], **settings
    )
    assert fingerprint(hindsight.resume(tmp_path / "cut", quiet=True)) == fingerprint(whole)


# Where a training kills itself with SIGKILL: after a cycle, within an episode, within a save.
KILLS = {
    "cycle": "callbacks = [lambda progress: progress.cycle == 4 and os.kill(os.getpid(), 9)]",
    "episode": """
def step(self, action, inner=hindsight.envs.bit_flip.BitFlipEnv.step, count=[0]):
    count[0] += 1
    count[0] == 150 and os.kill(os.getpid(), 9)
    return inner(self, action)
hindsight.envs.bit_flip.BitFlipEnv.step = step
""",
    "save": """
def write(path, parts, inner=checkpoints.write_synced, count=[0]):
    count[0] += 1
    count[0] == 30 and os.kill(os.getpid(), 9)
    return inner(path, parts)
checkpoints.write_synced = write
""",
}
SCRIPT = """
import json, os, sys, hindsight, hindsight.envs.bit_flip
from hindsight.saving import checkpoints
callbacks = []
{kill}
env, path, settings = sys.argv[1:]
hindsight.train(env, run_dir=path, callbacks=callbacks, **json.loads(settings))
"""


def killed(where: str, env: str, settings: dict[str, Any], path: Path) -> None:
    """Train in a process that is killed on the way."""
    given = json.dumps(settings)
    command = [sys.executable, "-c", SCRIPT.format(kill=KILLS[where]), env, str(path), given]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == -9, result.stderr


def killed_and_resumed(where: str, env: str, method: str, path: Path) -> None:
    settings = QUICK | METHODS[method] | {"steps": STEPS[env], "seed": 5}
    killed(where, env, settings, path / "killed")
    whole = hindsight.train(env, run_dir=path / "whole", **settings)
    assert not (path / "killed" / "summary.json").exists()
    assert fingerprint(hindsight.resume(path / "killed", quiet=True)) == fingerprint(whole)


@pytest.mark.parametrize(
    ("where", "env", "method"),
    [
        pytest.param("cycle", "FetchReach-v4", "HPER, two queues", marks=pytest.mark.slow),
        ("episode", "hindsight/BitFlip-v0", "HPER, one queue"),
        ("save", "hindsight/BitFlip-v0", "HPER, one queue"),
    ],
)
def test_killed_and_resumed(where: str, env: str, method: str, tmp_path: Path) -> None:
    killed_and_resumed(where, env, method, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("env", STEPS)
@pytest.mark.parametrize("where", ["cycle", "save"])
def test_killed_and_resumed_with_every_method(
    where: str, env: str, method: str, tmp_path: Path
) -> None:
    killed_and_resumed(where, env, method, tmp_path)


def test_more_steps(tmp_path: Path) -> None:
    settings = QUICK | {"steps": 40}
    hindsight.train(LineEnv, run_dir=tmp_path / "run", **settings)
    with pytest.raises(HindsightError, match="finished"):
        hindsight.resume(tmp_path / "run", env=LineEnv)
    run = hindsight.resume(tmp_path / "run", steps=60, env=LineEnv, quiet=True)
    assert run.config.steps == Run.open(run.path).config.steps == 100
    assert run.summary["status"] == "finished"
    cycles = [row["cycle"] for row in run.metrics]
    assert cycles == list(range(1, len(cycles) + 1))
    assert np.all(np.diff([row["time/total"] for row in run.metrics]) > 0)


def test_what_cannot_be_resumed(tmp_path: Path) -> None:
    with pytest.raises(HindsightError, match="does not exist"):
        hindsight.resume(tmp_path / "none")
    (tmp_path / "empty").mkdir()
    with pytest.raises(HindsightError, match="there is no run in"):
        hindsight.resume(tmp_path / "empty")
    assert not list((tmp_path / "empty").iterdir())
    with pytest.raises(HindsightError, match="0 or more"):
        hindsight.resume(tmp_path / "empty", steps=-1)


def test_a_run_is_trained_by_one_process_at_a_time(tmp_path: Path) -> None:
    def again(progress: Progress) -> None:
        if progress.cycle == 2:  # the first checkpoint is there
            with pytest.raises(HindsightError, match="another process"):
                hindsight.resume(tmp_path / "run", env=LineEnv, quiet=True)

    hindsight.train(LineEnv, run_dir=tmp_path / "run", callbacks=[again], **(QUICK | {"steps": 60}))


def test_the_newest_and_the_best_are_kept(tmp_path: Path) -> None:
    from hindsight.saving.checkpoints import Checkpoints, Snapshot

    metrics = tmp_path / "metrics.jsonl"
    metrics.write_bytes(b"")
    checkpoints = Checkpoints(tmp_path / "checkpoints", keep=2)
    for cycle, rate in enumerate([0.1, 0.9, None, 0.5, 0.9, 0.2, None, 0.3], 1):
        checkpoints.write(
            Snapshot(cycle, cycle, rate, {"x": {"y": np.zeros(3)}}, b"{}", metrics, 0)
        )
    assert [int(name) for name in checkpoints.names()] == [8, 7, 5]


def test_other_versions_are_told(tmp_path: Path) -> None:
    from hindsight.saving.files import sealed

    run = hindsight.train(
        LineEnv, run_dir=tmp_path / "run", callbacks=[lambda p: p.cycle == 1], **QUICK
    )
    manifest = run.checkpoints.newest()[0].path / "manifest.json"
    data = json.loads(manifest.read_bytes())
    assert data["versions"]["jax"]
    del data["sha256"]
    manifest.write_bytes(sealed(data | {"versions": data["versions"] | {"jax": "0.0.1"}}))
    with pytest.warns(UserWarning, match=r"jax 0\.0\.1 \(now"):
        hindsight.resume(run.path, env=LineEnv, quiet=True, callbacks=[lambda p: True])
    assert run.summary["steps"] == run.metrics[-1]["step"]
