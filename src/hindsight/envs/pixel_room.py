"""A room drawn as pixels: walk until the image is that of the goal."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np

from hindsight.envs.rooms import RoomsEnv
from hindsight.errors import HindsightError
from hindsight.types import Array


class PixelRoomEnv(RoomsEnv):
    """`RoomsEnv` as its image: uint8 (11 x cell, 11 x cell, 1) for a room of 11 x 11, the agent
    white, walls grey.

    The achieved goal is the image, too, and the desired goal is the image with the agent where it
    should be. Without `image_goals` goals are (row, column), as in `RoomsEnv`.
    """

    def __init__(
        self,
        layout: str = "empty",
        slip: float = 0.0,
        random_corner: bool = False,
        cell: int = 1,
        image_goals: bool = True,
        render_mode: str | None = None,
    ) -> None:
        super().__init__(layout, slip, random_corner, render_mode)
        if cell < 1:
            raise HindsightError(f"cell must be at least 1 pixel, got {cell}")
        self.cell = cell
        self.image_goals = image_goals
        self._walls = np.where(self.free, 0, 100).astype(np.uint8)
        rows, columns = self.free.shape
        image = gym.spaces.Box(0, 255, (rows * cell, columns * cell, 1), np.uint8)
        goal = image if image_goals else self.observation_space["desired_goal"]
        self.observation_space = gym.spaces.Dict(
            {"observation": image, "achieved_goal": goal, "desired_goal": goal}
        )

    def image(self, position: Array) -> Array:
        """The room with the agent in this cell."""
        cells = self._walls.copy()
        cells[tuple(position)] = 255
        return cells.repeat(self.cell, axis=0).repeat(self.cell, axis=1)[..., None]

    def compute_terminated(self, achieved_goal: Array, desired_goal: Array, info: Any) -> Any:
        """Where the goals [..., H, W, 1], or [..., 2], are equal."""
        axes = (-3, -2, -1) if self.image_goals else -1
        return (np.asarray(achieved_goal) == np.asarray(desired_goal)).all(axis=axes)

    def _observe(self) -> dict[str, Array]:
        seen = super()._observe()
        image = self.image(self._position)
        if not self.image_goals:
            return {**seen, "observation": image}
        return {
            "observation": image,
            "achieved_goal": image.copy(),
            "desired_goal": self.image(self._goal),
        }
