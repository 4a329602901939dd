"""Hindsight policy gradient (Rauber et al., 2019): a step of Adam along the estimated gradient, or some, per batch."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from hindsight.agents.losses import adam_step
from hindsight.gradients.batch import GoalBatch, outcome
from hindsight.gradients.config import HPGConfig
from hindsight.gradients.critic import Lessons, fit_critic
from hindsight.gradients.model import Model
from hindsight.gradients.rows import chosen_rows
from hindsight.gradients.state import (
    Metrics,
    Rates,
    State,
    estimator_of,
    goal_inputs,
    goal_shares,
    may_subtract,
    pursued_entropy,
)
from hindsight.gradients.weights import (
    advantages,
    coefficients,
    diagnostics,
    followed,
    log_ratios,
    log_steps,
    weights,
    with_tails,
)
from hindsight.networks import Params
from hindsight.normalizer import Scale
from hindsight.types import Tensor


def update(
    model: Model, state: State, scale: Scale, batch: GoalBatch, rates: Rates, key: Tensor
) -> tuple[State, Metrics]:
    """The updates from a batch of episodes under its goals; each weighs the episodes anew."""
    config = model.config
    assert isinstance(config, HPGConfig)

    def step(state: State, key: Tensor) -> tuple[State, Metrics]:
        return _step(model, config, state, scale, batch, rates, key)

    if config.updates == 1:
        return step(state, key)
    state, metrics = jax.lax.scan(step, state, jax.random.split(key, config.updates))
    return state, {name: jnp.mean(values) for name, values in metrics.items()}


def _step(
    model: Model, config: HPGConfig, state: State, scale: Scale, batch: GoalBatch, rates: Rates, key: Tensor
) -> tuple[State, Metrics]:
    inputs, time = goal_inputs(model, scale, batch)
    result = outcome(batch.hit, batch.counts, batch.length, batch.ends, config.gamma)
    free = may_subtract(model, batch)
    value = None
    if config.baseline != "none":
        value = followed(model.value(state.critic, inputs, time), result)

    # One pass for the weights, then the gradient of the rows that matter.
    log_pi = model.log_prob(model.distribution(state.policy, inputs[..., :-1, :]), batch.action)
    log_rho = log_ratios(log_pi, batch.log_prob, result.alive, config.clamp_log_ratio)
    weight = weights(log_rho, result, estimator_of(model)) * goal_shares(batch.used)
    subtracted = value if value is None or config.baseline == "paper" else jnp.where(free, value, 0.0)
    reward = result.reward if config.baseline != "value" else with_tails(result, value, config.gamma)
    coefficient = coefficients(weight, reward, config.gamma, subtracted, config.baseline)
    rows, coefficient = chosen_rows(coefficient.ravel(), config.rows, key)
    action = jnp.broadcast_to(batch.action, (*log_pi.shape, *batch.action.shape[2:]))
    action = action.reshape(-1, *batch.action.shape[2:])[rows]
    states = inputs[..., :-1, :].reshape(-1, inputs.shape[-1])[rows]

    def loss(policy: Params) -> tuple[Tensor, Tensor]:
        entropy = pursued_entropy(model, policy, scale, batch)
        log_pi = model.log_prob(model.distribution(policy, states), action)
        return -jnp.sum(coefficient * log_pi) / batch.hit.shape[-1] - rates.entropy * entropy, entropy

    gradient, entropy = jax.grad(loss, has_aux=True)(state.policy)
    policy, policy_optimizer = adam_step(state.policy, gradient, state.policy_optimizer, rates.policy)
    state = state._replace(policy=policy, policy_optimizer=policy_optimizer)
    metrics = diagnostics(log_rho, result, batch.hit, batch.used, config.hindsight)._asdict()
    metrics |= {"entropy": entropy}
    if value is None:
        return state, metrics

    # The critic learns the value of hindsight goals, too.
    log_step = log_steps(log_pi, batch.log_prob, result.alive)
    _, target = advantages(log_step, result, value, config.gamma, 1.0)
    learnt = (weight * free).ravel()
    rows, learnt = chosen_rows(learnt / jnp.maximum(learnt.sum(), 1e-9), config.rows, jax.random.fold_in(key, 1))
    states = inputs[..., :-1, :].reshape(-1, inputs.shape[-1])[rows]
    lessons = Lessons(states, time[..., :-1].ravel()[rows], target.ravel()[rows], learnt)
    state, fitted = fit_critic(model, state, lessons, rates)
    return state, metrics | fitted
