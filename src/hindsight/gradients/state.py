"""What the policy-gradient learners change, and how a batch looks to their networks."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from hindsight.gradients.batch import GoalBatch
from hindsight.gradients.model import Model
from hindsight.gradients.weights import Estimator, chosen_anyway
from hindsight.networks import Params, copy_of
from hindsight.normalizer import Scale
from hindsight.types import Tensor

Metrics = dict[str, Any]


class State(NamedTuple):
    """All that learning changes."""

    policy: Params
    critic: Params
    policy_optimizer: Any
    critic_optimizer: Any
    target: Params = None
    """Of a replayed critic: what it was some updates ago."""


class Rates(NamedTuple):
    """The settings that follow a schedule."""

    policy: Tensor
    critic: Tensor
    entropy: Tensor


def init(model: Model, key: Tensor) -> State:
    first, second = jax.random.split(key)
    policy, critic = model.init_policy(first), model.init_critic(second)
    target = copy_of(critic) if model.replayed else None
    return State(policy, critic, optax.scale_by_adam().init(policy), optax.scale_by_adam().init(critic), target)


def goal_inputs(model: Model, scale: Scale, batch: GoalBatch) -> tuple[Tensor, Tensor]:
    """Network inputs [G, N, T+1, i] of every state under every goal, and times [G, N, T+1] as shares of the horizon."""
    goals, (episodes, states) = batch.goal.shape[0], batch.observation.shape[:2]
    observation = jnp.broadcast_to(batch.observation, (goals, *batch.observation.shape))
    goal = jnp.broadcast_to(batch.goal[:, :, None], (goals, episodes, states, batch.goal.shape[-1]))
    time = jnp.broadcast_to(jnp.arange(states) / (states - 1), (goals, episodes, states))
    return model.inputs(scale, observation, goal), time


def estimator_of(model: Model) -> Estimator:
    return model.config.estimator if model.config.hindsight else "plain"


def may_subtract(model: Model, batch: GoalBatch) -> Tensor:
    """[G, N, 1]: where a value may be subtracted, and learn."""
    if not model.config.leave_one_out:
        return jnp.ones((*batch.hit.shape[:2], 1), bool)
    return chosen_anyway(batch.hit, batch.asked)


def goal_shares(used: Tensor) -> Tensor:
    """p(g) [G, 1, 1]: uniform over the goals in use."""
    return (used / jnp.maximum(used.sum(), 1))[:, None, None]


def pursued_entropy(model: Model, policy: Params, scale: Scale, batch: GoalBatch) -> Tensor:
    """Mean entropy of the policy as it explored: in the states of the episodes, under the goals they pursued."""
    observation = batch.observation[:, :-1]
    goal = jnp.broadcast_to(batch.pursued[:, None], (*observation.shape[:2], batch.pursued.shape[-1]))
    entropy = model.entropy(model.distribution(policy, model.inputs(scale, observation, goal)))
    happened = jnp.arange(observation.shape[1]) < batch.length[:, None]
    return jnp.sum(jnp.where(happened, entropy, 0.0)) / jnp.sum(happened)
