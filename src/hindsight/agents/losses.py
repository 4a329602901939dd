"""Pieces that the losses of several learners share."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import optax

from hindsight.networks import Params
from hindsight.replay.batch import TDErrors
from hindsight.types import Tensor


def td_target(
    reward: Tensor,
    terminated: Tensor,
    next_value: Tensor,
    gamma: float,
    returns: tuple[float, float] | None,
) -> jax.Array:
    """r + gamma (1 - terminated) Q'(s'||g, .), clipped to the possible returns.

    Truncation does not end the value: Q knows no time. (V of the policy gradients does:
    `goal_batch.outcome`.)
    """
    target = reward + gamma * (1.0 - terminated) * next_value
    return target if returns is None else jnp.clip(target, *returns)


def td_loss(td_error: Tensor, weight: Tensor, kind: str) -> jax.Array:
    """Weighted mean of TD error squared or of its Huber loss."""
    losses = td_error**2 if kind == "squared" else optax.losses.huber_loss(td_error)
    return jnp.mean(weight * losses)


def td_metrics(td: TDErrors) -> dict[str, Tensor]:
    """What is shown of the values and TD errors of a batch."""
    return {
        "q_mean": jnp.mean(td.value),
        "q_min": jnp.min(td.value),
        "q_max": jnp.max(td.value),
        "td_error": jnp.mean(jnp.abs(td.error)),
    }


def adam_step(
    params: Params, gradient: Params, optimizer: Any, learning_rate: Tensor
) -> tuple[Params, Any]:
    """Parameters and optimiser state after one step of Adam."""
    direction, optimizer = optax.scale_by_adam().update(gradient, optimizer)
    return jax.tree.map(lambda p, d: p - learning_rate * d, params, direction), optimizer


def kept(updates: Tensor, tau: float, interval: int) -> Tensor:
    """What target networks keep of themselves after this many updates: 1 - tau every `interval`
    of them, else all."""
    return jnp.where(updates % interval == 0, 1.0 - tau, 1.0)
