"""Pairs of a transition and a goal: their numbers are addresses, whatever the lengths and goal
numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hindsight.goals import DESIRED
from hindsight.replay.pairs import Pairs, goal_number
from hindsight.replay.queues import Queues

RULES = ["uniform", "late", "early", "early_doubled", "early_doubled_plus_1"]


def test_goal_numbers_by_hand() -> None:
    steps, length = np.arange(4), np.array(4)
    assert goal_number("uniform", steps, length, 4).tolist() == [4, 4, 4, 4]
    assert goal_number("late", steps, length, 4).tolist() == [0, 1, 2, 3]
    assert goal_number("early", steps, length, 4).tolist() == [4, 3, 2, 1]
    assert goal_number("early_doubled", steps, length, 5).tolist() == [8, 6, 4, 2]  # 10 (4 - t) / 5
    assert goal_number("early_doubled_plus_1", steps, length, 5).tolist() == [9, 7, 5, 3]
    assert goal_number("early_doubled_plus_1", steps, length, 0).tolist() == [0, 0, 0, 0]
    assert (
        goal_number("early_doubled", np.arange(50), np.array(50), 4).mean() == 4.0
    )  # k on average


@given(
    st.sampled_from(RULES),
    st.integers(1, 6),
    st.integers(1, 9),
    st.floats(0, 9),
    st.integers(0, 99),
)
def test_a_pair_number_is_its_address(
    rule: Any, slots: int, horizon: int, replay_k: float, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    pairs = Pairs(slots, horizon, rule, replay_k)
    lengths = rng.integers(1, horizon + 1, slots)
    all_slots = np.arange(slots)
    actual = pairs.actual_of(all_slots, lengths)
    assert [tuple(x) for x in np.stack(pairs.address(actual), axis=1)] == [
        (s, t, s, DESIRED) for s in range(slots) for t in range(lengths[s])
    ]
    now = (
        replay_k * rng.random()
    )  # an annealed replay_k never needs more room than its largest value
    alternate = pairs.alternate_of(all_slots, lengths, now)
    times = rng.integers(0, horizon + 1, len(alternate))
    pairs.set_goals(alternate, times)
    at = pairs.address(alternate)
    assert (at.goal_slot == at.slot).all()
    assert (at.goal_time == times).all()
    counted = np.zeros((slots, horizon), np.int64)
    np.add.at(counted, (at.slot, at.step), 1)
    expected = goal_number(rule, np.arange(horizon), lengths[:, None], now)
    assert (counted == np.where(np.arange(horizon) < lengths[:, None], expected, 0)).all()
    everything = pairs.of_slots(all_slots)
    assert sorted(everything) == list(range(pairs.actual + pairs.alternate))
    assert set(actual) | set(alternate) <= set(everything)
    assert len(set(actual) | set(alternate)) == len(actual) + len(alternate)


def test_the_other_pairs_of_a_transition() -> None:
    pairs = Pairs(3, 4, "uniform", 2)
    ids = np.array(
        [1 * 4 + 2, pairs.actual + 1 * 8 + 2 * 2]
    )  # transition (1, 2): actual, and its first alternate
    others, which = pairs.same_transition(ids)
    first, second = pairs.actual + 12, pairs.actual + 13
    assert sorted(others[which == 0]) == [first, second]
    assert sorted(others[which == 1]) == [ids[0], second]


@pytest.mark.parametrize("kind", ["proportional", "rank", "rank_heap"])
def test_two_queues_keep_the_ratio_and_one_lets_priorities_decide(kind: Any) -> None:
    ids, rng = np.arange(600), np.random.default_rng(0)
    priorities = np.where(ids < 100, 100.0, 1.0) * rng.uniform(0.9, 1.1, 600)
    one, two = (Queues(kind, 1.0, 100, 500, two, True) for two in (False, True))
    for queues in (one, two):
        queues.set(ids, priorities)
    drawn, odds = two.sample(250, 4.0, rng)
    assert (drawn >= 100).sum() == 200
    drawn_one, odds_one = one.sample(250, 4.0, rng)
    assert (drawn_one >= 100).mean() < 0.4  # by size it would be 0.83
    assert not (
        np.sort(drawn_one) == drawn_one
    ).all()  # in random order, so that a part of it is fair
    assert np.mean(1.0 / odds_one) == pytest.approx(1.0, abs=0.35)  # importance is 1 on average
    assert odds.shape == drawn.shape


def test_an_empty_alternate_queue_is_not_asked() -> None:
    queues = Queues("rank", 0.7, 10, 20, True, True)
    queues.set(np.arange(10), np.ones(10))
    assert (queues.sample(50, 4.0, np.random.default_rng(0))[0] < 10).all()


@given(st.sampled_from(RULES), st.integers(1, 9), st.floats(0, 5), st.integers(0, 99))
def test_pairs_of_another_replay_keep_their_step_and_goal(
    rule: Any, horizon: int, replay_k: float, seed: int
) -> None:
    """Found in a replay of the new episodes only, stored in any slots of a larger one."""
    rng = np.random.default_rng(seed)
    small, large = (Pairs(slots, horizon, rule, replay_k) for slots in (3, 7))
    lengths, slots = rng.integers(1, horizon + 1, 3), rng.permutation(7)[:3]
    ids = np.concatenate(
        [
            small.actual_of(np.arange(3), lengths),
            small.alternate_of(np.arange(3), lengths, replay_k),
        ]
    )
    small.set_goals(
        ids[ids >= small.actual], rng.integers(0, horizon + 1, (ids >= small.actual).sum())
    )
    there, here = large.address(large.add(small.places(ids), slots)), small.address(ids)
    assert np.array_equal(there.slot, slots[here.slot])
    assert np.array_equal(there.goal_slot, slots[here.goal_slot])
    assert np.array_equal(there.step, here.step)
    assert np.array_equal(there.goal_time, here.goal_time)
