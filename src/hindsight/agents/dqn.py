"""Deep Q-learning (Mnih et al., 2015), double by default (van Hasselt et al., 2016): loss, update, act."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from hindsight.agents.exploration import Explore
from hindsight.agents.losses import adam_step, resample, td_loss, td_target
from hindsight.agents.shapes import Shapes
from hindsight.config import DQNConfig
from hindsight.networks import MLP, Params, average, copy_of, forward
from hindsight.normalizer import Scale, normalize
from hindsight.replay.priorities import importance_weights
from hindsight.replay.prioritized import TDErrors
from hindsight.replay.replay import Batch, Replayed
from hindsight.types import Array, Floats, Tensor


class DQNState(NamedTuple):
    """All that learning changes."""

    network: Params
    target: Params
    optimizer: Any
    updates: jax.Array


@dataclass(frozen=True)
class DQN:
    """Settings and env sizes in; pure functions of `DQNState` out."""

    config: DQNConfig
    shapes: Shapes

    @property
    def _network(self) -> MLP:
        return MLP(self.config.hidden, self.shapes.actions.choices, self.config.layer_norm)

    def init(self, key: jax.Array) -> DQNState:
        network = self._network.init(key, jnp.zeros((1, self.shapes.observation + self.shapes.goal)))
        return DQNState(network, copy_of(network), optax.scale_by_adam().init(network), jnp.zeros((), jnp.int32))

    def values(self, network: Params, scale: Scale, observation: Tensor, goal: Tensor) -> Tensor:
        """Q of every action [n, choices]."""
        return self._network.apply(network, self._inputs(scale, observation, goal))

    def _inputs(self, scale: Scale, observation: Tensor, goal: Tensor) -> Tensor:
        clip_normalized = self.config.clip_normalized if self.config.normalize else np.inf
        return normalize(scale, observation, goal, self.config.clip_observation, clip_normalized)

    def td_error(self, network: Params, state: DQNState, scale: Scale, batch: Batch) -> TDErrors:
        """r + gamma Q'(s'||g, a') - Q(s||g, a) and Q(s||g, a), both [B], with Q by `network`."""
        next_values = self.values(state.target, scale, batch.next_observation, batch.goal)
        choosing = next_values
        if self.config.double:
            choosing = self.values(state.network, scale, batch.next_observation, batch.goal)
        next_value = _pick(next_values, jnp.argmax(choosing, axis=-1))
        returns = self.shapes.returns if self.config.clip_target else None
        target = td_target(batch.reward, batch.terminated, next_value, self.shapes.gamma, returns)
        value = _pick(self.values(network, scale, batch.observation, batch.goal), batch.action)
        return TDErrors(jax.lax.stop_gradient(target) - value, value)

    def loss(
        self, network: Params, state: DQNState, scale: Scale, batch: Batch, beta: Tensor = 0.0
    ) -> tuple[jax.Array, TDErrors]:
        """Mean loss of the TD errors, importance-weighted; also the TD errors [B] and values [B]."""
        td = self.td_error(network, state, scale, batch)
        return td_loss(td.error, importance_weights(batch.importance, beta), self.config.loss), td

    @partial(jax.jit, static_argnums=0)
    def evaluate(self, state: DQNState, scale: Scale, batch: Batch) -> TDErrors:
        """TD errors and values of a batch [n, ...]."""
        return self.td_error(state.network, state, scale, batch)

    @partial(jax.jit, static_argnums=0, donate_argnums=1)
    def update(
        self, state: DQNState, scale: Scale, replayed: Replayed, learning_rates: float
    ) -> tuple[DQNState, TDErrors, dict[str, jax.Array]]:
        """One update per batch [U, B, ...]; TD errors and values [U, B] of all that was replayed, and mean metrics."""

        def step(
            state: DQNState, replay: tuple[Batch, Tensor | None]
        ) -> tuple[DQNState, tuple[TDErrors, dict[str, jax.Array]]]:
            batch, draws = replay
            candidates: TDErrors | None = None
            if draws is not None:
                candidates = self.td_error(state.network, state, scale, batch)
                batch = resample(batch, candidates.error, draws, replayed.alpha)
            (loss, td), gradient = jax.value_and_grad(self.loss, has_aux=True)(
                state.network, state, scale, batch, replayed.beta
            )
            network, optimizer = adam_step(state.network, gradient, state.optimizer, learning_rates)
            updates = state.updates + 1
            keep = jnp.where(updates % self.config.target_every == 0, self.config.target_average, 1.0)
            metrics = {
                "critic_loss": loss,
                "q_mean": jnp.mean(td.value),
                "q_min": jnp.min(td.value),
                "q_max": jnp.max(td.value),
                "td_error": jnp.mean(jnp.abs(td.error)),
            }
            state = DQNState(network, average(state.target, network, keep), optimizer, updates)
            return state, (td if candidates is None else candidates, metrics)

        state, (td, metrics) = jax.lax.scan(step, state, (replayed.batch, replayed.draws))
        return state, td, jax.tree.map(jnp.mean, metrics)

    def learning_rates(self, progress: float) -> float:
        return self.config.learning_rate(progress)

    def actor_parameters(self, state: DQNState) -> Params:
        """The parameters that choose actions."""
        return state.network

    def act(self, actor: Params, scale: Scale, observation: Floats, goal: Floats) -> Array:
        """Greedy actions [n], in NumPy."""
        greedy: Array = np.argmax(forward(actor, self._inputs(scale, observation, goal)), axis=-1)
        return greedy

    def explorer(self, actor: Params, scale: Scale, progress: float, rng: np.random.Generator) -> Explore:
        """Greedy actions, or, for a share of the rows, uniformly random ones, in NumPy."""
        share = self.config.random_actions(progress)

        def explore(observation: Floats, goal: Floats) -> Array:
            greedy = self.act(actor, scale, observation, goal)
            random = rng.integers(0, self.shapes.actions.choices, len(greedy))
            return np.where(rng.random(len(greedy)) < share, random, greedy)

        return explore


def _pick(values: Tensor, actions: Tensor) -> jax.Array:
    return jnp.take_along_axis(values, actions[..., None], axis=-1)[..., 0]
