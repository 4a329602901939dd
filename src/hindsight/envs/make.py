"""Making envs by id, by factory or from an object, with errors that say what to do."""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import importlib.metadata
import importlib.util
import io
import os
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

import hindsight.envs  # noqa: F401  (registers hindsight/*)
from hindsight.errors import HindsightError, nearest
from hindsight.types import Array

Env = gym.Env[Any, Any]
EnvFactory = Callable[[], Env]
MUJOCO_LIMIT = (3, 12)
OTHERS = {"parking-": "highway_env", "Panda": "panda_gym"}
"""How ids of other people's envs begin, and the module that registers them."""
_ALONE = threading.RLock()


def check_mujoco() -> None:
    """Raise if the installed MuJoCo is one that Gymnasium-Robotics fails on with a bare
    AssertionError."""
    try:
        version = importlib.metadata.version("mujoco")
        robotics = importlib.metadata.version("gymnasium-robotics")
    except importlib.metadata.PackageNotFoundError as error:
        raise HindsightError(
            f"{error.name} is not installed: pip install 'hindsight-rl[robotics]' for the "
            "Fetch and Hand envs"
        ) from None
    if tuple(int(part) for part in version.split(".")[:2]) >= MUJOCO_LIMIT:
        raise HindsightError(
            f"MuJoCo {version} does not work with Gymnasium-Robotics {robotics}: pip install "
            "'mujoco<3.12'"
        )


def register_robotics() -> bool:
    """Register the Fetch and Hand ids if Gymnasium-Robotics is installed."""
    os.environ.setdefault("MUJOCO_GL", "egl" if not os.environ.get("DISPLAY") else "glfw")
    try:
        # It prints a notice on import. Both belong to all threads, so one at a time may replace and
        # restore them.
        with _ALONE, warnings.catch_warnings(), contextlib.redirect_stderr(io.StringIO()):
            warnings.simplefilter("ignore")
            import gymnasium_robotics
    except ImportError:
        return False
    gym.register_envs(gymnasium_robotics)
    return True


@contextlib.contextmanager
def _silent() -> Iterator[None]:
    """What C code prints meanwhile is lost; pybullet greets. It is that of the whole process, so
    briefly, and one at a time."""
    with _ALONE, open(os.devnull, "wb") as nowhere:
        kept: dict[int, int] = {}
        for stream, descriptor in ((sys.stdout, 1), (sys.stderr, 2)):
            with contextlib.suppress(AttributeError, OSError, ValueError):  # closed, or a full disk
                stream.flush()
            with contextlib.suppress(OSError):  # closed
                kept[descriptor] = os.dup(descriptor)
                os.dup2(nowhere.fileno(), descriptor)
        try:
            yield
        finally:
            ctypes.CDLL(None).fflush(None)
            for descriptor, saved in kept.items():
                os.dup2(saved, descriptor)
                os.close(saved)


def register_other(env_id: str) -> None:
    """Register an id of those third-party envs that the extra `envs` brings."""
    for start, module in OTHERS.items():
        if env_id.startswith(start):
            try:
                with _silent(), warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    importlib.import_module(module)
            except ImportError:
                raise HindsightError(
                    f"{env_id} is an env of {module}: pip install 'hindsight-rl[envs]'"
                ) from None


def unwrapped(env: Env) -> Env:
    """The env without Gymnasium's own wrappers, up to the first that is not of those that change
    nothing."""
    plain = (gym.wrappers.TimeLimit, gym.wrappers.OrderEnforcing, gym.wrappers.PassiveEnvChecker)
    while isinstance(env, gym.Wrapper) and type(env) in plain:
        env = env.env
    return env


def is_robotics(env_id: str) -> bool:
    return env_id.startswith(("Fetch", "Hand"))


def make(env_id: str, **kwargs: Any) -> Env:
    """`gymnasium.make` for any id, Fetch and Hand included; `module:Name-v0` imports the module
    first."""
    if is_robotics(env_id):
        check_mujoco()
    if env_id not in gym.registry:
        register_robotics()
        register_other(env_id)
    if env_id not in gym.registry and ":" not in env_id:
        raise HindsightError(
            f"unknown env {env_id!r}.{nearest(env_id, gym.registry)} `hindsight envs` lists "
            "the goal envs"
        )
    if ":" in env_id:
        _find(env_id.partition(":")[0])
    alone = _silent() if env_id.startswith(tuple(OTHERS)) else _ALONE
    try:
        with alone, warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            env = gym.make(env_id, disable_env_checker=True, **kwargs)
    except HindsightError:
        raise
    except Exception as error:  # of the env's own code
        raise HindsightError(f"cannot make {env_id!r}: {_one_line(error)}") from error
    if getattr(env.unwrapped, "ignore_z_target_rotation", False):
        _mend_goal_distance(env.unwrapped)
    return env


def _find(module: str) -> None:
    """Let a module of the current directory be imported, as `python -m` does. For a command that
    is installed, Python does not look there."""
    top, here = module.partition(".")[0], os.getcwd()
    if not top or top in sys.modules or importlib.util.find_spec(top) is not None:
        return
    if not (Path(here, top).is_dir() or Path(here, f"{top}.py").is_file()):
        raise HindsightError(
            f"there is no module {top!r}: it is not installed, and {top}.py is not in this "
            "directory"
        )
    sys.path.append(here)


def _mend_goal_distance(env: Any) -> None:
    """Make the goal distance of HandManipulatePen right for batches.

    To ignore rotation about z it copies `euler[2]` from one goal to the other, which of a batch
    is the third row. Here it is the third angle.
    """
    from gymnasium_robotics.utils import rotations

    original = type(env)._goal_distance

    def goal_distance(goal_a: Array, goal_b: Array) -> Any:
        if goal_a.ndim == 1:
            return original(env, goal_a, goal_b)
        angles = rotations.quat2euler(goal_a[..., 3:])
        angles[..., 2] = rotations.quat2euler(goal_b[..., 3:])[..., 2]
        quaternion = rotations.euler2quat(angles)
        difference = rotations.quat_mul(quaternion, rotations.quat_conjugate(goal_b[..., 3:]))
        place = np.zeros(goal_a.shape[:-1])
        if env.target_position != "ignore":
            place = np.linalg.norm(goal_a[..., :3] - goal_b[..., :3], axis=-1)
        return place, 2 * np.arccos(np.clip(difference[..., 0], -1.0, 1.0))

    env._goal_distance = goal_distance


def factory(env: str | Env | EnvFactory, kwargs: Mapping[str, Any] | None = None) -> EnvFactory:
    """A function that makes the env: from an id, from a factory, or (once) from an env object."""
    if isinstance(env, str):
        return Maker(env, dict(kwargs or {}))
    if not isinstance(env, gym.Env):
        return partial(env, **kwargs) if kwargs else env
    if kwargs:
        raise HindsightError("env_kwargs do not go with an env object: it has been made already")
    return lambda: KeepOpen(env)


class KeepOpen(gym.Wrapper[Any, Any, Any, Any]):
    """An env that is the caller's to close."""

    def close(self) -> None:
        pass


class Maker:
    """Makes one env by id. A class, so that worker processes can be sent it; it carries
    registrations of the script."""

    def __init__(self, env_id: str, kwargs: dict[str, Any]) -> None:
        self.env_id = env_id
        self.kwargs = kwargs
        self.spec = gym.registry.get(env_id)

    def __call__(self) -> Env:
        # Those of others are registered by their modules, which warn if they are already.
        entry = self.spec.entry_point if self.spec else None
        others = isinstance(entry, str) and entry.startswith("gymnasium_robotics.")
        known = self.env_id in gym.registry or self.env_id.startswith(tuple(OTHERS))
        if self.spec is not None and not (known or others):
            gym.registry[self.env_id] = self.spec
        return make(self.env_id, **self.kwargs)


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split()) or type(error).__name__
