"""Relay goals: what has to be reached before the goal of a task can be, as functions of the
observation.

To push a box, the gripper has to get to it first. An env says so by an attribute:

    relay_goals = (RelayGoal(lambda o: o[:, :3], lambda o: o[:, 3:6], tolerance=0.05),)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np

from hindsight.errors import HindsightError
from hindsight.types import Array, Bools, Floats


@dataclass(frozen=True)
class RelayGoal:
    """The goal of a stage before the last. Both functions take observations [n, o], as flat
    float32 numbers, and return [n, g]."""

    achieved: Callable[[Floats], Array]
    """What the stage is about: where the gripper is."""
    desired: Callable[[Floats], Array]
    """Where that should be: at the box."""
    tolerance: float
    """The stage's goal is reached within this (Euclidean) distance."""
    handover: float | None = None
    """The next stage takes over within this distance; the tolerance, if it is not given."""

    def near(self, observation: Floats) -> Bools:
        """[n]: where the next stage takes over."""
        within = self.tolerance if self.handover is None else self.handover
        return distance(self.achieved(observation), self.desired(observation)) < within


def distance(a: Array, b: Array) -> Array:
    """Euclidean, of rows."""
    apart: Array = np.linalg.norm(a - b, axis=-1)
    return apart


FETCH = (RelayGoal(lambda o: o[:, :3], lambda o: o[:, 3:6], tolerance=0.05, handover=0.07),)
"""Of the Fetch tasks with an object: the gripper has to get to it. They touch from 0.04 to 0.07 on;
led any nearer, the gripper pushes the object off the table."""


def relay_goals_of(env: gym.Env[Any, Any], name: str) -> tuple[RelayGoal, ...]:
    """Those that the env declares; those known of Fetch; or none."""
    if env.has_wrapper_attr("relay_goals"):
        return checked(env.get_wrapper_attr("relay_goals"), name)
    fetch = type(env.unwrapped).__module__.startswith("gymnasium_robotics.envs.fetch")
    return FETCH if fetch and getattr(env.unwrapped, "has_object", False) else ()


def checked(goals: Sequence[Any], name: str) -> tuple[RelayGoal, ...]:
    """The goals as a tuple, if that is what they are."""
    if not isinstance(goals, tuple | list) or not all(isinstance(g, RelayGoal) for g in goals):
        raise HindsightError(f"{name}: relay_goals must be a list of hindsight.RelayGoal")
    return tuple(goals)
