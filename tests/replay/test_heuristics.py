"""Priorities of the paper's outlook, against numbers worked out by hand."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hindsight.agents.shapes import Shapes
from hindsight.agents.td_model import TDModel
from hindsight.envs.contract import Actions
from hindsight.goals import next_future
from hindsight.normalizer import Scale
from hindsight.replay.batch import Batch, Fresh, TDErrors
from hindsight.replay.pairs import Pairs
from hindsight.replay.priorities import Priorities, PriorityConfig

SCALE = Scale(*(np.full(1, x, np.float32) for x in (0, 1, 0, 1)))
RULES = ["uniform", "late", "early", "early_doubled"]


def never(ids: Any) -> Any:
    raise AssertionError("not read")


def test_half_of_next_future_goals_are_what_the_step_achieved() -> None:
    slots, steps, lengths = np.zeros(20_000, np.int64), np.full(20_000, 3), np.array([13])
    goal_slots, times = next_future(slots, steps, lengths, np.random.default_rng(0))
    assert (goal_slots == 0).all()
    share = np.bincount(times, minlength=14) / len(times)
    assert share[:4].sum() == 0
    assert share[4] == pytest.approx(0.5 + 0.5 / 10, abs=0.02)
    assert share[5:] == pytest.approx(np.full(9, 0.05), abs=0.01)


@given(
    st.sampled_from(RULES),
    st.integers(1, 4),
    st.integers(1, 9),
    st.floats(0, 6),
    st.integers(0, 99),
)
def test_the_pair_before_is_of_the_step_before_under_the_same_goal(
    rule: Any, slots: int, horizon: int, replay_k: float, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    pairs = Pairs(slots, horizon, rule, replay_k)
    full = np.full(slots, horizon)
    alternate = pairs.alternate_of(np.arange(slots), full, replay_k)
    pairs.set_goals(alternate, rng.integers(0, horizon + 1, len(alternate)))
    ids = rng.permutation(np.concatenate([pairs.actual_of(np.arange(slots), full), alternate]))
    before, which = pairs.before(ids, lambda pairs: np.isin(pairs, alternate))
    at, previous = pairs.address(ids), pairs.address(before)
    assert len(set(which)) == len(which)
    assert (previous.slot == at.slot[which]).all()
    assert (previous.step == at.step[which] - 1).all()
    assert ((before < pairs.actual) == (ids[which] < pairs.actual)).all()
    for pair, previous_pair in zip(ids[which], before, strict=True):
        if pair >= pairs.actual:
            place = pairs.address(np.array([pair, previous_pair]))
            assert place.goal_time[1] == place.goal_time[0]
    for i in set(range(len(ids))) - set(which):
        held = pairs.address(alternate)
        same = (held.slot == at.slot[i]) & (held.step == at.step[i] - 1)
        same &= held.goal_time == at.goal_time[i]
        assert at.step[i] == 0 or (ids[i] >= pairs.actual and not same.any())


def test_a_sweep_raises_the_pair_before_and_lowers_none() -> None:
    pairs = Pairs(2, 3, "uniform", 1)
    priorities = Priorities(pairs, PriorityConfig(sampling="proportional", sweep=0.5, epsilon=0.0))
    ids = np.arange(12)
    pairs.set_goals(ids[6:], np.tile([2, 2, 3], 2))
    priorities.replace(np.arange(2), np.ones(2))
    priorities.push(ids, TDErrors(np.full(12, 1.0), np.zeros(12)), never, 1)
    # (0, 2) with its actual goal, twice of (1, 1), the alternate pair of (1, 1), whose goal that of
    # (1, 0) has, too, and that of (1, 2), whose goal no pair before it has
    replayed = np.array([2, 4, 4, 10, 11])
    error = np.array([6.0, 9.0, 1.5, 8.0, 100.0])
    priorities.push(replayed, TDErrors(error, np.zeros(5)), never, 1)
    expected = [1, 3, 6, 4.5, 1.5, 1, 1, 1, 1, 4, 8, 100]
    assert priorities.queues.priority(ids) == pytest.approx(expected)


def test_a_model_suggests_what_it_believes_to_be_wrong() -> None:
    shapes = Shapes(1, 1, Actions(0, (-1.0,), (1.0,)), 0.9)
    model = TDModel(shapes, np.inf, np.inf, learning_rate=1e-2)
    state, rng = model.init(jax.random.key(0)), np.random.default_rng(0)

    def batches(rows: int) -> Batch:
        draw = rng.uniform(-1, 1, (3, rows, 1)).astype(np.float32)
        ones = np.ones((3, rows), np.float32)
        return Batch(draw, draw, draw, draw, -ones, 0 * ones, ones, np.zeros(3), np.zeros(3))

    for _ in range(100):  # errors are large where the observation is positive
        seen = batches(64)
        error = np.where(seen.observation[..., 0] > 0, 10.0, 0.01).astype(np.float32)
        state, _ = model.fit(state, SCALE, seen, TDErrors(error, 0 * error))
    one = np.ones(3, np.float32)
    fresh = Fresh(rng.random((3, 64), np.float32), one, 0 * one, np.zeros((3, 2)))
    candidates = batches(256)._replace(fresh=fresh)
    chosen, which = model.suggest(state, SCALE, candidates)
    assert chosen.reward.shape == which.shape == (3, 64)
    assert chosen.fresh is None
    picked = np.take_along_axis(candidates.observation[..., 0], np.asarray(which), axis=1)
    np.testing.assert_array_equal(chosen.observation[..., 0], picked)
    assert (picked > 0).mean() > 0.95
    assert chosen.actor is not None  # the actor learns from what would have been replayed
    np.testing.assert_array_equal(chosen.actor.observation, candidates.observation[:, ::4])
