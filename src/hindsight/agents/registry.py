"""The one list of learners. To add one: write its file, and add a line here. Nothing is imported
before it is used.

One that is no part of the library: `OFF_POLICY["mine"] = Mine`, the class itself.
"""

from __future__ import annotations

from collections import ChainMap
from importlib import import_module
from typing import TYPE_CHECKING, get_type_hints

from hindsight.agents.config import AgentConfig
from hindsight.envs.contract import GoalEnvSpec
from hindsight.errors import HindsightError, nearest

if TYPE_CHECKING:
    from hindsight.agents.agent import Agent, OffPolicyAgent
    from hindsight.agents.policy_gradient import PolicyGradient

OFF_POLICY: dict[str, str | type[Agent]] = {
    "ddpg": "ddpg.DDPG",
    "td3": "td3.TD3",
    "sac": "sac.SAC",
    "tqc": "tqc.TQC",
    "dqn": "dqn.DQN",
    "replayed-ac": "replayed_ac.ReplayedAC",
}
ON_POLICY: dict[str, str | type[Agent]] = {
    "hpg": "hpg.HPG",
    "a2c": "a2c.A2C",
    "a3c": "a2c.A3C",
    "ppo": "ppo.PPO",
    "trpo": "trpo.TRPO",
}
AGENTS = ChainMap(ON_POLICY, OFF_POLICY)
"""Module and class in this package, or the class itself, by the name of the method."""


def agent_class(method: str) -> type[Agent]:
    """The learner of a name."""
    if method not in AGENTS:
        raise HindsightError(
            f"unknown method {method!r}: choose from {', '.join(AGENTS)}.{nearest(method, AGENTS)}"
        )
    where = AGENTS[method]
    if not isinstance(where, str):
        return where
    module, name = where.split(".")
    found: type[Agent] = getattr(import_module(f"hindsight.agents.{module}"), name)
    return found


def config_class(method: str) -> type[AgentConfig]:
    """The settings of the learner of a name."""
    found: type[AgentConfig] = get_type_hints(agent_class(method))["config"]
    return found


def make_agent(config: AgentConfig, spec: GoalEnvSpec) -> Agent:
    """The learner of the settings, for an env."""
    from hindsight.agents.shapes import Shapes

    kind, has = agent_class(config.method), "discrete" if spec.actions.discrete else "continuous"
    if kind.acts not in ("any", has):
        use = "dqn" if spec.actions.discrete else "ddpg"
        raise HindsightError(
            f"{config.method} does not fit {spec.id}, whose actions are {has}: use {use}"
        )
    if kind.sparse_only and spec.success_reward is None:
        raise HindsightError(
            f"{config.method} learns from goals reached or not; the reward of {spec.id} is not "
            "sparse"
        )
    images = spec.observation.pixels or spec.goal.pixels
    if images and getattr(config, "fourier_features", None):
        raise HindsightError(
            f"agent.fourier_features are of numbers, and {spec.id} has images: set them to 0"
        )
    return kind(config, Shapes.of(spec, config.gamma))


def make_off_policy_agent(config: AgentConfig, spec: GoalEnvSpec) -> OffPolicyAgent:
    agent = make_agent(config, spec)
    assert config.method in OFF_POLICY
    return agent  # type: ignore[return-value]


def make_on_policy_agent(config: AgentConfig, spec: GoalEnvSpec) -> PolicyGradient:
    agent = make_agent(config, spec)
    assert config.method in ON_POLICY
    return agent  # type: ignore[return-value]
