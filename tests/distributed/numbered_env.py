"""A goal env whose observations tell the seed of their episode."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np


class NumberedEnv(gym.Env[Any, Any]):
    """A point on a line. `history` counts its episodes, and moves the next start: what an env keeps
    from one episode to the next. With `deadly`, its process dies in step 2 while that file is not
    there (then it is); `always` kills every process."""

    metadata = {"render_modes": []}
    max_episode_steps = 8

    def __init__(self, history: bool = False, deadly: str = "", always: bool = False) -> None:
        goal = gym.spaces.Box(-10, 10, (1,), np.float64)
        self.observation_space = gym.spaces.Dict(
            {
                "observation": gym.spaces.Box(-10, 65536, (3,), np.float32),
                "achieved_goal": goal,
                "desired_goal": goal,
            }
        )
        self.action_space = gym.spaces.Discrete(3)
        self.history = history
        self.deadly = deadly
        self.always = always
        self.episodes = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, Any]:
        super().reset(seed=seed)
        self.number = np.array(divmod(seed or 0, 65536), np.float32)
        self.episodes += 1
        self.x = self.np_random.integers(-2, 3, 1).astype(np.float64)
        if self.history:
            self.x += self.episodes % 3
        self.goal = self.np_random.integers(-4, 5, 1).astype(np.float64)
        self.steps = 0
        return self._observe(), {}

    def step(self, action: Any) -> Any:
        self.x = np.clip(self.x + float(action) - 1, -9, 9)
        self.steps += 1
        dies = self.always or (bool(self.deadly) and not Path(self.deadly).exists())
        if self.steps == 2 and dies and "RAY_RAYLET_PID" in os.environ:
            Path(self.deadly).touch()
            os._exit(1)
        success = bool(np.abs(self.x - self.goal)[0] < 0.5)
        reward = float(self.compute_reward(self.x, self.goal, {}))
        return self._observe(), reward, success, self.steps >= 8, {"is_success": success}

    def compute_reward(self, achieved: Any, desired: Any, info: Any) -> Any:
        return (np.abs(achieved - desired)[..., 0] < 0.5).astype(np.float64) - 1.0

    def _observe(self) -> dict[str, Any]:
        return {
            "observation": np.concatenate([self.number, self.x]).astype(np.float32),
            "achieved_goal": self.x.copy(),
            "desired_goal": self.goal.copy(),
        }

    def export_state(self) -> dict[str, Any]:
        return {"episodes": self.episodes}

    def restore_state(self, state: dict[str, Any]) -> None:
        self.episodes = state["episodes"]
