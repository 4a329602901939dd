"""Prioritised replay: what is stored, drawn and updated, with goals chosen when sampled and when stored."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from conftest import LineEnv, random_episodes
from hindsight.config import PriorityConfig, ReplayConfig
from hindsight.envs.contract import inspect
from hindsight.envs.spaces import Features
from hindsight.errors import HindsightError
from hindsight.replay.prioritized import TDErrors
from hindsight.replay.replay import Batch, HindsightReplay
from hindsight.schedules import Schedule

LINE = replace(inspect(LineEnv()), observation=Features((2,)))  # observations spell out (episode, time)
STORED = ReplayConfig(goals_chosen="stored", capacity=8 * LINE.horizon)


def constant(error: float = 1.0) -> Any:
    return lambda batch: TDErrors(np.full(len(batch.reward), error), np.zeros(len(batch.reward)))


def by_time(batch: Batch) -> TDErrors:
    """TD errors that tell the pairs apart: the time of the transition plus one."""
    return TDErrors(batch.observation[:, 1] + 1.0, np.zeros(len(batch.reward)))


def filled(config: ReplayConfig, priority: PriorityConfig, additions: int = 3, seed: int = 0) -> HindsightReplay:
    rng = np.random.default_rng(seed)
    replay = HindsightReplay(LINE, config, priority)
    for i in range(additions):
        replay.add(random_episodes(rng, 4, LINE.horizon, LINE, mark=4 * i), by_time, 0.0, rng)
    return replay


@settings(deadline=None, max_examples=40)
@given(
    st.integers(0, 2**32 - 1),
    st.sampled_from(["none", "proportional", "rank", "rank_heap"]),
    st.sampled_from(["single_queue", "two_queues"]),
    st.sampled_from(["sampled", "stored"]),
    st.sampled_from(["uniform", "late", "early", "early_doubled"]),
    st.sampled_from([0.0, 0.5, 1.0]),
    st.sampled_from([1, 3]),
    st.integers(1, 9),
)
def test_whatever_is_replayed_happened_with_the_reward_of_its_goal(
    seed: int, index: Any, queues: Any, chosen: Any, numbers: Any, drop: float, fresh: int, slots: int
) -> None:
    rng = np.random.default_rng(seed)
    if chosen == "sampled":
        queues = "single_queue"
    config = ReplayConfig(
        capacity=slots * LINE.horizon, goals_chosen=chosen, goal_numbers=numbers, drop_met=Schedule.parse(drop)
    )
    priority = PriorityConfig(index=index, queues=queues, fresh=fresh, actor="uniform", shared=0.3, hardness=1.0)
    replay = HindsightReplay(LINE, config, priority)
    for i in range(5):
        replay.add(random_episodes(rng, 4, LINE.horizon, LINE, mark=4 * i), by_time, 0.0, rng)
        sample = replay.sample(2, 20, 0.3, rng)
        at, batch = sample.addresses, sample.replayed.batch
        store = replay.storage
        assert at.slot.shape == (2, 20 * fresh)
        assert (at.step < store.length[at.slot]).all()
        stored = at.goal_time > at.step
        assert (stored | (at.goal_time == -1)).all()  # future, or desired
        goal = store.goal(at.goal_slot.ravel(), at.goal_time.ravel())
        np.testing.assert_array_equal(
            batch.reward.ravel(), LINE.goal_reward(store.achieved_goal[at.slot, at.step + 1].reshape(goal.shape), goal)
        )
        np.testing.assert_array_equal(batch.observation, store.observation[at.slot, at.step])
        if drop == 1.0:
            met = LINE.reached(store.achieved_goal[at.slot, at.step].reshape(goal.shape), goal)
            assert not (met & (at.goal_time.ravel() >= 0)).any()
        assert (batch.importance > 0).all()
        replay.update(sample, TDErrors(rng.normal(size=at.slot.shape), rng.normal(size=at.slot.shape)))


@pytest.mark.parametrize("index", ["proportional", "rank", "rank_heap"])
@pytest.mark.parametrize("queues", ["single_queue", "two_queues"])
def test_pairs_are_drawn_as_often_as_stated(index: Any, queues: Any) -> None:
    replay = filled(STORED, PriorityConfig(index=index, queues=queues), additions=5)
    rng, n = np.random.default_rng(7), 40_000
    sample = replay.sample(1, n, 0.0, rng)
    assert sample.ids is not None
    ids, counts = np.unique(sample.ids, return_counts=True)
    share = np.zeros(replay.priorities.pairs.actual + replay.priorities.pairs.alternate)  # type: ignore[union-attr]
    share[sample.ids.ravel()] = 1.0 / sample.replayed.batch.importance.ravel()
    queue = np.where(ids >= replay.priorities.pairs.actual, 1, 0) if queues == "two_queues" else np.zeros_like(ids)  # type: ignore[union-attr]
    for q in np.unique(queue):
        expected = share[ids[queue == q]]
        seen = counts[queue == q]
        expected = expected / expected.sum() * seen.sum()
        enough = expected > 5
        chi = ((seen[enough] - expected[enough]) ** 2 / expected[enough]).sum()
        assert chi < stats.chi2.ppf(0.9999, enough.sum())


def test_uniform_draws_of_stored_pairs_have_importance_one() -> None:
    replay = filled(STORED, PriorityConfig())
    sample = replay.sample(3, 50, 0.0, np.random.default_rng(0))
    np.testing.assert_allclose(sample.replayed.batch.importance, 1.0, rtol=1e-6)
    assert sample.replayed.beta == 0.5


def test_new_pairs_are_evaluated_in_one_call_and_overwritten_ones_forgotten() -> None:
    calls: list[int] = []

    def evaluate(batch: Batch) -> TDErrors:
        calls.append(len(batch.reward))
        return by_time(batch)

    rng = np.random.default_rng(1)
    replay = HindsightReplay(LINE, STORED, PriorityConfig(index="proportional"))
    for _ in range(5):  # 8 slots, 20 episodes: the ring wraps twice
        replay.add(random_episodes(rng, 4, LINE.horizon, LINE), evaluate, 0.0, rng)
    assert len(calls) == 5
    assert replay.priorities is not None
    assert len(replay.priorities.queues.indexes[0]) == calls[-1] + calls[-2]


def test_without_td_errors_new_entries_get_the_largest_priority_in_the_buffer() -> None:
    rng = np.random.default_rng(1)
    replay = HindsightReplay(LINE, ReplayConfig(capacity=4 * LINE.horizon), PriorityConfig(index="rank"))
    replay.add(random_episodes(rng, 4, LINE.horizon, LINE), constant(50.0), 0.0, rng)
    replay.add(random_episodes(rng, 3, LINE.horizon, LINE), constant(2.0), 0.0, rng)
    replay.add(random_episodes(rng, 1, LINE.horizon, LINE), constant(3.0), 0.0, rng)  # the last of the 50s is gone
    replay.add(random_episodes(rng, 1, LINE.horizon, LINE), None, 0.0, rng)
    assert replay.priorities is not None
    assert replay.priorities.queues.largest() == pytest.approx(3.0, rel=1e-5)


def test_an_entry_overwritten_between_sampling_and_update_keeps_its_successor() -> None:
    rng = np.random.default_rng(1)
    replay = filled(STORED, PriorityConfig(index="proportional"), additions=2)
    sample = replay.sample(1, 200, 0.0, rng)
    replay.add(random_episodes(rng, 4, LINE.horizon, LINE), constant(1.0), 0.0, rng)  # into slots 0..3
    replay.update(sample, TDErrors(np.full((1, 200), 9.0), np.zeros((1, 200))))
    assert replay.priorities is not None
    assert sample.ids is not None
    slots = sample.addresses.slot.ravel()
    priorities = replay.priorities.queues.priority(sample.ids.ravel())
    assert priorities[slots >= 4] == pytest.approx(9.0, rel=1e-4)
    assert set(np.round(priorities[slots < 4], 3)) <= {0.0, 1.0}


def test_priorities_by_hand() -> None:
    config = PriorityConfig(index="proportional", epsilon=0.5, floor=1.0)
    replay = filled(STORED, config)
    assert replay.priorities is not None
    assert replay.priorities.of(TDErrors(np.array([0.2, -2.0]), np.zeros(2))).tolist() == [1.0, 2.5]
    hard = filled(STORED, replace(config, hardness=2.0)).priorities
    assert hard is not None
    hard._values[:] = -50.0, 0.0
    td = TDErrors(np.array([1.5, 1.5, 1.5]), np.array([0.0, -25.0, -50.0]))
    assert hard.of(td) == pytest.approx([2.0 * 0.01**2, 2.0 * 0.25, 2.0])


def test_other_goals_of_a_transition_follow_by_the_share() -> None:
    config = PriorityConfig(index="proportional", shared=0.25, epsilon=0.0)
    rng = np.random.default_rng(0)
    replay = HindsightReplay(LINE, replace(STORED, goal_numbers="uniform"), config)
    replay.add(random_episodes(rng, 4, LINE.horizon, LINE), constant(2.0), 0.0, rng)
    assert replay.priorities is not None
    queues, pairs = replay.priorities.queues, replay.priorities.pairs
    replay.priorities.update(np.array([0]), TDErrors(np.array([10.0]), np.zeros(1)), replay.priorities.now)
    others, _ = pairs.same_transition(np.array([0]))
    assert queues.priority(np.array([0, 1])) == pytest.approx([10.0, 2.0])
    assert queues.priority(others) == pytest.approx(np.full(4, 0.75 * 2 + 0.25 * 10))


def test_moved_power_weighs_episodes_uniformly_and_in_priorities() -> None:
    rng = np.random.default_rng(3)
    episodes = random_episodes(rng, 8, LINE.horizon, LINE)
    moved = np.maximum(episodes.distance_moved(), 0.01).astype(np.float64)
    for priority in (PriorityConfig(), PriorityConfig(index="proportional", alpha=1.0)):
        replay = HindsightReplay(LINE, ReplayConfig(capacity=8 * LINE.horizon, moved_power=1.0), priority)
        replay.add(episodes, constant(1.0), 0.0, rng)
        slots = replay.sample(1, 50_000, 0.0, rng).addresses.slot
        share = np.bincount(slots.ravel(), minlength=8) / 50_000
        expected = moved * episodes.length
        assert share == pytest.approx(expected / expected.sum(), abs=0.01)


def test_beta_and_correction_follow_the_settings() -> None:
    for correct, betas in (("critic", (0.75, 0.0)), ("both", (0.75, 0.75)), ("none", (0.0, 0.0))):
        replay = filled(STORED, PriorityConfig(index="rank", correct=correct))  # type: ignore[arg-type]
        replayed = replay.sample(1, 10, 0.5, np.random.default_rng(0)).replayed
        assert (replayed.beta, replayed.actor_beta) == betas


def test_bad_td_errors_change_nothing() -> None:
    replay = filled(STORED, PriorityConfig(index="rank"))
    sample = replay.sample(1, 20, 0.0, np.random.default_rng(0))
    assert replay.priorities is not None
    assert sample.ids is not None
    before = replay.priorities.queues.priority(sample.ids.ravel())
    with pytest.raises(HindsightError, match="finite"):
        replay.update(sample, TDErrors(np.full((1, 20), np.nan), np.zeros((1, 20))))
    np.testing.assert_array_equal(replay.priorities.queues.priority(sample.ids.ravel()), before)


def test_goals_chosen_when_stored_need_a_generator() -> None:
    replay = HindsightReplay(LINE, STORED)
    with pytest.raises(HindsightError, match="random generator"):
        replay.add(random_episodes(np.random.default_rng(0), 2, LINE.horizon, LINE))


@pytest.mark.parametrize("index", ["none", "rank"])
def test_a_restored_replay_knows_that_episodes_end(index: Any) -> None:
    rng = np.random.default_rng(0)
    replay, other = (HindsightReplay(LINE, STORED, PriorityConfig(index=index)) for _ in range(2))
    episodes = random_episodes(rng, 4, LINE.horizon, LINE)
    ended = replace(episodes, terminated=episodes.success)  # it ends where the goal is reached, and has no say in it
    replay.add(ended, constant(1.0), 0.0, rng)
    other.restore_state(replay.export_state())
    mine, theirs = (r.sample(1, 400, 0.0, np.random.default_rng(1)).replayed.batch for r in (replay, other))
    assert mine.terminated.any()
    np.testing.assert_array_equal(theirs.terminated, mine.terminated)
