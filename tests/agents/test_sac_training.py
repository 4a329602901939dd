"""SAC and TQC in whole trainings: with every kind of replay, resumed, saved, and acting without
JAX."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hindsight

SMALL: dict[str, Any] = {
    "num_envs": 4,
    "episodes_per_cycle": 4,
    "gradient_steps": 8,
    "batch_size": 32,
    "steps": 600,
    "eval_episodes": 4,
    "agent.net_arch": (16, 16),
    "quiet": True,
}
REPLAYS: dict[str, dict[str, Any]] = {
    "her": {"agent.dropout": 0.1, "agent.layer_norm": True},
    "hper": {"preset": "hper"},
    "heap": {
        "preset": "hper-single",
        "priority.sampling": "rank_heap",
        "priority.initial": "predicted",
    },
    "fresh": {"preset": "hper", "priority.fresh": 3},
}


@pytest.mark.parametrize("method", ["sac", "tqc"])
@pytest.mark.parametrize("name", REPLAYS)
def test_it_works_with_every_replay_and_the_same_seed_gives_the_same_policy(
    name: str, method: str, tmp_path: Path
) -> None:
    settings = SMALL | REPLAYS[name] | {"method": method}
    runs = [
        hindsight.train("FetchReach-v4", run_dir=tmp_path / str(i), **settings) for i in range(2)
    ]
    one, two = ((run.path / "policy.safetensors").read_bytes() for run in runs)
    assert one == two


ACT_WITHOUT_JAX = """
import sys
import numpy as np
from pathlib import Path
from hindsight.training.policy import Policy
policy = Policy.load(Path(sys.argv[1]))
seen = {"observation": np.ones((3, 10)), "achieved_goal": np.zeros((3, 3)), "desired_goal": np.ones((3, 3))}
print(policy.predict(seen)[0].tobytes().hex())
assert policy.predict(seen, deterministic=False)[0].shape == (3, 4)
assert not {"jax", "flax", "optax"} & set(sys.modules)
"""


@pytest.mark.parametrize("method", ["sac", "tqc"])
def test_a_stopped_run_is_resumed_to_the_same_policy_which_acts_without_jax(
    method: str, tmp_path: Path
) -> None:
    settings = SMALL | {"preset": "hper", "method": method}
    whole = hindsight.train("FetchReach-v4", run_dir=tmp_path / "whole", **settings)
    half = hindsight.train(
        "FetchReach-v4",
        run_dir=tmp_path / "half",
        callbacks=[lambda progress: progress.step >= 300],
        **settings,
    )
    hindsight.resume(half.path, quiet=True)
    for name in ("policy.safetensors", "policy.json"):
        assert (half.path / name).read_bytes() == (whole.path / name).read_bytes()
    seen = {
        "observation": np.ones((3, 10)),
        "achieved_goal": np.zeros((3, 3)),
        "desired_goal": np.ones((3, 3)),
    }
    action, _ = hindsight.load(half.path).predict(seen)
    command = [sys.executable, "-c", ACT_WITHOUT_JAX, str(half.path)]
    assert subprocess.check_output(command, text=True).strip() == action.tobytes().hex()
