"""Bit flip, rooms and point push in JAX, for trainings that never leave it. They follow the
Gymnasium envs of this package rule by rule; only the random numbers come from elsewhere.

In the first two, what is observed is what is achieved: a position, as a float32 vector. Reaching
the goal ends an episode.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import jax
import jax.numpy as jnp
import numpy as np

from hindsight.envs.bit_flip import BitFlipEnv
from hindsight.envs.make import Env, unwrapped
from hindsight.envs.point_push import PointPush
from hindsight.envs.rooms import MOVES, RoomsEnv
from hindsight.types import Tensor


class JaxEnv(Protocol):
    """One episode at a time, as pure functions; `jax.vmap` makes many."""

    def reset(self, key: Tensor) -> tuple[Tensor, Tensor]:
        """The first position [d] and the goal [d]."""

    def step(self, position: Tensor, action: Tensor, key: Tensor) -> Tensor:
        """The next position [d]."""

    @property
    def scale(self) -> tuple[float, float]:
        """Mean and deviation that normalise positions and goals."""


@dataclass(frozen=True)
class JaxBitFlip:
    """Bits, all zero at the start (or random); an action flips one. The goal is uniform."""

    bits: int
    random_start: bool = False
    scale: tuple[float, float] = (0.5, 0.5)

    def reset(self, key: Tensor) -> tuple[Tensor, Tensor]:
        start, goal = jax.random.bernoulli(key, 0.5, (2, self.bits)).astype(jnp.float32)
        return (start if self.random_start else jnp.zeros(self.bits)), goal

    def step(self, position: Tensor, action: Tensor, key: Tensor) -> Tensor:
        return position.at[action].set(1.0 - position[action])


class JaxRooms:
    """A grid with walls; moves may slip. The goal is uniform over the free cells that are no
    starts."""

    def __init__(self, env: RoomsEnv) -> None:
        self.slip = env.slip
        self.starts = jnp.asarray(env.starts, jnp.float32)
        self.goals = jnp.asarray(env.goals, jnp.float32)
        cells = np.zeros(
            (*env.free.shape, len(MOVES), 2), np.float32
        )  # where a move leads from each cell
        for row, column in env.cells:
            for move in range(len(MOVES)):
                cells[row, column, move] = env.after(np.array([row, column]), move)
        self.after = jnp.asarray(cells)
        side = np.arange(env.free.shape[0])
        self.scale = (float(side.mean()), float(side.std()))

    def reset(self, key: Tensor) -> tuple[Tensor, Tensor]:
        first, second = jax.random.split(key)
        start = self.starts[jax.random.randint(first, (), 0, len(self.starts))]
        return start, self.goals[jax.random.randint(second, (), 0, len(self.goals))]

    def step(self, position: Tensor, action: Tensor, key: Tensor) -> Tensor:
        first, second = jax.random.split(key)
        slips = jax.random.uniform(first) < self.slip
        move = jnp.where(slips, jax.random.randint(second, (), 0, len(MOVES)), action)
        row, column = position.astype(jnp.int32)
        return self.after[row, column, move]


@dataclass(frozen=True)
class JaxPointPush:
    """Point push, by the rules of `PointPush` themselves. What is observed is more than what is
    achieved, and goals are reached by distance, so it is no `JaxEnv`: trainings in JAX cannot
    use it yet, and `in_jax` does not offer it."""

    task: PointPush

    def reset(self, key: Tensor) -> tuple[Tensor, Tensor]:
        """The first state [4] and the goal [2]."""
        return self.task.start(jax.random.uniform(key, (6,)))

    def step(self, state: Tensor, action: Tensor, key: Tensor) -> Tensor:
        """The next state [4] after an action [2]; nothing is random."""
        return self.task.step(state, action)

    def observe(self, state: Tensor) -> Tensor:
        """What a policy sees [6]."""
        return self.task.observe(state)

    def achieved(self, state: Tensor) -> Tensor:
        """The achieved goal [2]."""
        return self.task.achieved(state)

    def reached(self, achieved: Tensor, goal: Tensor) -> Tensor:
        """Whether an achieved goal [..., 2] meets a goal [..., 2]."""
        return self.task.reached(achieved, goal)


def in_jax(env: Env) -> JaxEnv | None:
    """The JAX twin of a bit flip or rooms env in no wrappers but Gymnasium's own; None for any
    other env."""
    inner = unwrapped(env)
    if type(inner) is BitFlipEnv:
        return JaxBitFlip(inner.bits, inner.random_start)
    return JaxRooms(inner) if type(inner) is RoomsEnv else None
