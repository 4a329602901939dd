"""Pieces that the losses of the off-policy learners share."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import optax

from hindsight.networks import Params
from hindsight.types import Tensor


def td_target(
    reward: Tensor, terminated: Tensor, next_value: Tensor, gamma: float, returns: tuple[float, float] | None
) -> jax.Array:
    """r + gamma (1 - terminated) Q'(s'||g, .), clipped to the possible returns. Truncation does not end the value."""
    target = reward + gamma * (1.0 - terminated) * next_value
    return target if returns is None else jnp.clip(target, *returns)


def adam_step(params: Params, gradient: Params, optimizer: Any, learning_rate: float) -> tuple[Params, Any]:
    """Parameters and optimiser state after one step of Adam."""
    direction, optimizer = optax.scale_by_adam().update(gradient, optimizer)
    return jax.tree.map(lambda p, d: p - learning_rate * d, params, direction), optimizer
