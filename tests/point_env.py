"""A small goal env of one's own, in the kinds that once failed or surprised."""

from __future__ import annotations

from typing import Any, Literal

import gymnasium as gym
import numpy as np

from hindsight.types import Array


class PointEnv(gym.Env[Any, Any]):
    """A point in a square moves by up to a fifth of its half-width; the goal is a place.

    `rewards` of a miss and of a hit; `dense`: minus so many times the distance instead. `ends`:
    the episode ends at the goal. Places are shown as `unit` * (place + `offset`). The goal
    stays; moves at the fifth step; or is a new one after it was reached, shown at once or a step
    later. `pillar`: an episode fails in the middle of the square. `hidden`: observations do not
    tell the place, only the achieved goal does.
    """

    metadata = {"render_modes": []}
    max_episode_steps = 30

    def __init__(
        self,
        rewards: tuple[float, float] = (-1.0, 0.0),
        ends: bool = False,
        unit: float = 1.0,
        offset: float = 0.0,
        dense: float = 0.0,
        goal: Literal["stays", "moves", "again", "again later"] = "stays",
        pillar: bool = False,
        tells: bool = True,
        hidden: bool = False,
    ) -> None:
        self.rewards, self.ends, self.unit, self.offset = rewards, ends, unit, offset
        self.dense, self.kind, self.pillar, self.tells = dense, goal, pillar, tells
        self.hidden = hidden
        box = gym.spaces.Box(-np.inf, np.inf, (2,), np.float64)
        keys = ("observation", "achieved_goal", "desired_goal")
        self.observation_space = gym.spaces.Dict(dict.fromkeys(keys, box))
        self.action_space = gym.spaces.Box(-1.0, 1.0, (2,), np.float32)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, Any]:
        super().reset(seed=seed)
        self.x, self.goal = self._place(), self._place()
        self.steps = 0
        return self._observe(), {}

    def step(self, action: Any) -> Any:
        self.x = np.clip(self.x + 0.2 * np.asarray(action, np.float64), -1, 1)
        self.steps += 1
        shown = self._observe()
        reward = float(self.compute_reward(shown["achieved_goal"], shown["desired_goal"], {}))
        failed = self.pillar and bool(np.linalg.norm(self.x) < 0.3)
        success = bool(self._reached(shown["achieved_goal"], shown["desired_goal"])) and not failed
        if (self.kind == "moves" and self.steps == 5) or (success and "again" in self.kind):
            self.goal = self._place()
        if self.kind != "again later":
            shown = self._observe()
        info = {"is_success": success} if self.tells else {}
        late = self.steps >= self.max_episode_steps
        return shown, reward, (success and self.ends) or failed, late, info

    def compute_reward(self, achieved: Array, desired: Array, info: Any) -> Any:
        if self.dense:
            return -self.dense * np.linalg.norm(achieved - desired, axis=-1) / self.unit
        return np.where(self._reached(achieved, desired), self.rewards[1], self.rewards[0])

    def _reached(self, achieved: Array, desired: Array) -> Any:
        return np.linalg.norm(achieved - desired, axis=-1) < 0.1 * self.unit

    def _place(self) -> Array:
        while True:
            place = self.np_random.uniform(-1, 1, 2)
            if not self.pillar or np.linalg.norm(place) > 0.4:
                return place

    def _observe(self) -> dict[str, Any]:
        x, goal = (self.unit * (place + self.offset) for place in (self.x, self.goal))
        seen = np.zeros(2) if self.hidden else x.copy()
        return {"observation": seen, "achieved_goal": x.copy(), "desired_goal": goal.copy()}
