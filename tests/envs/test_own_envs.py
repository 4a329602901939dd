from __future__ import annotations

import warnings
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import hindsight  # noqa: F401
from hindsight.envs.bit_flip import BitFlipEnv
from hindsight.envs.rooms import RoomsEnv
from hindsight.errors import HindsightError

OURS = ["hindsight/BitFlip-v0", "hindsight/EmptyRoom-v0", "hindsight/FourRooms-v0"]


@pytest.mark.parametrize("env_id", OURS)
def test_gymnasium_finds_no_fault(env_id: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        check_env(gym.make(env_id).unwrapped, skip_render_check=True)


@pytest.mark.parametrize("env_id", OURS)
def test_contract_to_the_letter(env_id: str) -> None:
    env = gym.make(env_id)
    rng = np.random.default_rng(0)
    for seed in range(30):
        observation, info = env.reset(seed=seed)
        terminated = truncated = False
        while not (terminated or truncated):
            observation, reward, terminated, truncated, info = env.step(
                int(rng.integers(env.action_space.n))
            )  # type: ignore[attr-defined]
            assert observation in env.observation_space
            achieved, desired = observation["achieved_goal"], observation["desired_goal"]
            unwrapped: Any = env.unwrapped
            assert reward == unwrapped.compute_reward(achieved, desired, info)
            assert terminated == unwrapped.compute_terminated(achieved, desired, info)
            assert info["is_success"] == terminated == (reward == 0)


@pytest.mark.parametrize("env_id", OURS)
def test_rewards_are_vectorised_and_equal_the_single_ones(env_id: str) -> None:
    env: Any = gym.make(env_id).unwrapped
    rng = np.random.default_rng(0)
    a, d = (
        np.stack([env.observation_space["achieved_goal"].sample() for _ in range(50)]).round()
        for _ in range(2)
    )
    d[::3] = a[::3]
    rewards = env.compute_reward(a, d, {})
    assert rewards.shape == (50,)
    assert (rewards == [env.compute_reward(x, y, {}) for x, y in zip(a, d, strict=True)]).all()
    assert (rewards[::3] == 0).all()
    del rng


def test_bit_flip_starts_at_zero_flips_one_bit_and_lasts_n_steps() -> None:
    env = BitFlipEnv(bits=5)
    observation, _ = env.reset(seed=3)
    assert not observation["observation"].any()
    env._goal = np.array([1, 1, 1, 1, 1], np.int8)
    for bit in range(5):
        before = observation["observation"]
        observation, reward, terminated, truncated, _ = env.step(np.int64(bit))
        assert (before != observation["observation"]).sum() == 1
        assert truncated == (bit == 4)
    assert terminated
    assert reward == 0


def test_bit_flip_a_goal_equal_to_the_start_must_be_reached_again() -> None:
    env = BitFlipEnv(bits=3)
    env.reset(seed=0)
    env._goal = np.zeros(3, np.int8)
    assert not env.step(np.int64(0))[2]
    assert env.step(np.int64(0))[2]


def best_mean_return(env: RoomsEnv, horizon: int) -> float:
    """By dynamic programming: the best mean of (number of states) - (actions until the goal)."""
    number = {tuple(cell): i for i, cell in enumerate(env.cells)}
    after = np.array(
        [[number[tuple(env.after(cell, move))] for move in range(4)] for cell in env.cells]
    )
    at_goal = np.eye(len(env.cells), dtype=bool)
    value = np.zeros(at_goal.shape)  # [cell, goal]
    for actions in range(horizon, 0, -1):
        outcome = np.where(at_goal, horizon + 1 - actions, value)[after]
        value = ((1 - env.slip) * outcome + env.slip * outcome.mean(axis=1, keepdims=True)).max(
            axis=1
        )
    starts = [number[tuple(cell)] for cell in env.starts]
    goals = [number[tuple(cell)] for cell in env.goals]
    return float(value[np.ix_(starts, goals)].mean())


@pytest.mark.parametrize(
    ("env_id", "cells", "best"),
    [("hindsight/EmptyRoom-v0", 121, 21.92), ("hindsight/FourRooms-v0", 104, 18.84)],
)
def test_rooms_have_the_published_optimum(env_id: str, cells: int, best: float) -> None:
    env: Any = gym.make(env_id)
    assert len(env.unwrapped.cells) == cells
    assert best_mean_return(env.unwrapped, env.spec.max_episode_steps) == pytest.approx(
        best, abs=0.005
    )


def test_walls_stop_and_slips_happen() -> None:
    env = RoomsEnv("four_rooms")
    assert (env.after(np.array([0, 4]), 3) == [0, 4]).all()
    assert (env.after(np.array([2, 4]), 3) == [2, 5]).all()
    assert (env.after(np.array([0, 0]), 0) == [0, 0]).all()
    slippery = RoomsEnv("empty", slip=1.0)
    slippery.reset(seed=0)
    slippery._goal = np.array([10, 10])
    rows = [slippery.step(np.int64(3))[0]["observation"][0] for _ in range(30)]
    assert max(rows) > 0


@pytest.mark.parametrize(
    "make", [lambda: BitFlipEnv(0), lambda: RoomsEnv("round"), lambda: RoomsEnv(slip=2)]
)
def test_bad_arguments(make: Any) -> None:
    with pytest.raises(HindsightError):
        make()


@pytest.mark.parametrize("env_id", OURS)
def test_pictures(env_id: str) -> None:
    env = gym.make(env_id, render_mode="rgb_array")
    env.reset(seed=0)
    image: Any = env.render()
    assert image.dtype == np.uint8
    assert image.ndim == 3
    assert len(np.unique(image.reshape(-1, 3), axis=0)) >= 3
