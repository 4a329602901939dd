"""What A2C, A3C, PPO and TRPO share: steps under hindsight goals with their advantages."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from hindsight.agents.action_critic import ActionCritic
from hindsight.agents.agent import Metrics
from hindsight.agents.config import ActorCriticConfig
from hindsight.agents.goal_batch import GoalBatch, outcome
from hindsight.agents.hindsight_weights import (
    advantages,
    chosen_rows,
    diagnostics,
    log_ratios,
    log_steps,
    weights,
)
from hindsight.agents.losses import adam_step
from hindsight.agents.policy_gradient import CriticBatch, PolicyGradient, State, goal_shares
from hindsight.networks import Params, average
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
    may_teach: Tensor  # [R] the critic


Carry = tuple[State, Params]
"""A state, and the critic of actions that follows its own slowly."""


class ActorCritic(PolicyGradient, ActionCritic):
    config: ActorCriticConfig

    def init_critic(self, key: Tensor) -> Params:
        if self.config.by_action_values:
            return self.init_action_critic(key)
        return super().init_critic(key)

    def update(self, state: State, batch: GoalBatch, key: Tensor) -> tuple[State, Metrics]:
        return self.learn(state, batch, key, key)

    def learn(
        self, state: State, batch: GoalBatch, draw: Tensor, improve: Tensor
    ) -> tuple[State, Metrics]:
        """A critic of actions learns before the policy does, one of states after it. The keys
        draw rows, and whatever `improve` does."""
        if self.config.by_action_values:
            return self._learn_by_action_values(state, batch, draw)
        rows, metrics = self._by_state_values(state, batch, draw)
        state, improved = self.improve(state, batch, rows, improve)
        state, fitted = self.fit_critic(
            state, CriticBatch(rows.inputs, rows.time, rows.target, rows.weight * rows.may_teach)
        )
        return state, metrics | fitted | improved | self.change(state.policy, rows)

    def improve(
        self, state: State, batch: GoalBatch, rows: Rows, key: Tensor
    ) -> tuple[State, Metrics]:
        """A new policy, from rows with their advantages."""
        raise NotImplementedError

    def bonus(self, policy: Params, distribution: Tensor, state: State, batch: GoalBatch) -> Tensor:
        """What `entropy` weighs, of a policy with these distributions in the rows: its entropy as
        it explored; or, since advantages by Q do not tell how far outside of the action box to
        aim, how near it is to the policy that it began as."""
        if self.config.by_action_values:
            return jnp.mean(self.closeness(distribution))
        return self.pursued_entropy(policy, state.scale, batch)

    # --------------------------------------------------------------------------- a critic of states

    def _by_state_values(self, state: State, batch: GoalBatch, key: Tensor) -> tuple[Rows, Metrics]:
        """Importance weights, advantages by V, then a draw in proportion to both."""
        config = self.config
        inputs, time = self.goal_inputs(state.scale, batch)
        result = outcome(
            batch.hit, batch.counts, batch.length, batch.ends, config.gamma, batch.failed
        )
        distribution = self.distribution(state.policy, inputs[..., :-1, :])
        log_pi = self.log_prob(distribution, batch.action)
        log_rho = log_ratios(log_pi, batch.log_prob, result.alive, config.clamp_log_ratio)
        weight = weights(log_rho, result, self.estimator) * goal_shares(batch.used)
        # Probabilities were recorded with the normaliser of then: without hindsight that is no
        # reason for a ratio.
        log_step = (
            log_steps(log_pi, batch.log_prob, result.alive)
            if config.hindsight
            else jnp.zeros_like(log_pi)
        )
        value = self.value(state.critic, inputs, time)
        advantage, target = advantages(log_step, result, value, config.gamma, config.gae_lambda)
        if config.critic_lambda is not None:
            _, target = advantages(log_step, result, value, config.gamma, config.critic_lambda)
        may_subtract = jnp.broadcast_to(self.may_subtract(batch), weight.shape)
        advantage = jnp.where(
            may_subtract, advantage, advantage + value[..., :-1]
        )  # elsewhere V is added back
        metrics = diagnostics(log_rho, result, batch.hit, batch.used, config.hindsight)._asdict()

        # The policy learns from rows of large advantage, the critic from all: drawn from an equal
        # mixture of both.
        size = jnp.abs(advantage)
        mass = weight * (1.0 + size * jnp.sum(weight) / jnp.maximum(jnp.sum(weight * size), 1e-9))
        chosen, drawn = chosen_rows(weight.ravel(), config.rows, key, mass.ravel())
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
            take(may_subtract),
        )
        if config.normalize_advantages:
            rows = rows._replace(advantage=normalized(rows.advantage, rows.weight))
        return rows, metrics | {"value": jnp.sum(rows.weight * rows.target)}

    # -------------------------------------------------------------------------- a critic of actions

    def _learn_by_action_values(
        self, state: State, batch: GoalBatch, key: Tensor
    ) -> tuple[State, Metrics]:
        """Q learns from the batch, then the policy from Q, `policy_updates` times by turns. What Q
        learns from follows it slowly."""
        steps = steps_of(batch, self.config.gamma)

        def turn(carry: Carry, key: Tensor) -> tuple[Carry, Metrics]:
            fit, draw, key = jax.random.split(key, 3)
            (state, slow), metrics = self.fit_action_critic(carry, batch, steps, fit)
            rows = self.by_action_values(state, batch, steps, draw)
            value, entropy = jnp.mean(rows.target), jnp.mean(self.entropy(rows.distribution))
            state, improved = self.improve(state, batch, rows, key)
            improved |= {"closeness": improved["entropy"], "entropy": entropy, "value": value}
            return (state, slow), metrics | improved | self.change(state.policy, rows)

        keys = jax.random.split(key, self.config.policy_updates)
        (state, _), metrics = jax.lax.scan(turn, (state, state.critic), keys)
        return state, {name: jnp.mean(values) for name, values in metrics.items()}

    def by_action_values(self, state: State, batch: GoalBatch, steps: Steps, key: Tensor) -> Rows:
        """Actions drawn anew in the states of the batch, under its goals, and their advantages by
        Q. So all weigh the same, whatever was pursued."""
        draw, act = jax.random.split(key)
        count = self.config.rows or steps.chance.size
        goal, episode, time, weight = drawn_steps(steps, count, draw)
        inputs = self._inputs_at(state, batch, goal, episode, time)
        distribution = self.distribution(state.policy, inputs)
        action = self.drawn(distribution, act)
        value = self.mean_value(state.critic, inputs, distribution)
        advantage = self.action_value(state.critic, inputs, action) - value
        if self.config.normalize_advantages:
            advantage = normalized(advantage, weight)
        log_prob, no = self.log_prob(distribution, action), jnp.zeros_like(weight)
        return Rows(inputs, no, action, distribution, log_prob, weight, advantage, value, no)

    def fit_action_critic(
        self, carry: Carry, batch: GoalBatch, steps: Steps, key: Tensor
    ) -> tuple[Carry, Metrics]:
        """The steps of Adam on TD errors that fall to one turn."""
        config = self.config

        def step(carry: Carry, key: Tensor) -> tuple[Carry, Metrics]:
            state, slow = carry
            goal, episode, time, weight = drawn_steps(steps, config.critic_batch_size, key)
            hit, over = (x[goal, episode, time] for x in (steps.hit, steps.over))
            after = self._inputs_at(state, batch, goal, episode, time + 1)
            target = self.action_target(slow, state.policy, after, 1.0 - hit, over)
            inputs = self._inputs_at(state, batch, goal, episode, time)

            def loss(critic: Params) -> Tensor:
                value = self.action_value(critic, inputs, batch.action[episode, time])
                return jnp.sum(weight * (target - value) ** 2)

            error, gradient = jax.value_and_grad(loss)(state.critic)
            critic, optimizer = adam_step(
                state.critic, gradient, state.critic_optimizer, state.rates.critic
            )
            state = state._replace(critic=critic, critic_optimizer=optimizer)
            slow = average(slow, critic, 1.0 - config.critic_tau)
            return (state, slow), {"critic_loss": error, "hits": jnp.sum(weight * hit)}

        keys = jax.random.split(key, -(-config.critic_updates // config.policy_updates))
        carry, metrics = jax.lax.scan(step, carry, keys)
        return carry, {name: jnp.mean(values) for name, values in metrics.items()}

    def _inputs_at(
        self, state: State, batch: GoalBatch, goal: Tensor, episode: Tensor, time: Tensor
    ) -> Tensor:
        own = episode if batch.goal.shape[1] > 1 else jnp.zeros_like(episode)
        return self.inputs(state.scale, batch.observation[episode, time], batch.goal[goal, own])

    def change(self, policy: Params, rows: Rows) -> Metrics:
        """How far an update has moved the policy: the exact KL divergence, and its estimate from
        the actions taken."""
        distribution = self.distribution(policy, rows.inputs)
        log_ratio = self.log_prob(distribution, rows.action) - rows.log_prob
        exact = jnp.sum(rows.weight * self.kl(rows.distribution, distribution))
        return {"kl": exact, "kl_sampled": 0.5 * jnp.sum(rows.weight * log_ratio**2)}


class Steps(NamedTuple):
    """The steps of a batch under its goals."""

    chance: Tensor  # [G, N, T] of being drawn; they sum to 1, or to 0 if no step counts
    upto: Tensor  # [G N T] the same, summed up
    hit: Tensor  # [G, N, T]
    over: Tensor  # [G, N, T] the episode ended: at the goal for good, or in failure


PURSUED = 0.2
"""Share of the steps that are learnt from under the goal that was pursued, as in HER."""


def steps_of(batch: GoalBatch, gamma: float) -> Steps:
    result = outcome(batch.hit, batch.counts, batch.length, batch.ends, gamma, batch.failed)
    last = jnp.arange(batch.hit.shape[-1]) == batch.length[:, None] - 1
    over = (batch.ends & batch.hit) | (batch.failed[:, None] & last)
    counts, was_pursued = result.alive & batch.used[:, None, None], batch.was_pursued[:, None, None]
    shares = jnp.array([1.0 - PURSUED, PURSUED])
    numbers = jnp.stack([jnp.sum(counts & ~was_pursued), jnp.sum(counts & was_pursued)])
    chances = shares / jnp.maximum(numbers, 1) / jnp.maximum(jnp.sum(shares * (numbers > 0)), 1e-9)
    chance = jnp.where(counts, jnp.where(was_pursued, chances[1], chances[0]), 0.0)
    hit, over = batch.hit.astype(jnp.float32), over.astype(jnp.float32)
    return Steps(chance, jnp.cumsum(chance.ravel()), hit, over)


def drawn_steps(steps: Steps, number: int, key: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Goals, episodes and times of steps drawn by their chances, each [number]; and weights,
    which sum to 1, or to 0 if no step can be drawn."""
    place = jax.random.uniform(key, (number,)) * steps.upto[-1]
    flat = jnp.minimum(jnp.searchsorted(steps.upto, place, side="right"), steps.upto.size - 1)
    goal, episode, time = jnp.unravel_index(flat, steps.chance.shape)
    return goal, episode, time, (steps.chance[goal, episode, time] > 0) / number


def normalized(advantage: Tensor, weight: Tensor) -> Tensor:
    """Advantages divided by their deviation from 0. Not centred: hindsight advantages that are
    all good stay good."""
    return advantage / (jnp.sqrt(jnp.sum(weight * advantage**2)) + 1e-3)
