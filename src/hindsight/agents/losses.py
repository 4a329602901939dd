"""Pieces that the losses of the off-policy learners share."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import optax

from hindsight.networks import Params
from hindsight.replay.replay import Batch
from hindsight.types import Tensor


def td_target(
    reward: Tensor, terminated: Tensor, next_value: Tensor, gamma: float, returns: tuple[float, float] | None
) -> jax.Array:
    """r + gamma (1 - terminated) Q'(s'||g, .), clipped to the possible returns. Truncation does not end the value."""
    target = reward + gamma * (1.0 - terminated) * next_value
    return target if returns is None else jnp.clip(target, *returns)


def td_loss(td_error: Tensor, weight: Tensor, kind: str) -> jax.Array:
    """Weighted mean of TD error squared or of its Huber loss."""
    losses = td_error**2 if kind == "squared" else optax.losses.huber_loss(td_error)
    return jnp.mean(weight * losses)


def resample(batch: Batch, td_error: Tensor, draws: Tensor, alpha: Tensor) -> Batch:
    """As many of the candidates [C] as there are draws [B], by fresh priorities |TD error|^alpha.

    A candidate that was drawn with probability P counts 1 / (N P) times, so that what is chosen follows the fresh
    priorities and not the old ones (sampling, importance, resampling). For candidates drawn uniformly this is large
    batch experience replay (Lahire et al., 2022). `importance` of the chosen is 1 / (N P) for the fresh P.
    """
    priority = (jnp.abs(td_error) + 1e-6) ** alpha
    mass = jnp.cumsum(priority * batch.importance)
    targets = (jnp.arange(len(draws)) + draws) / len(draws) * mass[-1]
    chosen = jnp.clip(jnp.searchsorted(mass, targets, side="right"), 0, len(mass) - 1)
    resampled: Batch = jax.tree.map(lambda part: part[chosen], batch)
    return resampled._replace(importance=mass[-1] / len(mass) / priority[chosen])


def every_nth(batch: Batch, count: int) -> Batch:
    """`count` of the candidates [C], evenly spread: what would have been replayed without fresh priorities."""
    stride = len(batch.reward) // count
    thinned: Batch = jax.tree.map(lambda part: part[::stride], batch)
    return thinned


def adam_step(params: Params, gradient: Params, optimizer: Any, learning_rate: float) -> tuple[Params, Any]:
    """Parameters and optimiser state after one step of Adam."""
    direction, optimizer = optax.scale_by_adam().update(gradient, optimizer)
    return jax.tree.map(lambda p, d: p - learning_rate * d, params, direction), optimizer
