"""Trust region policy optimisation with hindsight (the paper's Appendix D): the step of the
natural gradient that the KL bound allows, found by conjugate gradients, then halved until the
surrogate gains and the bound holds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Literal

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from tyro.conf import Suppress

from hindsight.agents.actor_critic import ActorCritic
from hindsight.agents.agent import Metrics
from hindsight.agents.config import ActorCriticConfig
from hindsight.agents.goal_batch import GoalBatch
from hindsight.agents.policy_gradient import Rows, State
from hindsight.schedules import Schedule
from hindsight.settings import Count, NotNegative, Positive, RateSchedule, Search
from hindsight.types import Tensor


@dataclass(frozen=True)
class TRPOConfig(ActorCriticConfig):
    """Trust region policy optimisation with hindsight: a natural-gradient step under a KL bound."""

    method: Annotated[str, Suppress] = "trpo"
    learning_rate: RateSchedule = Schedule.parse(1e-3)
    """Nothing reads it: a step is as long as max_kl allows."""
    max_kl: Annotated[Positive, Search(0.001, 0.1, log=True)] = 0.01
    """Bound on the mean KL divergence of an update."""
    kl_estimate: Literal["exact", "sampled"] = "exact"
    """From the distributions, or half the squared log ratio of the actions taken."""
    conjugate_steps: Count = 10
    damping: NotNegative = 0.1
    backtracks: Count = 10
    """Steps that the line search may try: the whole one, its half, its quarter and so on."""

    def unread(self) -> dict[str, str]:
        return super().unread() | {"learning_rate": "as trpo steps as far as agent.max_kl allows"}


class TRPO(ActorCritic):
    config: TRPOConfig

    def improve(
        self, state: State, batch: GoalBatch, rows: Rows, key: Tensor
    ) -> tuple[State, Metrics]:
        """One step within the trust region."""
        config = self.config
        start, unravel = ravel_pytree(state.policy)

        def gain(flat: Tensor) -> Tensor:
            """The surrogate E[w pi_new/pi_old A], and the entropy bonus."""
            policy = unravel(flat)
            distribution = self.distribution(policy, rows.inputs)
            log_ratio = self.log_prob(distribution, rows.action) - rows.log_prob
            bonus = state.rates.entropy * self.bonus(policy, distribution, state, batch)
            return jnp.sum(rows.weight * jnp.exp(log_ratio) * rows.advantage) + bonus

        def kl(flat: Tensor) -> Tensor:
            """Mean KL divergence from the old policy, exact or as half the squared log ratio of
            the actions taken."""
            distribution = self.distribution(unravel(flat), rows.inputs)
            if config.kl_estimate == "exact":
                return jnp.sum(rows.weight * self.kl(rows.distribution, distribution))
            return 0.5 * jnp.sum(
                rows.weight * (self.log_prob(distribution, rows.action) - rows.log_prob) ** 2
            )

        def curvature(vector: Tensor) -> Tensor:
            """The Hessian of the KL divergence at the old policy, times a vector."""
            return jax.jvp(jax.grad(kl), (start,), (vector,))[1] + config.damping * vector

        before, gradient = jax.value_and_grad(gain)(start)
        direction = conjugate_gradient(curvature, gradient, config.conjugate_steps)
        length = jnp.sqrt(
            2.0 * config.max_kl / jnp.maximum(direction @ curvature(direction), 1e-12)
        )

        def accept(size: Tensor) -> Tensor:
            flat = start + size * length * direction
            return (gain(flat) > before) & (kl(flat) <= config.max_kl)

        size, tries = line_search(accept, config.backtracks)
        state = state._replace(policy=unravel(start + size * length * direction))
        bonus = self.bonus(state.policy, self.distribution(state.policy, rows.inputs), state, batch)
        return state, {"line_search_steps": tries, "step_taken": size, self.bonus_name: bonus}


def conjugate_gradient(product: Callable[[Tensor], Tensor], right: Tensor, steps: int) -> Tensor:
    """x with product(x) = right, after some steps of conjugate gradients from 0; `product` is
    positive definite."""

    def step(
        carry: tuple[Tensor, Tensor, Tensor], _: None
    ) -> tuple[tuple[Tensor, Tensor, Tensor], None]:
        x, residual, direction = carry
        image = product(direction)
        size = residual @ residual
        alpha = size / jnp.maximum(direction @ image, 1e-12)
        left = residual - alpha * image
        beta = left @ left / jnp.maximum(size, 1e-12)
        return (x + alpha * direction, left, left + beta * direction), None

    (x, _, _), _ = jax.lax.scan(step, (jnp.zeros_like(right), right, right), None, steps)
    return x


def line_search(accept: Callable[[Tensor], Tensor], tries: int) -> tuple[Tensor, Tensor]:
    """The largest of 1, 1/2, 1/4, ... that is accepted, and how many were tried; 0 if none of
    `tries` is."""

    def rejected(carry: tuple[Tensor, Tensor, Tensor]) -> Tensor:
        _, tried, accepted = carry
        return ~accepted & (tried < tries)

    def halve(carry: tuple[Tensor, Tensor, Tensor]) -> tuple[Tensor, Tensor, Tensor]:
        _, tried, _ = carry
        size = 0.5**tried
        return size, tried + 1, accept(size)

    first = (jnp.array(0.0), jnp.array(0), jnp.array(False))
    size, tried, accepted = jax.lax.while_loop(rejected, halve, first)
    return jnp.where(accepted, size, 0.0), tried
