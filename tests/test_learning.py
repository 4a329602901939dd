"""Tests that learn. The fast one is bit flip with 8 bits; the others are slow (`make
test-slow`)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import hindsight


def success(tmp_path: Path, env: str, name: str = "run", **settings: Any) -> float:
    """Success on 100 fresh episodes after training."""
    run = hindsight.train(env, run_dir=tmp_path / name, quiet=True, **settings)
    return hindsight.evaluate(run.path).success_rate


def test_bit_flip_8_is_learnt_with_hindsight(tmp_path: Path) -> None:
    assert success(tmp_path, "hindsight/BitFlip-v0", steps=6000, eval_every=50) >= 0.95


@pytest.mark.slow
def test_bit_flip_15_needs_hindsight(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"env_kwargs": {"bits": 15}, "steps": 100_000}
    assert success(tmp_path, "hindsight/BitFlip-v0", "with", **settings) >= 0.95
    assert (
        success(tmp_path, "hindsight/BitFlip-v0", "without", replay={"replay_k": 0}, **settings)
        < 0.1
    )


@pytest.mark.slow
def test_the_empty_room_is_learnt(tmp_path: Path) -> None:
    assert success(tmp_path, "hindsight/EmptyRoom-v0", steps=60_000) >= 0.95


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_fetch_reach_within_10k_steps(seed: int, tmp_path: Path) -> None:
    assert success(tmp_path, "FetchReach-v4", seed=seed, steps=10_000) >= 0.95


@pytest.mark.slow
@pytest.mark.parametrize("method", ["td3", "sac", "tqc"])
def test_fetch_reach_by_every_learner_of_robots(method: str, tmp_path: Path) -> None:
    assert success(tmp_path, "FetchReach-v4", seed=10, method=method) >= 0.95
