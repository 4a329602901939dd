"""Grid rooms: walk to the goal cell of an 11x11 room, empty or divided into four rooms joined by
doors, or of a small one, 5x5."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np

from hindsight.envs.bit_flip import _cells_to_image
from hindsight.errors import HindsightError
from hindsight.types import Array

EMPTY, SMALL = ("." * 11,) * 11, ("." * 5,) * 5
FOUR_ROOMS = (
    ".....#.....",
    ".....#.....",
    "...........",
    ".....#.....",
    ".....#.....",
    "#.####.....",
    ".....###.##",
    ".....#.....",
    ".....#.....",
    "...........",
    ".....#.....",
)
LAYOUTS = {"empty": EMPTY, "small": SMALL, "four_rooms": FOUR_ROOMS}
MOVES = np.array([[-1, 0], [1, 0], [0, -1], [0, 1]])  # up, down, left, right


class RoomsEnv(gym.Env[Any, Any]):
    """Goal env on a grid. Observations and goals are (row, column); a move into a wall stays where
    it is.

    Reward 0 when a step reaches the goal, else -1; reaching it terminates the episode. The goal
    is uniform over the free cells other than the starts. With probability `slip` a move is
    replaced by a random one.
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 5}

    def __init__(
        self,
        layout: str = "empty",
        slip: float = 0.0,
        random_corner: bool = False,
        render_mode: str | None = None,
    ) -> None:
        if layout not in LAYOUTS:
            raise HindsightError(f"unknown layout {layout!r}: choose from {', '.join(LAYOUTS)}")
        if not 0 <= slip <= 1:
            raise HindsightError(f"slip must lie between 0 and 1, got {slip}")
        self.free = np.array([[cell == "." for cell in row] for row in LAYOUTS[layout]])
        self.cells = np.argwhere(self.free)
        rows, columns = self.free.shape
        corners = np.array([[0, 0], [0, columns - 1], [rows - 1, 0], [rows - 1, columns - 1]])
        self.starts = corners if random_corner else corners[:1]
        self.goals = np.array(
            [cell for cell in self.cells if not (cell == self.starts).all(axis=1).any()]
        )
        self.slip = slip
        self.render_mode = render_mode
        high = np.array([rows - 1, columns - 1], np.float32)
        position = gym.spaces.Box(np.zeros(2, np.float32), high, dtype=np.float32)
        self.observation_space: gym.spaces.Dict[Any] = gym.spaces.Dict(
            {"observation": position, "achieved_goal": position, "desired_goal": position}
        )
        self.action_space = gym.spaces.Discrete(len(MOVES))
        self._position = self.starts[0]
        self._goal = self.starts[0]

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Array], dict[str, Any]]:
        super().reset(seed=seed)
        self._position = self.starts[self.np_random.integers(len(self.starts))]
        self._goal = self.goals[self.np_random.integers(len(self.goals))]
        return self._observe(), {}

    def step(self, action: np.int64) -> tuple[dict[str, Array], float, bool, bool, dict[str, Any]]:
        move = int(action)
        if self.slip and self.np_random.random() < self.slip:
            move = int(self.np_random.integers(len(MOVES)))
        self._position = self.after(self._position, move)
        observation = self._observe()
        reached = bool((self._position == self._goal).all())
        info = {"is_success": reached}
        reward = float(
            self.compute_reward(observation["achieved_goal"], observation["desired_goal"], info)
        )
        return observation, reward, reached, False, info

    def after(self, position: Array, move: int) -> Array:
        """The cell that a move leads to."""
        row, column = target = position + MOVES[move]
        inside = 0 <= row < self.free.shape[0] and 0 <= column < self.free.shape[1]
        return target if inside and self.free[row, column] else position

    def compute_reward(self, achieved_goal: Array, desired_goal: Array, info: Any) -> Any:
        """0 where the goals [..., 2] are equal, else -1."""
        return (
            np.asarray(self.compute_terminated(achieved_goal, desired_goal, info), np.float32) - 1.0
        )

    def compute_terminated(self, achieved_goal: Array, desired_goal: Array, info: Any) -> Any:
        return (np.asarray(achieved_goal) == np.asarray(desired_goal)).all(axis=-1)

    def compute_truncated(self, achieved_goal: Array, desired_goal: Array, info: Any) -> Any:
        return False  # the time limit is the registered `max_episode_steps`

    def render(self) -> Any:
        """Walls dark, the goal orange, the agent blue."""
        cells = np.where(
            self.free[..., None], np.array([235, 235, 235]), np.array([64, 64, 64])
        ).astype(np.uint8)
        cells[tuple(self._goal)] = (217, 119, 6)
        cells[tuple(self._position)] = (38, 84, 124)
        return _cells_to_image(cells)

    def _observe(self) -> dict[str, Array]:
        position = self._position.astype(np.float32)
        return {
            "observation": position,
            "achieved_goal": position.copy(),
            "desired_goal": self._goal.astype(np.float32),
        }
