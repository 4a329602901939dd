"""Trainings in JAX end when their steps are used up, whole or resumed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import hindsight
from hindsight.config import OnPolicyConfig, config_of
from hindsight.envs.contract import inspect
from hindsight.envs.jax_envs import in_jax
from hindsight.envs.make import make
from hindsight.settings import with_settings
from hindsight.training.in_jax import InJax
from hindsight.training.verify import verify

SMALL: dict[str, Any] = {
    "method": "hpg",
    "env_kwargs": {"bits": 4},
    "num_envs": 4,
    "episodes_per_cycle": 4,
    "eval_every": 6,
    "eval_episodes": 8,
    "agent": {"net_arch": (8,)},
    "quiet": True,
}
BATCH = 4 * 4
"""Most steps of a batch: episodes times time limit."""


def test_a_training_takes_at_most_one_batch_more_than_its_steps(tmp_path: Path) -> None:
    # Six batches at a time used to be played to the end: 7,664 steps of 6,000.
    for steps in (10, 100, 200):
        run = hindsight.train(
            "hindsight/BitFlip-v0", steps=steps, run_dir=tmp_path / str(steps), **SMALL
        )
        assert steps <= run.summary["steps"] < steps + BATCH
        assert "eval/success_rate" in run.metrics[-1]


def test_without_the_normaliser_networks_read_bits_as_they_are() -> None:
    for normalize, deviation in ((True, 0.5), (False, 1.0)):
        config = with_settings(
            config_of("hpg", "hindsight/BitFlip-v0"),
            {"agent.normalize": normalize, "agent.net_arch": (8,)},
        )
        assert isinstance(config, OnPolicyConfig)
        env = make("hindsight/BitFlip-v0", bits=4)
        twin = in_jax(env)
        assert twin is not None
        scale = InJax(config, inspect(env), twin).state.learner.scale
        assert scale.observation_deviation.tolist() == [deviation] * 4


def test_a_longer_training_begins_as_a_shorter_one(tmp_path: Path) -> None:
    short = hindsight.train("hindsight/BitFlip-v0", steps=200, run_dir=tmp_path / "a", **SMALL)
    long = hindsight.train("hindsight/BitFlip-v0", steps=400, run_dir=tmp_path / "b", **SMALL)
    by_cycle = {row["cycle"]: row["step"] for row in long.metrics}
    shared = [row for row in short.metrics if row["cycle"] in by_cycle]
    assert shared
    assert all(by_cycle[row["cycle"]] == row["step"] for row in shared)


def test_a_training_that_is_made_longer_is_whole(tmp_path: Path) -> None:
    run = hindsight.train("hindsight/BitFlip-v0", steps=200, run_dir=tmp_path / "run", **SMALL)
    hindsight.resume(run.path, steps=200, quiet=True)
    cycles = [row["cycle"] for row in run.metrics]
    assert {after - before for before, after in zip([0, *cycles], cycles, strict=False)} == {1, 6}
    assert [f for f in verify(run.path) if f.state == "BROKEN"] == []
    lines = (run.path / "metrics.jsonl").read_bytes().splitlines(keepends=True)
    (run.path / "metrics.jsonl").write_bytes(b"".join(lines[:1] + lines[2:]))
    assert [f.file for f in verify(run.path) if f.state == "BROKEN"] == ["metrics.jsonl"]
