"""Truncated quantile critics (Kuznetsov et al., 2020): SAC whose critics learn how returns are
distributed.

Each critic has quantiles of the return. Those of all critics for the next action are sorted
together, the largest of them dropped, and each of the rest, discounted, is a target: dropping less
or more tunes how far values are held down, finer than the smaller of two values does. The actor
climbs the mean of all quantiles, none dropped.

The TD error of a critic, for priorities, is the mean of the targets minus the mean of its
quantiles.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import jax
import jax.numpy as jnp
from tyro.conf import Suppress

from hindsight.agents.sac import SAC, SACConfig
from hindsight.errors import HindsightError
from hindsight.settings import Count, CountOrZero, refuse_changes
from hindsight.types import Tensor


@dataclass(frozen=True)
class TQCConfig(SACConfig):
    """Truncated quantile critics, for continuous actions."""

    method: Annotated[str, Suppress] = "tqc"
    num_critics: Count = 2
    """Networks of quantiles."""
    num_quantiles: Count = 25
    """Of each critic."""
    drop_per_critic: CountOrZero = 2
    """How many of the largest quantiles are dropped from targets, for each critic."""

    def check(self) -> None:
        super().check()
        refuse_changes(self, ("loss",), "agent.", "as that of quantiles is always Huber's")
        if self.drop_per_critic >= self.num_quantiles:
            raise HindsightError(
                f"agent.drop_per_critic {self.drop_per_critic} leaves none of "
                f"{self.num_quantiles} quantiles"
            )


class TQC(SAC):
    """States are SAC's; targets are [B, n], for n quantiles that are not dropped."""

    config: TQCConfig

    @property
    def critic_outputs(self) -> int:
        return self.config.num_quantiles

    def next_values(self, outputs: Tensor) -> Tensor:
        """The quantiles of all critics [B, n], sorted, without the largest."""
        critics, batch, quantiles = outputs.shape
        pooled = jnp.moveaxis(outputs, 0, 1).reshape(batch, critics * quantiles)
        kept = critics * (quantiles - self.config.drop_per_critic)
        return -jax.lax.top_k(-pooled, kept)[0]  # faster than to sort them all

    def actor_values(self, outputs: Tensor) -> Tensor:
        """The mean of all quantiles [B]."""
        return jnp.mean(outputs, axis=(0, 2))

    def critic_loss(self, outputs: Tensor, target: Tensor, weight: Tensor) -> Tensor:
        """Mean quantile loss, importance-weighted by [B], summed over the critics."""
        return len(outputs) * jnp.mean(weight * quantile_huber(outputs, target))


@jax.custom_vjp
def quantile_huber(quantiles: Tensor, target: Tensor) -> Tensor:
    """Huber's loss of every target [B, n] minus every quantile [..., B, k], averaged over both:
    [..., B]. Targets are constants: only quantiles have gradients.

    The i-th quantile counts targets above it (i + 1/2) / k times, and those below it 1 minus
    that: so it comes to lie where that share of targets is below it. Quantiles need not be in
    order.
    """
    return _quantile_huber(quantiles, target)[0]


def _quantile_huber(quantiles: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """The loss [..., B] and its gradient [..., B, k], from one look at the k times n errors: so
    they need not be kept, which makes it more than twice as fast."""
    count = quantiles.shape[-1]
    share = (jnp.arange(count) + 0.5) / count
    error = target[:, None, :] - quantiles[..., None]
    slope = jnp.where(error < 0, 1.0 - share[:, None], share[:, None])
    clipped = jnp.clip(error, -1.0, 1.0)  # the gradient of Huber's loss
    loss = jnp.mean(slope * clipped * (error - 0.5 * clipped), axis=(-2, -1))
    return loss, -jnp.mean(slope * clipped, axis=-1) / count


def _backward(gradient: Tensor, loss_gradient: Tensor) -> tuple[Tensor, None]:
    return loss_gradient[..., None] * gradient, None


quantile_huber.defvjp(_quantile_huber, _backward)
