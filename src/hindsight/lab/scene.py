"""How Fetch and Hand are shown: from close by, with a goal as large as what counts as reaching
it. Nothing here touches the physics."""

from __future__ import annotations

from typing import Any

import numpy as np

from hindsight.envs.make import Env

CAMERAS: dict[str, tuple[tuple[float, float, float], float, float, float]] = {
    "FetchReach": ((1.32, 0.75, 0.55), 1.2, 165, -30),
    "FetchPush": ((1.32, 0.75, 0.46), 1.05, 165, -35),
    "FetchPickAndPlace": ((1.32, 0.75, 0.55), 1.25, 165, -26),
    "FetchSlide": ((1.45, 0.75, 0.42), 1.6, 130, -32),
    "HandReach": ((1.0, 0.9, 0.2), 0.36, 60, -35),
    "HandManipulate": ((1.0, 0.9, 0.2), 0.4, 60, -35),
}
"""By the beginning of an env's id: the point to look at, distance, azimuth and elevation."""
OBJECT = (0.9, 0.6, 0.0, 1.0)
TO_REACH, REACHED = (0.9, 0.1, 0.1, 0.4), (0.0, 0.7, 0.4, 0.4)
SKYBOX = 2
"""mjTEXTURE_SKYBOX."""
SKY = (226, 231, 237)


def set_up(env: Env, env_id: str) -> None:
    """Move the camera, colour the object, and make the goal as large as its threshold."""
    robot: Any = env.unwrapped
    camera = next((found for name, found in CAMERAS.items() if env_id.startswith(name)), None)
    if camera is None or not hasattr(robot, "mujoco_renderer"):
        return
    names = ("lookat", "distance", "azimuth", "elevation")
    lookat, *rest = camera
    robot.mujoco_renderer.default_cam_config = dict(
        zip(names, (np.array(lookat), *rest), strict=True)
    )
    model = robot.model
    for geom in range(model.ngeom):  # the cross that leads the gripper
        if model.body_mocapid[model.geom_bodyid[geom]] >= 0:
            model.geom_rgba[geom, 3] = 0
    for texture in np.flatnonzero(model.tex_type == SKYBOX):
        start = model.tex_adr[texture]
        size = model.tex_height[texture] * model.tex_width[texture] * 3
        model.tex_data[start : start + size].reshape(-1, 3)[:] = SKY
    for site in _goals(model):
        model.site_size[site] = robot.distance_threshold
    if env_id.startswith("Fetch") and robot.has_object:
        geom = model.geom("object0").id
        model.geom_matid[geom], model.geom_rgba[geom] = -1, OBJECT
    mark(env, False)


def mark(env: Env, reached: bool) -> None:
    """A goal that is one place is red until it is reached, then green. Those of a hand keep the
    colours of its fingers."""
    model: Any = getattr(env.unwrapped, "model", None)
    goals = [] if model is None else _goals(model)
    if len(goals) == 1:
        model.site_rgba[goals[0]] = REACHED if reached else TO_REACH


def _goals(model: Any) -> list[int]:
    """The sites that show where a Fetch object, or the finger tips, shall be."""
    names = [f"target{i}" for i in range(5)]
    return [i for i in range(model.nsite) if model.site(i).name in names]
