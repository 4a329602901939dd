"""Twin delayed deep deterministic policy gradient (Fujimoto et al., 2018): DDPG with three changes.

Two critics, of which the smaller value is the target; an actor that learns at every second
update; noise on the target actor's actions. The TD error that sets a priority is the mean of
both critics'; that of a new pair is without noise.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import jax
import jax.numpy as jnp
import optax
from tyro.conf import Suppress

from hindsight.agents.agent import Metrics
from hindsight.agents.ddpg import DDPG, DDPGConfig, DDPGState
from hindsight.agents.losses import adam_step, kept, td_loss, td_metrics, td_target
from hindsight.networks import Params, average, copy_of
from hindsight.replay.batch import Batch, TDErrors
from hindsight.replay.priority_index import importance_weights
from hindsight.settings import Count, NotNegative, refuse_changes
from hindsight.types import Tensor


@dataclass(frozen=True)
class TD3Config(DDPGConfig):
    """Twin delayed DDPG, for continuous actions."""

    method: Annotated[str, Suppress] = "td3"
    policy_delay: Count = 2
    """Updates of the critics per update of the actor."""
    target_noise: NotNegative = 0.2
    """Deviation of the noise on the target actor's actions, as a share of half the action range."""
    target_noise_clip: NotNegative = 0.5
    """How far that noise may reach."""

    def check(self) -> None:
        if self.target_noise == 0:
            refuse_changes(self, ("target_noise_clip",), "agent.", "as agent.target_noise is 0")


class TD3(DDPG):
    """States are DDPG's; `critic` holds the parameters of both critics, stacked."""

    config: TD3Config

    def init(self, key: Tensor) -> DDPGState:
        state = super().init(key)
        inputs = jnp.zeros(
            (1, self.shapes.observation + self.shapes.goal + self.shapes.actions.dim)
        )
        critic = jax.vmap(self._critic.init, in_axes=(0, None))(
            jax.random.split(jax.random.fold_in(key, 1)), inputs
        )
        optimizer = optax.scale_by_adam().init(critic)
        return state._replace(
            critic=critic, target_critic=copy_of(critic), critic_optimizer=optimizer
        )

    def values(self, critic: Params, inputs: Tensor, action: Tensor) -> Tensor:
        """Q of both critics [2, B], of actions in [-1, 1]."""
        return jax.vmap(self.value, in_axes=(0, None, None))(critic, inputs, action)

    # -------------------------------------------------------------------------------------- losses

    def target(self, state: DDPGState, batch: Batch, noise: Tensor) -> Tensor:
        """r + gamma min_i Q'_i(s'||g, pi'(s'||g) + noise) [B]."""
        inputs = self.inputs(state.scale, batch.next_observation, batch.goal)
        action = jnp.clip(self.policy(state.target_actor, inputs) + noise, -1.0, 1.0)
        next_value = jnp.min(self.values(state.target_critic, inputs, action), axis=0)
        returns = self.shapes.returns if self.config.clip_target else None
        return td_target(batch.reward, batch.terminated, next_value, self.shapes.gamma, returns)

    def td_errors(self, state: DDPGState, batch: Batch) -> TDErrors:
        """The mean over both critics of target - Q(s||g, a), and of Q(s||g, a), both [B]."""
        target = self.target(state, batch, 0.0)
        return _mean(self._td_errors_of_both(state.critic, state, batch, target))

    def _td_errors_of_both(
        self, critic: Params, state: DDPGState, batch: Batch, target: Tensor
    ) -> TDErrors:
        inputs = self.inputs(state.scale, batch.observation, batch.goal)
        action = self.shapes.actions.to_unit(batch.action)
        values = self.values(critic, inputs, action)
        return TDErrors(jax.lax.stop_gradient(target) - values, values)

    def actor_loss(self, actor: Params, state: DDPGState, batch: Batch) -> tuple[Tensor, Tensor]:
        """As DDPG's, by the first critic."""
        first = jax.tree.map(lambda both: both[0], state.critic)
        return super().actor_loss(actor, state._replace(critic=first), batch)

    # -------------------------------------------------------------------------------------- update

    def update(
        self, state: DDPGState, batch: Batch, key: Tensor
    ) -> tuple[DDPGState, TDErrors, Metrics]:
        config = self.config
        noise = config.target_noise * jax.random.normal(key, batch.action.shape)
        target = self.target(
            state, batch, jnp.clip(noise, -config.target_noise_clip, config.target_noise_clip)
        )
        weight = importance_weights(batch.importance, batch.beta)

        def critic_loss(critic: Params) -> tuple[Tensor, TDErrors]:
            td = self._td_errors_of_both(critic, state, batch, target)
            both_losses = 2.0 * td_loss(td.error, weight, config.loss)
            return both_losses, _mean(td)

        (loss, td), gradient = jax.value_and_grad(critic_loss, has_aux=True)(state.critic)
        critic, optimizer = adam_step(
            state.critic, gradient, state.critic_optimizer, state.rates.critic
        )
        updates = state.updates + 1

        def learn_actor(state: DDPGState) -> tuple[Params, optax.OptState, Tensor, Tensor]:
            loss = jax.value_and_grad(self.actor_loss, has_aux=True)
            (value, size), gradient = loss(
                state.actor, state, batch if batch.actor is None else batch.actor
            )
            learnt = adam_step(state.actor, gradient, state.actor_optimizer, state.rates.actor)
            # Times the delay: so the mean over all updates is that over the actor's.
            return *learnt, value * config.policy_delay, size * config.policy_delay

        def leave_actor(state: DDPGState) -> tuple[Params, optax.OptState, Tensor, Tensor]:
            return state.actor, state.actor_optimizer, jnp.zeros(()), jnp.zeros(())

        due, now = updates % config.policy_delay == 0, state._replace(critic=critic)
        actor, actor_optimizer, actor_loss, size = jax.lax.cond(due, learn_actor, leave_actor, now)
        keep = kept(updates, config.tau, config.target_update_interval)
        state = state._replace(
            actor=actor,
            critic=critic,
            target_actor=average(state.target_actor, actor, keep),
            target_critic=average(state.target_critic, critic, keep),
            actor_optimizer=actor_optimizer,
            critic_optimizer=optimizer,
            updates=updates,
        )
        metrics = {
            "critic_loss": loss,
            "actor_loss": actor_loss,
            **td_metrics(td),
            "action_size": size,
        }
        return state, td, metrics


def _mean(both: TDErrors) -> TDErrors:
    mean: TDErrors = jax.tree.map(lambda part: jnp.mean(part, axis=0), both)
    return mean
