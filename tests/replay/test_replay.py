"""Hindsight replay is right: over random episodes, lengths, wrap-around of the ring and several
envs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conftest import LineEnv, random_episodes
from hindsight.envs.contract import GoalEnvSpec, inspect
from hindsight.envs.make import make
from hindsight.envs.spaces import Features
from hindsight.errors import HindsightError
from hindsight.goals import DESIRED, RULES, relabelled_count
from hindsight.replay.batch import Batch, TDErrors
from hindsight.replay.pairs import Addresses
from hindsight.replay.replay import HindsightReplay, ReplayConfig, make_replay
from hindsight.schedules import Schedule

ALL = Schedule.parse(1e9)
LINE = replace(
    inspect(LineEnv()), observation=Features((2,))
)  # observations spell out (episode, time)


def filled(
    seed: int, config: ReplayConfig, spec: GoalEnvSpec = LINE
) -> tuple[HindsightReplay, dict[int, Any]]:
    """A replay after several additions, and by episode number what was ever added."""
    rng = np.random.default_rng(seed)
    replay = make_replay(spec, config)
    written: dict[int, Any] = {}
    for _ in range(int(rng.integers(1, 6))):
        count = int(rng.integers(1, 9))
        episodes = random_episodes(rng, count, spec.horizon, spec, mark=len(written))
        for i in range(count):
            written[len(written)] = (episodes, i)
        replay.store(episodes)
    return replay, written


def draw(replay: HindsightReplay, *arguments: Any) -> tuple[Batch, Addresses]:
    sample = replay.sample(*arguments)
    return sample.batch, sample.addresses


@given(
    st.integers(0, 2**32 - 1),
    st.sampled_from(["future", "final", "episode", "random"]),
    st.integers(1, 12),
    st.floats(0, 10),
    st.sampled_from([0.0, 0.5, 1.0]),
    st.sampled_from([0.0, 0.9]),
)
def test_every_transition_is_one_that_happened_with_the_reward_of_its_goal(
    seed: int, goals: Any, slots: int, replay_k: float, moved_share: float, replace_achieved: float
) -> None:
    config = ReplayConfig(
        buffer_size=slots * LINE.horizon,
        goal_rule=goals,
        moved_share=moved_share,
        moved_threshold=4.0,
        replace_achieved=Schedule.parse(replace_achieved),
        replay_k=Schedule.parse(replay_k),
    )
    replay, written = filled(seed, config)
    batch, at = draw(replay, 3, 50, 0.0, np.random.default_rng(seed))
    alive = sorted(written)[-replay.storage.size :]
    for u in range(3):
        for b in range(50):
            number, step = int(batch.observation[u, b, 0]), int(batch.observation[u, b, 1])
            assert number in alive, "an episode that was overwritten"
            episodes, i = written[number]
            assert step < episodes.length[i], "padding"
            assert batch.next_observation[u, b].tolist() == [number, step + 1], (
                "a mix of two episodes"
            )
            assert (batch.action[u, b] == episodes.action[i, step]).all()
            goal = replay.storage.goal(at.goal_slot[u, b : b + 1], at.goal_time[u, b : b + 1])
            assert batch.goal[u, b] == LINE.goal(goal)[0]
            achieved = episodes.achieved_goal[i, step + 1][None]
            assert batch.reward[u, b] == LINE.goal_reward(achieved, goal)[0]
            own = at.goal_time[u, b] == DESIRED and at.goal_slot[u, b] == at.slot[u, b]
            if own:
                assert (goal[0] == episodes.desired_goal[i]).all()
                assert batch.reward[u, b] == episodes.reward[i, step]
            elif goals in ("future", "final") and at.goal_time[u, b] != DESIRED:
                assert at.goal_slot[u, b] == at.slot[u, b]
                assert step < at.goal_time[u, b] <= episodes.length[i]
                assert (goal[0] == episodes.achieved_goal[i, at.goal_time[u, b]]).all()
        alternate = (at.goal_time[u] != DESIRED) | (at.goal_slot[u] != at.slot[u])
        expected = relabelled_count(50, replay_k)
        assert alternate.sum() == expected or (replace_achieved and replay.storage.size == 1)


def test_final_is_the_last_achieved_goal() -> None:
    replay, written = filled(
        1, ReplayConfig(buffer_size=100 * LINE.horizon, goal_rule="final", replay_k=ALL)
    )
    _, at = draw(replay, 1, 40, 0.0, np.random.default_rng(0))
    for slot, time in zip(at.goal_slot[0], at.goal_time[0], strict=True):
        episodes, i = written[int(slot)]
        assert time == episodes.length[i]


def test_uniform_over_transitions_of_unequal_episodes() -> None:
    replay, _ = filled(5, ReplayConfig(buffer_size=100 * LINE.horizon, replay_k=Schedule.parse(0)))
    lengths = replay.storage.length[: replay.storage.size]
    _, at = draw(replay, 1, 200_000, 0.0, np.random.default_rng(0))
    counts = np.zeros((len(lengths), LINE.horizon))
    np.add.at(counts, (at.slot[0], at.step[0]), 1)
    real = np.arange(LINE.horizon) < lengths[:, None]
    assert (counts[~real] == 0).all()
    expected = 200_000 / real.sum()
    assert ((counts[real] - expected) ** 2 / expected).sum() < real.sum() + 4 * np.sqrt(
        2 * real.sum()
    )  # chi-square


@pytest.mark.parametrize(
    "env_id", ["FetchPush-v4", "HandReach-v3", "hindsight/FourRooms-v0", "hindsight/BitFlip-v0"]
)
def test_relabelled_rewards_and_ends_are_the_env_own(env_id: str) -> None:
    env = make(env_id)
    spec = inspect(env, env_id)
    rng = np.random.default_rng(0)
    replay = make_replay(
        spec, ReplayConfig(buffer_size=20 * spec.horizon, replace_achieved=Schedule.parse(0.5))
    )
    episodes = random_episodes(rng, 12, spec.horizon, spec)
    if spec.goal_dtype.kind in "iu" or "Rooms" in env_id:
        low = episodes.achieved_goal.round().clip(0, 1 if spec.goal_dtype.kind in "iu" else 3)
        episodes = replace(episodes, achieved_goal=low.astype(spec.goal_dtype))
    replay.store(episodes)
    batch, at = draw(replay, 1, 300, 0.0, rng)
    compute_reward, compute_terminated = (
        env.get_wrapper_attr("compute_reward"),
        env.get_wrapper_attr("compute_terminated"),
    )
    for b in range(300):
        goal = replay.storage.goal(at.goal_slot[0, b : b + 1], at.goal_time[0, b : b + 1])[0]
        achieved = episodes.achieved_goal[at.slot[0, b], at.step[0, b] + 1]
        assert batch.reward[0, b] == compute_reward(achieved, goal, {})
        own = at.goal_time[0, b] == DESIRED and at.goal_slot[0, b] == at.slot[0, b]
        assert own or batch.terminated[0, b] == compute_terminated(achieved, goal, {})


def episodes_that(spec: GoalEnvSpec, terminated: bool, success: bool) -> Any:
    """Two episodes of 3 steps at places 0, 1, 2, 3, ended as said in the last step; the desired
    goal is 9."""
    episodes = random_episodes(np.random.default_rng(0), 2, spec.horizon, spec)
    achieved = np.tile(np.arange(spec.horizon + 1, dtype=np.float64)[None, :, None], (2, 1, 1))
    ends, successes = np.zeros((2, spec.horizon), np.bool_), np.zeros((2, spec.horizon), np.bool_)
    ends[:, 2], successes[:, 2] = terminated, success
    return replace(
        episodes,
        achieved_goal=achieved,
        desired_goal=np.full((2, 1), 9.0),
        terminated=ends,
        success=successes,
        length=np.full(2, 3),
    )


def read(replay: HindsightReplay, step: int, goal_time: int) -> tuple[float, float]:
    batch = replay._read(Addresses(*(np.array([[x]]) for x in (0, step, 0, goal_time))))
    return float(batch.reward[0, 0]), float(batch.terminated[0, 0])


def test_terminated_without_compute_terminated_follows_an_env_that_ends_on_success() -> None:
    replay = make_replay(LINE, ReplayConfig(buffer_size=100))
    replay.store(episodes_that(LINE, terminated=True, success=True))
    assert read(replay, 0, 1) == (0.0, 1.0)  # reaches the alternate goal: ends
    assert read(replay, 0, 2) == (-1.0, 0.0)
    assert read(replay, 2, 1) == (-1.0, 0.0)  # ended for the desired goal, not for this one
    assert read(replay, 2, DESIRED) == (-1.0, 1.0)  # as it happened


def test_a_failure_ends_the_episode_for_every_goal() -> None:
    replay = make_replay(LINE, ReplayConfig(buffer_size=100))
    replay.store(episodes_that(LINE, terminated=True, success=False))
    assert read(replay, 2, 1) == (-1.0, 1.0)
    assert read(replay, 0, 1) == (0.0, 0.0)  # success does not end this env


def test_a_penalty_for_failing_counts_for_every_goal() -> None:
    """The env gave -6 for the step in which it failed: -1 of the goal, -5 for that."""
    replay = make_replay(LINE, ReplayConfig(buffer_size=100))
    failing = episodes_that(LINE, terminated=True, success=False)
    failing.reward[:] = -1.0
    failing.reward[0, 2] = -6.0
    replay.store(failing)
    assert read(replay, 2, DESIRED) == (-6.0, 1.0)
    assert read(replay, 2, 1) == (-6.0, 1.0)  # the goal of then, not reached
    assert read(replay, 2, 3) == (-5.0, 1.0)  # reached, but it failed there
    assert read(replay, 1, 3) == (-1.0, 0.0)  # a step before, nothing had happened
    other = make_replay(LINE, ReplayConfig(buffer_size=100))
    other.restore_state(replay.export_state())
    assert read(other, 2, 3) == (-5.0, 1.0)


def test_truncation_is_not_termination() -> None:
    replay = make_replay(LINE, ReplayConfig(buffer_size=100))
    replay.store(episodes_that(LINE, terminated=False, success=False))
    assert all(read(replay, 2, time)[1] == 0.0 for time in (DESIRED, 1, 3))


def test_moved_episodes_fill_their_share_exactly_and_independently_of_relabelling() -> None:
    replay = make_replay(
        LINE,
        ReplayConfig(
            buffer_size=1000, moved_share=0.8, moved_threshold=0.5, replay_k=Schedule.parse(1)
        ),
    )
    still = episodes_that(LINE, terminated=False, success=False)
    replay.store(replace(still, achieved_goal=np.zeros_like(still.achieved_goal)))
    _, before = draw(replay, 2, 50, 0.0, np.random.default_rng(0))
    replay.store(still)  # achieved goals 0, 1, 2, 3: moved
    _, at = draw(replay, 20, 50, 0.0, np.random.default_rng(0))
    moved = at.slot >= 2
    assert set(before.slot.ravel()) == {0, 1}
    assert (moved.sum(axis=1) >= 40).all()
    relabelled = at.goal_time != DESIRED
    assert abs(moved[relabelled].mean() - moved[~relabelled].mean()) < 0.1


def test_achieved_goals_give_way_to_desired_goals_of_other_episodes() -> None:
    replay = make_replay(
        LINE, ReplayConfig(buffer_size=1000, replace_achieved=Schedule.parse(1.0), replay_k=ALL)
    )
    still = episodes_that(LINE, terminated=False, success=False)
    still = replace(
        still,
        achieved_goal=np.zeros_like(still.achieved_goal),
        desired_goal=np.array([[5.0], [6.0]]),
    )
    replay.store(still)
    batch, at = draw(replay, 1, 200, 0.0, np.random.default_rng(0))
    assert (at.goal_slot[0] == 1 - at.slot[0]).all()
    assert (at.goal_time == DESIRED).all()
    assert (batch.goal[0, :, 0] == np.where(at.slot[0] == 0, 6.0, 5.0)).all()


def test_more_episodes_than_fit_keeps_the_last() -> None:
    replay = make_replay(LINE, ReplayConfig(buffer_size=3 * LINE.horizon))
    replay.store(random_episodes(np.random.default_rng(0), 8, LINE.horizon, LINE))
    assert sorted(replay.storage.observation[:, 0, 0]) == [5, 6, 7]


def test_a_buffer_below_one_episode() -> None:
    with pytest.raises(HindsightError, match="smaller than one episode"):
        make_replay(LINE, ReplayConfig(buffer_size=5))


def test_schedules_follow_progress() -> None:
    config = ReplayConfig(
        buffer_size=1000,
        replay_k=Schedule.parse("linear(4, 0)"),
        replace_achieved=Schedule.parse("step(1, 0, 0.2)"),
    )
    replay = make_replay(LINE, config)
    still = episodes_that(LINE, terminated=False, success=False)
    replay.store(replace(still, achieved_goal=np.zeros_like(still.achieved_goal)))
    for progress, alternate, borrowed in ((0.0, 80, 80), (0.5, 67, 0), (1.0, 0, 0)):
        _, at = draw(replay, 1, 100, progress, np.random.default_rng(0))
        assert ((at.goal_time != DESIRED) | (at.goal_slot != at.slot)).sum() == alternate
        assert (at.goal_slot != at.slot).sum() == borrowed


def test_a_goal_rule_is_one_function_and_one_name(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(HindsightError, match=r"unknown replay\.goal_rule 'next'"):
        make_replay(LINE, ReplayConfig(goal_rule="next"))
    monkeypatch.setitem(RULES, "next", lambda slots, steps, lengths, rng: (slots, steps + 1))
    rng = np.random.default_rng(0)
    for chosen in ("sampled", "stored"):
        config = ReplayConfig(goal_rule="next", goals_chosen=chosen, buffer_size=8 * LINE.horizon)
        replay = make_replay(LINE, config)
        replay.push(replay.store(random_episodes(rng, 8, LINE.horizon, LINE), 0.0, rng), None)
        batch, at = draw(replay, 2, 100, 0.0, rng)
        alternate = at.alternate
        assert alternate.mean() > 0.5
        assert (at.goal_time[alternate] == at.step[alternate] + 1).all()
        assert (batch.reward[alternate] == 0.0).all()  # every step reaches what it reaches


def test_new_pairs_are_drawn_whatever_td_errors_they_come_with() -> None:
    """In uniform replay of stored goals, TD errors change nothing: least of all that a pair is
    there."""
    rng = np.random.default_rng(0)
    replay = make_replay(LINE, ReplayConfig(goals_chosen="stored"))
    pairs = replay.store(random_episodes(rng, 2, LINE.horizon, LINE), rng=rng)
    replay.push(pairs, TDErrors(np.zeros(len(pairs)), np.zeros(len(pairs))))
    drawn = replay.sample(4, 64, 0.0, rng).pairs
    assert drawn is not None
    assert set(drawn.ravel()) <= set(pairs)


def test_goals_of_other_episodes_are_not_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    rule = RULES["random"]
    rng = np.random.default_rng(0)
    monkeypatch.setitem(RULES, "borrowed", rule)
    replay = make_replay(LINE, ReplayConfig(goals_chosen="stored", goal_rule="borrowed"))
    with pytest.raises(HindsightError, match="goals of other episodes"):
        replay.store(random_episodes(rng, 8, LINE.horizon, LINE), rng=rng)


def test_how_close_counts_as_reached_is_learnt_from_a_dense_reward() -> None:
    """The env says that a distance of 2 is near enough, and that 3 is not."""
    spec = replace(
        LINE,
        success_reward=None,
        goal_reward=lambda a, d: -np.abs(a - d)[..., 0].astype(np.float32),
    )
    replay = make_replay(spec, ReplayConfig(buffer_size=100))
    near = replace(episodes_that(spec, True, True), desired_goal=np.full((2, 1), 5.0))
    replay.store(near)  # at places 1, 2, 3: the last is a success
    assert (replay.reached_from, replay.missed_until) == (-2.0, -3.0)
    assert read(replay, 0, 1) == (0.0, 1.0)
    assert read(replay, 0, 3) == (-2.0, 1.0)  # as close as the success was
    other = make_replay(spec, ReplayConfig(buffer_size=100))
    other.restore_state(replay.export_state())
    assert read(other, 0, 3) == (-2.0, 1.0)
    # A miss that was as close: the reward does not decide alone, and only exact hits count.
    replay.store(replace(episodes_that(spec, False, False), desired_goal=np.full((2, 1), 4.0)))
    assert (replay.reached_from, replay.missed_until) == (-2.0, -1.0)
    assert read(replay, 0, 3) == (-2.0, 0.0)
    assert read(replay, 0, 1) == (0.0, 1.0)
