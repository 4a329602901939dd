"""Deep deterministic policy gradient (Lillicrap et al., 2015), as the HER reference uses it: losses, update, act."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from hindsight.agents.exploration import Explore, RandomActions
from hindsight.agents.losses import adam_step, every_nth, resample, td_loss, td_target
from hindsight.agents.shapes import Shapes
from hindsight.config import DDPGConfig
from hindsight.networks import MLP, Params, average, copy_of, forward
from hindsight.normalizer import Scale, normalize
from hindsight.replay.priorities import importance_weights
from hindsight.replay.prioritized import TDErrors
from hindsight.replay.replay import Batch, Replayed
from hindsight.types import Array, Floats, Tensor


class DDPGState(NamedTuple):
    """All that learning changes."""

    actor: Params
    critic: Params
    target_actor: Params
    target_critic: Params
    actor_optimizer: Any
    critic_optimizer: Any
    updates: jax.Array


@dataclass(frozen=True)
class DDPG:
    """Settings and env sizes in; pure functions of `DDPGState` out."""

    config: DDPGConfig
    shapes: Shapes

    @property
    def _actor(self) -> MLP:
        return MLP(self.config.hidden, self.shapes.actions.dim, self.config.layer_norm)

    @property
    def _critic(self) -> MLP:
        return MLP(self.config.hidden, 1, self.config.layer_norm)

    def init(self, key: jax.Array) -> DDPGState:
        actor_key, critic_key = jax.random.split(key)
        inputs = self.shapes.observation + self.shapes.goal
        actor = self._actor.init(actor_key, jnp.zeros((1, inputs)))
        critic = self._critic.init(critic_key, jnp.zeros((1, inputs + self.shapes.actions.dim)))
        adam = optax.scale_by_adam()
        return DDPGState(
            actor,
            critic,
            copy_of(actor),
            copy_of(critic),
            adam.init(actor),
            adam.init(critic),
            jnp.zeros((), jnp.int32),
        )

    def _inputs(self, scale: Scale, observation: Tensor, goal: Tensor) -> Tensor:
        clip_normalized = self.config.clip_normalized if self.config.normalize else np.inf
        return normalize(scale, observation, goal, self.config.clip_observation, clip_normalized)

    def policy(self, actor: Params, inputs: Tensor) -> jax.Array:
        """Actions in [-1, 1]."""
        outputs: Tensor = self._actor.apply(actor, inputs)
        return jnp.tanh(outputs)

    def value(self, critic: Params, inputs: Tensor, action: Tensor) -> Tensor:
        """Q of actions in [-1, 1]."""
        outputs: Tensor = self._critic.apply(critic, jnp.concatenate([inputs, action], axis=-1))
        return outputs[..., 0]

    def td_error(self, critic: Params, state: DDPGState, scale: Scale, batch: Batch) -> TDErrors:
        """r + gamma Q'(s'||g, pi'(s'||g)) - Q(s||g, a) and Q(s||g, a), both [B], with Q by `critic`."""
        next_inputs = self._inputs(scale, batch.next_observation, batch.goal)
        next_action = self.policy(state.target_actor, next_inputs)
        next_value = self.value(state.target_critic, next_inputs, next_action)
        returns = self.shapes.returns if self.config.clip_target else None
        target = td_target(batch.reward, batch.terminated, next_value, self.shapes.gamma, returns)
        inputs = self._inputs(scale, batch.observation, batch.goal)
        value = self.value(critic, inputs, self._to_unit(batch.action))
        return TDErrors(jax.lax.stop_gradient(target) - value, value)

    def critic_loss(
        self, critic: Params, state: DDPGState, scale: Scale, batch: Batch, beta: Tensor = 0.0
    ) -> tuple[jax.Array, TDErrors]:
        """Mean loss of the TD errors, importance-weighted; also the TD errors [B] and values [B]."""
        td = self.td_error(critic, state, scale, batch)
        return td_loss(td.error, importance_weights(batch.importance, beta), self.config.loss), td

    def actor_loss(
        self, actor: Params, state: DDPGState, scale: Scale, batch: Batch, beta: Tensor = 0.0
    ) -> tuple[jax.Array, jax.Array]:
        """-Q(s||g, pi(s||g)) + action_l2 |pi|^2, averaged; also the mean absolute action."""
        inputs = self._inputs(scale, batch.observation, batch.goal)
        action = self.policy(actor, inputs)
        value = self.value(state.critic, inputs, action)
        weight = importance_weights(batch.importance, beta)
        losses = -value + self.config.action_l2 * jnp.mean(action**2, axis=-1)
        return jnp.mean(weight * losses), jnp.mean(jnp.abs(action))

    @partial(jax.jit, static_argnums=0)
    def evaluate(self, state: DDPGState, scale: Scale, batch: Batch) -> TDErrors:
        """TD errors and values of a batch [n, ...]."""
        return self.td_error(state.critic, state, scale, batch)

    @partial(jax.jit, static_argnums=0, donate_argnums=1)
    def update(
        self, state: DDPGState, scale: Scale, replayed: Replayed, learning_rates: tuple[float, float]
    ) -> tuple[DDPGState, TDErrors, dict[str, jax.Array]]:
        """One update per batch [U, B, ...]; TD errors and values [U, B] of all that was replayed, and mean metrics."""

        def step(
            state: DDPGState, replay: tuple[Batch, Batch | None, Tensor | None]
        ) -> tuple[DDPGState, tuple[TDErrors, dict[str, jax.Array]]]:
            batch, actor_batch, draws = replay
            candidates: TDErrors | None = None
            if draws is not None:
                candidates = self.td_error(state.critic, state, scale, batch)
                if actor_batch is None:
                    actor_batch = every_nth(batch, len(draws))
                batch = resample(batch, candidates.error, draws, replayed.alpha)
            (critic_loss, td), critic_gradient = jax.value_and_grad(self.critic_loss, has_aux=True)(
                state.critic, state, scale, batch, replayed.beta
            )
            (actor_loss, action), actor_gradient = jax.value_and_grad(self.actor_loss, has_aux=True)(
                state.actor, state, scale, batch if actor_batch is None else actor_batch, replayed.actor_beta
            )
            actor, actor_optimizer = adam_step(state.actor, actor_gradient, state.actor_optimizer, learning_rates[0])
            critic, critic_optimizer = adam_step(
                state.critic, critic_gradient, state.critic_optimizer, learning_rates[1]
            )
            updates = state.updates + 1
            keep = jnp.where(updates % self.config.target_every == 0, self.config.target_average, 1.0)
            target_actor = average(state.target_actor, actor, keep)
            target_critic = average(state.target_critic, critic, keep)
            metrics = {
                "critic_loss": critic_loss,
                "actor_loss": actor_loss,
                "q_mean": jnp.mean(td.value),
                "q_min": jnp.min(td.value),
                "q_max": jnp.max(td.value),
                "td_error": jnp.mean(jnp.abs(td.error)),
                "action_size": action,
            }
            state = DDPGState(actor, critic, target_actor, target_critic, actor_optimizer, critic_optimizer, updates)
            return state, (td if candidates is None else candidates, metrics)

        state, (td, metrics) = jax.lax.scan(step, state, (replayed.batch, replayed.actor, replayed.draws))
        return state, td, jax.tree.map(jnp.mean, metrics)

    def learning_rates(self, progress: float) -> tuple[float, float]:
        return self.config.actor_learning_rate(progress), self.config.critic_learning_rate(progress)

    def actor_parameters(self, state: DDPGState) -> Params:
        """The parameters that choose actions."""
        return state.actor

    def act(self, actor: Params, scale: Scale, observation: Floats, goal: Floats) -> Array:
        """Greedy actions [n, a] in the env's range, in NumPy."""
        return self._to_env(np.tanh(forward(actor, self._inputs(scale, observation, goal))))

    def explorer(self, actor: Params, scale: Scale, progress: float, rng: np.random.Generator) -> Explore:
        """Actions with Gaussian noise, or, for a share of the rows, uniformly random ones, in NumPy."""
        noise = self.config.noise(progress)
        random = RandomActions(self.config.random_actions(progress), self.config.random_hold)

        def explore(observation: Floats, goal: Floats) -> Array:
            action = np.tanh(forward(actor, self._inputs(scale, observation, goal)))
            noisy = np.clip(action + noise * rng.standard_normal(action.shape, np.float32), -1.0, 1.0)
            return self._to_env(random(noisy, rng))

        return explore

    def _to_env(self, action: Array) -> Array:
        low, high = np.array(self.shapes.actions.low, np.float32), np.array(self.shapes.actions.high, np.float32)
        return np.clip(low + (action + 1.0) * 0.5 * (high - low), low, high)

    def _to_unit(self, action: Tensor) -> Tensor:
        low, high = np.array(self.shapes.actions.low, np.float32), np.array(self.shapes.actions.high, np.float32)
        return (action - low) / (high - low) * 2.0 - 1.0
