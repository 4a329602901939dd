"""What a policy gradient learns from: episodes, seen under G goals. Which goals, and what each one
is worth.

Returns are those of Hindsight Policy Gradients, divided by the horizon T, so that they lie
between 0 and 1: a step that meets the goal is worth 1/T, and where meeting the goal ends the
episode, it is worth that for all steps left, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from hindsight.envs.contract import GoalEnvSpec
from hindsight.episodes import Episodes
from hindsight.types import Array, Bools, Ints, Tensor


class GoalBatch(NamedTuple):
    """N episodes of at most T steps under G goals. With hindsight each goal is applied to every
    episode."""

    observation: Tensor  # [N, T+1, o]
    action: Tensor  # [N, T] or [N, T, a]
    log_prob: Tensor  # [N, T] of the actions, under the policy and the goal that were pursued
    length: Tensor  # [N]
    failed: Tensor  # [N]: did the env end the episode, and not because its goal was reached?
    pursued: Tensor  # [N, g] features of the desired goals
    goal: Tensor  # [G, N or 1, g] features of the goals to learn from
    hit: Tensor  # [G, N, T]: does step t reach the goal?
    counts: Tensor  # [G, N]: does the episode count for the goal at all?
    used: Tensor  # [G]: False for a goal that only fills the array up
    was_pursued: Tensor  # [G]: so it is a goal whatever the episodes reached
    ends: Tensor  # []: does an episode count for a goal only until it reaches it?

    def outcome(self, gamma: float) -> Outcome:
        """What each step is worth under each goal."""
        return outcome(self.hit, self.counts, self.length, self.ends, gamma, self.failed)


class Outcome(NamedTuple):
    """What each step is worth under each goal, all [G, N, T]."""

    reward: Tensor
    alive: Tensor  # the step happened, and came before or with the first hit
    present: Tensor  # the same, or it is done: the goal was reached before, or the episode failed
    goes_on: Tensor  # the value of the next state counts


def outcome(
    hit: Tensor,
    counts: Tensor,
    length: Tensor,
    ends: Tensor,
    gamma: float,
    failed: Tensor | None = None,
) -> Outcome:
    """Rewards and lifetimes from hits [G, N, T], which episodes count for which goals [G, N], their
    lengths [N], whether a hit ends an episode, and which episodes failed [N] (none, if not given).

    An episode counts for a goal up to the first time that it reaches it. If it ended before,
    because it reached the goal it pursued, the value of its last state stands for what would
    have followed. If it ended in failure (the robot fell), nothing follows, whatever the goal.
    """
    steps = hit.shape[-1]
    time = jnp.arange(steps)
    happened = (time < length[:, None]) & counts[..., None]
    earlier = jnp.cumsum(hit, axis=-1) - hit > 0
    done = ends & earlier & counts[..., None]
    alive = happened & ~done
    left = steps - time
    until_the_end = left if gamma == 1.0 else (1.0 - gamma**left) / (1.0 - gamma)
    worth = jnp.where(ends, until_the_end, 1.0) / steps
    # V knows the time, so nothing follows the last step: unlike in replay, the time limit is part
    # of the task.
    goes_on = alive & ~(ends & hit) & (time < steps - 1)
    present = happened | done
    if failed is not None:
        over = failed[:, None] & (time >= length[:, None] - 1)  # from the last step on
        goes_on &= ~over
        present |= over & counts[..., None]
    return Outcome(jnp.where(alive & hit, worth, 0.0), alive, present, goes_on)


def own_goals(
    episodes: Episodes, spec: GoalEnvSpec, ends: bool, skip_achieved: bool = False
) -> GoalBatch:
    """The episodes under the goals they pursued: no hindsight. G = 1, another goal for every
    episode.

    If `skip_achieved`, without the episodes that met theirs when they began.
    """
    own, one = spec.goal(episodes.desired_goal), np.ones(1, np.bool_)
    counts = np.ones((1, len(episodes)), np.bool_)
    if skip_achieved:
        counts = ~spec.reached(episodes.achieved_goal[:, 0], episodes.desired_goal)[None]
    return _batch(episodes, own, own[None], episodes.success[None], counts, one, one, ends)


def hindsight_goals(
    episodes: Episodes,
    goals: Array,
    used: Bools,
    spec: GoalEnvSpec,
    ends: bool,
    actual_goals: bool = False,
    skip_achieved: bool = False,
) -> GoalBatch:
    """The episodes, each under every one of the goals [G, ...], and, if `actual_goals`, of those
    pursued.

    If `skip_achieved`, each only under those that it did not meet when it began.
    """
    was_pursued = np.zeros(len(goals), np.bool_)
    if actual_goals:
        same = goals[:, None] == episodes.desired_goal
        used = used & ~same.reshape(*same.shape[:2], -1).all(axis=2).any(axis=1)
        goals = np.concatenate([goals, episodes.desired_goal])
        used, was_pursued = (
            np.concatenate([x, np.ones(len(episodes), np.bool_)]) for x in (used, was_pursued)
        )
    met = _reached(episodes.achieved_goal, goals[:, None], spec)
    counts = ~met[..., 0] if skip_achieved else np.ones_like(met[..., 0])
    own = spec.goal(episodes.desired_goal)
    return _batch(
        episodes, own, spec.goal(goals)[:, None], met[..., 1:], counts, used, was_pursued, ends
    )


def episode_goals(
    episodes: Episodes,
    count: int,
    may: Bools,
    spec: GoalEnvSpec,
    ends: bool,
    rng: np.random.Generator,
    actual_goals: bool = False,
    skip_achieved: bool = False,
) -> GoalBatch:
    """The episodes, each under `count` of the goals that it achieved itself, in steps [N, T] that
    `may` be chosen, and, if `actual_goals`, under the one that it pursued; if `skip_achieved`, not
    under one that it met when it began."""
    achieved, (n, steps) = episodes.achieved_goal, episodes.reward.shape
    order = np.where(may & episodes.real, rng.random((n, steps)), 2.0)
    time = order.argsort(axis=1)[:, : count or steps].T  # [G, N]
    goals = achieved[np.arange(n), time + 1]
    counts = order[np.arange(n), time] < 1.0
    count = len(goals)
    if actual_goals:
        goals = np.concatenate([goals, episodes.desired_goal[None]])
        met = skip_achieved & spec.reached(achieved[:, 0], episodes.desired_goal)
        counts = np.concatenate([counts, ~met[None]])
    hit = _reached(achieved[:, 1:], goals, spec)
    was_pursued = np.arange(len(goals)) >= count
    features = spec.goal(goals.reshape(-1, *achieved.shape[2:])).reshape(len(goals), n, -1)
    own = spec.goal(episodes.desired_goal)
    return _batch(
        episodes, own, features, hit, counts, np.ones_like(was_pursued), was_pursued, ends
    )


def _reached(achieved: Array, goals: Array, spec: GoalEnvSpec) -> Bools:
    """[G, N, T]: which goals achieved [N, T, ...] meet which goals [G, N or 1, ...]?"""
    shape = (len(goals), *achieved.shape)
    wanted = np.broadcast_to(goals[:, :, None], shape).reshape(-1, *shape[3:])
    met: Bools = spec.reached(np.broadcast_to(achieved, shape).reshape(wanted.shape), wanted)
    return met.reshape(shape[:3])


def joined(batches: Sequence[GoalBatch]) -> GoalBatch:
    """The same episodes under the goals of all batches."""
    by_goal = {
        name: np.concatenate([getattr(batch, name) for batch in batches])
        for name in ("goal", "hit", "counts", "used", "was_pursued")
    }
    return batches[-1]._replace(**by_goal)


def _batch(
    episodes: Episodes,
    pursued: Array,
    goal: Array,
    hit: Array,
    counts: Bools,
    used: Bools,
    was_pursued: Bools,
    ends: bool,
) -> GoalBatch:
    if episodes.log_prob is None:
        raise ValueError("these episodes were played by a deterministic policy")
    return GoalBatch(
        episodes.observation,
        episodes.action,
        episodes.log_prob,
        episodes.length.astype(np.int32),
        episodes.failed(),
        pursued,
        goal,
        hit & episodes.real & counts[..., None],
        counts,
        used,
        was_pursued,
        np.bool_(ends),
    )


def choose_goals(
    episodes: Episodes,
    count: int,
    may: Bools,
    box: GoalEnvSpec | None,
    rng: np.random.Generator,
    spread: bool = False,
) -> tuple[Array, Bools, float]:
    """Of the different goals that the episodes achieved in the steps [N, T] that `may` be chosen,
    `count` drawn uniformly (all of them if 0, in a power of two of places), or `spread` out.

    With a `box` only those inside the bounding box of the desired goals, or so near that the env
    takes them for a point of it (a box may be flat: goals on a table). Returns goals [count,
    ...], which of them are real (the rest repeats the first, if there are too few), and the
    share of the different goals that could be drawn.
    """
    after = episodes.achieved_goal[:, 1:]
    goals, number = np.unique(after[episodes.real], axis=0, return_inverse=True)
    allowed = np.zeros(len(goals), np.bool_)
    allowed[number[may[episodes.real]]] = True
    if box is not None:
        desired = episodes.desired_goal
        allowed &= box.reached(goals, goals.clip(desired.min(axis=0), desired.max(axis=0)))
    kept = goals[allowed] if allowed.any() else goals[:1]
    count = count or 1 << (len(kept) - 1).bit_length()  # few sizes: each is compiled anew
    chosen = farthest(kept, count, rng) if spread else rng.permutation(len(kept))[:count]
    used = (np.arange(count) < len(chosen)) & allowed.any()
    return (
        kept[np.resize(chosen, count)] if len(chosen) < count else kept[chosen],
        used,
        float(allowed.mean()),
    )


def farthest(points: Array, count: int, rng: np.random.Generator) -> Ints:
    """The numbers of `count` points: one at random, then always the one that is farthest from
    all chosen ones."""
    flat = points.reshape(len(points), -1).astype(np.float64)
    chosen = [int(rng.integers(len(flat)))]
    distance = np.full(len(flat), np.inf)
    while len(chosen) < min(count, len(flat)):
        distance = np.minimum(distance, ((flat - flat[chosen[-1]]) ** 2).sum(axis=1))
        chosen.append(int(distance.argmax()))
    return np.array(chosen)


def newly_achieved(episodes: Episodes, spec: GoalEnvSpec) -> Bools:
    """[N, T]: the goal that a step achieved was not met when its episode began."""
    achieved = episodes.achieved_goal
    fresh: Bools = ~_reached(achieved[:, 1:], achieved[None, :, 0], spec)[0]
    return fresh
