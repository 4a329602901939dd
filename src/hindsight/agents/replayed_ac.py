"""An off-policy actor-critic: Q learns from replay with hindsight, and a stochastic policy from Q
by clipped steps.

Where an episode hardly ever reaches a goal by chance, a batch of episodes does not tell what goals
are worth. All episodes so far do, replayed with hindsight. The policy then learns by the paper's
Appendix D in its first form,

    L(pi) = E_{g, s ~ rho, a ~ pi_g} A^{pi'_g}(s, a),

in replayed states under hindsight goals, with actions drawn anew: no ratio must correct what
another goal made of them. Its steps are clipped as PPO's are, but nothing about it is on-policy:
`agent.critic action` of PPO is its relative that is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from tyro.conf import Suppress

from hindsight.acting import Actor, RandomActions
from hindsight.agents.action_critic import ActionCritic
from hindsight.agents.agent import Metrics, OffPolicyAgent
from hindsight.agents.config import OffPolicyAgentConfig
from hindsight.agents.losses import adam_step, kept, td_loss
from hindsight.agents.policy_gradient import Rates, normalized
from hindsight.agents.ppo import clipped_passes, minibatch_size
from hindsight.collect import Act
from hindsight.networks import Params, average, copy_of
from hindsight.normalizer import Scale
from hindsight.replay.batch import Batch, RewardScale, TDErrors
from hindsight.replay.priority_index import importance_weights
from hindsight.schedules import Schedule
from hindsight.settings import (
    LEARNING_RATES,
    Count,
    CountOrZero,
    Positive,
    RateSchedule,
    Search,
    Share,
    ShareSchedule,
)
from hindsight.types import Array, Floats, Tensor


@dataclass(frozen=True)
class ReplayedACConfig(OffPolicyAgentConfig):
    """Off-policy actor-critic: Q from replay, a stochastic policy by clipped steps in replayed
    states."""

    method: Annotated[str, Suppress] = "replayed-ac"
    tau: Annotated[Share, Search(0.001, 0.05, log=True)] = 0.005
    target_update_interval: Count = 1
    learning_rate: Annotated[RateSchedule, LEARNING_RATES] = Schedule.parse(3e-4)
    """Of the policy."""
    critic_learning_rate: Annotated[RateSchedule, LEARNING_RATES] = Schedule.parse(1e-3)
    entropy: RateSchedule = Schedule.parse(0.0)
    """Weight of how near the policy stays to the one that it began as."""
    init_std: Positive = 0.5
    """Initial deviation of a Gaussian policy, as a share of half the action range."""
    random_actions: ShareSchedule = Schedule.parse(0.0)
    """Share of actions drawn uniformly at random while exploring."""
    rows: CountOrZero = 2048
    """Replayed states that the policy learns from after the updates of the critic; 0 takes all."""
    epochs: Count = 4
    """Passes over them."""
    minibatches: Count = 4
    """Steps of the policy per pass."""
    clip: Annotated[Positive, Search(0.1, 0.4)] = 0.2
    """How far the ratio of new to old policy may gain."""
    normalize_advantages: bool = True
    """Divide advantages by their deviation."""

    def check(self) -> None:
        super().check()
        if self.rows:
            minibatch_size(self.rows, self.minibatches)


class State(NamedTuple):
    """All that learning changes."""

    policy: Params
    critic: Params
    target: Params
    policy_optimizer: Any
    critic_optimizer: Any
    updates: jax.Array
    scale: Scale
    rates: Rates


class ReplayedAC(OffPolicyAgent, ActionCritic):
    config: ReplayedACConfig
    sparse_only = True

    def init(self, key: Tensor) -> State:
        first, second = jax.random.split(key)
        policy, critic = self.init_policy(first), self.init_action_critic(second)
        adam, zero = optax.scale_by_adam(), np.float32(0)
        optimizers = adam.init(policy), adam.init(critic)
        updates, rates = jnp.zeros((), jnp.int32), Rates(zero, zero, zero)
        return State(
            policy, critic, copy_of(critic), *optimizers, updates, self.shapes.no_scale(), rates
        )

    # ---------------------------------------------------------------------------------- the critic

    def reward_scale(self, ends_at_goal: bool) -> RewardScale:
        """It learns from goals that are reached or not, whatever the rewards are."""
        return RewardScale()

    def td_errors(self, state: State, batch: Batch) -> TDErrors:
        """-(1 - gamma) [not at the goal] + gamma V'(s'||g) - Q(s||g, a) and Q(s||g, a), both
        [B]."""
        return self._td_errors(state.critic, state, batch)

    def _td_errors(self, critic: Params, state: State, batch: Batch) -> TDErrors:
        missed = (batch.reward < self.shapes.success_reward).astype(jnp.float32)
        after = self.inputs(state.scale, batch.next_observation, batch.goal)
        target = self.action_target(state.target, state.policy, after, missed, batch.terminated)
        value = self.action_value(
            critic, self.inputs(state.scale, batch.observation, batch.goal), batch.action
        )
        return TDErrors(target - value, value)

    def update(self, state: State, batch: Batch, key: Tensor) -> tuple[State, TDErrors, Metrics]:
        """One step of Adam on the critic."""

        def loss(critic: Params) -> tuple[Tensor, TDErrors]:
            td = self._td_errors(critic, state, batch)
            return td_loss(
                td.error, importance_weights(batch.importance, batch.beta), "squared"
            ), td

        (error, td), gradient = jax.value_and_grad(loss, has_aux=True)(state.critic)
        critic, optimizer = adam_step(
            state.critic, gradient, state.critic_optimizer, state.rates.critic
        )
        updates = state.updates + 1
        keep = kept(updates, self.config.tau, self.config.target_update_interval)
        target = average(state.target, critic, keep)
        state = state._replace(
            critic=critic, target=target, critic_optimizer=optimizer, updates=updates
        )
        return state, td, {"critic_loss": error, "q_mean": jnp.mean(td.value)}

    # ---------------------------------------------------------------------------------- the policy

    def after_updates(
        self, state: State, batches: Sequence[Batch], key: Tensor
    ) -> tuple[State, Metrics]:
        """PPO's clipped steps, in `rows` states that were replayed in this cycle: evenly spaced, as
        a batch has alternate goals first. Some count twice if there are fewer."""
        observation, goal = (
            np.concatenate([np.reshape(part, (-1, part.shape[-1])) for part in parts])
            for parts in zip(*((b.observation, b.goal) for b in batches), strict=True)
        )
        at = np.linspace(0, len(goal) - 1, self.config.rows or len(goal)).round().astype(np.int64)
        improved: tuple[State, Metrics] = self._improve(state, observation[at], goal[at], key)
        return improved

    @partial(jax.jit, static_argnums=0)
    def _improve(
        self, state: State, observation: Tensor, goal: Tensor, key: Tensor
    ) -> tuple[State, Metrics]:
        config = self.config
        draw, order = jax.random.split(key)
        inputs = self.inputs(state.scale, observation, goal)
        alike = jnp.ones(len(inputs))
        rows, value = self.rows_by_action_values(state.policy, state.critic, inputs, alike, draw)
        metrics = {"value": jnp.mean(value), "advantage": jnp.std(rows.advantage)}
        metrics |= {"entropy": jnp.mean(self.entropy(rows.distribution))}
        if config.normalize_advantages:
            rows = rows._replace(advantage=normalized(rows.advantage, alike / len(alike)))

        def bonus(policy: Params, distribution: Tensor) -> Tensor:
            return jnp.mean(self.closeness(distribution))

        state, closeness = clipped_passes(self, state, rows, bonus, order)
        moved = jnp.mean(self.kl(rows.distribution, self.distribution(state.policy, inputs)))
        return state, metrics | {"closeness": closeness, "kl": moved}

    def explorer(self, actor: Actor, progress: float, rng: np.random.Generator) -> Act:
        """Actions drawn from the policy, or, for a share of the rows, uniformly random ones."""
        actions = self.shapes.actions
        random = RandomActions(actions, self.config.random_actions(progress))

        def explore(observation: Floats, goal: Floats) -> Array:
            action, _ = actor.sample(observation, goal, rng)
            if self.discrete:
                return random(action, rng)
            mixed: Array = actions.from_unit(random(actions.to_unit(action), rng)).astype(
                np.float32
            )
            return mixed

        return explore
