"""The networks of all learners: fully connected layers."""

from __future__ import annotations

from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp

from hindsight.types import Tensor

Params = Any


class MLP(nn.Module):
    """ReLU layers of the given widths, then a linear layer of `outputs`."""

    hidden: tuple[int, ...]
    outputs: int
    layer_norm: bool = False

    @nn.compact
    def __call__(self, x: Tensor) -> jax.Array:
        for width in self.hidden:
            x = nn.Dense(width, kernel_init=nn.initializers.xavier_uniform())(x)
            if self.layer_norm:
                x = nn.LayerNorm()(x)
            x = nn.relu(x)
        return nn.Dense(self.outputs, kernel_init=nn.initializers.xavier_uniform())(x)


def copy_of(params: Params) -> Params:
    """Parameters with memory of their own."""
    return jax.tree.map(jnp.copy, params)


def average(old: Params, new: Params, keep: Tensor) -> Params:
    """keep * old + (1 - keep) * new, for every parameter: the slow update of target networks."""
    return jax.tree.map(lambda a, b: keep * a + (1.0 - keep) * b, old, new)
