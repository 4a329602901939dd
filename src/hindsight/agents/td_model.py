"""A small model that predicts the TD error of pairs that have not been evaluated yet.

The paper's outlook: "An ideal case would be to realize a mode which can suggest what transitions
to train on". The model learns log |TD error| from what is replayed. It gives new pairs their
priorities, or chooses among candidates, without the learner's networks.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from hindsight.agents.losses import adam_step
from hindsight.agents.shapes import Shapes
from hindsight.networks import MLP, Params
from hindsight.normalizer import Scale, network_inputs
from hindsight.replay.batch import Batch, TDErrors
from hindsight.replay.fresh import choose_by
from hindsight.types import Tensor

LEAST = 1e-4  # TD errors below this are all alike


class TDModelState(NamedTuple):
    network: Params
    optimizer: Any


@dataclass(frozen=True)
class TDModel:
    """Two layers of 64 on observation, goal, action and reward."""

    shapes: Shapes
    clip_observation: float
    clip_normalized: float
    learning_rate: float = 1e-3

    @property
    def _network(self) -> MLP:
        return MLP((64, 64), 2, images=self.shapes.images)

    def init(self, key: jax.Array) -> TDModelState:
        action = self.shapes.actions.choices or self.shapes.actions.dim
        network = self._network.init(
            key, jnp.zeros((1, self.shapes.observation + self.shapes.goal + action + 1))
        )
        return TDModelState(network, optax.scale_by_adam().init(network))

    def outputs(self, network: Params, scale: Scale, batch: Batch) -> Tensor:
        """log |TD error| and value, side by side [n, 2]."""
        inputs = network_inputs(
            scale, batch.observation, batch.goal, self.clip_observation, self.clip_normalized
        )
        discrete = self.shapes.actions.discrete
        action = (
            jax.nn.one_hot(batch.action, self.shapes.actions.choices) if discrete else batch.action
        )
        return self._network.apply(
            network, jnp.concatenate([inputs, action, batch.reward[..., None]], axis=-1)
        )

    @partial(jax.jit, static_argnums=0)
    def evaluate(self, state: TDModelState, scale: Scale, batch: Batch) -> TDErrors:
        """Predicted TD errors (without their sign) and values of a batch [n, ...]."""
        outputs = self.outputs(state.network, scale, batch)
        return TDErrors(jnp.exp(jnp.clip(outputs[..., 0], np.log(LEAST), 5.0)), outputs[..., 1])

    @partial(jax.jit, static_argnums=0)
    def suggest(self, state: TDModelState, scale: Scale, batches: Batch) -> tuple[Batch, Tensor]:
        """Of the candidates [U, C, ...] those to learn from [U, B, ...], by predicted TD errors;
        also which these are."""

        def one(batch: Batch) -> tuple[Batch, Tensor]:
            candidates = batch._replace(fresh=None)
            return choose_by(batch, self.evaluate(state, scale, candidates).error)

        return jax.vmap(one)(batches)

    @partial(jax.jit, static_argnums=0)
    def fit(
        self, state: TDModelState, scale: Scale, batches: Batch, td: TDErrors
    ) -> tuple[TDModelState, jax.Array]:
        """One step of Adam per batch [U, B, ...] towards the TD errors seen; also the mean loss."""

        def loss(network: Params, batch: Batch, td: TDErrors) -> jax.Array:
            seen = jnp.stack([jnp.log(jnp.maximum(jnp.abs(td.error), LEAST)), td.value], axis=-1)
            return jnp.mean(optax.losses.huber_loss(self.outputs(network, scale, batch), seen))

        def step(
            state: TDModelState, seen: tuple[Batch, TDErrors]
        ) -> tuple[TDModelState, jax.Array]:
            value, gradient = jax.value_and_grad(loss)(state.network, *seen)
            return TDModelState(
                *adam_step(state.network, gradient, state.optimizer, self.learning_rate)
            ), value

        state, losses = jax.lax.scan(step, state, (batches, td))
        return state, jnp.mean(losses)
