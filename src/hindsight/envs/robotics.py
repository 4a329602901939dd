"""Fetch and Shadow Hand: what Gymnasium-Robotics does around the physics, for many simulations at
once, bit for bit.

One Gymnasium-Robotics env is the template: model, start state, thresholds, goal sampling and
rewards are its own. What it does per step in Python (controls, observations) is done here for
all simulations at once, in arrays.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import mujoco
import numpy as np
from gymnasium_robotics.envs.fetch.fetch_env import MujocoFetchEnv
from gymnasium_robotics.envs.shadow_dexterous_hand.manipulate import (
    MujocoManipulateEnv,
    quat_from_angle_and_axis,
)
from gymnasium_robotics.envs.shadow_dexterous_hand.reach import (
    FINGERTIP_SITE_NAMES,
    MujocoHandReachEnv,
)
from gymnasium_robotics.utils import rotations
from mjbatch import Batch

from hindsight.envs.mujoco_state import integration_state
from hindsight.types import Array, Ints

DERIVED = ("xpos", "xquat", "site_xpos", "site_xmat", "cdof", "subtree_com")
"""Views that lag one substep behind the state, as MuJoCo leaves them: observations and controls
are made of these."""
BAD = [int(getattr(mujoco.mjtWarning, f"mjWARN_BAD{name}")) for name in ("QPOS", "QVEL", "QACC")]


Rows = Ints | slice
"""Some of the simulations: by number, or, which is faster, all of the first n."""


class Physics:
    """The states of N simulations as arrays [N, ...]; `batch.step` and `batch.forward` run
    without the GIL."""

    def __init__(self, model: Any, data: Any, num: int, threads: int) -> None:
        self.model = model
        self.batch = Batch(model, num, threads)
        self.state = self.batch.bind("state")
        for name in ("time", "qpos", "qvel", "ctrl", "mocap_pos", "mocap_quat", "warning"):
            setattr(self, name, self.batch.bind(name))
        for name in DERIVED:
            setattr(self, name, self.batch.bind(name))
        self.state[:] = integration_state(model, data)
        self.batch.forward()
        self._dofs: dict[int, list[int]] = {}

    time: Array
    qpos: Array
    qvel: Array
    ctrl: Array
    mocap_pos: Array
    mocap_quat: Array
    warning: Array
    xpos: Array
    xquat: Array
    site_xpos: Array
    site_xmat: Array
    cdof: Array
    subtree_com: Array

    def linear_velocity(self, rows: Rows, site: int) -> Array:
        """Of a site, [n, 3]: its Jacobian, computed as mj_jacSite does, times qvel."""
        body = int(self.model.site_bodyid[site])
        offset = (
            self.site_xpos[rows, site] - self.subtree_com[rows, self.model.body_rootid[body]]
        )[:, None]
        motion = self._motion(rows, body)
        axis = motion[..., :3]
        cross = axis[..., _NEXT] * offset[..., _AFTER] - axis[..., _AFTER] * offset[..., _NEXT]
        return self._times_velocity(rows, body, motion[..., 3:] + cross)

    def angular_velocity(self, rows: Rows, site: int) -> Array:
        """Of a site, [n, 3]."""
        body = int(self.model.site_bodyid[site])
        return self._times_velocity(rows, body, self._motion(rows, body)[..., :3])

    def _motion(self, rows: Rows, body: int) -> Array:
        """Axes and moments [n, d, 6] of the degrees of freedom that move a body."""
        if body not in self._dofs:
            self._dofs[body] = _dofs(self.model, body)
        return self.cdof[rows][:, self._dofs[body]]

    def _times_velocity(self, rows: Rows, body: int, columns: Array) -> Array:
        """The Jacobian with these columns [n, d, 3], and zeros for the other degrees of freedom,
        times qvel."""
        jacobian = np.zeros((len(columns), 3, self.model.nv))
        jacobian[..., self._dofs[body]] = columns.transpose(0, 2, 1)
        product: Array = jacobian @ self.qvel[rows][..., None]
        return product[..., 0]


_NEXT, _AFTER = [1, 2, 0], [2, 0, 1]
"""The other two axes of each of the three."""


def _start_state(template: Any) -> Array:
    """The state after MuJoCo's own reset, at the template's start."""
    data = mujoco.MjData(template.model)
    data.time = template.initial_time
    data.qpos[:], data.qvel[:] = template.initial_qpos, template.initial_qvel
    return integration_state(template.model, data)


def _dofs(model: Any, body: int) -> list[int]:
    """The degrees of freedom that move a body."""
    while body and model.body_dofnum[body] == 0:
        body = int(model.body_parentid[body])
    chain = []
    dof = int(model.body_dofadr[body] + model.body_dofnum[body] - 1) if body else -1
    while dof >= 0:
        chain.append(dof)
        dof = int(model.dof_parentid[dof])
    return chain


class Task(Protocol):
    """What a family of tasks does around the physics; `ids` [n], or `rows`, are the simulations
    concerned."""

    def reset(self, ids: Ints, rngs: Sequence[np.random.Generator]) -> None: ...

    def control(self, rows: Rows, actions: Array) -> None: ...

    def settle(self, ids: Ints) -> None: ...

    def observe(self, rows: Rows) -> tuple[Array, Array]:
        """Observations [n, o] and achieved goals [n, g]; the latter may be a view of the
        simulations."""


TURNED = np.array([1.0, 0.0, 1.0, 0.0])
"""The rotation of the gripper that every Fetch action adds."""


class Fetch:
    """The arm is led by a mocap body welded to its gripper."""

    def __init__(self, template: Any, physics: Physics) -> None:
        self.template, self.physics = template, physics
        model = template.model
        self.dt = template.n_substeps * model.opt.timestep
        self.grip = _site(model, "robot0:grip")
        names = [name for name in template._model_names.joint_names if name.startswith("robot")]
        self.fingers_qpos = [int(model.joint(name).qposadr[0]) for name in names[-2:]]
        self.fingers_qvel = [int(model.joint(name).dofadr[0]) for name in names[-2:]]
        self.blocked = [
            int(model.joint(f"robot0:{side}_gripper_finger_joint").qposadr[0])
            for side in ("l", "r")
        ]
        self.actuated = [
            int(model.jnt_qposadr[model.actuator_trnid[i, 0]]) for i in range(model.nu)
        ]
        self.relative = np.array([model.actuator_biastype[i] != 0 for i in range(model.nu)])
        first, second = next(
            (int(a), int(b))
            for kind, a, b in zip(model.eq_type, model.eq_obj1id, model.eq_obj2id, strict=True)
            if kind == mujoco.mjtEq.mjEQ_WELD
        )
        self.welded = second if model.body_mocapid[first] != -1 else first
        if template.has_object:
            self.object = _site(model, "object0")
            self.object_qpos = int(model.joint("object0:joint").qposadr[0])
        self.start = _start_state(template)

    def reset(self, ids: Ints, rngs: Sequence[np.random.Generator]) -> None:
        template = self.template
        self.physics.state[ids] = self.start
        if template.has_object:
            centre = template.initial_gripper_xpos[:2]
            for i, rng in zip(ids, rngs, strict=True):
                place = centre
                while np.linalg.norm(place - centre) < 0.1:
                    place = centre + rng.uniform(-template.obj_range, template.obj_range, size=2)
                where = 1 + self.object_qpos  # the state vector begins with the time, then qpos
                self.physics.state[i, where : where + 2] = place
        self.physics.batch.forward(ids)

    def control(self, rows: Rows, actions: Array) -> None:
        physics = self.physics
        move = actions[:, :3] * actions.dtype.type(0.05)
        grip = np.zeros_like(actions[:, 3:]) if self.template.block_gripper else actions[:, 3:]
        physics.ctrl[rows] = (
            np.where(self.relative, physics.qpos[rows][:, self.actuated], 0.0) + grip
        )
        physics.mocap_pos[rows, 0] = physics.xpos[rows, self.welded] + move
        physics.mocap_quat[rows, 0] = physics.xquat[rows, self.welded] + TURNED

    def settle(self, ids: Ints) -> None:
        if self.template.block_gripper:
            self.physics.qpos[_grid(ids, self.blocked)] = 0.0
            self.physics.batch.forward(ids)

    def observe(self, rows: Rows) -> tuple[Array, Array]:
        physics = self.physics
        grip = physics.site_xpos[rows, self.grip]
        grip_velocity = physics.linear_velocity(rows, self.grip) * self.dt
        fingers = physics.qpos[rows][:, self.fingers_qpos]
        fingers_velocity = physics.qvel[rows][:, self.fingers_qvel] * self.dt
        if not self.template.has_object:
            return np.concatenate([grip, fingers, grip_velocity, fingers_velocity], axis=1), grip
        place = physics.site_xpos[rows, self.object]
        rotation = rotations.mat2euler(physics.site_xmat[rows, self.object].reshape(-1, 3, 3))
        parts = (
            grip,
            place,
            place - grip,
            fingers,
            rotation,
            physics.linear_velocity(rows, self.object) * self.dt - grip_velocity,
            physics.angular_velocity(rows, self.object) * self.dt,
            grip_velocity,
            fingers_velocity,
        )
        return np.concatenate(parts, axis=1), place


class Hand:
    """What all hand tasks share: absolute control of the joints, and joint positions and
    velocities as observations."""

    def __init__(self, template: Any, physics: Physics) -> None:
        self.template, self.physics = template, physics
        model = template.model
        joints = [
            model.joint(name)
            for name in template._model_names.joint_names
            if name.startswith("robot")
        ]
        self.joints_qpos = [int(joint.qposadr[0]) for joint in joints]
        self.joints_qvel = [int(joint.dofadr[0]) for joint in joints]
        low, high = model.actuator_ctrlrange.T
        self.low, self.high, self.half, self.middle = (
            low,
            high,
            (high - low) / 2.0,
            (high + low) / 2.0,
        )

    def control(self, rows: Rows, actions: Array) -> None:
        self.physics.ctrl[rows] = np.clip(self.middle + actions * self.half, self.low, self.high)

    def settle(self, ids: Ints) -> None:
        pass

    def joints(self, rows: Rows) -> tuple[Array, Array]:
        return self.physics.qpos[rows][:, self.joints_qpos], self.physics.qvel[rows][
            :, self.joints_qvel
        ]


class HandReach(Hand):
    """The goal is where the five finger tips shall be."""

    def __init__(self, template: Any, physics: Physics) -> None:
        super().__init__(template, physics)
        self.tips = [_site(template.model, name) for name in FINGERTIP_SITE_NAMES]
        self.start = _start_state(template)

    def reset(self, ids: Ints, rngs: Sequence[np.random.Generator]) -> None:
        self.physics.state[ids] = self.start
        self.physics.batch.forward(ids)

    def observe(self, rows: Rows) -> tuple[Array, Array]:
        tips = self.physics.site_xpos[rows][:, self.tips].reshape(-1, 3 * len(self.tips))
        return np.concatenate([*self.joints(rows), tips], axis=1), tips


class HandManipulate(Hand):
    """The goal is the place and rotation of an object in the palm."""

    def __init__(self, template: Any, physics: Physics) -> None:
        super().__init__(template, physics)
        joint = template.model.joint("object:joint")
        self.object_qpos = slice(int(joint.qposadr[0]), int(joint.qposadr[0]) + 7)
        self.object_qvel = slice(int(joint.dofadr[0]), int(joint.dofadr[0]) + 6)
        self.centre = _site(template.model, "object:center")

    def reset(self, ids: Ints, rngs: Sequence[np.random.Generator]) -> None:
        """As Gymnasium-Robotics does it: controls and warm start of the last episode stay; again
        until on the palm."""
        physics, template = self.physics, self.template
        waiting = dict(zip(ids.tolist(), rngs, strict=True))
        while waiting:
            now = np.fromiter(waiting, np.int64)
            physics.time[now] = template.initial_time
            physics.qpos[now], physics.qvel[now] = template.initial_qpos, template.initial_qvel
            physics.batch.forward(now)
            for i in now:
                physics.qpos[i, self.object_qpos] = self._start(
                    physics.qpos[i, self.object_qpos], waiting[int(i)]
                )
            for _ in range(10):
                self.control(now, np.zeros((len(now), 20)))
                physics.batch.step(now, nstep=template.n_substeps)
            physics.batch.forward(now)
            for i in now[physics.site_xpos[now, self.centre, 2] > 0.04]:
                del waiting[int(i)]

    def _start(self, qpos: Array, rng: np.random.Generator) -> Array:
        """A random place and rotation of the object, drawn in the order in which
        Gymnasium-Robotics draws."""
        template = self.template
        place, rotation = qpos[:3].copy(), qpos[3:].copy()
        if template.randomize_initial_rotation and template.target_rotation != "fixed":
            angle = rng.uniform(-np.pi, np.pi)
            axis = np.array([0.0, 0.0, 1.0])
            if template.target_rotation in ("xyz", "ignore"):
                axis = rng.uniform(-1.0, 1.0, size=3)
            offset = quat_from_angle_and_axis(angle, axis)
            if template.target_rotation == "parallel":
                offset = rotations.quat_mul(
                    offset, template.parallel_quats[rng.integers(len(template.parallel_quats))]
                )
            rotation = rotations.quat_mul(rotation, offset)
        if template.randomize_initial_position and template.target_position != "fixed":
            place += rng.normal(size=3, scale=0.005)
        rotation /= np.linalg.norm(rotation)
        return np.concatenate([place, rotation])

    def observe(self, rows: Rows) -> tuple[Array, Array]:
        qpos, qvel = self.joints(rows)
        achieved = self.physics.qpos[rows, self.object_qpos]
        return np.concatenate(
            [qpos, qvel, self.physics.qvel[rows, self.object_qvel], achieved], axis=1
        ), achieved


def rows_of(ids: Ints) -> Rows:
    """The simulations as a slice if they are the first n (views instead of copies), else as they
    are."""
    n = len(ids)
    return slice(0, n) if n and ids[0] == 0 and ids[-1] == n - 1 else ids


def _grid(ids: Ints, columns: list[int]) -> tuple[Array, Array]:
    """Index of all the columns in all the rows."""
    return ids[:, None], np.asarray(columns, np.int64)[None]


def _site(model: Any, name: str) -> int:
    return int(mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_SITE, name))


def make_task(template: Any, physics: Physics) -> Task:
    if isinstance(template, MujocoFetchEnv):
        return Fetch(template, physics)
    return (
        HandReach(template, physics)
        if isinstance(template, MujocoHandReachEnv)
        else HandManipulate(template, physics)
    )


def supports(env: Any) -> bool:
    """Whether an unwrapped env is one that can be simulated here (touch sensors and relative
    control cannot)."""
    kind = type(env)
    plain = kind._get_obs in (
        MujocoFetchEnv._get_obs,
        MujocoHandReachEnv._get_obs,
        MujocoManipulateEnv._get_obs,
    )
    return bool(plain and not getattr(env, "relative_control", False))
