"""Env steps per second of Fetch and Hand: this library, Gymnasium-Robotics, EnvPool, and bare mj_step calls."""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import gymnasium as gym
import mujoco
import numpy as np

from hindsight.envs.make import make
from hindsight.envs.simulations import Simulations
from hindsight.envs.vector import RobotVectorEnv
from hindsight.training.run import machine, versions
from hindsight.types import Array

FAMILIES = ("FetchPush-v4", "FetchPickAndPlace-v4", "HandReach-v3", "HandManipulateBlock-v1")
NUM, ROUNDS = 32, 3


def _actions(env_id: str, steps: int, num: int) -> Array:
    """The same random actions for everyone."""
    dim = 4 if env_id.startswith("Fetch") else 20
    return np.random.default_rng(0).uniform(-1, 1, (steps, num, dim)).astype(np.float32)


def _rate(play: Callable[[], int]) -> float:
    """Env steps per second of the fastest of some rounds, after one to warm up."""
    play()
    rates = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        steps = play()
        rates.append(steps / (time.perf_counter() - start))
    return max(rates)


def ours(env_id: str, horizon: int, threads: int) -> float:
    env = RobotVectorEnv(env_id, NUM, threads=threads)
    rate = _rate(_play(env, env_id, horizon, NUM, {"seed": 0}))
    env.close()
    return rate


def _play(env: Any, env_id: str, horizon: int, num: int, reset: dict[str, Any]) -> Callable[[], int]:
    """A function that plays one episode in each of `num` envs."""
    actions = _actions(env_id, horizon - 1, num)

    def play() -> int:
        env.reset(**reset)
        for action in actions:
            env.step(action)
        return len(actions) * num

    return play


def single(env_id: str, horizon: int) -> float:
    env = make(env_id)
    actions = _actions(env_id, horizon - 1, 4)

    def play() -> int:
        for i in range(4):
            env.reset(seed=i)
            for action in actions[:, i]:
                env.step(action)
        return 4 * (horizon - 1)

    return _rate(play)


def vector(env_id: str, horizon: int, kind: str) -> float:
    """Gymnasium's SyncVectorEnv or AsyncVectorEnv, one env per process in the latter."""
    make_env = _Make(env_id)
    num = NUM // 2
    env: Any = (
        gym.vector.AsyncVectorEnv([make_env] * num) if kind == "async" else gym.vector.SyncVectorEnv([make_env] * num)
    )
    rate = _rate(_play(env, env_id, horizon, num, {"seed": 0}))
    env.close()
    return rate


class _Make:
    def __init__(self, env_id: str) -> None:
        self.env_id = env_id

    def __call__(self) -> Any:
        return make(self.env_id)


def envpool(env_id: str, horizon: int, threads: int) -> float | None:
    try:
        import envpool as pool

        env = pool.make_gymnasium(env_id, num_envs=NUM, num_threads=threads)
    except Exception:  # not installed, or without this task
        return None
    return _rate(_play(env, env_id, horizon, NUM, {}))


def bare(env_id: str, horizon: int, threads: int) -> float:
    """mj_step alone, on the states and controls that our simulation passes through; only the calls are timed."""
    template: Any = make(env_id).unwrapped
    simulations = Simulations(template, NUM, threads=1)
    part = simulations.parts[0]
    ids = np.arange(NUM)
    simulations.reset(ids, range(NUM))
    model, substeps, kind = template.model, template.n_substeps, mujoco.mjtState.mjSTATE_INTEGRATION
    data = mujoco.MjData(model)
    states = []
    for action in _actions(env_id, horizon - 1, NUM):
        before = part.physics.state.copy()
        part.task.control(ids, action)
        states.append(_with_controls(model, data, before, part.physics))
        part.physics.batch.step(ids, nstep=substeps)
        part.task.settle(ids)

    def work(part: int) -> float:
        own = mujoco.MjData(model)
        seconds = 0.0
        for step in states:
            for state in step[part::threads]:
                mujoco.mj_setState(model, own, state, kind)
                start = time.perf_counter()
                mujoco.mj_step(model, own, nstep=substeps)
                seconds += time.perf_counter() - start
        return seconds

    rates = []
    with ThreadPoolExecutor(threads) as pool:
        for _ in range(ROUNDS):
            rates.append(len(states) * NUM / max(pool.map(work, range(threads))))
    return max(rates)


def _with_controls(model: Any, data: Any, states: Array, physics: Any) -> Array:
    """The states with the controls that have been written since."""
    kind = mujoco.mjtState.mjSTATE_INTEGRATION
    rows = states.copy()
    for i, row in enumerate(rows):
        mujoco.mj_setState(model, data, row, kind)
        data.ctrl[:] = physics.ctrl[i]
        data.mocap_pos[:], data.mocap_quat[:] = physics.mocap_pos[i], physics.mocap_quat[i]
        mujoco.mj_getState(model, data, row, kind)
    return rows


def run() -> dict[str, Any]:
    threads = os.cpu_count() or 1
    rows = {}
    for env_id in FAMILIES:
        spec = make(env_id).spec
        horizon = int(spec.max_episode_steps or 50) if spec else 50
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            rates = {
                "hindsight": ours(env_id, horizon, threads),
                "bare mj_step": bare(env_id, horizon, threads),
                "Gymnasium-Robotics, one env": single(env_id, horizon),
                "SyncVectorEnv": vector(env_id, horizon, "sync"),
                "AsyncVectorEnv": vector(env_id, horizon, "async"),
                "EnvPool": envpool(env_id, horizon, threads),
            }
        mine = rates["hindsight"] or 1.0
        rows[env_id] = {
            name: None if rate is None else {"steps_per_second": round(rate), "hindsight_is": round(mine / rate, 3)}
            for name, rate in rates.items()
        }
    return {"envs": rows, "num_envs": NUM, "threads": threads, "machine": machine(), "versions": dict(versions())}


def table(result: dict[str, Any]) -> str:
    lines = [
        f"env steps per second, {result['num_envs']} envs, {result['threads']} threads (in brackets: ours / theirs)"
    ]
    for env_id, rates in result["envs"].items():
        lines.append(env_id)
        for name, rate in rates.items():
            shown = "not installed, or without this task"
            if rate is not None:
                shown = f"{rate['steps_per_second']:6,}  ({rate['hindsight_is']:.2f})"
            lines.append(f"  {name:28} {shown}")
    return "\n".join(lines)
