"""The one list of learners. To add one: write its file, and add a line here."""

from __future__ import annotations

from typing import get_type_hints

from hindsight.agents.a2c import A2C, A3C
from hindsight.agents.agent import Agent, OffPolicyAgent
from hindsight.agents.config import AgentConfig
from hindsight.agents.ddpg import DDPG
from hindsight.agents.dqn import DQN
from hindsight.agents.hpg import HPG
from hindsight.agents.policy_gradient import PolicyGradient
from hindsight.agents.ppo import PPO
from hindsight.agents.replayed_ac import ReplayedAC
from hindsight.agents.shapes import Shapes
from hindsight.agents.trpo import TRPO
from hindsight.envs.contract import GoalEnvSpec
from hindsight.errors import HindsightError, nearest

AGENTS: dict[str, type[Agent]] = {
    "ddpg": DDPG,
    "dqn": DQN,
    "replayed-ac": ReplayedAC,
    "hpg": HPG,
    "a2c": A2C,
    "a3c": A3C,
    "ppo": PPO,
    "trpo": TRPO,
}


def agent_class(method: str) -> type[Agent]:
    """The learner of a name."""
    if method not in AGENTS:
        raise HindsightError(f"unknown method {method!r}: choose from {', '.join(AGENTS)}.{nearest(method, AGENTS)}")
    return AGENTS[method]


def config_class(method: str) -> type[AgentConfig]:
    """The settings of the learner of a name."""
    found: type[AgentConfig] = get_type_hints(agent_class(method))["config"]
    return found


def is_off_policy(method: str) -> bool:
    return issubclass(agent_class(method), OffPolicyAgent)


def make_agent(config: AgentConfig, spec: GoalEnvSpec) -> Agent:
    """The learner of the settings, for an env."""
    kind, has = agent_class(config.method), "discrete" if spec.actions.discrete else "continuous"
    if kind.acts not in ("any", has):
        use = "dqn" if spec.actions.discrete else "ddpg"
        raise HindsightError(f"{config.method} does not fit {spec.id}, whose actions are {has}: use {use}")
    if kind.sparse_only and spec.success_reward is None:
        raise HindsightError(f"{config.method} learns from goals reached or not; the reward of {spec.id} is not sparse")
    return kind(config, Shapes.of(spec, config.gamma))


def make_off_policy_agent(config: AgentConfig, spec: GoalEnvSpec) -> OffPolicyAgent:
    agent = make_agent(config, spec)
    assert isinstance(agent, OffPolicyAgent)
    return agent


def make_on_policy_agent(config: AgentConfig, spec: GoalEnvSpec) -> PolicyGradient:
    agent = make_agent(config, spec)
    assert isinstance(agent, PolicyGradient)
    return agent
