"""Mean return, values and gradient of a policy, by enumerating states and goals.

An env becomes `Tables`, and a policy a table of the probabilities of its actions [G, S, A]. Returns
are those of `agents/goal_batch.py`: reaching the goal with step t of T is worth (T - t) / T, and
ends the episode.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from hindsight.agents.policy_gradient import PolicyGradient
from hindsight.envs.bit_flip import BitFlipEnv
from hindsight.envs.rooms import MOVES, RoomsEnv
from hindsight.errors import HindsightError
from hindsight.networks import Params
from hindsight.normalizer import Scale
from hindsight.types import Array, Floats, Floats64, Ints, Tensor


@dataclass(frozen=True)
class Tables:
    """A goal env whose goals are states: S states, A actions, G goals."""

    position: Array  # [S, d] what is observed
    after: Ints  # [S, A] the next state
    start: Floats64  # [S] probabilities
    goal: Ints  # [G] states, all equally likely
    horizon: int
    slip: float = 0.0  # how often a random action takes the place of the chosen one

    @property
    def chance(self) -> Floats64:
        """Probabilities of the next states [S, A, S], slips included."""
        chosen: Floats64 = np.eye(len(self.after))[self.after]
        random: Floats64 = chosen.mean(axis=1, keepdims=True)
        return (1.0 - self.slip) * chosen + self.slip * random

    def pairs(self) -> tuple[Floats, Floats]:
        """Position and goal [G, S, d] of every state under every goal."""
        position: Floats = self.position.astype(np.float32)
        shape = (len(self.goal), *position.shape)
        return np.broadcast_to(position, shape), np.broadcast_to(
            position[self.goal][:, None], shape
        )


def enumerated(env: Any, horizon: int) -> Tables:
    """The tables of a bit flip or rooms env."""
    if isinstance(env, BitFlipEnv) and env.bits <= 8 and not env.random_start:
        states = np.arange(2**env.bits)
        position = (states[:, None] >> np.arange(env.bits)) & 1
        after = states[:, None] ^ (1 << np.arange(env.bits))
        return Tables(position, after, np.eye(len(states))[0], states, horizon)
    if isinstance(env, RoomsEnv):
        number = {tuple(cell): i for i, cell in enumerate(env.cells)}
        after = np.array(
            [[number[tuple(env.after(cell, m))] for m in range(len(MOVES))] for cell in env.cells]
        )
        start = np.zeros(len(env.cells))
        start[[number[tuple(cell)] for cell in env.starts]] = 1 / len(env.starts)
        goal = np.array([number[tuple(cell)] for cell in env.goals])
        return Tables(env.cells, after, start, goal, horizon, env.slip)
    raise HindsightError(
        "only bit flip (up to 8 bits, zero at the start) and rooms can be enumerated"
    )


def log_policy(world: Tables, agent: PolicyGradient, scale: Scale, policy: Params) -> Tensor:
    """Log-probabilities of a categorical policy [G, S, A], in every state under every goal."""
    return agent.distribution(policy, agent.inputs(scale, *world.pairs()))


def values(world: Tables, policy: Tensor) -> Tensor:
    """V(s, g, t) [T+1, G, S] of a policy [G, S, A], with t steps taken; 0 after the last one."""
    moves = jnp.einsum("gsa,san->gsn", policy, jnp.asarray(world.chance, jnp.float32))
    reached = jnp.arange(len(world.position)) == world.goal[:, None]  # [G, S]

    def step(later: Tensor, worth: Tensor) -> tuple[Tensor, Tensor]:
        now = jnp.einsum("gsn,gn->gs", moves, jnp.where(reached, worth, later))
        return now, now

    worth = (
        jnp.arange(1, world.horizon + 1) / world.horizon
    )  # of reaching the goal, from the last step back
    end = jnp.zeros(reached.shape)
    _, found = jax.lax.scan(step, end, worth)
    return jnp.concatenate([found[::-1], end[None]])


def mean_return(world: Tables, policy: Tensor) -> Tensor:
    """The mean return [] of a policy [G, S, A] over starts and goals. Its derivative is the
    exact policy gradient."""
    return jnp.mean(values(world, policy)[0] @ jnp.asarray(world.start, jnp.float32))


def greedy(policy: Tensor) -> Tensor:
    """The policy that takes the likeliest action of this one [G, S, A] (or of its logs)."""
    return jax.nn.one_hot(jnp.argmax(policy, axis=-1), policy.shape[-1])
