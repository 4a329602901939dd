"""Proximal policy optimisation with hindsight: min(q A, clip(q) A), q = pi_new/pi_old under the
same hindsight goal.

The importance weights of the goals (old policy, pursued to hindsight goal) are fixed and stay
outside of the clip.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar

import jax
import jax.numpy as jnp
import optax
from tyro.conf import Suppress

from hindsight.agents.actor_critic import ActorCritic
from hindsight.agents.agent import Metrics
from hindsight.agents.config import ActorCriticConfig
from hindsight.agents.goal_batch import GoalBatch
from hindsight.agents.losses import adam_step
from hindsight.agents.policy_gradient import Rows, State, StochasticPolicy
from hindsight.errors import HindsightError
from hindsight.networks import Params
from hindsight.settings import Count, OptionalPositive, Positive, Search
from hindsight.types import Tensor


@dataclass(frozen=True)
class PPOConfig(ActorCriticConfig):
    """Proximal policy optimisation with hindsight: several passes over clipped ratios."""

    method: Annotated[str, Suppress] = "ppo"
    clip: Annotated[Positive, Search(0.1, 0.4)] = 0.2
    """How far the ratio of new to old policy, under the same goal, may gain."""
    epochs: Annotated[Count, Search(1, 10)] = 4
    minibatches: Count = 4
    target_kl: OptionalPositive = None
    """A step is left out where the policy has moved farther than this already, as a mean KL
    divergence over its minibatch."""
    max_grad_norm: OptionalPositive = None
    """Longer gradients of the policy are scaled down to this norm: a few rows cannot make a step
    of Adam many times as long as usual."""

    def check(self) -> None:
        super().check()
        if self.rows:
            minibatch_size(self.rows, self.minibatches)


class PPO(ActorCritic):
    config: PPOConfig

    def update(self, state: State, batch: GoalBatch, key: Tensor) -> tuple[State, Metrics]:
        return self.learn(state, batch, *jax.random.split(key))

    def improve(
        self, state: State, batch: GoalBatch, rows: Rows, key: Tensor
    ) -> tuple[State, Metrics]:
        def bonus(policy: Params, distribution: Tensor) -> Tensor:
            return self.bonus(policy, distribution, state, batch)

        limits = self.config.target_kl, self.config.max_grad_norm
        state, mean = clipped_passes(self, state, rows, bonus, key, *limits)
        return state, {self.bonus_name: mean}


Learner = TypeVar("Learner", bound=Any)
"""A state with `policy`, `policy_optimizer` and `rates`."""


def clipped_passes(
    agent: StochasticPolicy,
    state: Learner,
    rows: Rows,
    bonus: Callable[[Params, Tensor], Tensor],
    key: Tensor,
    target_kl: float | None = None,
    max_grad_norm: float | None = None,
) -> tuple[Learner, Tensor]:
    """The state after `epochs` passes over the rows, in shuffled minibatches, with a step of Adam
    on each; and the mean of the bonus that the rate `entropy` weighs, of a policy and its
    distributions in the rows."""
    config = agent.config

    def step(state: Learner, part: Rows) -> tuple[Learner, Tensor]:
        def loss(policy: Params) -> tuple[Tensor, Tensor]:
            distribution = agent.distribution(policy, part.inputs)
            found = bonus(policy, distribution)
            log_ratio = agent.log_prob(distribution, part.action) - part.log_prob
            gain = jnp.sum(part.weight * surrogate(log_ratio, part.advantage, config.clip))
            # Minibatches count alike, whatever their rows weigh together.
            gain /= jnp.maximum(part.weight.sum(), 1e-9)
            return -gain - state.rates.entropy * found, found

        gradient, found = jax.grad(loss, has_aux=True)(state.policy)
        if max_grad_norm is not None:
            clip = optax.clip_by_global_norm(max_grad_norm)
            gradient, _ = clip.update(gradient, clip.init(gradient))
        before = state.policy, state.policy_optimizer
        after = adam_step(state.policy, gradient, state.policy_optimizer, state.rates.policy)
        if target_kl is not None:
            moved = agent.kl(part.distribution, agent.distribution(state.policy, part.inputs))
            too_far = jnp.sum(part.weight * moved) > target_kl * part.weight.sum()
            after = jax.tree.map(lambda old, new: jnp.where(too_far, old, new), before, after)
        policy, optimizer = after
        return state._replace(policy=policy, policy_optimizer=optimizer), found

    def epoch(state: Learner, key: Tensor) -> tuple[Learner, Tensor]:
        size = minibatch_size(len(rows.weight), config.minibatches)
        shuffled = jax.random.permutation(key, len(rows.weight))[: size * config.minibatches]
        parts = jax.tree.map(
            lambda x: x[shuffled].reshape(config.minibatches, size, *x.shape[1:]), rows
        )
        return jax.lax.scan(step, state, parts)

    state, found = jax.lax.scan(epoch, state, jax.random.split(key, config.epochs))
    return state, jnp.mean(found)


def surrogate(log_ratio: Tensor, advantage: Tensor, clip: float) -> Tensor:
    """min(q A, clip(q, 1 - clip, 1 + clip) A) of log q."""
    ratio = jnp.exp(log_ratio)
    return jnp.minimum(ratio * advantage, jnp.clip(ratio, 1.0 - clip, 1.0 + clip) * advantage)


def minibatch_size(rows: int, minibatches: int) -> int:
    """Rows of each. Raises HindsightError if that is none."""
    if rows < minibatches:
        raise HindsightError(
            f"agent.minibatches {minibatches} are more than the {rows} rows of an update: choose "
            "fewer, or more agent.rows"
        )
    return rows // minibatches
