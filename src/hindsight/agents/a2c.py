"""Advantage actor-critic with hindsight: w_t log pi(a_t|s_t,g) A(s_t,a_t,g), one step of Adam
per batch, or, with a critic of actions, one after every turn of the critic."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import jax
import jax.numpy as jnp
from tyro.conf import Suppress

from hindsight.agents.actor_critic import ActorCritic
from hindsight.agents.agent import Metrics
from hindsight.agents.config import ActorCriticConfig
from hindsight.agents.goal_batch import GoalBatch
from hindsight.agents.losses import adam_step
from hindsight.agents.policy_gradient import Rows, State
from hindsight.networks import Params
from hindsight.settings import Threads
from hindsight.types import Tensor


@dataclass(frozen=True)
class A2CConfig(ActorCriticConfig):
    """Advantage actor-critic with hindsight: one step of Adam on the policy per batch, or, with
    `agent.critic action`, `policy_updates` of them."""

    method: Annotated[str, Suppress] = "a2c"


class A2C(ActorCritic):
    config: A2CConfig

    def improve(
        self, state: State, batch: GoalBatch, rows: Rows, key: Tensor
    ) -> tuple[State, Metrics]:
        def loss(policy: Params) -> tuple[Tensor, Tensor]:
            distribution = self.distribution(policy, rows.inputs)
            bonus = self.bonus(policy, distribution, state, batch)
            log_pi = self.log_prob(distribution, rows.action)
            gain = jnp.sum(rows.weight * rows.advantage * log_pi)
            return -gain - state.rates.entropy * bonus, bonus

        gradient, bonus = jax.grad(loss, has_aux=True)(state.policy)
        policy, optimizer = adam_step(
            state.policy, gradient, state.policy_optimizer, state.rates.policy
        )
        return state._replace(policy=policy, policy_optimizer=optimizer), {self.bonus_name: bonus}


@dataclass(frozen=True)
class A3CConfig(A2CConfig):
    """A2C by asynchronous workers, each with its own copy of the policy and its own envs."""

    method: Annotated[str, Suppress] = "a3c"
    workers: Threads = 2
    """Threads that play and compute gradients."""
    deterministic: bool = False
    """Workers hand in their gradients in turn, so that the same seed gives the same bytes."""


class A3C(A2C):
    """The learner of one worker: what is asynchronous about A3C is its training loop."""

    config: A3CConfig
