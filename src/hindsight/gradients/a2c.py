"""Advantage actor-critic with hindsight: w_t log pi(a_t|s_t,g) A(s_t,a_t,g), one step of Adam per batch."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from hindsight.agents.losses import adam_step
from hindsight.gradients.actor_critic import change, exploration, explored, fit, prepare
from hindsight.gradients.batch import GoalBatch
from hindsight.gradients.model import Model
from hindsight.gradients.state import Metrics, Rates, State
from hindsight.networks import Params
from hindsight.normalizer import Scale
from hindsight.replay.replay import Batch
from hindsight.types import Tensor


def update(
    model: Model, state: State, scale: Scale, batch: GoalBatch | Batch, rates: Rates, key: Tensor
) -> tuple[State, Metrics]:
    """One update from a batch of episodes under its goals."""
    rows, metrics = prepare(model, state, scale, batch, key)

    def loss(policy: Params) -> tuple[Tensor, Tensor]:
        distribution = model.distribution(policy, rows.inputs)
        entropy = exploration(model, policy, scale, batch, rows, distribution)
        log_pi = model.log_prob(distribution, rows.action)
        return -jnp.sum(rows.weight * rows.advantage * log_pi) - rates.entropy * entropy, entropy

    gradient, entropy = jax.grad(loss, has_aux=True)(state.policy)
    policy, optimizer = adam_step(state.policy, gradient, state.policy_optimizer, rates.policy)
    state = state._replace(policy=policy, policy_optimizer=optimizer)
    state, fitted = fit(model, state, rows, rates)
    return state, metrics | fitted | change(model, policy, rows) | explored(batch, entropy)
