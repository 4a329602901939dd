"""Goal environments. Importing this package registers its own with Gymnasium."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
from gymnasium.vector import VectorEnv

gym.register("hindsight/BitFlip-v0", "hindsight.envs.bit_flip:BitFlipEnv")
gym.register("hindsight/EmptyRoom-v0", "hindsight.envs.rooms:RoomsEnv", max_episode_steps=31)
gym.register(
    "hindsight/FourRooms-v0",
    "hindsight.envs.rooms:RoomsEnv",
    max_episode_steps=31,
    kwargs={"layout": "four_rooms", "slip": 0.2, "random_corner": True},
)
gym.register(
    "hindsight/PixelRoom-v0", "hindsight.envs.pixel_room:PixelRoomEnv", max_episode_steps=31
)
gym.register(
    "hindsight/PointPush-v0", "hindsight.envs.point_push:PointPushEnv", max_episode_steps=50
)


def make_vec(env_id: str, num_envs: int = 1, **options: Any) -> VectorEnv[Any, Any, Any]:
    """N goal envs at once: on threads in this process for Fetch and Hand, by `gymnasium.make_vec`
    for any other id.

    For Fetch and Hand the options are those of `hindsight.envs.vector.RobotVectorEnv`.
    """
    from hindsight.envs.batch import robot
    from hindsight.envs.make import make

    if robot(make(env_id)) is None:
        return gym.make_vec(env_id, num_envs, **options)
    from hindsight.envs.vector import RobotVectorEnv

    return RobotVectorEnv(env_id, num_envs, **options)
