"""Nearer goals to explore with.

Where goals lie far beyond what has been practised, all actions look the same, and a policy stands
still. So it is shown a point on the way instead: of the straight line to the goal, the one that is
as far from the achieved goal as is said. Episodes are stored under the goals of the env, and
relabelled as ever: with every step farther, farther goals are learnt from. What is evaluated and
saved pursues the env's goals.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from hindsight.acting import Actor
from hindsight.collect import Act
from hindsight.envs.contract import GoalEnvSpec
from hindsight.errors import HindsightError
from hindsight.types import Floats


class Explores(Protocol):
    """What has an exploring policy: an agent, or one that is led."""

    def actor(self, state: Any) -> Actor: ...

    def explorer(self, actor: Actor, progress: float, rng: np.random.Generator) -> Act: ...


@dataclass(frozen=True)
class ExploresWithin:
    """An agent that explores towards points at most so far away."""

    agent: Explores
    distance: float
    size: int
    """Of goals. The last features of observations are what is achieved."""

    def actor(self, state: Any) -> Actor:
        return self.agent.actor(state)

    def explorer(self, actor: Actor, progress: float, rng: np.random.Generator) -> Act:
        explore = self.agent.explorer(actor, progress, rng)

        def act(observation: Floats, goal: Floats) -> Any:
            return explore(observation, nearer(observation[:, -self.size :], goal, self.distance))

        return act


def nearer(achieved: Floats, goal: Floats, distance: float) -> Floats:
    """Goals [n, g], moved towards what is achieved until they are at most `distance` away."""
    way = goal - achieved
    apart = np.linalg.norm(way, axis=1, keepdims=True)
    share = np.minimum(1.0, distance / np.maximum(apart, np.finfo(np.float32).tiny))
    moved: Floats = (achieved + share * way).astype(goal.dtype)
    return np.where(share < 1.0, moved, goal)


def check_explores_within(spec: GoalEnvSpec) -> None:
    if not spec.observation.achieved_dim:
        raise HindsightError(
            f"explore_within works where policies are shown the achieved goal beside the "
            f"observation, which does not tell it: not in {spec.id}"
        )
