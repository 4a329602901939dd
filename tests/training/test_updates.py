"""How many updates a training makes: so many per env step, or so many per cycle."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import hindsight
from conftest import LineEnv, written
from hindsight.config import OffPolicyConfig, from_json
from hindsight.envs.contract import inspect
from hindsight.errors import HindsightError
from hindsight.settings import plain, with_settings
from hindsight.training.loops import make_loop
from hindsight.training.off_policy import OffPolicy

CONFIG = OffPolicyConfig(env="X-v0")
SMALL: dict[str, Any] = {
    "num_envs": 4,
    "episodes_per_cycle": 4,
    "batch_size": 16,
    "eval_every": 5,
    "eval_episodes": 2,
    "agent.net_arch": (8,),
}
RANK = {
    "replay.goals_chosen": "stored",
    "priority.sampling": "rank",
    "priority.updates_per_draw": 5,
}


def test_one_takes_the_other_away() -> None:
    by_cycle = with_settings(CONFIG, {"gradient_steps": 7})
    assert (by_cycle.gradient_steps, by_cycle.updates_per_step) == (7, None)
    by_step = with_settings(by_cycle, {"updates_per_step": 0.5})
    assert (by_step.gradient_steps, by_step.updates_per_step) == (None, 0.5)
    for config in (by_cycle, by_step):
        assert from_json(plain(config)) == config
    old = {k: v for k, v in plain(by_cycle).items() if k != "updates_per_step"}
    assert from_json(old) == by_cycle  # a run from before there was the other


@pytest.mark.parametrize(
    "settings",
    [{"gradient_steps": 7, "updates_per_step": 0.5}, {"updates_per_step": None}],
)
def test_both_or_none_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(HindsightError, match="updates_per_step say the same: give one"):
        with_settings(CONFIG, settings)


@given(st.floats(0.001, 50), st.lists(st.integers(1, 5000), min_size=1, max_size=50))
def test_nothing_is_lost_between_cycles(ratio: float, cycles: list[int]) -> None:
    config, step, made = replace(CONFIG, updates_per_step=ratio), 0, 0
    for steps in cycles:
        made += config.updates(step + steps, step)
        step += steps
    assert abs(made - ratio * step) <= 0.5


@pytest.mark.parametrize("ends", [True, False])
@pytest.mark.parametrize("ratio", [0.01, 1.3])
@pytest.mark.parametrize("priorities", [{}, RANK])
def test_as_many_updates_as_steps_ask_for(
    ends: bool, ratio: float, priorities: dict[str, Any]
) -> None:
    spec = inspect(LineEnv(ends=ends), "test/Line-v0")
    settings = {"updates_per_step": ratio, "steps": 400} | SMALL | priorities
    with ExitStack() as stack:
        loop = make_loop(with_settings(CONFIG, settings), spec, lambda: LineEnv(ends=ends), stack)
        assert isinstance(loop, OffPolicy)
        for _ in loop.train():
            assert int(loop.state.learner.updates) == round(ratio * loop.state.step)
        whole = loop.state.step / loop.state.cycle == 4 * 12
        assert whole != ends  # episodes that end early make cycles of any length


def test_resumes_where_episodes_end_early(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"updates_per_step": 0.7, "quiet": True} | SMALL
    settings |= {"method": "ddpg", "steps": 400, "seed": 4}
    whole = hindsight.train("test/Line-v0", run_dir=tmp_path / "whole", **settings)
    stopped = hindsight.train(
        "test/Line-v0",
        run_dir=tmp_path / "stopped",
        callbacks=[lambda progress: progress.cycle == 3],
        **settings,
    )
    hindsight.resume(stopped.path, quiet=True)
    assert written(stopped.path) == written(whole.path)
