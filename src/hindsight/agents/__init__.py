"""Update rules of the off-policy learners."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from hindsight.agents.ddpg import DDPG
from hindsight.agents.dqn import DQN
from hindsight.agents.exploration import Explore
from hindsight.agents.shapes import Shapes
from hindsight.config import DDPGConfig, DQNConfig
from hindsight.envs.contract import GoalEnvSpec
from hindsight.errors import HindsightError
from hindsight.networks import Params
from hindsight.normalizer import Scale
from hindsight.replay.prioritized import TDErrors
from hindsight.replay.replay import Batch, Replayed
from hindsight.types import Array, Floats, Tensor


class Agent(Protocol):
    """What training loops and policies use of a learner. States are pytrees; all functions are pure."""

    @property
    def config(self) -> DDPGConfig | DQNConfig: ...

    @property
    def shapes(self) -> Shapes: ...

    def init(self, key: Tensor) -> Any: ...

    def update(
        self, state: Any, scale: Scale, replayed: Replayed, learning_rates: Any
    ) -> tuple[Any, TDErrors, dict[str, Any]]:
        """A new state, TD errors of what was replayed and mean metrics, after one update per batch."""

    def evaluate(self, state: Any, scale: Scale, batch: Batch) -> TDErrors:
        """TD errors and values of a batch [n, ...]."""

    def learning_rates(self, progress: float) -> Any: ...

    def actor_parameters(self, state: Any) -> Params:
        """The parameters that choose actions."""

    def act(self, actor: Params, scale: Scale, observation: Floats, goal: Floats) -> Array:
        """Greedy actions, by parameters in NumPy."""

    def explorer(self, actor: Params, scale: Scale, progress: float, rng: np.random.Generator) -> Explore:
        """What chooses actions with exploration, by parameters in NumPy, for the episodes of one cycle."""


def make_agent(config: DDPGConfig | DQNConfig, spec: GoalEnvSpec) -> Agent:
    """The learner of a config for an env."""
    if isinstance(config, DQNConfig) != spec.actions.discrete:
        kind, use = ("discrete", "dqn") if spec.actions.discrete else ("continuous", "ddpg")
        raise HindsightError(f"{config.method} does not fit {spec.id}, whose actions are {kind}: use {use}")
    return agent_of(config, Shapes.of(spec, config.gamma))


def agent_of(config: DDPGConfig | DQNConfig, shapes: Shapes) -> Agent:
    """The learner of a config for given sizes."""
    return DQN(config, shapes) if isinstance(config, DQNConfig) else DDPG(config, shapes)
