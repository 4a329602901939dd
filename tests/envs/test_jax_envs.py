"""The envs in JAX follow the Gymnasium envs rule by rule."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import jax
import numpy as np
import pytest

from conftest import LineEnv
from hindsight.agents.goal_batch import hindsight_goals, own_goals
from hindsight.agents.hpg import HPGConfig
from hindsight.agents.registry import make_on_policy_agent
from hindsight.envs.contract import inspect
from hindsight.envs.jax_envs import JaxBitFlip, JaxRooms, in_jax
from hindsight.envs.rooms import RoomsEnv
from hindsight.episodes import Episodes
from hindsight.training.in_jax import as_pursued, fixed_scale, in_hindsight, play


def test_which_envs_have_a_twin() -> None:
    assert in_jax(gym.make("hindsight/BitFlip-v0", bits=5)) == JaxBitFlip(5)
    assert isinstance(in_jax(gym.make("hindsight/FourRooms-v0")), JaxRooms)
    assert in_jax(LineEnv()) is None
    assert (
        in_jax(gym.wrappers.TransformReward(gym.make("hindsight/BitFlip-v0"), lambda r: r)) is None
    )


def test_bit_flip_flips_one_bit_and_starts_alike() -> None:
    env = JaxBitFlip(5)
    position, goal = jax.vmap(env.reset)(jax.random.split(jax.random.key(0), 400))
    assert not np.asarray(position).any()
    assert abs(np.asarray(goal).mean() - 0.5) < 0.03
    np.testing.assert_array_equal(
        env.step(goal[0], 3, None), np.where(np.arange(5) == 3, 1 - goal[0], goal[0])
    )
    start, _ = jax.vmap(JaxBitFlip(5, True).reset)(jax.random.split(jax.random.key(0), 400))
    assert abs(np.asarray(start).mean() - 0.5) < 0.03


@pytest.mark.parametrize("layout", ["empty", "four_rooms"])
def test_rooms_move_alike(layout: str) -> None:
    env = RoomsEnv(layout, random_corner=True)
    twin = JaxRooms(env)
    moves = [(cell, move) for cell in env.cells for move in range(4)]
    expected = np.array([env.after(cell, move) for cell, move in moves])
    cells, actions = np.float32([cell for cell, _ in moves]), np.array([move for _, move in moves])
    keys = jax.random.split(jax.random.key(0), len(moves))
    np.testing.assert_array_equal(jax.jit(jax.vmap(twin.step))(cells, actions, keys), expected)
    start, goal = jax.jit(jax.vmap(twin.reset))(jax.random.split(jax.random.key(1), 4000))
    assert {tuple(x) for x in np.asarray(start)} == {
        tuple(x) for x in env.starts.astype(np.float32)
    }
    assert {tuple(x) for x in np.asarray(goal)} == {tuple(x) for x in env.goals.astype(np.float32)}


def test_slips_are_as_frequent() -> None:
    twin = JaxRooms(RoomsEnv("empty", slip=0.2))
    keys = jax.random.split(jax.random.key(0), 4000)
    after = np.asarray(jax.vmap(twin.step, in_axes=(None, None, 0))(np.float32([5, 5]), 0, keys))
    assert (after == [4, 5]).all(axis=1).mean() == pytest.approx(0.85, abs=0.02)
    assert (after == [6, 5]).all(axis=1).mean() == pytest.approx(0.05, abs=0.02)


@pytest.mark.parametrize(
    ("env_id", "slip"), [("hindsight/BitFlip-v0", 0), ("hindsight/EmptyRoom-v0", 0)]
)
def test_episodes_and_relabelled_batches_agree_with_gymnasium(env_id: str, slip: int) -> None:
    gym_env: Any = gym.make(env_id)
    spec = inspect(gym_env, env_id)
    twin = in_jax(gym_env)
    assert twin is not None
    agent = make_on_policy_agent(HPGConfig(net_arch=(8,)), spec)
    state = agent.init(jax.random.key(0))
    keys = jax.random.split(jax.random.key(2), 12)
    played = play(twin, agent, state.policy, fixed_scale(twin, spec), spec.horizon, keys)
    arrays = {name: np.asarray(value) for name, value in played.items()}

    # Replay the same actions in Gymnasium.
    lengths, rewards = [], np.zeros((12, spec.horizon), np.float32)
    for n in range(12):
        gym_env.reset(seed=n)
        inner = gym_env.unwrapped
        inner._goal = arrays["goal"][n].astype(inner._goal.dtype)
        ended, t = False, 0
        while not ended:
            observation, reward, terminated, truncated, _ = gym_env.step(arrays["action"][n, t])
            rewards[n, t], ended, t = reward, terminated or truncated, t + 1
            np.testing.assert_array_equal(observation["observation"], arrays["observation"][n, t])
        lengths.append(t)
        assert terminated == arrays["success"][n]
    assert lengths == arrays["length"].tolist()

    episodes = Episodes(
        arrays["observation"],
        arrays["observation"].astype(spec.goal_dtype),
        arrays["goal"].astype(spec.goal_dtype),
        arrays["action"],
        rewards,
        arrays["reached"],
        arrays["reached"],
        arrays["length"].astype(np.int64),
        arrays["log_prob"],
    )
    plain = in_hindsight(played, 10, jax.random.key(3))
    goals = np.asarray(plain.goal)[:, 0].astype(spec.goal_dtype)
    for pursued in (False, True):
        in_jax_batch = in_hindsight(played, 10, jax.random.key(3), pursued)
        in_numpy = hindsight_goals(episodes, goals, np.asarray(plain.used), spec, True, pursued)
        assert np.asarray(in_jax_batch.was_pursued).sum() == pursued * len(episodes)
        for name, ours, theirs in zip(in_numpy._fields, in_numpy, in_jax_batch, strict=True):
            np.testing.assert_array_equal(ours, theirs, err_msg=name)
    for name, ours, theirs in zip(
        in_numpy._fields, own_goals(episodes, spec, True), as_pursued(played), strict=True
    ):
        np.testing.assert_array_equal(ours, theirs, err_msg=name)


def test_chosen_goals_are_different_achieved_ones() -> None:
    spec = inspect(gym.make("hindsight/BitFlip-v0", bits=3), "x")
    agent = make_on_policy_agent(HPGConfig(net_arch=(8,)), spec)
    policy = agent.init(jax.random.key(0)).policy
    twin = JaxBitFlip(3)
    keys = jax.random.split(jax.random.key(2), 4)
    played = play(twin, agent, policy, fixed_scale(twin, spec), 3, keys)
    batch = in_hindsight(played, 0, jax.random.key(3))
    used = np.asarray(batch.used)
    goals = {tuple(goal) for goal in np.asarray(batch.goal)[used, 0]}
    assert len(goals) == used.sum()
    real = np.arange(3) < np.asarray(played["length"])[:, None]
    assert goals == {tuple(x) for x in np.asarray(played["observation"])[:, 1:][real]}
    assert np.asarray(batch.hit)[used].any(axis=(1, 2)).all()
