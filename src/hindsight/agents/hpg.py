"""Hindsight policy gradient (Rauber et al., 2019): a step of Adam along the estimated gradient,
or some, per batch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

import jax
import jax.numpy as jnp
from tyro.conf import Suppress

from hindsight.agents.agent import Metrics
from hindsight.agents.config import OnPolicyAgentConfig
from hindsight.agents.goal_batch import GoalBatch
from hindsight.agents.hindsight_weights import (
    advantages,
    chosen_rows,
    coefficients,
    diagnostics,
    log_ratios,
    weights,
    where_it_continues,
    with_tails,
)
from hindsight.agents.losses import adam_step
from hindsight.agents.policy_gradient import CriticBatch, PolicyGradient, State, goal_shares
from hindsight.errors import HindsightError
from hindsight.networks import Params
from hindsight.settings import Count, refuse_changes
from hindsight.types import Tensor


@dataclass(frozen=True)
class HPGConfig(OnPolicyAgentConfig):
    """Hindsight policy gradient, the REINFORCE-like one: one step of Adam per batch."""

    method: Annotated[str, Suppress] = "hpg"
    baseline: Literal["none", "value", "td", "paper"] = "none"
    """None, V(s,g,t), TD errors in the place of rewards, or the paper's Eq. 2 literally."""
    updates: Count = 1
    """Steps of Adam per batch; importance weights are computed anew for each, which needs
    hindsight if it is not 1."""

    def check(self) -> None:
        if self.updates > 1 and not self.hindsight:
            raise HindsightError(
                "agent.updates above 1 needs importance weights: leave agent.hindsight on"
            )
        if self.baseline == "none":
            why = "without an agent.baseline"
            refuse_changes(
                self, ("critic_learning_rate", "critic_updates", "leave_one_out"), "agent.", why
            )


class HPG(PolicyGradient):
    config: HPGConfig

    def update(self, state: State, batch: GoalBatch, key: Tensor) -> tuple[State, Metrics]:
        """The updates from a batch of episodes under its goals; each weighs the episodes anew."""

        def step(state: State, key: Tensor) -> tuple[State, Metrics]:
            return self._step(state, batch, key)

        if self.config.updates == 1:
            return step(state, key)
        state, metrics = jax.lax.scan(step, state, jax.random.split(key, self.config.updates))
        return state, {name: jnp.mean(values) for name, values in metrics.items()}

    def _step(self, state: State, batch: GoalBatch, key: Tensor) -> tuple[State, Metrics]:
        config = self.config
        inputs, time = self.goal_inputs(state.scale, batch)
        result = batch.outcome(config.gamma)
        free = self.may_subtract(batch)
        value = None
        if config.baseline != "none":
            value = where_it_continues(self.value(state.critic, inputs, time), result)

        # One pass for the weights, then the gradient of the rows that matter.
        log_pi = self.log_prob(self.distribution(state.policy, inputs[..., :-1, :]), batch.action)
        log_rho = log_ratios(log_pi, batch.log_prob, result.alive, config.clamp_log_ratio)
        weight = weights(log_rho, result, self.estimator) * goal_shares(batch.used)
        subtracted = (
            value if value is None or config.baseline == "paper" else jnp.where(free, value, 0.0)
        )
        reward = (
            result.reward if config.baseline != "value" else with_tails(result, value, config.gamma)
        )
        coefficient = coefficients(weight, reward, config.gamma, subtracted, config.baseline)
        rows, coefficient = chosen_rows(coefficient.ravel(), config.rows, key)
        action = jnp.broadcast_to(batch.action, (*log_pi.shape, *batch.action.shape[2:]))
        action = action.reshape(-1, *batch.action.shape[2:])[rows]
        states = inputs[..., :-1, :].reshape(-1, inputs.shape[-1])[rows]

        def loss(policy: Params) -> tuple[Tensor, Tensor]:
            entropy = self.pursued_entropy(policy, state.scale, batch)
            log_pi = self.log_prob(self.distribution(policy, states), action)
            gain = jnp.sum(coefficient * log_pi) / batch.hit.shape[-1]
            return -gain - state.rates.entropy * entropy, entropy

        gradient, entropy = jax.grad(loss, has_aux=True)(state.policy)
        policy, policy_optimizer = adam_step(
            state.policy, gradient, state.policy_optimizer, state.rates.policy
        )
        state = state._replace(policy=policy, policy_optimizer=policy_optimizer)
        metrics = diagnostics(log_rho, result, batch.hit, batch.used, config.hindsight)._asdict()
        metrics |= {"entropy": entropy}
        if value is None:
            return state, metrics

        # The critic learns the value of hindsight goals, too.
        log_step = self.log_step_ratios(log_pi, batch, result)
        _, target = advantages(log_step, result, value, config.gamma, 1.0)
        learnt = (weight * free).ravel()
        rows, learnt = chosen_rows(
            learnt / jnp.maximum(learnt.sum(), 1e-9), config.rows, jax.random.fold_in(key, 1)
        )
        states = inputs[..., :-1, :].reshape(-1, inputs.shape[-1])[rows]
        targets = CriticBatch(states, time[..., :-1].ravel()[rows], target.ravel()[rows], learnt)
        state, fitted = self.fit_critic(state, targets)
        return state, metrics | fitted
