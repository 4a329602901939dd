"""Goal environments. Importing this package registers its own with Gymnasium."""

from __future__ import annotations

import gymnasium as gym

gym.register("hindsight/BitFlip-v0", "hindsight.envs.bit_flip:BitFlipEnv")
gym.register("hindsight/EmptyRoom-v0", "hindsight.envs.rooms:RoomsEnv", max_episode_steps=31)
gym.register(
    "hindsight/FourRooms-v0",
    "hindsight.envs.rooms:RoomsEnv",
    max_episode_steps=31,
    kwargs={"layout": "four_rooms", "slip": 0.2, "random_corner": True},
)
