"""What A2C, A3C, PPO and TRPO share: steps under hindsight goals with their advantages."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax.numpy as jnp

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
from hindsight.gradients.weights import advantages, diagnostics, log_ratios, log_steps, weights
from hindsight.networks import Params
from hindsight.normalizer import Scale
from hindsight.replay.replay import Batch
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
    free: Tensor  # [R] may teach the critic

    @property
    def lessons(self) -> Lessons:
        return Lessons(self.inputs, self.time, self.target, self.weight * self.free)


def prepare(model: Model, state: State, scale: Scale, batch: GoalBatch | Batch, key: Tensor) -> tuple[Rows, Metrics]:
    """The rows of a batch: importance weights, advantages by the critic, then a draw in proportion to the weights."""
    config = model.config
    assert not isinstance(config, HPGConfig)
    if isinstance(batch, Batch):
        return _prepare_anew(model, state, scale, batch, key)
    inputs, time = goal_inputs(model, scale, batch)
    result = outcome(batch.hit, batch.counts, batch.length, batch.ends, config.gamma)
    distribution = model.distribution(state.policy, inputs[..., :-1, :])
    log_pi = model.log_prob(distribution, batch.action)
    log_rho = log_ratios(log_pi, batch.log_prob, result.alive, config.clamp_log_ratio)
    weight = weights(log_rho, result, estimator_of(model)) * goal_shares(batch.used)
    log_step = log_steps(log_pi, batch.log_prob, result.alive) if config.hindsight else jnp.zeros_like(log_pi)
    value = model.value(state.critic, inputs, time)
    advantage, target = advantages(log_step, result, value, config.gamma, config.trace)
    if config.critic_trace is not None:
        _, target = advantages(log_step, result, value, config.gamma, config.critic_trace)
    free = jnp.broadcast_to(may_subtract(model, batch), weight.shape)
    advantage = jnp.where(free, advantage, advantage + value[..., :-1])
    metrics = diagnostics(log_rho, result, batch.hit, batch.used, config.hindsight)._asdict()

    # The policy learns from advantages, the critic from all rows: half of them are drawn for either.
    size = jnp.abs(advantage)
    size = weight * (1.0 + size * jnp.sum(weight) / jnp.maximum(jnp.sum(weight * size), 1e-9))
    chosen, drawn = chosen_rows(weight.ravel(), config.rows, key, size.ravel())
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
        take(free),
    )
    return _normalized(model, rows), metrics | {"value": jnp.sum(rows.weight * rows.target)}


def _prepare_anew(model: Model, state: State, scale: Scale, batch: Batch, key: Tensor) -> tuple[Rows, Metrics]:
    """The same of replayed states under their goals, with actions drawn anew: no ratios, all weights alike."""
    inputs = model.inputs(scale, batch.observation, batch.goal)
    distribution = model.distribution(state.policy, inputs)
    action = model.drawn(distribution, key)
    value = model.state_value(state.critic, inputs, distribution)
    advantage = model.action_value(state.critic, inputs, action) - value
    log_prob, nothing = model.log_prob(distribution, action), jnp.zeros_like(value)
    weight = jnp.full(len(value), 1.0 / len(value))
    rows = Rows(inputs, nothing, action, distribution, log_prob, weight, advantage, value, nothing)
    metrics = {"value": jnp.mean(value), "advantage": jnp.std(advantage)}
    return _normalized(model, rows), metrics | {"entropy": jnp.mean(model.entropy(distribution))}


def _normalized(model: Model, rows: Rows) -> Rows:
    assert not isinstance(model.config, HPGConfig)
    if not model.config.normalize_advantages:
        return rows
    deviation = jnp.sqrt(jnp.sum(rows.weight * rows.advantage**2))
    return rows._replace(advantage=rows.advantage / (deviation + 1e-3))


def exploration(
    model: Model, policy: Params, scale: Scale, batch: GoalBatch | Batch, rows: Rows, distribution: Tensor
) -> Tensor:
    """What the weight of the entropy multiplies: entropy as the policy explored; or, in replayed states, how near the
    policy [R, d] of the rows is to one without any preference."""
    if not isinstance(batch, Batch):
        return pursued_entropy(model, policy, scale, batch)
    return jnp.sum(rows.weight * model.nearness(distribution)) / jnp.maximum(rows.weight.sum(), 1e-9)


def explored(batch: GoalBatch | Batch, found: Tensor) -> Metrics:
    """The same as a metric."""
    return {"nearness" if isinstance(batch, Batch) else "entropy": found}


def fit(model: Model, state: State, rows: Rows, rates: Rates) -> tuple[State, Metrics]:
    """The critic's lessons from the rows, unless it learns from replay."""
    return (state, {}) if model.replayed else fit_critic(model, state, rows.lessons, rates)


def change(model: Model, policy: Params, rows: Rows) -> Metrics:
    """How far an update has moved the policy: the exact KL divergence, and its estimate from the actions taken."""
    distribution = model.distribution(policy, rows.inputs)
    log_ratio = model.log_prob(distribution, rows.action) - rows.log_prob
    exact = jnp.sum(rows.weight * model.kl(rows.distribution, distribution))
    return {"kl": exact, "kl_sampled": 0.5 * jnp.sum(rows.weight * log_ratio**2)}
