"""Bit flipping: n bits, all zero at the start; each action flips one bit; reach the goal pattern
within n steps."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np

from hindsight.errors import HindsightError
from hindsight.types import Array


class BitFlipEnv(gym.Env[Any, Any]):
    """Goal env of n bits. Reward 0 when the goal is reached by a step, else -1; reaching it
    terminates the episode.

    The goal is uniform over all patterns; the start pattern may be the goal, and must then be
    reached again.
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 5}

    def __init__(
        self, bits: int = 8, random_start: bool = False, render_mode: str | None = None
    ) -> None:
        if bits < 1:
            raise HindsightError(f"bits must be at least 1, got {bits}")
        self.bits = self.max_episode_steps = bits
        self.random_start = random_start
        self.render_mode = render_mode
        bit_space = gym.spaces.MultiBinary(bits)
        self.observation_space: gym.spaces.Dict[Any] = gym.spaces.Dict(
            {"observation": bit_space, "achieved_goal": bit_space, "desired_goal": bit_space}
        )
        self.action_space = gym.spaces.Discrete(bits)
        self._state = np.zeros(bits, np.int8)
        self._goal = np.zeros(bits, np.int8)
        self._steps = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Array], dict[str, Any]]:
        super().reset(seed=seed)
        self._state = (
            self.np_random.integers(0, 2, self.bits, np.int8)
            if self.random_start
            else np.zeros(self.bits, np.int8)
        )
        self._goal = self.np_random.integers(0, 2, self.bits, np.int8)
        self._steps = 0
        return self._observe(), {}

    def step(self, action: np.int64) -> tuple[dict[str, Array], float, bool, bool, dict[str, Any]]:
        self._state[int(action)] ^= 1
        self._steps += 1
        observation = self._observe()
        reached = bool((self._state == self._goal).all())
        info = {"is_success": reached}
        return (
            observation,
            float(self.compute_reward(observation["achieved_goal"], self._goal, info)),
            reached,
            bool(self.compute_truncated(observation["achieved_goal"], self._goal, info)),
            info,
        )

    def compute_reward(self, achieved_goal: Array, desired_goal: Array, info: Any) -> Any:
        """0 where the goals [..., n] are equal, else -1."""
        return (
            np.asarray(self.compute_terminated(achieved_goal, desired_goal, info), np.float32) - 1.0
        )

    def compute_terminated(self, achieved_goal: Array, desired_goal: Array, info: Any) -> Any:
        return (np.asarray(achieved_goal) == np.asarray(desired_goal)).all(axis=-1)

    def compute_truncated(self, achieved_goal: Array, desired_goal: Array, info: Any) -> Any:
        return self._steps >= self.max_episode_steps

    def render(self) -> Any:
        """The state in the upper row, the goal in the lower one: filled cells are ones."""
        rows = np.stack([self._state, self._goal])
        ones, zeros = np.array([[[38, 84, 124]], [[217, 119, 6]]]), np.array([235, 235, 235])
        cells = np.where(rows[..., None] == 1, ones, zeros).astype(np.uint8)
        return _cells_to_image(cells)

    def _observe(self) -> dict[str, Array]:
        return {
            "observation": self._state.copy(),
            "achieved_goal": self._state.copy(),
            "desired_goal": self._goal.copy(),
        }


def _cells_to_image(cells: Array, size: int = 32) -> Array:
    """Colours [rows, columns, 3] drawn as squares with thin lines between them."""
    image = cells.repeat(size, axis=0).repeat(size, axis=1)
    image[::size] = image[:, ::size] = 255
    return image
