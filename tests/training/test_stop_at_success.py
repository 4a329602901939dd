"""A training that ends when it is good enough."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

import hindsight
from conftest import LineEnv, fingerprint, random_episodes
from hindsight.config import OffPolicyConfig
from hindsight.envs.contract import inspect
from hindsight.episodes import Episodes
from hindsight.errors import HindsightError
from hindsight.lab.reproduce.configs import changed
from hindsight.settings import with_settings
from hindsight.training.progress import by_collector

EASY: dict[str, Any] = {
    "env_kwargs": {"bits": 2},
    "quiet": True,
    "eval_every": 1,
    "eval_episodes": 100,
}


@pytest.mark.parametrize("method", ["dqn", "hpg"])
def test_it_ends_at_the_first_evaluation_that_is_good_enough(method: str, tmp_path: Path) -> None:
    run = hindsight.train(
        "hindsight/BitFlip-v0",
        method=method,
        steps=100_000,
        stop_at_success=0.6,
        run_dir=tmp_path / "run",
        **EASY,
    )
    rates = [row["eval/success_rate"] for row in run.metrics if "eval/success_rate" in row]
    assert rates[-1] >= 0.6
    assert all(rate < 0.6 for rate in rates[:-1])
    assert run.summary["status"] == "finished"
    assert run.summary["steps"] < 100_000
    with pytest.raises(HindsightError, match="is finished"):  # it used to train on
        hindsight.resume(run.path, quiet=True)


@pytest.mark.parametrize("confirmed", [False, True])
def test_few_episodes_are_confirmed_by_others(confirmed: bool) -> None:
    """The first 20 are good enough; of 100 others it depends."""
    asked: list[int] = []
    played: set[int] = set()
    spec = inspect(LineEnv())

    class Played:
        def collect(self, act: Any, seeds: Sequence[int]) -> Episodes:
            asked.append(len(seeds))
            if asked == [20, 100]:
                assert played.isdisjoint(seeds)  # what was good by chance is not counted again
            played.update(seeds)
            episodes = random_episodes(np.random.default_rng(0), len(seeds), 3, spec)
            good = np.arange(len(seeds)) < (20 if not confirmed else 95)
            return replace(episodes, success=np.broadcast_to(good[:, None], (len(seeds), 3)))

    config = OffPolicyConfig("x", eval_episodes=20, stop_at_success=0.9)
    found, _ = by_collector(config, cast(Any, Played()))(cast(Any, None), False)
    assert asked == [20, 100]
    assert (found.episodes, found.success_rate) == (100, 0.95 if confirmed else 0.2)
    plain = with_settings(config, {"stop_at_success": None})
    by_collector(plain, cast(Any, Played()))(cast(Any, None), False)
    assert asked[2:] == [20]
    by_collector(with_settings(config, {"eval_episodes": 100}), cast(Any, Played()))(
        cast(Any, None), False
    )
    assert asked.pop() == 100  # enough at once: nothing is played twice
    assert asked[3:] == []
    more = with_settings(plain, {"final_episodes": 50})
    for last in (False, True):
        by_collector(more, cast(Any, Played()))(cast(Any, None), last)
    assert asked[3:] == [20, 50]


def test_evaluations_change_nothing_that_is_learnt(tmp_path: Path) -> None:
    small = {"quiet": True, "steps": 480, "num_envs": 2, "episodes_per_cycle": 2, "seed": 1}
    small |= {"gradient_steps": 2, "batch_size": 16, "agent.net_arch": (8,), "method": "ddpg"}
    often, rarely = (
        hindsight.train(LineEnv, run_dir=tmp_path / name, **small, **how)
        for name, how in (
            ("often", {"eval_every": 1, "eval_episodes": 3}),
            ("rarely", {"eval_every": 50, "eval_episodes": 1}),
        )
    )
    learnt = [fingerprint(run) for run in (often, rarely)]
    assert learnt[0].pop("rows") != learnt[1].pop("rows")  # of metrics
    assert learnt[0] == learnt[1]
    assert not changed(often.config, rarely.config)
    stops = with_settings(rarely.config, {"stop_at_success": 0.5})
    assert set(changed(often.config, stops)) == {"eval_every", "eval_episodes", "stop_at_success"}
