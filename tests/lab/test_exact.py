"""Exact returns, values, gradients: by brute force, simulation, the policy gradient theorem."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from conftest import LineEnv
from hindsight.agents.hpg import HPGConfig
from hindsight.agents.registry import make_on_policy_agent
from hindsight.envs.bit_flip import BitFlipEnv
from hindsight.envs.contract import inspect
from hindsight.envs.jax_envs import JaxRooms
from hindsight.envs.make import make
from hindsight.envs.rooms import RoomsEnv
from hindsight.errors import HindsightError
from hindsight.lab.bound import compare
from hindsight.lab.exact import Tables, enumerated, greedy, log_policy, mean_return, values
from hindsight.training.in_jax import evaluation_of, fixed_scale, play
from hindsight.types import Array

# Three cells in a row, left or right, walls at both ends; starts in the first or the second, goals
# are the others.
LINE = Tables(
    np.arange(3)[:, None],
    np.array([[0, 1], [0, 2], [1, 2]]),
    np.array([0.25, 0.75, 0.0]),
    np.array([2, 1]),
    4,
    0.3,
)


def random_logits(world: Tables, seed: int) -> Array:
    return (
        np.random.default_rng(seed)
        .normal(size=(len(world.goal), *world.after.shape))
        .astype(np.float32)
    )


def by_brute_force(world: Tables, policy: Array, goal: int, state: int, t: int) -> float:
    """The mean return of what follows, by trying every action and every slip."""
    if t == world.horizon:
        return 0.0
    total, actions = 0.0, world.after.shape[1]
    for action in range(actions):
        for move in range(actions):
            chance = world.slip / actions + (1.0 - world.slip) * (move == action)
            after = world.after[state, move]
            reached = after == world.goal[goal]
            worth = (
                (world.horizon - t) / world.horizon
                if reached
                else by_brute_force(world, policy, goal, after, t + 1)
            )
            total += policy[goal, state, action] * chance * worth
    return total


def test_values_and_mean_return_against_brute_force() -> None:
    policy = np.asarray(jax.nn.softmax(random_logits(LINE, 0)))
    value = np.asarray(values(LINE, policy))
    assert value.shape == (5, 2, 3)
    for t, g, s in np.ndindex(value.shape):
        assert value[t, g, s] == pytest.approx(by_brute_force(LINE, policy, g, s, t), abs=1e-6)
    expected = np.mean([0.25 * value[0, g, 0] + 0.75 * value[0, g, 1] for g in range(2)])
    assert float(mean_return(LINE, policy)) == pytest.approx(expected, abs=1e-6)


def test_slips_by_hand() -> None:
    # To the right from the first cell: 0.7 surely, and half of the 0.3 that slip.
    np.testing.assert_allclose(LINE.chance[0, 1], [0.15, 0.85, 0.0])
    np.testing.assert_allclose(LINE.chance.sum(axis=-1), 1.0)


def test_the_gain_of_the_bound_is_the_difference_of_mean_returns() -> None:
    world = enumerated(BitFlipEnv(bits=4), 4)
    old, new = (np.asarray(jax.nn.softmax(random_logits(world, seed))) for seed in (1, 2))
    gain = float(mean_return(world, new) - mean_return(world, old))
    assert compare(world, old, new).gain == pytest.approx(gain, abs=1e-6)


@pytest.mark.parametrize("deterministic", [False, True])
def test_mean_return_against_simulation_on_four_rooms(deterministic: bool) -> None:
    env = make("hindsight/FourRooms-v0")
    spec = inspect(env)
    assert isinstance(env.unwrapped, RoomsEnv)
    twin = JaxRooms(env.unwrapped)
    agent = make_on_policy_agent(HPGConfig(net_arch=(16,)), spec)
    world, scale = enumerated(env.unwrapped, spec.horizon), fixed_scale(twin, spec)
    assert (len(world.position), len(world.goal), world.slip) == (104, 100, 0.2)
    # Far from uniform, so that goals matter.
    policy = jax.tree.map(lambda x: 100.0 * x, agent.init(jax.random.key(0)).policy)
    log_pi = log_policy(world, agent, scale, policy)
    exact = mean_return(world, greedy(log_pi) if deterministic else jnp.exp(log_pi))
    keys = jax.random.split(jax.random.key(1), 8000)
    played = play(twin, agent, policy, scale, spec.horizon, keys, greedy=deterministic)
    _, simulated = evaluation_of(played["success"], played["length"], spec.horizon)
    assert simulated == pytest.approx(spec.horizon * float(exact), abs=0.3)


def test_its_derivative_is_the_policy_gradient_theorem() -> None:
    """d J / d logits = mean over goals of sum over steps of P(s_t) pi(a|s) (Q_t(s, a) - V_t(s))."""
    logits = random_logits(LINE, 3)
    gradient = jax.grad(lambda x: mean_return(LINE, jax.nn.softmax(x)))(logits)
    policy, value = (
        np.asarray(jax.nn.softmax(logits)),
        np.asarray(values(LINE, jax.nn.softmax(logits))),
    )
    expected = np.zeros_like(logits)
    for g, goal in enumerate(LINE.goal):
        there = LINE.start.copy()  # and not done
        for t in range(LINE.horizon):
            follows = np.where(
                np.arange(3) == goal, (LINE.horizon - t) / LINE.horizon, value[t + 1, g]
            )
            advantage = LINE.chance @ follows - value[t, g][:, None]
            expected[g] += there[:, None] * policy[g] * advantage / len(LINE.goal)
            there = np.einsum("s,sa,san->n", there, policy[g], LINE.chance)
            there[goal] = 0.0
    np.testing.assert_allclose(gradient, expected, atol=1e-6)


def test_other_envs_are_refused() -> None:
    for env in (BitFlipEnv(bits=9), BitFlipEnv(bits=3, random_start=True), LineEnv()):
        with pytest.raises(HindsightError, match="can be enumerated"):
            enumerated(env, 5)
