"""The smallest task with the structure of FetchPush, tabulated: on a grid a pusher must move a box
to a goal. Its returns, and what becomes of the box, are computed without sampling.

The pusher starts in the middle and the box beside it, so a pusher that does not know what it does
pushes outward; goals lie around the middle, so most of them are inward, and to push inward it must
first walk round the box. A box that is pushed over the edge is lost. A policy is a table of
log-probabilities [G, S, A] of A moves in S states under G goals.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import jax
import jax.numpy as jnp
import numpy as np

from hindsight.types import Array, Bools, Floats, Ints, Tensor

MOVES = np.array([(1, 0), (-1, 0), (0, 1), (0, -1)])


@dataclass(frozen=True)
class GridPush:
    """The rules. A state is the places of pusher and box; the goal is a place of the box."""

    edge: int = 2
    """The table reaches from -edge to edge in both directions."""
    around: int = 1
    """Boxes start, and goals lie, at most this far from the middle in both directions."""
    horizon: int = 8

    @cached_property
    def places(self) -> tuple[Ints, Ints]:
        """Of pusher and box [S, 2]: the box may also be just over the edge."""
        table = np.arange(-self.edge, self.edge + 1)
        beyond = np.arange(-self.edge - 1, self.edge + 2)
        grid = np.stack(np.meshgrid(table, table, beyond, beyond, indexing="ij"), axis=-1)
        states = grid.reshape(-1, 4)
        return states[:, :2], states[:, 2:]

    @cached_property
    def after(self) -> Ints:
        """The next state [S, A]: the pusher moves, and the box before it, too."""
        pusher, box = (places[:, None] for places in self.places)
        moved = np.clip(pusher + MOVES, -self.edge, self.edge)
        pushed = (moved == box).all(axis=-1, keepdims=True)
        return self._number(moved, np.where(pushed, box + (moved - pusher), box))

    @cached_property
    def start(self) -> Ints:
        """The states [K] in which an episode starts, all equally likely."""
        pusher, box = self.places
        beside = (np.abs(box).max(axis=1) <= self.around) & (box != 0).any(axis=1)
        found: Ints = np.flatnonzero((pusher == 0).all(axis=1) & beside)
        return found

    @cached_property
    def goal(self) -> Ints:
        """[G, 2], all equally likely."""
        side = np.arange(-self.around, self.around + 1)
        return np.stack(np.meshgrid(side, side, indexing="ij"), axis=-1).reshape(-1, 2)

    @cached_property
    def met(self) -> Bools:
        """[G, S]: the box is at the goal."""
        same: Bools = (self.places[1] == self.goal[:, None]).all(axis=-1)
        return same

    @property
    def shape(self) -> tuple[int, int, int]:
        """Of a policy: goals, states, moves."""
        return len(self.goal), *self.after.shape

    def features(self) -> Floats:
        """What a network sees [G, S, 8]: pusher, box, the way from the one to the other, goal."""
        pusher, box = self.places
        seen = np.broadcast_to(
            np.concatenate([pusher, box, box - pusher], axis=1), (*self.shape[:2], 6)
        )
        goal = np.broadcast_to(self.goal[:, None], (*self.shape[:2], 2))
        found: Floats = (np.concatenate([seen, goal], axis=-1) / self.edge).astype(np.float32)
        return found

    def _number(self, pusher: Array, box: Array) -> Ints:
        """Which state each is; a box that is pushed from over the edge stays there."""
        size = 2 * self.edge + 1
        box = np.clip(box, -self.edge - 1, self.edge + 1) + self.edge + 1
        x, y = np.moveaxis(pusher + self.edge, -1, 0)
        numbers: Ints = ((x * size + y) * (size + 2) + box[..., 0]) * (size + 2) + box[..., 1]
        return numbers


def values(world: GridPush, log_pi: Tensor, until_reached: Tensor) -> Tensor:
    """V(s, g, t) [T+1, G, S] by the returns of `agents/goal_batch.py`: 1/T for every step at the
    goal or, `until_reached`, all that is left for the first one, which is then the last."""
    policy, met, steps = jnp.exp(log_pi), jnp.asarray(world.met), world.horizon

    def step(later: Tensor, left: Tensor) -> tuple[Tensor, Tensor]:
        at_goal = jnp.where(until_reached, left / steps, 1 / steps + later)
        worth = jnp.where(met, at_goal, later)
        now = jnp.sum(policy * worth[:, world.after], axis=-1)
        return now, now

    end = jnp.zeros(met.shape)
    _, found = jax.lax.scan(step, end, jnp.arange(1.0, steps + 1))
    return jnp.concatenate([found[::-1], end[None]])


def mean_return(
    world: GridPush, log_pi: Tensor, until_reached: Tensor, skip_achieved: Tensor
) -> Tensor:
    """Over starts and goals []; if `skip_achieved`, over goals that are not met at the start.

    Its derivative is the exact policy gradient.
    """
    counts = ~(jnp.asarray(world.met[:, world.start]) & skip_achieved)
    return jnp.mean(values(world, log_pi, until_reached)[0][:, world.start], where=counts)


def at_the_end(world: GridPush, log_pi: Tensor, worth: Tensor) -> Tensor:
    """The mean [G, K] of what a state under a goal is `worth` [G, S] after the last step."""

    def step(later: Tensor, _: None) -> tuple[Tensor, None]:
        return jnp.sum(jnp.exp(log_pi) * later[:, world.after], axis=-1), None

    return jax.lax.scan(step, worth, None, world.horizon)[0][:, world.start]


def success(world: GridPush, log_pi: Tensor) -> Tensor:
    """How often the box is at the goal at the end []: what a robot task is evaluated by."""
    return jnp.mean(at_the_end(world, log_pi, jnp.asarray(world.met, jnp.float32)))


def progress(world: GridPush, log_pi: Tensor) -> Tensor:
    """How much nearer to the goal the box is at the end than at the start, in cells []. Below 0:
    it was pushed away."""
    away = np.linalg.norm(world.places[1] - world.goal[:, None], axis=-1).astype(np.float32)
    return jnp.mean(away[:, world.start] - at_the_end(world, log_pi, jnp.asarray(away)))


def pushes(world: GridPush, log_pi: Tensor) -> tuple[Tensor, Tensor]:
    """How often the box has moved by the end, and the mean cosine between where it went and where
    it should have gone, of the episodes in which it did [] []."""
    box, starts = world.places[1], world.places[1][world.start]
    went = (box - starts[:, None]).astype(np.float32)  # [K, S, 2]
    wanted = (world.goal[:, None] - starts).astype(np.float32)  # [G, K, 2]
    far, distance = np.linalg.norm(went, axis=-1), np.linalg.norm(wanted, axis=-1)
    went /= np.maximum(far, 1e-9)[..., None]
    wanted /= np.maximum(distance, 1e-9)[..., None]

    def one(start: Tensor) -> tuple[Tensor, Tensor]:
        cosine = jnp.einsum("sd,gd->gs", jnp.asarray(went)[start], jnp.asarray(wanted)[:, start])
        moved = jnp.broadcast_to(jnp.asarray(far > 0)[start], cosine.shape).astype(jnp.float32)
        cosine, moved = (at_the_end(world, log_pi, x)[:, start] for x in (cosine, moved))
        return cosine, moved

    cosine, moved = jax.lax.map(one, jnp.arange(len(world.start)))  # [K, G]
    asked = jnp.asarray(distance > 0).T
    total = jnp.sum(moved, where=asked)
    return jnp.mean(moved), jnp.sum(cosine, where=asked) / jnp.maximum(total, 1e-9)


def visits(world: GridPush, log_pi: Tensor) -> Tensor:
    """How often the policy is in each state under each goal [G, S], summing to 1."""
    goals, states, _ = world.shape
    first = jnp.zeros((goals, states)).at[:, world.start].set(1.0 / len(world.start))

    def step(carry: tuple[Tensor, Tensor], _: None) -> tuple[tuple[Tensor, Tensor], None]:
        now, total = carry
        moves = (now[..., None] * jnp.exp(log_pi)).reshape(goals, -1)
        after = jnp.zeros_like(now).at[:, world.after.ravel()].add(moves)
        return (after, total + now), None

    (_, total), _ = jax.lax.scan(step, (first, jnp.zeros_like(first)), None, world.horizon)
    return total / (goals * world.horizon)
