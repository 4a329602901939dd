"""A point that is seen: an image of it, with goals that are images, or places."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np

from hindsight.types import Array
from point_env import PointEnv

SIDE = 8


class PixelPointEnv(PointEnv):
    """`PointEnv` as an image (8, 8, 3): a soft spot, red, green where it is low and blue where it
    is high. Its goals are places, or, with `image_goals`, images of one channel (8, 8)."""

    max_episode_steps = 10

    def __init__(self, image_goals: bool = False) -> None:
        super().__init__()
        self.image_goals = image_goals
        image = gym.spaces.Box(0, 255, (SIDE, SIDE, 3), np.uint8)
        goal = self.observation_space["desired_goal"]
        if image_goals:
            goal = gym.spaces.Box(0, 255, (SIDE, SIDE), np.uint8)
        self.observation_space = gym.spaces.Dict(
            {"observation": image, "achieved_goal": goal, "desired_goal": goal}
        )

    def _reached(self, achieved: Array, desired: Array) -> Any:
        if not self.image_goals:
            return super()._reached(achieved, desired)
        apart = np.abs(achieved.astype(np.float64) - desired)
        return apart.mean(axis=(-2, -1)) < 5.0

    def _observe(self) -> dict[str, Any]:
        seen = super()._observe()
        red = spot(self.x)
        rows = np.linspace(0, 1, SIDE)[:, None]
        image = np.stack([red, red * rows, red * (1 - rows)], axis=-1).astype(np.uint8)
        if not self.image_goals:
            return {**seen, "observation": image}
        return {
            "observation": image,
            "achieved_goal": red.astype(np.uint8),
            "desired_goal": spot(self.goal).astype(np.uint8),
        }


def spot(place: Array) -> Array:
    """A spot of light at a place in [-1, 1]^2."""
    line = np.linspace(-1, 1, SIDE)
    x, y = (np.exp(-(((line - p) / 0.3) ** 2)) for p in place)
    return 255 * np.outer(y, x)
