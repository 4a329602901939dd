"""The contract of every learner: settings and env sizes in, pure functions of a state out.

A file per algorithm has its settings, its state, its losses, `update` and how it acts.
`registry.py` lists them.

A state is a NamedTuple of all that learning changes. Besides parameters and optimisers it has
two parts that the training sets before the updates of a cycle: `scale`, the normaliser's
numbers, and `rates`, settings that follow a schedule.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Literal

import jax
import jax.numpy as jnp
import numpy as np

from hindsight.acting import Actor, ActorShape
from hindsight.agents.config import AgentConfig, OffPolicyAgentConfig
from hindsight.agents.shapes import Shapes
from hindsight.collect import Act
from hindsight.networks import MLP, Params, to_numpy
from hindsight.normalizer import Scale, network_inputs
from hindsight.replay.batch import Batch, RewardScale, TDErrors
from hindsight.replay.fresh import choose
from hindsight.types import Tensor

Metrics = dict[str, Any]


@dataclass(frozen=True)
class Agent:
    """What all learners share."""

    config: AgentConfig
    shapes: Shapes

    acts: ClassVar[Literal["discrete", "continuous", "any"]] = "any"
    """Which actions it can take."""
    sparse_only: ClassVar[bool] = False
    """Whether it learns from goals reached or not, and from no other reward."""

    def init(self, key: Tensor) -> Any:
        """The state before the first update."""
        raise NotImplementedError

    def rates(self, progress: float) -> Any:
        """The settings that follow a schedule, at a point of the training from 0 to 1: a
        NamedTuple of numbers."""
        raise NotImplementedError

    def actor_params(self, state: Any) -> Params:
        """The parameters that choose actions."""
        raise NotImplementedError

    def actor_shape(self) -> ActorShape:
        """How outputs of the actor's network become actions."""
        raise NotImplementedError

    def explorer(self, actor: Actor, progress: float, rng: np.random.Generator) -> Act:
        """What chooses actions with exploration, for the episodes of one cycle, in NumPy."""
        raise NotImplementedError

    def scheduled(self, state: Any, scale: Scale, progress: float) -> Any:
        """The state with the normaliser's numbers and the scheduled settings of this point of
        the training."""
        return state._replace(scale=scale, rates=jax.tree.map(np.float32, self.rates(progress)))

    def actor(self, state: Any) -> Actor:
        """The greedy policy, in NumPy."""
        return Actor(self.actor_shape(), *to_numpy((self.actor_params(state), state.scale)))

    def network(self, outputs: int, **settings: Any) -> MLP:
        """A network of the widths and precision that the settings say, for the env's inputs."""
        config = self.config
        return MLP(
            config.net_arch,
            outputs,
            precision=config.precision,
            normalized=config.normalize,
            images=self.shapes.images,
            **settings,
        )

    def inputs(self, scale: Scale, observation: Tensor, goal: Tensor) -> Tensor:
        """What the networks read [..., i]."""
        shape = self.actor_shape()
        return network_inputs(
            scale,
            observation,
            goal,
            shape.clip_observation,
            shape.clip_normalized,
            shape.fourier_features,
        )


class OffPolicyAgent(Agent):
    """A learner from replayed transitions."""

    config: OffPolicyAgentConfig

    def reward_scale(self, ends_at_goal: bool) -> RewardScale:
        """How it learns from rewards, if reaching a goal ends an episode, or if not."""
        return self.shapes.reward_scales[int(ends_at_goal)]

    def update(self, state: Any, batch: Batch, key: Tensor) -> tuple[Any, TDErrors, Metrics]:
        """A new state, TD errors and values [B] of the batch [B, ...], and metrics, after one
        update."""
        raise NotImplementedError

    def td_errors(self, state: Any, batch: Batch) -> TDErrors:
        """TD errors and values of a batch [n, ...]."""
        raise NotImplementedError

    @partial(jax.jit, static_argnums=0)
    def evaluate(self, state: Any, batch: Batch) -> TDErrors:
        """The same, compiled."""
        return self.td_errors(state, batch)

    @partial(jax.jit, static_argnums=0, donate_argnums=1)
    def learn(self, state: Any, batches: Batch, key: Tensor) -> tuple[Any, TDErrors, Metrics]:
        """One update per batch [U, B, ...], in one compiled loop; TD errors and values [U, B] of
        all that was sampled, and mean metrics. With fresh priorities each update first chooses
        among its candidates."""

        fixed, none = {"scale": state.scale, "rates": state.rates}, {"scale": None, "rates": None}

        def step(state: Any, sampled: tuple[Batch, Tensor]) -> tuple[Any, tuple[TDErrors, Metrics]]:
            batch, key = sampled
            state = state._replace(**fixed)
            batch, candidates = choose(batch, lambda those: self.td_errors(state, those))
            state, td, metrics = self.update(state, batch, key)
            return state._replace(**none), (td if candidates is None else candidates, metrics)

        keys = jax.random.split(key, len(batches.reward))
        state, (td, metrics) = jax.lax.scan(step, state._replace(**none), (batches, keys))
        return state._replace(**fixed), td, jax.tree.map(jnp.mean, metrics)

    def after_updates(
        self, state: Any, batches: Sequence[Batch], key: Tensor
    ) -> tuple[Any, Metrics]:
        """What is learnt from all batches of a cycle [U, B, ...] together, after the updates:
        nothing, as a rule."""
        return state, {}
