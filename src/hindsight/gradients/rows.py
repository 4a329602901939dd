"""Fewer rows for the same gradient: steps (under a goal) drawn in proportion to what they weigh.

A batch has goals x episodes x steps rows, most of which weigh next to nothing. Their weights need one forward pass; the
gradient then needs only the rows that matter.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from hindsight.types import Tensor


def systematic(mass: Tensor, count: int, key: Tensor) -> Tensor:
    """`count` indices, each row i drawn count * mass_i / sum(mass) times, rounded up or down at random: unbiased."""
    total = jnp.cumsum(mass)
    ticks = (jnp.arange(count) + jax.random.uniform(key)) / count * total[-1]
    return jnp.minimum(jnp.searchsorted(total, ticks, side="right"), len(mass) - 1)


def chosen_rows(coefficient: Tensor, count: int, key: Tensor, size: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Indices into coefficients [R], and new coefficients that have the same expected sum. All, as they are, if 0.

    Rows are drawn in proportion to `size`, which is not 0 where the coefficient is not; by default its magnitude.
    """
    if count == 0 or count >= len(coefficient):
        return jnp.arange(len(coefficient)), coefficient
    size = jnp.abs(coefficient) if size is None else size
    chosen = systematic(size, count, key)
    return chosen, coefficient[chosen] / jnp.maximum(size[chosen], 1e-30) * jnp.sum(size) / count
