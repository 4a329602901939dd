"""A goal env of your own, from nothing to a trained policy: a boat that is carried off by a stream.

python examples/own_env.py --steps 20000
hindsight doctor own_env:Boat-v0        # in this directory: checks the contract
hindsight train own_env:Boat-v0         # the same from the command line
"""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import tyro

import hindsight


# --8<-- [start:env]
class Boat(gym.Env):
    """A boat on a river, 2 by 2. It is told where it should be, and only whether it is there."""

    max_episode_steps = 30

    def __init__(self, stream: float = 0.02) -> None:
        self.stream = stream
        place = gym.spaces.Box(-1, 1, (2,), np.float32)
        self.observation_space = gym.spaces.Dict(
            {"observation": place, "achieved_goal": place, "desired_goal": place}
        )
        self.action_space = gym.spaces.Box(-1, 1, (2,), np.float32)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[dict, dict]:
        super().reset(seed=seed)
        self.place = self.np_random.uniform(-1, 1, 2).astype(np.float32)
        self.goal = self.np_random.uniform(-0.8, 0.8, 2).astype(np.float32)
        return self._observation(), {}

    def step(self, action: np.ndarray) -> tuple[dict, float, bool, bool, dict]:
        moved = self.place + 0.1 * action + np.array([self.stream, 0.0])
        self.place = np.clip(moved, -1, 1).astype(np.float32)
        reward = float(self.compute_reward(self.place, self.goal, {}))
        return self._observation(), reward, False, False, {"is_success": reward == 0}

    def compute_reward(self, achieved_goal: Any, desired_goal: Any, info: Any) -> Any:
        """For one goal, or for arrays of them: relabelling asks for thousands at once."""
        distance = np.linalg.norm(achieved_goal - desired_goal, axis=-1)
        return -(distance > 0.1).astype(np.float32)

    def _observation(self) -> dict:
        return {"observation": self.place, "achieved_goal": self.place, "desired_goal": self.goal}


gym.register("Boat-v0", Boat, max_episode_steps=Boat.max_episode_steps)
# --8<-- [end:env]


def main(steps: int = 20_000, seed: int = 0) -> float:
    run = hindsight.train(
        "Boat-v0",
        steps=steps,
        seed=seed,
        env_kwargs={"stream": 0.03},
        episodes_per_cycle=8,
        updates_per_step=0.3,  # an easy task: more updates, fewer steps, small networks
        agent={"net_arch": (64, 64)},
    )
    result = hindsight.evaluate(run.path, episodes=100)
    print(f"success rate on {result.episodes} fresh episodes: {result.success_rate:.2f}")
    return result.success_rate


if __name__ == "__main__":
    tyro.cli(main)
