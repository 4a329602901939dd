"""The networks of all learners: fully connected layers in JAX, after convolutions where there are
pixels. `acting.py` computes them in NumPy."""

from __future__ import annotations

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np

from hindsight.acting import Params as Params
from hindsight.pixels import CHANNELS, Images, encode
from hindsight.precision import dot_general, resolved
from hindsight.settings import Precision
from hindsight.types import Tensor


class MLP(nn.Module):
    """ReLU (or tanh) layers of the given widths, then a linear layer of `outputs`, scaled at the
    start.

    `precision` is that of the products in the hidden layers. The last layer, a hundredth of the
    work, is float32. So is the first one if inputs are not normalised: 1.34 m and 1.345 m are the
    same in bfloat16.
    """

    net_arch: tuple[int, ...]
    outputs: int
    layer_norm: bool = False
    tanh: bool = False
    output_scale: float = 1.0
    dropout: float = 0.0
    """Share of each hidden layer that is dropped while learning, before it is normalised (DroQ)."""
    precision: Precision = "float32"
    normalized: bool = True
    """Whether its inputs are."""
    images: Images = ()

    @nn.compact
    def __call__(self, x: Tensor, learning: bool = False) -> jax.Array:
        products = dot_general if resolved(self.precision) == "bfloat16" else None
        first = nn.initializers.xavier_uniform()

        def convolved(name: str, patches: Tensor) -> jax.Array:
            layer = nn.Dense(CHANNELS, kernel_init=first, dot_general=products, name=name)
            return nn.relu(layer(patches))

        if self.images:
            x = encode(self.images, x, convolved)
        for layer, width in enumerate(self.net_arch):
            exact = layer == 0 and not (self.normalized or self.images)
            x = nn.Dense(width, kernel_init=first, dot_general=None if exact else products)(x)
            if self.dropout:
                x = nn.Dropout(self.dropout, deterministic=not learning)(x)
            if self.layer_norm:
                x = nn.LayerNorm()(x)
            x = nn.tanh(x) if self.tanh else nn.relu(x)
        last = nn.initializers.variance_scaling(
            self.output_scale**2, "fan_avg", "uniform"
        )  # 1: Xavier's
        return nn.Dense(self.outputs, kernel_init=last)(x)


def to_numpy(params: Params) -> Params:
    """Parameters as NumPy arrays with memory of their own."""
    return jax.tree.map(np.array, params)


def copy_of(params: Params) -> Params:
    """Parameters with memory of their own."""
    return jax.tree.map(jnp.copy, params)


def average(old: Params, new: Params, keep: Tensor) -> Params:
    """keep * old + (1 - keep) * new, for every parameter: the slow update of target networks."""
    return jax.tree.map(lambda a, b: keep * a + (1.0 - keep) * b, old, new)
