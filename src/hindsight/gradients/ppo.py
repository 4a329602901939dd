"""Proximal policy optimisation with hindsight: min(q A, clip(q) A), q = pi_new/pi_old under the same hindsight goal.

The importance weights of the goals (old policy, pursued to hindsight goal) are fixed and stay outside of the clip.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from hindsight.agents.losses import adam_step
from hindsight.gradients.actor_critic import Rows, change, exploration, explored, fit, prepare
from hindsight.gradients.batch import GoalBatch
from hindsight.gradients.config import PPOConfig
from hindsight.gradients.model import Model
from hindsight.gradients.state import Metrics, Rates, State
from hindsight.networks import Params
from hindsight.normalizer import Scale
from hindsight.replay.replay import Batch
from hindsight.types import Tensor


def surrogate(log_ratio: Tensor, advantage: Tensor, clip: float) -> Tensor:
    """min(q A, clip(q, 1 - clip, 1 + clip) A) of log q."""
    ratio = jnp.exp(log_ratio)
    return jnp.minimum(ratio * advantage, jnp.clip(ratio, 1.0 - clip, 1.0 + clip) * advantage)


def update(
    model: Model, state: State, scale: Scale, batch: GoalBatch | Batch, rates: Rates, key: Tensor
) -> tuple[State, Metrics]:
    """Several passes over the rows of a batch, in minibatches."""
    config = model.config
    assert isinstance(config, PPOConfig)
    draw, order = jax.random.split(key)
    rows, metrics = prepare(model, state, scale, batch, draw)

    def step(state: State, part: Rows) -> tuple[State, Tensor]:
        def loss(policy: Params) -> tuple[Tensor, Tensor]:
            distribution = model.distribution(policy, part.inputs)
            entropy = exploration(model, policy, scale, batch, part, distribution)
            log_ratio = model.log_prob(distribution, part.action) - part.log_prob
            gain = jnp.sum(part.weight * surrogate(log_ratio, part.advantage, config.clip))
            return -gain / jnp.maximum(part.weight.sum(), 1e-9) - rates.entropy * entropy, entropy

        gradient, entropy = jax.grad(loss, has_aux=True)(state.policy)
        policy, optimizer = adam_step(state.policy, gradient, state.policy_optimizer, rates.policy)
        return state._replace(policy=policy, policy_optimizer=optimizer), entropy

    def epoch(state: State, key: Tensor) -> tuple[State, Tensor]:
        size = len(rows.weight) // config.minibatches
        shuffled = jax.random.permutation(key, len(rows.weight))[: size * config.minibatches]
        parts = jax.tree.map(lambda x: x[shuffled].reshape(config.minibatches, size, *x.shape[1:]), rows)
        return jax.lax.scan(step, state, parts)

    state, entropies = jax.lax.scan(epoch, state, jax.random.split(order, config.epochs))
    state, fitted = fit(model, state, rows, rates)
    return state, metrics | fitted | explored(batch, jnp.mean(entropies)) | change(model, state.policy, rows)
