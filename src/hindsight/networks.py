"""The networks of all learners: fully connected layers, in JAX for learning and in NumPy for acting.

Acting in NumPy never waits for the thread pool that learning keeps busy, and a loaded policy needs no compilation.
"""

from __future__ import annotations

from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np

from hindsight.types import Floats, Tensor

Params = Any


class MLP(nn.Module):
    """ReLU (or tanh) layers of the given widths, then a linear layer of `outputs`, scaled at the start."""

    hidden: tuple[int, ...]
    outputs: int
    layer_norm: bool = False
    tanh: bool = False
    output_scale: float = 1.0

    @nn.compact
    def __call__(self, x: Tensor) -> jax.Array:
        for width in self.hidden:
            x = nn.Dense(width, kernel_init=nn.initializers.xavier_uniform())(x)
            if self.layer_norm:
                x = nn.LayerNorm()(x)
            x = nn.tanh(x) if self.tanh else nn.relu(x)
        last = nn.initializers.variance_scaling(self.output_scale**2, "fan_avg", "uniform")  # 1: Xavier's
        return nn.Dense(self.outputs, kernel_init=last)(x)


def forward(params: Params, x: Floats, tanh: bool = False) -> Floats:
    """What an MLP with these parameters computes for rows x [n, inputs], in NumPy."""
    layers = params["params"]
    last = sum(name.startswith("Dense") for name in layers) - 1
    for i in range(last):
        x = x @ layers[f"Dense_{i}"]["kernel"] + layers[f"Dense_{i}"]["bias"]
        norm = layers.get(f"LayerNorm_{i}")
        if norm is not None:
            centred = x - x.mean(axis=-1, keepdims=True)
            variance = (centred**2).mean(axis=-1, keepdims=True)
            x = centred / np.sqrt(variance + 1e-6) * norm["scale"] + norm["bias"]
        x = np.tanh(x) if tanh else np.maximum(x, 0.0)
    output: Floats = x @ layers[f"Dense_{last}"]["kernel"] + layers[f"Dense_{last}"]["bias"]
    return output


def to_numpy(params: Params) -> Params:
    """Parameters as NumPy arrays with memory of their own."""
    return jax.tree.map(np.array, params)


def copy_of(params: Params) -> Params:
    """Parameters with memory of their own."""
    return jax.tree.map(jnp.copy, params)


def average(old: Params, new: Params, keep: Tensor) -> Params:
    """keep * old + (1 - keep) * new, for every parameter: the slow update of target networks."""
    return jax.tree.map(lambda a, b: keep * a + (1.0 - keep) * b, old, new)
