"""Other goals to explore with than those of the env.

With relay goals, the first stage that is not done leads. With `explore_within`, a point on the way
does: where goals lie far beyond what has been practised, all actions look the same, and a policy
stands still. So it is shown, of the straight line to the goal, the point that is as far from the
achieved goal as is said.

Episodes are stored under the goals of the env, and relabelled as ever. What is evaluated and saved
pursues the env's goals.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from hindsight.acting import Actor
from hindsight.collect import Act
from hindsight.config import OffPolicyConfig, TrainConfig
from hindsight.envs.contract import GoalEnvSpec
from hindsight.errors import HindsightError
from hindsight.training.relay import Relay
from hindsight.types import Floats


class Explores(Protocol):
    """What has an exploring policy: an agent, or one that is led."""

    def actor(self, state: Any) -> Actor: ...

    def explorer(self, actor: Actor, progress: float, rng: np.random.Generator) -> Act: ...


ShownGoals = Callable[[Floats, Floats, float, np.random.Generator], Floats]
"""Of observations [n, o], goals [n, g] and progress: the goals that the exploring policy sees."""


@dataclass(frozen=True)
class Led:
    """An agent that explores towards other goals."""

    agent: Explores
    shown: ShownGoals

    def actor(self, state: Any) -> Actor:
        return self.agent.actor(state)

    def explorer(self, actor: Actor, progress: float, rng: np.random.Generator) -> Act:
        explore = self.agent.explorer(actor, progress, rng)

        def act(observation: Floats, goal: Floats) -> Any:
            return explore(observation, self.shown(observation, goal, progress, rng))

        return act


def led(agent: Explores, config: TrainConfig, relay: Relay) -> Explores:
    """The agent, whose exploration is led by relay goals or nearer goals, if the config says so."""
    if relay.goals:
        return Led(agent, relay.leading)
    if isinstance(config, OffPolicyConfig) and config.explore_within:
        return Led(agent, nearer_goals(config.explore_within, relay.task))
    return agent


def nearer_goals(distance: float, spec: GoalEnvSpec) -> ShownGoals:
    """Goals at most so far away."""
    size = spec.observation.achieved_dim
    if not size:
        raise HindsightError(
            f"explore_within works where policies are shown the achieved goal beside the "
            f"observation, which does not tell it: not in {spec.id}"
        )
    return lambda observation, goal, *_: nearer(observation[:, -size:], goal, distance)


def nearer(achieved: Floats, goal: Floats, distance: float) -> Floats:
    """Goals [n, g], moved towards what is achieved until they are at most `distance` away."""
    way = goal - achieved
    apart = np.linalg.norm(way, axis=1, keepdims=True)
    share = np.minimum(1.0, distance / np.maximum(apart, np.finfo(np.float32).tiny))
    moved: Floats = (achieved + share * way).astype(goal.dtype)
    return np.where(share < 1.0, moved, goal)
