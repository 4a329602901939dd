"""Priorities that are fresh when sampled: more candidates than needed, then TD errors choose among
them.

The paper's open problem: "Unless there is a way to compute the TD error after sampling and yet
have a priority assigned to a transition while storing, the authors don't see much hope."
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp

from hindsight.replay.batch import Batch, TDErrors
from hindsight.types import Tensor


def choose(batch: Batch, td_errors: Callable[[Batch], TDErrors]) -> tuple[Batch, TDErrors | None]:
    """The batch to learn from, and the fresh TD errors of its candidates; the batch as it is if it
    has none.

    The actor learns from what would have been replayed without fresh priorities.
    """
    if batch.fresh is None:
        return batch, None
    td = td_errors(batch._replace(fresh=None, actor=None))
    return choose_by(batch, td.error)[0], td


def choose_by(batch: Batch, error: Tensor) -> tuple[Batch, Tensor]:
    """The batch to learn from, by the TD errors of its candidates [C], and which these are [B]."""
    assert batch.fresh is not None
    candidates, actor = batch._replace(fresh=None, actor=None), batch.actor
    if actor is None:
        actor = every_nth(candidates, len(batch.fresh.draws))._replace(actor_beta=batch.actor_beta)
    size = jnp.abs(error) + batch.fresh.epsilon
    ranked = batch.fresh.ranked
    rank = estimated_rank(size, batch.importance, ranked)
    priority = jnp.where(ranked > 0, 1.0 / rank, size) ** batch.fresh.alpha
    chosen, which = resample(candidates, priority, batch.fresh.draws)
    return chosen._replace(actor=actor), which


def estimated_rank(size: Tensor, importance: Tensor, ranked: Tensor) -> Tensor:
    """The rank of each candidate [C] among all entries, from 1: a candidate stands for the more
    of them the less likely it was drawn."""
    order = jnp.argsort(-size, stable=True)
    ranks = jnp.cumsum(importance[order]) * ranked / len(size)
    return jnp.zeros_like(ranks).at[order].set(jnp.maximum(ranks, 1.0))


def resample(batch: Batch, priority: Tensor, draws: Tensor) -> tuple[Batch, Tensor]:
    """As many of the candidates [C] as there are draws [B], by fresh priorities [C]; also which.

    A candidate that was drawn with probability P counts 1 / (N P) times, so that what is chosen
    follows the fresh priorities and not the old ones (sampling, importance, resampling). For
    candidates drawn uniformly this is large batch experience replay (Lahire et al., 2022).
    `importance` of the chosen is 1 / (N P) for the fresh P.
    """
    mass = jnp.cumsum(priority * batch.importance)
    targets = (jnp.arange(len(draws)) + draws) / len(draws) * mass[-1]
    chosen = jnp.clip(jnp.searchsorted(mass, targets, side="right"), 0, len(mass) - 1)
    importance = mass[-1] / len(mass) / priority[chosen]
    return _take(batch, chosen)._replace(importance=importance), chosen


def every_nth(batch: Batch, count: int) -> Batch:
    """`count` of the candidates [C], evenly spread: what would have been replayed without fresh
    priorities."""
    return _take(batch, slice(None, None, len(batch.reward) // count))


def _take(batch: Batch, rows: Tensor) -> Batch:
    """Some rows of the arrays; the exponents, which all rows share, stay."""
    arrays = {name: getattr(batch, name) for name in Batch._fields[:7]}
    taken: dict[str, Tensor] = jax.tree.map(lambda part: part[rows], arrays)
    return batch._replace(**taken)
