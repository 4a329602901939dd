"""Several envs stepped together, one episode each: in this process, on threads, or in worker
processes.

Every episode starts with `reset(seed=...)`, so what happens in it depends on its seed and
actions only, never on which env object, process or order it ran in.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import gymnasium as gym
import numpy as np

from hindsight.envs.contract import GoalEnvSpec, check_finite, told_success
from hindsight.envs.make import Env, EnvFactory, unwrapped
from hindsight.errors import HindsightError
from hindsight.saving.tree import State, fitting, storable
from hindsight.types import Array, Bools, Floats


@dataclass
class Frame:
    """What n envs show after a reset or a step. After an episode's end its row repeats."""

    observation: Array  # [n, ...] as the env gives it
    achieved_goal: Array
    desired_goal: Array
    reward: Floats  # [n]
    terminated: Bools
    truncated: Bools
    success: Bools
    diverged: Bools  # the simulation or its process broke: the episode must not be used


class EnvBatch(Protocol):
    """Up to `num_envs` episodes at a time: `reset` with one seed per episode, then `step` until
    all have ended."""

    num_envs: int

    def reset(self, seeds: Sequence[int]) -> Frame: ...

    def step(self, actions: Array) -> Frame: ...

    def export_state(self) -> State:
        """Between two rounds of episodes: what later ones depend on besides their seeds and
        actions."""

    def restore_state(self, state: State) -> None: ...

    def close(self) -> None: ...


class LocalEnvs:
    """Envs in this process, one after the other."""

    def __init__(self, make_env: EnvFactory, num_envs: int, max_episode_steps: int) -> None:
        self.num_envs = num_envs
        self.max_episode_steps = max_episode_steps
        self.envs = [make_env() for _ in range(num_envs)]
        self.name = (
            self.envs[0].spec.id if self.envs[0].spec else type(self.envs[0].unwrapped).__name__
        )
        self._rows: list[tuple[dict[str, Array], float, bool, bool, bool]] = []
        self._steps = 0

    def reset(self, seeds: Sequence[int]) -> Frame:
        self._rows = []
        self._steps = 0
        for env, seed in zip(self.envs, seeds, strict=False):
            observation, _ = env.reset(seed=int(seed))
            check_finite(observation, self.name)
            self._rows.append((observation, 0.0, False, False, False))
        return self._frame()

    def step(self, actions: Array) -> Frame:
        self._steps += 1
        for i, (env, action) in enumerate(zip(self.envs, actions, strict=False)):
            _, _, terminated, truncated, _ = self._rows[i]
            if not (terminated or truncated):
                goal = self._rows[i][0]["desired_goal"]  # that was pursued: step() may give another
                self._rows[i] = self._step_one(env, action, goal)
        return self._frame()

    def _step_one(
        self, env: gym.Env[Any, Any], action: Any, goal: Array
    ) -> tuple[dict[str, Array], float, bool, bool, bool]:
        observation, reward, terminated, truncated, info = env.step(action)
        check_finite(observation, self.name)
        late = self._steps >= self.max_episode_steps
        success = told_success(info)
        if success is None:
            compute_reward = env.get_wrapper_attr("compute_reward")
            own = compute_reward(observation["achieved_goal"], goal, info)
            success = own >= compute_reward(goal, goal, info)
        return observation, float(reward), bool(terminated), bool(truncated or late), bool(success)

    def _frame(self) -> Frame:
        observations, reward, terminated, truncated, success = zip(*self._rows, strict=True)
        return Frame(
            np.stack([o["observation"] for o in observations]),
            np.stack([o["achieved_goal"] for o in observations]),
            np.stack([o["desired_goal"] for o in observations]),
            np.array(reward, np.float32),
            np.array(terminated, np.bool_),
            np.array(truncated, np.bool_),
            np.array(success, np.bool_),
            np.zeros(len(self._rows), np.bool_),
        )

    def export_state(self) -> State:
        """By env; those that keep nothing from one episode to the next are left out."""
        states = {f"env_{i}": _export_env(env) for i, env in enumerate(self.envs)}
        return {name: state for name, state in states.items() if state is not None}

    def restore_state(self, state: State) -> None:
        for i, env in enumerate(self.envs):
            if f"env_{i}" in state:
                _restore_env(env, state[f"env_{i}"])

    def close(self) -> None:
        for env in self.envs:
            env.close()


def _export_env(env: Env) -> State | None:
    """The env's own `export_state()` if it has one; of a MuJoCo robot, the state of its
    simulation; else nothing."""
    if env.has_wrapper_attr("export_state"):
        exported: State = storable(env.get_wrapper_attr("export_state")(), "export_state()")
        if not isinstance(exported, dict):
            raise HindsightError(
                f"export_state() of the env must return a dict, got {type(exported).__name__}"
            )
        return exported
    if not type(env.unwrapped).__module__.startswith("gymnasium_robotics."):
        return None
    from hindsight.envs.mujoco_state import integration_state

    robot: Any = env.unwrapped
    return {"simulation": integration_state(robot.model, robot.data)}


def _restore_env(env: Env, state: State) -> None:
    if env.has_wrapper_attr("restore_state"):
        env.get_wrapper_attr("restore_state")(state)
        return
    from hindsight.envs.mujoco_state import integration_state, set_integration_state

    robot: Any = env.unwrapped
    size = integration_state(robot.model, robot.data).shape
    saved = fitting(state["simulation"], "simulation", size, np.float64)
    set_integration_state(robot.model, robot.data, saved)


SLOW_STEP_SECONDS = 2e-4


class ThreadedEnvs:
    """Fetch and Hand simulated on threads in this process."""

    def __init__(self, env: Env, num_envs: int, max_episode_steps: int, threads: int) -> None:
        from hindsight.envs.simulations import Simulations

        self.num_envs = num_envs
        self.max_episode_steps = max_episode_steps
        self.simulations = Simulations(env.unwrapped, num_envs, threads)
        self._ids = np.arange(0)
        self._diverged: Bools = np.zeros(0, np.bool_)

    def reset(self, seeds: Sequence[int]) -> Frame:
        self._ids = np.arange(len(seeds))
        self._diverged = np.zeros(len(seeds), np.bool_)
        self.simulations.reset(self._ids, seeds)
        return self._frame(self.simulations.observe(self._ids), late=False)

    def step(self, actions: Array) -> Frame:
        diverged, shown = self.simulations.step(self._ids, actions)
        self._diverged = self._diverged | diverged
        return self._frame(shown, late=bool(self.simulations.steps[0] >= self.max_episode_steps))

    def _frame(self, shown: dict[str, Array], late: bool) -> Frame:
        n, template = len(self._ids), self.simulations.template
        achieved, desired = shown["achieved_goal"], shown["desired_goal"]
        return Frame(
            shown["observation"],
            achieved,
            desired,
            np.asarray(template.compute_reward(achieved, desired, {}), np.float32),
            np.zeros(n, np.bool_),
            np.full(n, late),
            np.asarray(template._is_success(achieved, desired), np.bool_),
            self._diverged,
        )

    def export_state(self) -> State:
        return self.simulations.export_state()

    def restore_state(self, state: State) -> None:
        own = self.simulations.export_state()
        saved = {
            k: fitting(state[k], k, v.shape, v.dtype)
            for k, v in own.items()
            if isinstance(v, np.ndarray)
        }
        self.simulations.restore_state({**saved, "generators": state["generators"]})

    def close(self) -> None:
        self.simulations.close()


def make_batch(
    make_env: EnvFactory,
    spec: GoalEnvSpec,
    num_envs: int,
    simulator: str = "auto",
    workers: int | None = None,
    timeout: float = 60.0,
    max_failures: int = 5,
) -> EnvBatch:
    """`num_envs` envs together, on `workers` threads or processes (one per core if None).

    auto: threads for Fetch and Hand; all in one array for envs that offer it (point push); for
    others processes, where a step costs more than talking to one; else inline. `timeout` and
    `max_failures` are for processes: see `WorkerEnvs`.
    """
    workers = workers or os.cpu_count() or 1
    if simulator in ("auto", "threads"):
        made = make_env()
        env = robot(made)
        if env is not None:
            return ThreadedEnvs(env, num_envs, spec.horizon, workers)
        arrays = in_arrays(made, num_envs, spec.horizon) if simulator == "auto" else None
        made.close()
        if simulator == "threads":
            raise HindsightError(
                f"{spec.id} cannot be simulated on threads, only Fetch and Hand can: use processes"
            )
    else:
        arrays = in_arrays(make_env(), num_envs, spec.horizon) if simulator == "inline" else None
    if arrays is not None:
        return arrays
    slow = spec.step_seconds > SLOW_STEP_SECONDS and num_envs > 1
    if simulator == "processes" or (simulator == "auto" and slow):
        from hindsight.envs.processes import WorkerEnvs

        return WorkerEnvs(make_env, num_envs, spec.horizon, workers, timeout, max_failures)
    return LocalEnvs(make_env, num_envs, spec.horizon)


def in_arrays(env: Env, num_envs: int, horizon: int) -> EnvBatch | None:
    """N of these envs as one, by the env's `make_env_batch(num_envs, horizon)`; None if it has
    none.

    Not if a wrapper other than Gymnasium's own, or a subclass, may have changed what the env
    does.
    """
    inner: Any = unwrapped(env)
    if "make_env_batch" not in vars(type(inner)):
        return None
    batch: EnvBatch = inner.make_env_batch(num_envs, horizon)
    return batch


def robot(env: Env) -> Env | None:
    """The env if it can be simulated on threads: a Fetch or Hand env in no wrappers but
    Gymnasium's own."""
    inner = unwrapped(env)
    if not type(inner).__module__.startswith("gymnasium_robotics."):
        return None
    try:
        from hindsight.envs.robotics import supports
    except ImportError:
        return None  # no mjbatch for this platform
    return env if supports(inner) else None


def own_model_bytes(env: Env, simulator: str) -> int:
    """Bytes of the MuJoCo model that each such env loads for itself; 0 on threads, which share it.

    It is most of what such an env takes, inline or in a worker process. Measured, resident, model
    and env: FetchPush 8.6 and 9.9 MB, HandReach 7.4 and 8.9, HandManipulateBlock 13.0 and 15.2,
    PointMaze_UMaze 11.6 and 13.3, AntMaze_UMaze 0.5 and 1.2.
    """
    if simulator in ("auto", "threads") and robot(env) is not None:
        return 0
    size = getattr(getattr(env.unwrapped, "model", None), "nbuffer", 0)
    return size if isinstance(size, int) else 0
