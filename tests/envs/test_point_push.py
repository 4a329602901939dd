"""Point push: contact by hand; N envs and the JAX twin against the env; bounds of the optimum."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import gymnasium as gym
import jax
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from hindsight.collect import Collector, episode_seeds
from hindsight.envs.batch import LocalEnvs, make_batch
from hindsight.envs.contract import inspect
from hindsight.envs.jax_envs import JaxPointPush, in_jax
from hindsight.envs.make import factory
from hindsight.envs.point_push import PointPush, PointPushEnv, PointPushEnvs, expert, picture
from hindsight.episodes import Episodes
from hindsight.errors import HindsightError
from hindsight.types import Array, Floats

ID = "hindsight/PointPush-v0"
TASK = PointPush()
HORIZON = 50


def starts(n: int, seed: int = 0) -> tuple[Array, Array]:
    uniform = np.random.default_rng(seed).random((n, 6), np.float32)
    states, goals = zip(*map(TASK.start, uniform), strict=True)
    return np.stack(states), np.stack(goals)


def state(*numbers: float) -> Array:
    return np.array(numbers, np.float32)


def guided(observation: Floats, goal: Floats) -> Array:
    """The expert with a wobble that depends on what it sees: it touches, pushes and slips."""
    action = expert(TASK, observation, goal) + 0.5 * np.sin(40 * observation[:, :2])
    return action.astype(np.float32)


def test_gymnasium_finds_no_fault_and_the_contract_holds() -> None:
    check_env(PointPushEnv(), skip_render_check=True)
    spec = inspect(gym.make(ID), ID)
    assert spec.horizon == HORIZON
    assert spec.rewards == (-1.0, 0.0)
    assert spec.goal_terminated is not None
    assert not spec.goal_terminated(np.zeros((3, 2)), np.zeros((3, 2))).any()


def test_a_push_by_hand() -> None:
    # They touch at a distance of 0.16. The point comes to -0.15: the disc has to give way by 0.01.
    after = TASK.step(state(-0.2, 0, 0, 0), state(1, 0))
    np.testing.assert_allclose(after, [-0.15, 0, 0.01, 0], atol=1e-7)
    # Not touched, it stands still; let go, it stops at once.
    np.testing.assert_array_equal(TASK.step(after, state(-1, 0))[2:], after[2:])
    # Off the middle by 0.096 = 0.6 x 0.16: away along the line of centres, (0.8, 0.6).
    overlap = 0.16 - np.hypot(0.1, 0.096)
    along = np.array([0.1, 0.096]) / np.hypot(0.1, 0.096)
    after = TASK.step(state(-0.15, -0.096, 0, 0), state(1, 0))
    np.testing.assert_allclose(after[2:], overlap * along, atol=1e-7)


def test_an_unsteady_push_slips_off_sideways() -> None:
    now = state(-0.2, -0.03, 0, 0)
    for _ in range(15):
        now = TASK.step(now, state(1, 0))
    assert now[0] > now[2]  # the point has passed the disc
    assert now[3] > 0.1


def test_the_point_stays_on_the_table_and_the_disc_may_leave_it() -> None:
    now = state(0.7, 0, 0.9, 0)
    for _ in range(20):
        now = TASK.step(now, state(1, 0))
    np.testing.assert_allclose(now, [1, 0, 1 + TASK.reach, 0], atol=1e-6)
    assert PointPushEnv().observation_space["achieved_goal"].contains(now[2:])


coordinates = arrays(np.float32, 2, elements=st.floats(-1, 1, width=32))


@given(coordinates, coordinates, arrays(np.float32, (30, 2), elements=st.floats(-1, 1, width=32)))
def test_point_and_disc_never_overlap_and_only_touching_moves_the_disc(
    point: Array, disc: Array, actions: Array
) -> None:
    now = np.concatenate([point, disc])
    if np.hypot(*(disc - point)) < TASK.reach:
        return
    for action in actions:
        after = TASK.step(now, action)
        distance = np.hypot(*(after[2:] - after[:2]))
        assert distance > TASK.reach - 1e-6
        moved = np.hypot(*(after[2:] - now[2:]))
        assert moved == 0 or distance < TASK.reach + 1e-6
        assert moved <= np.hypot(*(after[:2] - now[:2])) + 1e-6
        now = after


def test_starts() -> None:
    first, goal = starts(2000)
    point, disc = first[:, :2], first[:, 2:]
    assert (np.abs(disc) <= TASK.disc_range).all()
    assert (np.abs(point) <= 1).all()
    assert (np.abs(goal) <= 1).all()
    for distance, (low, high) in (
        (np.hypot(*(point - disc).T), TASK.point_distance),
        (np.hypot(*(goal - disc).T), TASK.goal_distance),
    ):
        assert low - 1e-6 < distance.min() < low + 0.01
        assert high - 0.01 < distance.max() < high + 1e-6
    assert not TASK.reached(disc, goal).any()


def test_random_actions_seldom_touch_the_disc_and_hardly_ever_succeed() -> None:
    rng = np.random.default_rng(1)
    first, goal = starts(4000)
    now = first
    for _ in range(HORIZON):
        now = TASK.step(now, rng.uniform(-1, 1, (len(now), 2)).astype(np.float32))
    assert 0.1 < (now != first)[:, 2:].any(axis=1).mean() < 0.2
    assert TASK.reached(TASK.achieved(now), goal).mean() < 0.005


def test_the_expert_always_succeeds_in_about_14_steps() -> None:
    now, goal = starts(4000)
    # No policy is faster than straight to the disc and straight on, at full speed in both
    # directions.
    to_disc = np.hypot(*(now[:, 2:] - now[:, :2]).T) - TASK.reach
    to_goal = np.hypot(*(goal - now[:, 2:]).T) - TASK.threshold
    fastest = np.ceil((to_disc + to_goal) / (np.sqrt(2) * TASK.speed) - 1e-3)
    reached_at = np.full(len(now), HORIZON)
    for t in range(1, HORIZON + 1):
        now = TASK.step(now, expert(TASK, TASK.observe(now), goal).astype(np.float32))
        reached = TASK.reached(TASK.achieved(now), goal)
        reached_at = np.where(reached, np.minimum(reached_at, t), reached_at)
    assert reached.all()
    assert (reached_at >= fastest).all()
    assert fastest.mean() == pytest.approx(7.7, abs=0.3)
    assert reached_at.mean() == pytest.approx(14.3, abs=0.3)
    assert reached_at.max() < HORIZON


def same(a: Episodes, b: Episodes) -> None:
    for field in fields(Episodes):
        np.testing.assert_array_equal(getattr(a, field.name), getattr(b, field.name))


@pytest.mark.parametrize("kwargs", [{}, {"threshold": 0.02, "speed": 0.1}])
def test_n_envs_are_the_single_ones_bit_for_bit(kwargs: dict[str, Any]) -> None:
    make_env = factory(ID, kwargs)
    spec = inspect(make_env(), ID)
    seeds = episode_seeds(0, 0, 0, 37)  # rounds of unequal size
    arrays = make_batch(make_env, spec, 16)
    assert isinstance(arrays, PointPushEnvs)
    single = LocalEnvs(make_env, 3, spec.horizon)
    ours, theirs = (Collector(envs, spec).collect(guided, seeds) for envs in (arrays, single))
    same(ours, theirs)
    assert (ours.length == HORIZON).all()
    assert not ours.terminated.any()
    assert (ours.achieved_goal != ours.achieved_goal[:, :1]).any(axis=(1, 2)).mean() > 0.5
    assert ours.success.any()


def test_what_is_changed_by_a_wrapper_or_a_subclass_is_not_put_into_arrays() -> None:
    class Slower(PointPushEnv):
        def step(self, action: Any) -> Any:
            return super().step(0.5 * action)

    def wrapped() -> Any:
        return gym.wrappers.TransformAction(gym.make(ID), lambda a: 0.5 * a, None)

    for make_env in (lambda: Slower(), wrapped):
        spec = inspect(make_env(), "slower", HORIZON)
        assert isinstance(make_batch(make_env, spec, 2), LocalEnvs)


def test_the_jax_twin_agrees() -> None:
    twin = JaxPointPush(TASK)
    uniform = np.random.default_rng(2).random((200, 6), np.float32)
    now, goal = starts(200, seed=2)
    np.testing.assert_allclose(jax.vmap(TASK.start)(uniform)[0], now, atol=1e-6)
    np.testing.assert_allclose(jax.vmap(TASK.start)(uniform)[1], goal, atol=1e-6)
    step = jax.jit(jax.vmap(twin.step, in_axes=(0, 0, None)))
    judge = jax.jit(lambda state: twin.reached(twin.achieved(state), goal))
    key, moved, reached = jax.random.key(0), [], []
    for _ in range(HORIZON):
        action = guided(TASK.observe(now), goal)
        after = TASK.step(now, action)
        theirs = step(now, action, key)
        np.testing.assert_allclose(theirs, after, atol=1e-6)
        np.testing.assert_allclose(twin.observe(theirs), TASK.observe(after), atol=2e-6)
        moved.append((after != now)[:, 2:].any(axis=1))
        reached.append(TASK.reached(TASK.achieved(after), goal))
        np.testing.assert_array_equal(judge(after), reached[-1])
        now = after
    for happened in (moved, reached):
        assert 0.1 < np.mean(happened) < 0.9


def test_the_jax_twin_starts_like_the_env_and_waits_for_a_loop_that_can_use_it() -> None:
    first, goal = jax.vmap(JaxPointPush(TASK).reset)(jax.random.split(jax.random.key(0), 500))
    distance = np.hypot(*np.asarray(goal - first[:, 2:]).T)
    assert TASK.goal_distance[0] - 1e-6 < distance.min()
    assert distance.max() < TASK.goal_distance[1] + 1e-6
    assert in_jax(gym.make(ID)) is None


def test_a_restored_env_goes_on_in_the_same_way() -> None:
    env, other = PointPushEnv(), PointPushEnv()
    env.reset(seed=3)
    env.step(state(1, 0.5))
    saved = env.export_state()
    other.reset(seed=4)
    other.restore_state(saved)
    for move in (lambda e: e.step(state(0.3, -1))[0], lambda e: e.reset()[0]):
        ours, theirs = move(env), move(other)
        for key in ours:
            np.testing.assert_array_equal(theirs[key], ours[key])


def test_the_picture_shows_point_disc_and_goal() -> None:
    env: Any = gym.make(ID, render_mode="rgb_array")
    env.reset(seed=0)
    assert env.render().shape == (480, 480, 3)
    image = picture(TASK, state(-0.5, 0, 0, 0), state(0.5, 0.5), size=201)
    assert image.dtype == np.uint8
    scale = 100 / (1 + 2 * TASK.disc_radius)

    def colour(x: float, y: float) -> tuple[int, ...]:
        return tuple(image[round(100 - y * scale), round(100 + x * scale)])

    places = [colour(-0.5, 0), colour(0, 0), colour(0.5, 0.5), colour(0.5, -0.5), colour(1.2, 1.2)]
    assert len(set(places)) == 5  # point, disc, goal, table, margin
    assert colour(0.5 + TASK.threshold, 0.5) == colour(0.5, 0.5)


def test_ranges_may_come_from_json() -> None:
    assert PointPushEnv(point_distance=[0.3, 0.5]).task == TASK


@pytest.mark.parametrize(
    "kwargs",
    [
        {"speed": 0.2},
        {"threshold": 0},
        {"threshold": "wide"},
        {"point_distance": 0.4},
        {"goal_distance": (0.5, 0.2)},
        {"point_distance": (0.1, 0.5)},
        {"disc_range": 0.6},
        {"mass": 1},
    ],
)
def test_bad_settings(kwargs: dict[str, Any]) -> None:
    with pytest.raises(HindsightError):
        PointPushEnv(**kwargs)
