"""Priorities that are fresh when sampled: more candidates than needed, then TD errors choose among
them.

The paper's open problem: "Unless there is a way to compute the TD error after sampling and yet
have a priority assigned to a transition while storing, the authors don't see much hope."
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp

from hindsight.replay.batch import Batch, Fresh, TDErrors
from hindsight.types import Tensor


def choose(batch: Batch, td_errors: Callable[[Batch], TDErrors]) -> tuple[Batch, TDErrors | None]:
    """The batch to learn from, and the fresh TD errors of its candidates; the batch as it is if it
    has none.

    The actor learns from what would have been replayed without fresh priorities.
    """
    if batch.fresh is None:
        return batch, None
    td = td_errors(batch._replace(fresh=None))
    return choose_by(batch, td.error)[0], td


def choose_by(batch: Batch, error: Tensor) -> tuple[Batch, Tensor]:
    """The batch to learn from, by the TD errors of its candidates [C], and which these are [B]."""
    assert batch.fresh is not None
    candidates = batch._replace(fresh=None)
    actor = every_nth(candidates, len(batch.fresh.draws))
    size = jnp.abs(error) + batch.fresh.epsilon
    which, importance = resample(size, batch.importance, batch.fresh)
    chosen = _take(candidates, which)._replace(importance=importance, actor=actor)
    return chosen, which


def estimated_rank(size: Tensor, stands_for: Tensor, ranked: Tensor) -> Tensor:
    """The rank of each candidate [C] among all `ranked` entries, from 1: a candidate stands for
    the more of them the less likely it was drawn."""
    order = jnp.argsort(-size, stable=True)
    ranks = jnp.cumsum(stands_for[order]) * ranked
    return jnp.zeros_like(ranks).at[order].set(jnp.maximum(ranks, 1.0))


def resample(size: Tensor, importance: Tensor, fresh: Fresh) -> tuple[Tensor, Tensor]:
    """Which candidates [C] are learnt from [B], by their fresh sizes, and 1 / (N P) for the fresh
    P of these.

    A candidate that was drawn with probability P counts 1 / (N P) times, so that what is chosen
    follows the fresh priorities and not the old ones (sampling, importance, resampling). For
    candidates drawn uniformly this is large batch experience replay (Lahire et al., 2022). Of two
    queues as many are chosen as are due of each, so the ratio of their goals stays.
    """
    if fresh.queue is None or fresh.due is None:
        everything, every = jnp.ones(len(size), int), jnp.ones(len(fresh.draws), int)
        return _resample(size, everything, importance, fresh, 0, every)
    both = [
        _resample(
            size,
            jnp.where(fresh.queue == queue, 1, 0),
            importance,
            fresh,
            queue,
            jnp.where(fresh.due == queue, 1, 0),
        )
        for queue in (0, 1)
    ]
    which, weight = (jnp.where(fresh.due == 0, *parts) for parts in zip(*both, strict=True))
    return which, weight


def _resample(
    size: Tensor, mine: Tensor, importance: Tensor, fresh: Fresh, queue: int, due: Tensor
) -> tuple[Tensor, Tensor]:
    """The same from one queue, whose candidates are `mine` [C]; it says something where one of its
    own is `due` [B]."""
    stands_for = mine * importance / jnp.maximum(jnp.sum(mine), 1)
    ranked = fresh.ranked[queue]
    rank = estimated_rank(size, stands_for, ranked)
    priority = jnp.where(ranked > 0, 1.0 / rank, size) ** fresh.alpha
    order = jnp.argsort(-mine, stable=True)  # its own first: no rounding can choose another
    mass = jnp.cumsum((priority * stands_for)[order])
    place = jnp.cumsum(due) - 1 + fresh.draws
    target = place / jnp.maximum(jnp.sum(due), 1) * mass[-1]
    last = jnp.maximum(jnp.sum(mine).astype(int) - 1, 0)
    chosen = order[jnp.clip(jnp.searchsorted(mass, target, side="right"), 0, last)]
    return chosen, mass[-1] / priority[chosen]


def every_nth(batch: Batch, count: int) -> Batch:
    """`count` of the candidates [C], evenly spread: what would have been replayed without fresh
    priorities."""
    return _take(batch, slice(None, None, len(batch.reward) // count))


def _take(batch: Batch, rows: Tensor) -> Batch:
    """Some rows of the arrays; the exponents, which all rows share, stay."""
    arrays = {name: getattr(batch, name) for name in Batch._fields[:7]}
    taken: dict[str, Tensor] = jax.tree.map(lambda part: part[rows], arrays)
    return batch._replace(**taken)
