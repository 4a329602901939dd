"""What A2C, A3C, PPO and TRPO share: they improve a policy by `Rows`, steps under hindsight goals
with advantages. How is each learner's own (`improve`). The critic says where the rows come from:

    critic state, V(s, g, t)                    critic action, Q(s, a, g)

    rows: the actions of the batch, with        `policy_updates` times:
      importance weights, advantages by V         fit Q to its TD errors
    improve the policy                            rows: actions drawn anew, advantages by Q
    fit V                                         improve the policy
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from hindsight.agents.action_critic import ActionCritic
from hindsight.agents.agent import Metrics
from hindsight.agents.config import ActorCriticConfig
from hindsight.agents.goal_batch import GoalBatch
from hindsight.agents.hindsight_weights import (
    advantages,
    chosen_rows,
    diagnostics,
    log_ratios,
    weights,
)
from hindsight.agents.losses import adam_step
from hindsight.agents.policy_gradient import (
    CriticBatch,
    PolicyGradient,
    Rows,
    State,
    goal_shares,
    normalized,
)
from hindsight.networks import Params, average
from hindsight.types import Tensor

WithTarget = tuple[State, Params]
"""A state, and the target critic: what Q learns from, which follows it slowly."""


class ActorCritic(PolicyGradient, ActionCritic):
    config: ActorCriticConfig

    def improve(
        self, state: State, batch: GoalBatch, rows: Rows, key: Tensor
    ) -> tuple[State, Metrics]:
        """A new policy, from rows with their advantages; `bonus_name` is among the metrics."""
        raise NotImplementedError

    def update(self, state: State, batch: GoalBatch, key: Tensor) -> tuple[State, Metrics]:
        return self.learn(state, batch, key, key)

    def learn(
        self, state: State, batch: GoalBatch, draw: Tensor, improve: Tensor
    ) -> tuple[State, Metrics]:
        """`update` with two keys: one draws rows, the other is for `improve`."""
        if self.config.by_action_values:
            return self._learn_by_action_values(state, batch, draw)
        rows, states, metrics = self._rows_by_state_values(state, batch, draw)
        state, improved = self.improve(state, batch, rows, improve)
        state, fitted = self.fit_critic(state, states)
        return state, metrics | fitted | improved | self.change(state.policy, rows)

    def _learn_by_action_values(
        self, state: State, batch: GoalBatch, key: Tensor
    ) -> tuple[State, Metrics]:
        """The target critic is not kept: with every batch it starts as Q is."""
        steps = steps_of(batch, self.config.gamma)

        def turn(learner: WithTarget, key: Tensor) -> tuple[WithTarget, Metrics]:
            fit, draw, improve = jax.random.split(key, 3)
            (state, target), fitted = self.fit_action_critic(learner, batch, steps, fit)
            rows, metrics = self.rows_drawn_anew(state, batch, steps, draw)
            state, improved = self.improve(state, batch, rows, improve)
            return (state, target), fitted | metrics | improved | self.change(state.policy, rows)

        keys = jax.random.split(key, self.config.policy_updates)
        (state, _), metrics = jax.lax.scan(turn, (state, state.critic), keys)
        return state, {name: jnp.mean(values) for name, values in metrics.items()}

    def init_critic(self, key: Tensor) -> Params:
        if self.config.by_action_values:
            return self.init_action_critic(key)
        return super().init_critic(key)

    def bonus(self, policy: Params, distribution: Tensor, state: State, batch: GoalBatch) -> Tensor:
        """What `entropy` weighs, of a policy with these distributions in the rows: its entropy as
        it explored; or, since advantages by Q do not tell how far outside of the action box to
        aim, its closeness to the policy that it began as."""
        if self.config.by_action_values:
            return jnp.mean(self.closeness(distribution))
        return self.pursued_entropy(policy, state.scale, batch)

    @property
    def bonus_name(self) -> str:
        return "closeness" if self.config.by_action_values else "entropy"

    def change(self, policy: Params, rows: Rows) -> Metrics:
        """How far an update has moved the policy: the exact KL divergence, and its estimate from
        the actions taken."""
        distribution = self.distribution(policy, rows.inputs)
        log_ratio = self.log_prob(distribution, rows.action) - rows.log_prob
        exact = jnp.sum(rows.weight * self.kl(rows.distribution, distribution))
        return {"kl": exact, "kl_sampled": 0.5 * jnp.sum(rows.weight * log_ratio**2)}

    # --------------------------------------------------------------------------- a critic of states

    def _rows_by_state_values(
        self, state: State, batch: GoalBatch, key: Tensor
    ) -> tuple[Rows, CriticBatch, Metrics]:
        """Importance weights, advantages by V, then a draw in proportion to both. Weights sum to
        1. What V learns from is the same steps, where it may."""
        config = self.config
        inputs, time = self.goal_inputs(state.scale, batch)
        result = batch.outcome(config.gamma)
        distribution = self.distribution(state.policy, inputs[..., :-1, :])
        log_pi = self.log_prob(distribution, batch.action)
        log_rho = log_ratios(log_pi, batch.log_prob, result.alive, config.clamp_log_ratio)
        weight = weights(log_rho, result, self.estimator) * goal_shares(batch.used)
        log_step = self.log_step_ratios(log_pi, batch, result)
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
            inputs=take(inputs[..., :-1, :]),
            action=take(action),
            distribution=take(distribution),
            log_prob=take(log_pi),
            weight=drawn / jnp.maximum(drawn.sum(), 1e-9),
            advantage=take(advantage),
        )
        states = CriticBatch(
            inputs=rows.inputs,
            time=take(time[..., :-1]),
            target=take(target),
            weight=rows.weight * take(may_subtract),
        )
        if config.normalize_advantages:
            rows = rows._replace(advantage=normalized(rows.advantage, rows.weight))
        return rows, states, metrics | {"value": jnp.sum(rows.weight * states.target)}

    # -------------------------------------------------------------------------- a critic of actions

    def fit_action_critic(
        self, learner: WithTarget, batch: GoalBatch, steps: Steps, key: Tensor
    ) -> tuple[WithTarget, Metrics]:
        """The steps of Adam on TD errors that fall to one turn."""
        config = self.config

        def step(learner: WithTarget, key: Tensor) -> tuple[WithTarget, Metrics]:
            state, target = learner
            goal, episode, time, weight = drawn_steps(steps, config.critic_batch_size, key)
            hit, over = (x[goal, episode, time] for x in (steps.hit, steps.over))
            after = self._inputs_at(state, batch, goal, episode, time + 1)
            aim = self.action_target(target, state.policy, after, 1.0 - hit, over)
            inputs = self._inputs_at(state, batch, goal, episode, time)

            def loss(critic: Params) -> Tensor:
                value = self.action_value(critic, inputs, batch.action[episode, time])
                return jnp.sum(weight * (aim - value) ** 2)

            error, gradient = jax.value_and_grad(loss)(state.critic)
            critic, optimizer = adam_step(
                state.critic, gradient, state.critic_optimizer, state.rates.critic
            )
            state = state._replace(critic=critic, critic_optimizer=optimizer)
            target = average(target, critic, 1.0 - config.critic_tau)
            return (state, target), {"critic_loss": error, "hits": jnp.sum(weight * hit)}

        keys = jax.random.split(key, -(-config.critic_updates // config.policy_updates))
        learner, metrics = jax.lax.scan(step, learner, keys)
        return learner, {name: jnp.mean(values) for name, values in metrics.items()}

    def rows_drawn_anew(
        self, state: State, batch: GoalBatch, steps: Steps, key: Tensor
    ) -> tuple[Rows, Metrics]:
        """Actions drawn anew in the states of the batch, under its goals. All weigh the same,
        whatever was pursued."""
        draw, act = jax.random.split(key)
        count = self.config.rows or steps.chance.size
        goal, episode, time, weight = drawn_steps(steps, count, draw)
        inputs = self._inputs_at(state, batch, goal, episode, time)
        rows, value = self.rows_by_action_values(state.policy, state.critic, inputs, weight, act)
        if self.config.normalize_advantages:
            rows = rows._replace(advantage=normalized(rows.advantage, weight))
        entropy = jnp.mean(self.entropy(rows.distribution))
        return rows, {"value": jnp.mean(value), "entropy": entropy}

    def _inputs_at(
        self, state: State, batch: GoalBatch, goal: Tensor, episode: Tensor, time: Tensor
    ) -> Tensor:
        own = episode if batch.goal.shape[1] > 1 else jnp.zeros_like(episode)
        return self.inputs(state.scale, batch.observation[episode, time], batch.goal[goal, own])


class Steps(NamedTuple):
    """The steps of a batch under its goals."""

    chance: Tensor  # [G, N, T] of being drawn; they sum to 1, or to 0 if no step counts
    upto: Tensor  # [G N T] the same, summed up
    hit: Tensor  # [G, N, T]
    over: Tensor  # [G, N, T] the episode ended: at the goal for good, or in failure


PURSUED = 0.2
"""Share of the steps that are learnt from under the goal that was pursued, as in HER."""


def steps_of(batch: GoalBatch, gamma: float) -> Steps:
    result = batch.outcome(gamma)
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
