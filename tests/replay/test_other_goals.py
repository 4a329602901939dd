"""Goals of other episodes: in their share, and never those of an episode that took the place of
the one they were borrowed from."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conftest import LineEnv, random_episodes
from hindsight.envs.contract import inspect
from hindsight.envs.spaces import Features
from hindsight.errors import HindsightError
from hindsight.goals import BORROWED, DESIRED
from hindsight.replay.priorities import PriorityConfig
from hindsight.replay.replay import HindsightReplay, ReplayConfig, check_replay, make_replay
from hindsight.schedules import Schedule
from hindsight.types import Array, Ints

LINE = replace(inspect(LineEnv()), observation=Features((2,)))  # (number of the episode, time)


def rate(value: Any) -> Schedule:
    return Schedule.parse(value)


def in_the_queues(replay: HindsightReplay) -> Ints:
    assert replay.pairs is not None
    assert replay.priorities is not None
    everything = replay.pairs.of_slots(np.arange(replay.storage.slots))
    return everything[replay.priorities.queues.priority(everything) > 0]


def test_two_to_two_to_one() -> None:
    config = ReplayConfig(other_goals=rate("step(0, 0.5, 0.1)"), buffer_size=100 * LINE.horizon)
    replay, rng = make_replay(LINE, config), np.random.default_rng(0)
    replay.store(random_episodes(rng, 50, LINE.horizon, LINE))
    for progress, others in ((0.0, 0), (0.5, 40)):
        at = replay.sample(3, 100, progress, rng).addresses
        own = (at.goal_time == DESIRED) & (at.goal_slot == at.slot)
        borrowed = (at.goal_time == DESIRED) & (at.goal_slot != at.slot)
        assert (own.sum(axis=1) == 20).all()
        assert (borrowed.sum(axis=1) == others).all()
        assert (at.goal_time > at.step).sum(axis=1).tolist() == [80 - others] * 3


@given(
    seed=st.integers(0, 2**32 - 1),
    slots=st.integers(1, 7),
    other=st.sampled_from([0.0, 0.5, 1.0]),
    replaced=st.sampled_from([0.0, 1.0]),
    drop=st.sampled_from([0.0, 1.0]),
    sampling=st.sampled_from(["uniform", "rank", "proportional", "rank_heap"]),
    queues=st.sampled_from(["single_queue", "two_queues"]),
)
def test_a_stored_pair_keeps_its_goal_whatever_is_evicted_saved_and_restored(
    seed: int, slots: int, other: float, replaced: float, drop: float, sampling: Any, queues: Any
) -> None:
    config = ReplayConfig(
        buffer_size=slots * LINE.horizon,
        goals_chosen="stored",
        other_goals=rate(other),
        replace_achieved=rate(replaced),
        drop_achieved=rate(drop),
        replay_k=rate(2.0),
    )
    priority = PriorityConfig(sampling=sampling, queues=queues)
    rng, replay = np.random.default_rng(seed), make_replay(LINE, config, priority)
    desired: dict[float, Array] = {}  # by number of the episode, of all that were ever stored
    goals: dict[int, Array] = {}  # by pair: what it was stored with
    number = 0
    for _ in range(int(rng.integers(1, 6))):
        count = int(rng.integers(1, 5))
        episodes = random_episodes(rng, count, LINE.horizon, LINE, mark=number)
        desired |= {number + i: episodes.desired_goal[i] for i in range(count)}
        number += count
        new = replay.store(episodes, 0.5, rng)
        replay.push(new, None)
        stored = replay.storage.observation[: replay.storage.size, 0, 0]
        batch, at = replay.read(new), _addresses(replay, new)
        for i, pair in enumerate(new):
            goals[int(pair)] = np.array(batch.goal[i])
            if at.goal_time[i] <= BORROWED:  # of another episode that is stored now
                own = batch.observation[i, 0]
                lenders = [e for e in stored if e != own or len(stored) == 1]
                assert any((LINE.goal(desired[e]) == batch.goal[i]).all() for e in lenders)
        if rng.random() < 0.5:
            state, replay = replay.export_state(), make_replay(LINE, config, priority)
            replay.restore_state(state)
        there = in_the_queues(replay)
        assert set(new) <= set(there)
        assert (replay.read(there).goal == np.stack([goals[int(pair)] for pair in there])).all()
    there = in_the_queues(replay)
    at, batch = _addresses(replay, there), replay.read(there)
    borrowed = at.goal_time <= BORROWED
    if other == 1.0:
        assert (borrowed == (there >= replay.pairs.actual)).all()  # type: ignore[union-attr]
    elif other == replaced == 0.0:
        assert not borrowed.any()
    achieved = replay.storage.achieved_goal[at.slot, at.step + 1]
    goal = replay.storage.goal(at.goal_slot, at.goal_time)
    assert (batch.reward == LINE.goal_reward(achieved, goal)).all()
    assert (replay.sample(2, 30, 0.5, rng).addresses.goal_slot < replay.storage.size).all()


def _addresses(replay: HindsightReplay, pairs: Ints) -> Any:
    assert replay.pairs is not None
    return replay.pairs.address(pairs)


@pytest.mark.parametrize("chosen", ["sampled", "stored"])
def test_achieved_goals_are_replaced(chosen: Any) -> None:
    config = ReplayConfig(
        goals_chosen=chosen,
        replace_achieved=rate(1.0),
        replay_k=rate(3.0),
        buffer_size=20 * LINE.horizon,
    )
    rng, replay = np.random.default_rng(0), make_replay(LINE, config)
    episodes = random_episodes(rng, 20, LINE.horizon, LINE)
    still = np.zeros_like(episodes.achieved_goal)
    replay.push(replay.store(replace(episodes, achieved_goal=still), 0.0, rng), None)
    sample = replay.sample(2, 100, 0.0, rng)
    alternate = sample.addresses.alternate
    assert alternate.mean() > 0.6
    assert np.isin(sample.batch.goal[alternate], LINE.goal(episodes.desired_goal)).all()


def test_a_damaged_goal_time_is_refused() -> None:
    for other, least in ((0.0, 0), (0.5, -17)):
        config = ReplayConfig(
            goals_chosen="stored", other_goals=rate(other), buffer_size=9 * LINE.horizon
        )
        rng, replay = np.random.default_rng(0), make_replay(LINE, config)
        replay.store(random_episodes(rng, 4, LINE.horizon, LINE), 0.0, rng)
        state = replay.export_state()
        state["pairs"]["goal_time"][3] = least - 1
        with pytest.raises(HindsightError, match=f"goal_time must lie between {least} and"):
            make_replay(LINE, config).restore_state(state)


def test_other_goals_without_hindsight_are_refused() -> None:
    with pytest.raises(
        HindsightError, match=r"other_goals changes nothing, while replay\.replay_k"
    ):
        check_replay(ReplayConfig(replay_k=rate(0), other_goals=rate(0.5)), PriorityConfig())
