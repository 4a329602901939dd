"""Proximal policy optimisation with hindsight: min(q A, clip(q) A), q = pi_new/pi_old under the
same hindsight goal.

The importance weights of the goals (old policy, pursued to hindsight goal) are fixed and stay
outside of the clip.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import jax
import jax.numpy as jnp
from tyro.conf import Suppress

from hindsight.agents.actor_critic import ActorCritic, Rows
from hindsight.agents.agent import Metrics
from hindsight.agents.config import ActorCriticConfig
from hindsight.agents.goal_batch import GoalBatch
from hindsight.agents.losses import adam_step
from hindsight.agents.policy_gradient import State
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

    def check(self) -> None:
        super().check()
        if self.rows:
            minibatch_size(self.rows, self.minibatches)


def minibatch_size(rows: int, minibatches: int) -> int:
    """Rows of each. Raises HindsightError if that is none."""
    if rows < minibatches:
        raise HindsightError(
            f"agent.minibatches {minibatches} are more than the {rows} rows of an update: choose "
            "fewer, or more agent.rows"
        )
    return rows // minibatches


def surrogate(log_ratio: Tensor, advantage: Tensor, clip: float) -> Tensor:
    """min(q A, clip(q, 1 - clip, 1 + clip) A) of log q."""
    ratio = jnp.exp(log_ratio)
    return jnp.minimum(ratio * advantage, jnp.clip(ratio, 1.0 - clip, 1.0 + clip) * advantage)


class PPO(ActorCritic):
    config: PPOConfig

    def update(self, state: State, batch: GoalBatch, key: Tensor) -> tuple[State, Metrics]:
        return self.learn(state, batch, *jax.random.split(key))

    def improve(
        self, state: State, batch: GoalBatch, rows: Rows, key: Tensor
    ) -> tuple[State, Metrics]:
        """Several passes over the rows of a batch, in minibatches."""
        config = self.config

        def step(state: State, part: Rows) -> tuple[State, Tensor]:
            def loss(policy: Params) -> tuple[Tensor, Tensor]:
                distribution = self.distribution(policy, part.inputs)
                entropy = self.bonus(policy, distribution, state, batch)
                log_ratio = self.log_prob(distribution, part.action) - part.log_prob
                gain = jnp.sum(part.weight * surrogate(log_ratio, part.advantage, config.clip))
                # Minibatches count alike, whatever their rows weigh together; the entropy is that
                # of the batch.
                return -gain / jnp.maximum(
                    part.weight.sum(), 1e-9
                ) - state.rates.entropy * entropy, entropy

            gradient, entropy = jax.grad(loss, has_aux=True)(state.policy)
            moved = adam_step(state.policy, gradient, state.policy_optimizer, state.rates.policy)
            if config.target_kl is not None:
                too_far = (
                    self.change(state.policy, part)["kl"] > config.target_kl * part.weight.sum()
                )
                moved = jax.tree.map(
                    lambda old, new: jnp.where(too_far, old, new),
                    (state.policy, state.policy_optimizer),
                    moved,
                )
            policy, optimizer = moved
            return state._replace(policy=policy, policy_optimizer=optimizer), entropy

        def epoch(state: State, key: Tensor) -> tuple[State, Tensor]:
            size = minibatch_size(len(rows.weight), config.minibatches)
            shuffled = jax.random.permutation(key, len(rows.weight))[: size * config.minibatches]
            parts = jax.tree.map(
                lambda x: x[shuffled].reshape(config.minibatches, size, *x.shape[1:]), rows
            )
            return jax.lax.scan(step, state, parts)

        state, entropies = jax.lax.scan(epoch, state, jax.random.split(key, config.epochs))
        return state, {"entropy": jnp.mean(entropies)}
