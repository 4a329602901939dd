"""A policy-gradient training that was stopped goes on as if it had not been."""

from __future__ import annotations

import contextlib
import hashlib
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

import hindsight
from hindsight.errors import HindsightError
from hindsight.saving.tree import split
from hindsight.training.off_policy import Progress
from hindsight.training.run import Run
from hindsight.training.verify import verify

QUICK: dict[str, Any] = {
    "quiet": True,
    "num_envs": 4,
    "episodes_per_cycle": 4,
    "eval_episodes": 4,
    "eval_every": 2,
    "agent.hidden": (16,),
    "agent.goals": 8,
    "agent.rows": 64,
    "checkpoint.minutes": 0.0,
}


def fingerprint(run: Run) -> dict[str, str]:
    """SHA-256 of all that the last checkpoint holds, and of the metric rows, both without wall times."""
    tensors, values = split(run.checkpoints.newest()[0].load())
    values.pop("clock")
    rows = [{k: v for k, v in row.items() if not k.startswith("time/")} for row in run.metrics]
    parts = {name: tensor.tobytes() for name, tensor in tensors.items()}
    parts |= {"values": json.dumps(values).encode(), "rows": json.dumps(rows).encode()}
    return {name: hashlib.sha256(part).hexdigest() for name, part in parts.items()}


@pytest.mark.parametrize(
    ("env", "method", "steps"),
    [
        ("hindsight/BitFlip-v0", "hpg", 400),  # in JAX
        ("hindsight/BitFlip-v0", "trpo", 400),
        ("test/Line-v0", "a2c", 300),  # by the collector
        ("FetchReach-v4", "ppo", 1200),
    ],
)
def test_resumed_is_the_same_as_uncut(env: str, method: str, steps: int, tmp_path: Path) -> None:
    def copy(progress: Progress) -> None:
        while progress.cycle in (3, 4) and not any((tmp_path / "cut" / "checkpoints").glob("0*[0-9]")):
            shutil.rmtree(tmp_path / "cut", ignore_errors=True)
            with contextlib.suppress(shutil.Error):  # something was renamed or removed meanwhile
                shutil.copytree(tmp_path / "whole", tmp_path / "part", dirs_exist_ok=True)
                (tmp_path / "part").rename(tmp_path / "cut")
            shutil.rmtree(tmp_path / "part", ignore_errors=True)

    settings = QUICK | {"steps": steps}
    whole = hindsight.train(env, method=method, seed=5, run_dir=tmp_path / "whole", callbacks=[copy], **settings)
    assert len(Run.open(tmp_path / "cut").metrics) < len(whole.metrics)
    resumed = hindsight.resume(tmp_path / "cut", quiet=True)
    assert fingerprint(resumed) == fingerprint(whole)
    assert not [finding for finding in verify(resumed.path) if finding.state == "BROKEN"]


def test_asynchronous_training_cannot_be_resumed(tmp_path: Path) -> None:
    hindsight.train("test/Line-v0", method="a3c", run_dir=tmp_path / "run", **(QUICK | {"steps": 60}))
    with pytest.raises(HindsightError, match="no intact checkpoint"):
        hindsight.resume(tmp_path / "run", steps=100, quiet=True)
