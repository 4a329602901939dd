"""Deep deterministic policy gradient (Lillicrap et al., 2015), as the HER reference uses it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from tyro.conf import Suppress

from hindsight.acting import Actor, ActorShape, RandomActions
from hindsight.agents.agent import Metrics, OffPolicyAgent
from hindsight.agents.config import QLearningConfig, unread_hold
from hindsight.agents.losses import adam_step, kept, td_loss, td_metrics, td_target
from hindsight.collect import Act
from hindsight.networks import MLP, Params, average, copy_of
from hindsight.normalizer import Scale
from hindsight.replay.batch import Batch, TDErrors
from hindsight.replay.priority_index import importance_weights
from hindsight.schedules import Schedule
from hindsight.settings import (
    LEARNING_RATES,
    AtLeastOne,
    NotNegative,
    RateSchedule,
    Search,
    ShareSchedule,
    Widths,
)
from hindsight.types import Array, Floats, Tensor


@dataclass(frozen=True)
class DDPGConfig(QLearningConfig):
    """Deep deterministic policy gradient, for continuous actions."""

    method: Annotated[str, Suppress] = "ddpg"
    net_arch: Widths = (256, 256, 256)
    actor_learning_rate: Annotated[RateSchedule, LEARNING_RATES] = Schedule.parse(1e-3)
    critic_learning_rate: Annotated[RateSchedule, LEARNING_RATES] = Schedule.parse(1e-3)
    action_l2: Annotated[NotNegative, Search(0.01, 2.0, log=True)] = 1.0
    """Weight of the mean squared action in the actor's loss."""
    exploration_noise: Annotated[RateSchedule, Search(0.05, 0.5)] = Schedule.parse(0.2)
    """Deviation of the Gaussian noise of exploring actions, as a share of half the action range."""
    random_actions: Annotated[ShareSchedule, Search(0.0, 0.5)] = Schedule.parse(0.3)
    """Share of actions drawn uniformly at random while exploring."""
    random_hold: AtLeastOne = 1.0
    """Steps for which such an action is held, on average."""

    def unread(self) -> dict[str, str]:
        return super().unread() | unread_hold(self.random_actions)


class Rates(NamedTuple):
    actor: Tensor
    critic: Tensor


class DDPGState(NamedTuple):
    """All that learning changes."""

    actor: Params
    critic: Params
    target_actor: Params
    target_critic: Params
    actor_optimizer: Any
    critic_optimizer: Any
    updates: jax.Array
    scale: Scale
    rates: Rates


class DDPG(OffPolicyAgent):
    config: DDPGConfig
    acts = "continuous"

    # ------------------------------------------------------------------------------------ networks

    @property
    def _actor(self) -> MLP:
        return self.network(self.shapes.actions.dim, layer_norm=self.config.layer_norm)

    @property
    def _critic(self) -> MLP:
        return self.network(1, layer_norm=self.config.layer_norm)

    def init(self, key: Tensor) -> DDPGState:
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
            self.shapes.no_scale(),
            Rates(np.float32(0), np.float32(0)),
        )

    def rates(self, progress: float) -> Rates:
        return Rates(
            self.config.actor_learning_rate(progress), self.config.critic_learning_rate(progress)
        )

    def policy(self, actor: Params, inputs: Tensor) -> Tensor:
        """Actions in [-1, 1]."""
        outputs: Tensor = self._actor.apply(actor, inputs)
        return jnp.tanh(outputs)

    def value(self, critic: Params, inputs: Tensor, action: Tensor) -> Tensor:
        """Q of actions in [-1, 1]."""
        outputs: Tensor = self._critic.apply(critic, jnp.concatenate([inputs, action], axis=-1))
        return outputs[..., 0]

    # -------------------------------------------------------------------------------------- losses

    def td_errors(self, state: DDPGState, batch: Batch) -> TDErrors:
        """r + gamma Q'(s'||g, pi'(s'||g)) - Q(s||g, a) and Q(s||g, a), both [B]."""
        return self._td_errors(state.critic, state, batch)

    def _td_errors(self, critic: Params, state: DDPGState, batch: Batch) -> TDErrors:
        next_inputs = self.inputs(state.scale, batch.next_observation, batch.goal)
        next_action = self.policy(state.target_actor, next_inputs)
        next_value = self.value(state.target_critic, next_inputs, next_action)
        returns = self.shapes.returns if self.config.clip_target else None
        target = jax.lax.stop_gradient(
            td_target(batch.reward, batch.terminated, next_value, self.shapes.gamma, returns)
        )
        inputs = self.inputs(state.scale, batch.observation, batch.goal)
        action = self.shapes.actions.to_unit(batch.action)
        value = self.value(critic, inputs, action)
        return TDErrors(target - value, value)

    def critic_loss(
        self, critic: Params, state: DDPGState, batch: Batch
    ) -> tuple[Tensor, TDErrors]:
        """Mean loss of the TD errors, importance-weighted; also the TD errors and values."""
        td = self._td_errors(critic, state, batch)
        return td_loss(
            td.error, importance_weights(batch.importance, batch.beta), self.config.loss
        ), td

    def actor_loss(self, actor: Params, state: DDPGState, batch: Batch) -> tuple[Tensor, Tensor]:
        """-Q(s||g, pi(s||g)) + action_l2 |pi|^2, averaged; also the mean absolute action."""
        inputs = self.inputs(state.scale, batch.observation, batch.goal)
        action = self.policy(actor, inputs)
        value = self.value(state.critic, inputs, action)
        weight = importance_weights(batch.importance, batch.actor_beta)
        losses = -value + self.config.action_l2 * jnp.mean(action**2, axis=-1)
        return jnp.mean(weight * losses), jnp.mean(jnp.abs(action))

    # -------------------------------------------------------------------------------------- update

    def update(
        self, state: DDPGState, batch: Batch, key: Tensor
    ) -> tuple[DDPGState, TDErrors, Metrics]:
        """Both gradients are taken at the old parameters, then both steps. Nothing is random: no
        key is used."""
        critic_grad = jax.value_and_grad(self.critic_loss, has_aux=True)
        (critic_loss, td), critic_gradient = critic_grad(state.critic, state, batch)
        actor_grad = jax.value_and_grad(self.actor_loss, has_aux=True)
        actor_batch = batch if batch.actor is None else batch.actor
        (actor_loss, action_size), actor_gradient = actor_grad(state.actor, state, actor_batch)
        actor, actor_optimizer = adam_step(
            state.actor, actor_gradient, state.actor_optimizer, state.rates.actor
        )
        critic, critic_optimizer = adam_step(
            state.critic, critic_gradient, state.critic_optimizer, state.rates.critic
        )
        updates = state.updates + 1
        keep = kept(updates, self.config.tau, self.config.target_update_interval)
        state = DDPGState(
            actor,
            critic,
            average(state.target_actor, actor, keep),
            average(state.target_critic, critic, keep),
            actor_optimizer,
            critic_optimizer,
            updates,
            state.scale,
            state.rates,
        )
        metrics = {
            "critic_loss": critic_loss,
            "actor_loss": actor_loss,
            **td_metrics(td),
            "action_size": action_size,
        }
        return state, td, metrics

    # -------------------------------------------------------------------------------------- acting

    def actor_params(self, state: DDPGState) -> Params:
        return state.actor

    def actor_shape(self) -> ActorShape:
        return self.shapes.actor_shape("tanh", self.config)

    def explorer(self, actor: Actor, progress: float, rng: np.random.Generator) -> Act:
        """Actions with Gaussian noise, or, for a share of the rows, uniformly random ones."""
        noise, actions = self.config.exploration_noise(progress), self.shapes.actions
        random = RandomActions(
            actions, self.config.random_actions(progress), self.config.random_hold
        )

        def explore(observation: Floats, goal: Floats) -> Array:
            action = actor.unit(observation, goal)
            noisy = np.clip(
                action + noise * rng.standard_normal(action.shape, np.float32), -1.0, 1.0
            )
            return actions.inside(actions.from_unit(random(noisy, rng)))

        return explore
