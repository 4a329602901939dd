"""Deep Q-learning (Mnih et al., 2015), double by default (van Hasselt et al., 2016)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from tyro.conf import Suppress

from hindsight.acting import Actor, ActorShape, RandomActions
from hindsight.agents.agent import Metrics, OffPolicyAgent
from hindsight.agents.config import QLearningConfig
from hindsight.agents.losses import adam_step, kept, td_loss, td_metrics, td_target
from hindsight.collect import Act
from hindsight.networks import MLP, Params, average, copy_of
from hindsight.normalizer import Scale
from hindsight.replay.batch import Batch, TDErrors
from hindsight.replay.priority_index import importance_weights
from hindsight.schedules import Schedule
from hindsight.settings import LEARNING_RATES, CountOrZero, RateSchedule, ShareSchedule
from hindsight.types import Array, Floats, Tensor


@dataclass(frozen=True)
class DQNConfig(QLearningConfig):
    """Deep Q-learning, for discrete actions."""

    method: Annotated[str, Suppress] = "dqn"
    double: bool = True
    """Choose the next action by the online network and value it by the target network."""
    learning_rate: Annotated[RateSchedule, LEARNING_RATES] = Schedule.parse(1e-3)
    loss: Literal["squared", "huber"] = "huber"
    fourier_features: CountOrZero = 0
    """The network also sees sin and cos of 1 to this many times observation and goal: for values
    with sharp edges, as at walls."""
    random_actions: ShareSchedule = Schedule("linear", (0.5, 0.05, 0.5))
    """Share of actions drawn uniformly at random while exploring (epsilon)."""


class Rates(NamedTuple):
    critic: Tensor


class DQNState(NamedTuple):
    """All that learning changes."""

    network: Params
    target: Params
    optimizer: Any
    updates: jax.Array
    scale: Scale
    rates: Rates


class DQN(OffPolicyAgent):
    config: DQNConfig
    acts = "discrete"

    @property
    def _network(self) -> MLP:
        return self.network(self.shapes.actions.choices, layer_norm=self.config.layer_norm)

    def init(self, key: Tensor) -> DQNState:
        inputs = self.shapes.observation + self.shapes.goal
        inputs *= 1 + 2 * self.config.fourier_features
        network = self._network.init(key, jnp.zeros((1, inputs)))
        optimizer = optax.scale_by_adam().init(network)
        updates, rates = jnp.zeros((), jnp.int32), Rates(np.float32(0))
        return DQNState(
            network, copy_of(network), optimizer, updates, self.shapes.no_scale(), rates
        )

    def rates(self, progress: float) -> Rates:
        return Rates(self.config.learning_rate(progress))

    def values(self, network: Params, scale: Scale, observation: Tensor, goal: Tensor) -> Tensor:
        """Q of every action [n, choices]."""
        return self._network.apply(network, self.inputs(scale, observation, goal))

    def value(self, network: Params, scale: Scale, batch: Batch) -> Tensor:
        """Q of the batch's actions [n]."""
        return _pick(self.values(network, scale, batch.observation, batch.goal), batch.action)

    def td_errors(self, state: DQNState, batch: Batch) -> TDErrors:
        """r + gamma Q'(s'||g, a') - Q(s||g, a) and Q(s||g, a), both [B]."""
        return self._td_errors(state.network, state, batch)

    def next_value(self, state: DQNState, batch: Batch) -> Tensor:
        """Q'(s'||g, a') of the best next action a' [B]."""
        values = self.values(state.target, state.scale, batch.next_observation, batch.goal)
        choosing = values
        if self.config.double:
            choosing = self.values(state.network, state.scale, batch.next_observation, batch.goal)
        return _pick(values, jnp.argmax(choosing, axis=-1))

    def _td_errors(self, network: Params, state: DQNState, batch: Batch) -> TDErrors:
        next_value = self.next_value(state, batch)
        returns = self.shapes.returns if self.config.clip_target else None
        target = jax.lax.stop_gradient(
            td_target(batch.reward, batch.terminated, next_value, self.shapes.gamma, returns)
        )
        value = self.value(network, state.scale, batch)
        return TDErrors(target - value, value)

    def critic_loss(
        self, network: Params, state: DQNState, batch: Batch
    ) -> tuple[Tensor, TDErrors]:
        """Mean loss of the TD errors, importance-weighted; also the TD errors and values."""
        td = self._td_errors(network, state, batch)
        return td_loss(
            td.error, importance_weights(batch.importance, batch.beta), self.config.loss
        ), td

    def update(
        self, state: DQNState, batch: Batch, key: Tensor
    ) -> tuple[DQNState, TDErrors, Metrics]:
        (loss, td), gradient = jax.value_and_grad(self.critic_loss, has_aux=True)(
            state.network, state, batch
        )
        network, optimizer = adam_step(state.network, gradient, state.optimizer, state.rates.critic)
        updates = state.updates + 1
        keep = kept(updates, self.config.tau, self.config.target_update_interval)
        target = average(state.target, network, keep)
        metrics = {
            "critic_loss": loss,
            **td_metrics(td),
        }
        return DQNState(network, target, optimizer, updates, state.scale, state.rates), td, metrics

    def actor_params(self, state: DQNState) -> Params:
        return state.network

    def actor_shape(self) -> ActorShape:
        return self.shapes.actor_shape(
            "argmax", self.config, fourier_features=self.config.fourier_features
        )

    def explorer(self, actor: Actor, progress: float, rng: np.random.Generator) -> Act:
        """Greedy actions, or, for a share of the rows, uniformly random ones."""
        random = RandomActions(self.shapes.actions, self.config.random_actions(progress))

        def explore(observation: Floats, goal: Floats) -> Array:
            return random(actor(observation, goal), rng)

        return explore


def _pick(values: Tensor, actions: Tensor) -> Tensor:
    return jnp.take_along_axis(values, actions[..., None], axis=-1)[..., 0]
