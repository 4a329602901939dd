"""What A2C, A3C, PPO and TRPO share: steps under hindsight goals with their advantages."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax.numpy as jnp

from hindsight.agents.agent import Metrics
from hindsight.agents.config import ActorCriticConfig
from hindsight.agents.goal_batch import GoalBatch, outcome
from hindsight.agents.hindsight_weights import (
    advantages,
    chosen_rows,
    diagnostics,
    log_ratios,
    log_steps,
    weights,
)
from hindsight.agents.policy_gradient import CriticBatch, PolicyGradient, State, goal_shares
from hindsight.networks import Params
from hindsight.types import Tensor


class Rows(NamedTuple):
    """R steps, each under one goal. Weights sum to 1."""

    inputs: Tensor  # [R, i]
    time: Tensor  # [R]
    action: Tensor  # [R] or [R, a]
    distribution: Tensor  # [R, d] of the old policy, under the same goal
    log_prob: Tensor  # [R] the same
    weight: Tensor  # [R]
    advantage: Tensor  # [R]
    target: Tensor  # [R] for the critic
    may_teach: Tensor  # [R] the critic


class ActorCritic(PolicyGradient):
    config: ActorCriticConfig

    def prepare(self, state: State, batch: GoalBatch, key: Tensor) -> tuple[Rows, Metrics]:
        """The rows of a batch: importance weights, advantages by the critic, then a draw in
        proportion to both."""
        config = self.config
        inputs, time = self.goal_inputs(state.scale, batch)
        result = outcome(
            batch.hit, batch.counts, batch.length, batch.ends, config.gamma, batch.failed
        )
        distribution = self.distribution(state.policy, inputs[..., :-1, :])
        log_pi = self.log_prob(distribution, batch.action)
        log_rho = log_ratios(log_pi, batch.log_prob, result.alive, config.clamp_log_ratio)
        weight = weights(log_rho, result, self.estimator) * goal_shares(batch.used)
        # Probabilities were recorded with the normaliser of then: without hindsight that is no
        # reason for a ratio.
        log_step = (
            log_steps(log_pi, batch.log_prob, result.alive)
            if config.hindsight
            else jnp.zeros_like(log_pi)
        )
        value = self.value(state.critic, inputs, time)
        advantage, target = advantages(log_step, result, value, config.gamma, config.gae_lambda)
        if config.critic_lambda is not None:
            _, target = advantages(log_step, result, value, config.gamma, config.critic_lambda)
        may_subtract = jnp.broadcast_to(self.may_subtract(batch), weight.shape)
        advantage = jnp.where(
            may_subtract, advantage, advantage + value[..., :-1]
        )  # elsewhere V is added back
        metrics = diagnostics(log_rho, result, batch.hit, batch.used, config.hindsight)._asdict()

        # The policy learns from rows of large advantage, the critic from all: drawn from an equal
        # mixture of both.
        size = jnp.abs(advantage)
        mass = weight * (1.0 + size * jnp.sum(weight) / jnp.maximum(jnp.sum(weight * size), 1e-9))
        chosen, drawn = chosen_rows(weight.ravel(), config.rows, key, mass.ravel())
        action = jnp.broadcast_to(batch.action, (*log_pi.shape, *batch.action.shape[2:]))

        def take(x: Tensor) -> Any:
            return x.reshape(-1, *x.shape[3:])[chosen]

        rows = Rows(
            take(inputs[..., :-1, :]),
            take(time[..., :-1]),
            take(action),
            take(distribution),
            take(log_pi),
            drawn / jnp.maximum(drawn.sum(), 1e-9),
            take(advantage),
            take(target),
            take(may_subtract),
        )
        if config.normalize_advantages:
            rows = rows._replace(advantage=normalized(rows.advantage, rows.weight))
        return rows, metrics | {"value": jnp.sum(rows.weight * rows.target)}

    def fit(self, state: State, rows: Rows) -> tuple[State, Metrics]:
        """The critic learns from the rows that may teach it."""
        return self.fit_critic(
            state, CriticBatch(rows.inputs, rows.time, rows.target, rows.weight * rows.may_teach)
        )

    def change(self, policy: Params, rows: Rows) -> Metrics:
        """How far an update has moved the policy: the exact KL divergence, and its estimate from
        the actions taken."""
        distribution = self.distribution(policy, rows.inputs)
        log_ratio = self.log_prob(distribution, rows.action) - rows.log_prob
        exact = jnp.sum(rows.weight * self.kl(rows.distribution, distribution))
        return {"kl": exact, "kl_sampled": 0.5 * jnp.sum(rows.weight * log_ratio**2)}


def normalized(advantage: Tensor, weight: Tensor) -> Tensor:
    """Advantages divided by their deviation from 0. Not centred: hindsight advantages that are
    all good stay good."""
    return advantage / (jnp.sqrt(jnp.sum(weight * advantage**2)) + 1e-3)
