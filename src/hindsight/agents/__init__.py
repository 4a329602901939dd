"""Update rules of the off-policy learners."""

from __future__ import annotations

from hindsight.agents.ddpg import DDPG
from hindsight.agents.dqn import DQN
from hindsight.agents.shapes import Shapes
from hindsight.config import DDPGConfig, DQNConfig
from hindsight.envs.contract import GoalEnvSpec
from hindsight.errors import HindsightError

Agent = DDPG | DQN


def make_agent(config: DDPGConfig | DQNConfig, spec: GoalEnvSpec) -> Agent:
    """The learner of a config for an env."""
    if isinstance(config, DQNConfig) != spec.actions.discrete:
        kind, use = ("discrete", "dqn") if spec.actions.discrete else ("continuous", "ddpg")
        raise HindsightError(f"{config.method} does not fit {spec.id}, whose actions are {kind}: use {use}")
    return agent_of(config, Shapes.of(spec, config.gamma))


def agent_of(config: DDPGConfig | DQNConfig, shapes: Shapes) -> Agent:
    """The learner of a config for given sizes."""
    return DQN(config, shapes) if isinstance(config, DQNConfig) else DDPG(config, shapes)
