"""The gap of Appendix D: against brute force, and of the order that theory says."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from hindsight.envs.bit_flip import BitFlipEnv
from hindsight.envs.rooms import RoomsEnv
from hindsight.errors import HindsightError
from hindsight.lab.bound import Tables, compare, deterministic_tables
from hindsight.types import Array


def random_policy(world: Tables, rng: np.random.Generator) -> Array:
    logits = rng.normal(size=(len(world.goal), *world.after.shape))
    chance = np.exp(logits)
    return chance / chance.sum(axis=-1, keepdims=True)


def mean_return(world: Tables, policy: Array) -> float:
    """By enumerating all sequences of actions."""
    total = 0.0
    for g, goal in enumerate(world.goal):
        for actions in itertools.product(range(world.after.shape[1]), repeat=world.horizon):
            state, chance, reward = 0, 1.0, 0.0
            for t, action in enumerate(actions):
                chance *= policy[g, state, action]
                state = world.after[state, action]
                if state == goal:
                    reward = (world.horizon - t) / world.horizon
                    chance /= world.after.shape[1] ** (
                        world.horizon - 1 - t
                    )  # the rest of the sequence does not matter
                    break
            total += chance * reward
    return total / len(world.goal)


def test_gain_is_the_difference_of_mean_returns() -> None:
    world = deterministic_tables(BitFlipEnv(bits=3), 3)
    rng = np.random.default_rng(0)
    old, new = random_policy(world, rng), random_policy(world, rng)
    expected = mean_return(world, new) - mean_return(world, old)
    assert compare(world, old, new).gain == pytest.approx(expected, abs=1e-9)


def test_the_same_policy_has_no_gap() -> None:
    world = deterministic_tables(RoomsEnv("empty"), 4)
    policy = random_policy(world, np.random.default_rng(1))
    assert np.abs(compare(world, policy, policy)).max() < 1e-12


def test_orders_of_the_errors() -> None:
    world = deterministic_tables(BitFlipEnv(bits=3), 3)
    rng = np.random.default_rng(2)
    old, other = random_policy(world, rng), random_policy(world, rng)
    gaps, corrected = [], []
    for share in (1e-3, 5e-4):
        found = compare(world, old, (1 - share) * old + share * other)
        gaps.append(found.gap)
        corrected.append(found.corrected - found.gain)
    assert corrected[0] / corrected[1] == pytest.approx(
        4.0, rel=0.05
    )  # second order: TRPO's own theory
    assert gaps[0] / gaps[1] == pytest.approx(
        2.0, rel=0.05
    )  # first order: states of another goal are no small error


def test_other_envs_are_refused() -> None:
    for env in (BitFlipEnv(bits=9), RoomsEnv("empty", slip=0.1)):
        with pytest.raises(HindsightError, match="bit flip"):
            deterministic_tables(env, 5)
