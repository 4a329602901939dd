"""Prioritised replay: what is stored, drawn and pushed, with goals chosen when sampled or
stored."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from conftest import LineEnv, random_episodes
from hindsight.envs.contract import inspect
from hindsight.envs.spaces import Features
from hindsight.episodes import Episodes
from hindsight.errors import HindsightError
from hindsight.replay.batch import Batch, TDErrors
from hindsight.replay.priorities import SIGNALS, PriorityConfig, Signals
from hindsight.replay.replay import HindsightReplay, ReplayConfig, make_replay
from hindsight.schedules import Schedule
from hindsight.types import Floats64, Ints

LINE = replace(
    inspect(LineEnv()), observation=Features((2,))
)  # observations spell out (episode, time)
STORED = ReplayConfig(goals_chosen="stored", buffer_size=8 * LINE.horizon)


def constant(error: float = 1.0) -> Any:
    return lambda batch: TDErrors(np.full(len(batch.reward), error), np.zeros(len(batch.reward)))


def by_time(batch: Batch) -> TDErrors:
    """TD errors that tell the pairs apart: the time of the transition plus one."""
    return TDErrors(batch.observation[:, 1] + 1.0, np.zeros(len(batch.reward)))


def add(
    replay: HindsightReplay, episodes: Episodes, evaluate: Any, rng: np.random.Generator
) -> Ints:
    """Store episodes, and push their pairs by TD errors, if they count; or by the largest
    priority."""
    pairs = replay.store(episodes, 0.0, rng)
    known = evaluate is not None and replay.prioritised
    replay.push(pairs, evaluate(replay.read(pairs)) if known else None)
    return pairs


def filled(
    config: ReplayConfig, priority: PriorityConfig, additions: int = 3, seed: int = 0
) -> HindsightReplay:
    rng = np.random.default_rng(seed)
    replay = make_replay(LINE, config, priority)
    for i in range(additions):
        add(replay, random_episodes(rng, 4, LINE.horizon, LINE, mark=4 * i), by_time, rng)
    return replay


@settings(max_examples=40)
@given(
    st.integers(0, 2**32 - 1),
    st.sampled_from(["uniform", "proportional", "rank", "rank_heap"]),
    st.sampled_from(["single_queue", "two_queues"]),
    st.sampled_from(["sampled", "stored"]),
    st.sampled_from(["uniform", "late", "early", "early_doubled"]),
    st.sampled_from([0.0, 0.5, 1.0]),
    st.sampled_from([1, 3]),
    st.integers(1, 9),
)
def test_whatever_is_replayed_happened_with_the_reward_of_its_goal(
    seed: int,
    sampling: Any,
    queues: Any,
    chosen: Any,
    numbers: Any,
    drop: float,
    fresh: int,
    slots: int,
) -> None:
    rng = np.random.default_rng(seed)
    if chosen == "sampled":
        queues, numbers = "single_queue", "early_doubled"
    config = ReplayConfig(
        buffer_size=slots * LINE.horizon,
        goals_chosen=chosen,
        goal_numbers=numbers,
        drop_achieved=Schedule.parse(drop),
    )
    more = {} if sampling == "uniform" else {"shared": 0.3}
    priority = PriorityConfig(sampling=sampling, queues=queues, fresh=fresh, **more)
    replay = make_replay(LINE, config, priority)
    for i in range(5):
        add(replay, random_episodes(rng, 4, LINE.horizon, LINE, mark=4 * i), by_time, rng)
        sample = replay.sample(2, 20, 0.3, rng)
        at, batch = sample.addresses, sample.batch
        store = replay.storage
        assert at.slot.shape == (2, 20 * fresh)
        assert (at.step < store.length[at.slot]).all()
        stored = at.goal_time > at.step
        assert (stored | (at.goal_time == -1)).all()  # future, or desired
        goal = store.goal(at.goal_slot.ravel(), at.goal_time.ravel())
        np.testing.assert_array_equal(
            batch.reward.ravel(),
            LINE.goal_reward(store.achieved_goal[at.slot, at.step + 1].reshape(goal.shape), goal),
        )
        np.testing.assert_array_equal(batch.observation, store.observation[at.slot, at.step])
        if drop == 1.0:
            met = LINE.reached(store.achieved_goal[at.slot, at.step].reshape(goal.shape), goal)
            assert not (met & (at.goal_time.ravel() >= 0)).any()
        assert (batch.importance > 0).all()
        td = TDErrors(rng.normal(size=at.slot.shape), rng.normal(size=at.slot.shape))
        replay.push(sample.pairs, td, sample.sampled_at)


@pytest.mark.parametrize("sampling", ["proportional", "rank", "rank_heap"])
@pytest.mark.parametrize("queues", ["single_queue", "two_queues"])
def test_pairs_are_drawn_as_often_as_stated(sampling: Any, queues: Any) -> None:
    replay = filled(STORED, PriorityConfig(sampling=sampling, queues=queues), additions=5)
    rng, n = np.random.default_rng(7), 40_000
    sample = replay.sample(1, n, 0.0, rng)
    assert sample.pairs is not None
    ids, counts = np.unique(sample.pairs, return_counts=True)
    pairs = replay.pairs
    assert pairs is not None
    share = np.zeros(pairs.actual + pairs.alternate)
    share[sample.pairs.ravel()] = 1.0 / sample.batch.importance.ravel()
    two = queues == "two_queues"
    queue = np.where(ids >= pairs.actual, 1, 0) if two else np.zeros_like(ids)
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
    np.testing.assert_allclose(sample.batch.importance, 1.0, rtol=1e-6)
    assert sample.batch.beta.tolist() == [0.5] * 3


def test_new_pairs_are_told_and_overwritten_ones_forgotten() -> None:
    new: list[int] = []
    rng = np.random.default_rng(1)
    replay = make_replay(LINE, STORED, PriorityConfig(sampling="proportional"))
    for _ in range(5):  # 8 slots, 20 episodes: the ring wraps twice
        pairs = add(replay, random_episodes(rng, 4, LINE.horizon, LINE), by_time, rng)
        assert len(np.unique(pairs)) == len(pairs)
        new.append(len(pairs))
    assert replay.priorities is not None
    assert len(replay.priorities.queues.indexes[0]) == new[-1] + new[-2]


def test_without_td_errors_new_entries_get_the_largest_priority_in_the_buffer() -> None:
    rng = np.random.default_rng(1)
    replay = make_replay(
        LINE, ReplayConfig(buffer_size=4 * LINE.horizon), PriorityConfig(sampling="rank")
    )
    add(replay, random_episodes(rng, 4, LINE.horizon, LINE), constant(50.0), rng)
    add(replay, random_episodes(rng, 3, LINE.horizon, LINE), constant(2.0), rng)
    # The last of the 50s goes.
    add(replay, random_episodes(rng, 1, LINE.horizon, LINE), constant(3.0), rng)
    add(replay, random_episodes(rng, 1, LINE.horizon, LINE), None, rng)
    assert replay.priorities is not None
    assert replay.priorities.queues.largest() == pytest.approx(3.0, rel=1e-5)


def test_an_entry_overwritten_between_sampling_and_push_keeps_its_successor() -> None:
    rng = np.random.default_rng(1)
    replay = filled(STORED, PriorityConfig(sampling="proportional"), additions=2)
    sample = replay.sample(1, 200, 0.0, rng)
    add(replay, random_episodes(rng, 4, LINE.horizon, LINE), constant(1.0), rng)  # slots 0..3
    td = TDErrors(np.full((1, 200), 9.0), np.zeros((1, 200)))
    replay.push(sample.pairs, td, sample.sampled_at)
    assert replay.priorities is not None
    assert sample.pairs is not None
    slots = sample.addresses.slot.ravel()
    priorities = replay.priorities.queues.priority(sample.pairs.ravel())
    assert priorities[slots >= 4] == pytest.approx(9.0, rel=1e-4)
    assert set(np.round(priorities[slots < 4], 3)) <= {0.0, 1.0}


def test_priorities_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(SIGNALS, "signed", lambda known: known.td_error)
    for signal, expected in (("td_error", [0.7, 2.5]), ("signed", [0.7, 0.0])):
        config = PriorityConfig(sampling="proportional", signal=signal, epsilon=0.5)
        replay, ids = filled(STORED, config), np.array([0, 1])
        replay.push(ids, TDErrors(np.array([0.2, -2.0]), np.zeros(2)))
        assert replay.priorities is not None
        assert replay.priorities.queues.priority(ids) == pytest.approx(expected)


def test_other_goals_of_a_transition_follow_by_the_share() -> None:
    config = PriorityConfig(sampling="proportional", shared=0.25, epsilon=0.0)
    rng = np.random.default_rng(0)
    replay = make_replay(LINE, replace(STORED, goal_numbers="uniform"), config)
    add(replay, random_episodes(rng, 4, LINE.horizon, LINE), constant(2.0), rng)
    assert replay.priorities is not None
    queues, pairs = replay.priorities.queues, replay.pairs
    assert pairs is not None
    replay.push(np.array([0]), TDErrors(np.array([10.0]), np.zeros(1)))
    others, _ = pairs.same_transition(np.array([0]))
    assert queues.priority(np.array([0, 1])) == pytest.approx([10.0, 2.0])
    assert queues.priority(others) == pytest.approx(np.full(4, 0.75 * 2 + 0.25 * 10))


def test_moved_power_weighs_episodes_uniformly_and_in_priorities() -> None:
    rng = np.random.default_rng(3)
    episodes = random_episodes(rng, 8, LINE.horizon, LINE)
    moved = np.maximum(episodes.distance_moved(), 0.01).astype(np.float64)
    for priority in (PriorityConfig(), PriorityConfig(sampling="proportional", alpha=1.0)):
        replay = make_replay(
            LINE, ReplayConfig(buffer_size=8 * LINE.horizon, moved_power=1.0), priority
        )
        add(replay, episodes, constant(1.0), rng)
        slots = replay.sample(1, 50_000, 0.0, rng).addresses.slot
        share = np.bincount(slots.ravel(), minlength=8) / 50_000
        expected = moved * episodes.length
        assert share == pytest.approx(expected / expected.sum(), abs=0.01)


def test_beta_and_correction_follow_the_settings() -> None:
    cases: list[tuple[Any, tuple[float, float]]] = [
        ("critic", (0.75, 0.0)),
        ("both", (0.75, 0.75)),
        ("none", (0.0, 0.0)),
    ]
    for correction, betas in cases:
        replay = filled(STORED, PriorityConfig(sampling="rank", bias_correction=correction))
        batch = replay.sample(2, 10, 0.5, np.random.default_rng(0)).batch
        assert (batch.beta.tolist(), batch.actor_beta.tolist()) == ([betas[0]] * 2, [betas[1]] * 2)


def test_bad_td_errors_change_nothing() -> None:
    replay = filled(STORED, PriorityConfig(sampling="rank"))
    sample = replay.sample(1, 20, 0.0, np.random.default_rng(0))
    assert replay.priorities is not None
    assert sample.pairs is not None
    before = replay.priorities.queues.priority(sample.pairs.ravel())
    with pytest.raises(HindsightError, match="finite"):
        replay.push(sample.pairs, TDErrors(np.full((1, 20), np.nan), np.zeros((1, 20))))
    np.testing.assert_array_equal(replay.priorities.queues.priority(sample.pairs.ravel()), before)


def test_goals_chosen_when_stored_need_a_generator() -> None:
    replay = make_replay(LINE, STORED)
    with pytest.raises(HindsightError, match="random generator"):
        replay.store(random_episodes(np.random.default_rng(0), 2, LINE.horizon, LINE))


@pytest.mark.parametrize("sampling", ["uniform", "rank"])
def test_a_restored_replay_knows_that_episodes_end(sampling: Any) -> None:
    rng = np.random.default_rng(0)
    replay, other = (make_replay(LINE, STORED, PriorityConfig(sampling=sampling)) for _ in range(2))
    episodes = random_episodes(rng, 4, LINE.horizon, LINE)
    ended = replace(
        episodes, terminated=episodes.success
    )  # it ends where the goal is reached, and has no say in it
    add(replay, ended, constant(1.0), rng)
    other.restore_state(replay.export_state())
    mine, theirs = (r.sample(1, 400, 0.0, np.random.default_rng(1)).batch for r in (replay, other))
    assert mine.terminated.any()
    np.testing.assert_array_equal(theirs.terminated, mine.terminated)


@pytest.mark.parametrize(
    "priority",
    [
        PriorityConfig(),
        PriorityConfig(sampling="proportional", alpha=1.0, initial="largest"),
        PriorityConfig(sampling="proportional", alpha=1.0),
    ],
)
@pytest.mark.parametrize("power", [0.5, 2.0])
def test_moved_power_weighs_stored_pairs_whatever_their_first_priority(
    power: float, priority: PriorityConfig
) -> None:
    """It used to count only where TD errors did, and importance weights used to undo it."""
    rng = np.random.default_rng(3)
    episodes = random_episodes(rng, 8, LINE.horizon, LINE)
    replay = make_replay(LINE, replace(STORED, moved_power=power), priority)
    new = add(replay, episodes, constant(1.0) if priority.initial == "td_error" else None, rng)
    assert replay.priorities is not None
    assert replay.pairs is not None
    weight = np.maximum(episodes.distance_moved().astype(np.float64), 0.01) ** power
    expected = weight[replay.pairs.address(new).slot]
    probability = replay.priorities.queues.indexes[0].probability(new)
    np.testing.assert_allclose(probability, expected / expected.sum(), rtol=1e-4)
    sample = replay.sample(2, 1000, 0.0, rng)
    drawn = np.array([np.flatnonzero(new == pair)[0] for pair in sample.pairs.ravel()])
    importance = sample.batch.importance.ravel()
    # All priorities are 1, and what the weights do is no bias.
    np.testing.assert_allclose(importance / importance[0], 1.0, rtol=1e-4)
    errors = np.where(drawn % 2, 0.5, 2.0)  # now priorities differ, and those are corrected
    if not replay.prioritised:
        assert (importance == 1).all()
        return
    replay.push(sample.pairs, TDErrors(errors, errors), sample.sampled_at)
    sample = replay.sample(2, 1000, 0.0, rng)
    priority = replay.priorities.queues.priority(sample.pairs.ravel())
    own = priority / weight[replay.pairs.address(sample.pairs.ravel()).slot]
    found = sample.batch.importance.ravel() * own
    np.testing.assert_allclose(found / found[0], 1.0, rtol=1e-4)


@pytest.mark.parametrize("sampling", ["proportional", "rank", "rank_heap"])
def test_a_new_pair_gets_at_most_the_largest_priority_there_is(sampling: Any) -> None:
    rng = np.random.default_rng(0)
    config = replace(STORED, moved_power=2.0)
    replay = make_replay(LINE, config, PriorityConfig(sampling=sampling, initial="largest"))
    assert replay.priorities is not None
    assert replay.pairs is not None
    for i in range(
        6
    ):  # each moves farther than those before; from the third on, slots are overwritten
        episodes = random_episodes(rng, 4, LINE.horizon, LINE)
        episodes = replace(episodes, achieved_goal=episodes.achieved_goal * 2**i)
        new = replay.store(episodes, 0.0, rng)
        largest = replay.priorities.queues.largest()
        replay.push(new, None)
        given = replay.priorities.queues.priority(new)
        moved = np.maximum(episodes.distance_moved().astype(np.float64), 0.01)
        slots = replay.pairs.address(new).slot
        weight = moved[slots - slots.min()] ** 2
        np.testing.assert_allclose(given / given.max(), weight / weight.max(), rtol=1e-4)
        assert largest == 0.0 or given.max() <= largest * (1 + 1e-6)
        if i % 2:
            sample = replay.sample(1, 100, 0.0, rng)
            td = TDErrors(rng.normal(size=(1, 100)) * 3**i, np.zeros((1, 100)))
            replay.push(sample.pairs, td, sample.sampled_at)


# ----------------------------------------------------------------------------------------- signals


def test_a_signal_is_one_function_and_one_name(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(HindsightError, match=r"unknown priority\.signal 'stale'"):
        make_replay(LINE, STORED, PriorityConfig(sampling="rank", signal="stale"))

    def stale(known: Signals) -> Floats64:
        return 1000.0 * known.age + 100.0 * (known.reward == 0.0) + np.abs(known.goal[:, 0])

    def expected(pairs: Ints, age: Ints) -> Floats64:
        batch = replay.read(pairs)
        return 1000.0 * age + np.where(batch.reward == 0.0, 100.0, 0.0) + np.abs(batch.goal[:, 0])

    monkeypatch.setitem(SIGNALS, "stale", stale)
    rng = np.random.default_rng(0)
    config = PriorityConfig(sampling="proportional", signal="stale", epsilon=0.5)
    replay = make_replay(LINE, STORED, config)
    assert replay.priorities is not None
    queues = replay.priorities.queues
    for _ in range(6):  # the last ones in slots that others had before
        new = add(replay, random_episodes(rng, 2, LINE.horizon, LINE), by_time, rng)
        np.testing.assert_allclose(
            queues.priority(new), expected(new, np.zeros_like(new)) + 0.5, rtol=1e-6
        )
    sample = replay.sample(1, 40, 0.0, rng)
    assert sample.pairs is not None
    pairs = np.unique(sample.pairs)
    age = replay.priorities.age(pairs)
    assert set(age) == {0, 1, 2, 3}  # collections since they were stored
    replay.push(pairs, TDErrors(rng.normal(size=len(pairs)), np.zeros(len(pairs))))
    np.testing.assert_allclose(queues.priority(pairs), expected(pairs, age) + 0.5, rtol=1e-6)
    assert (replay.priorities.age(pairs) == 0).all()


def test_signals_know_td_errors_and_values(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(
        SIGNALS, "hopeful", lambda known: np.maximum(known.td_error, 0) - known.value
    )
    config = PriorityConfig(sampling="rank", signal="hopeful", epsilon=0.0, shared=0.0)
    replay = make_replay(LINE, STORED, config)
    rng = np.random.default_rng(0)
    new = replay.store(random_episodes(rng, 2, LINE.horizon, LINE), 0.0, rng)
    replay.push(new, TDErrors(np.linspace(-1, 1, len(new)), np.full(len(new), -3.0)))
    assert replay.priorities is not None
    found = replay.priorities.queues.priority(new)
    np.testing.assert_allclose(found, np.linspace(-1, 1, len(new)).clip(0) + 3.0, rtol=1e-6)
