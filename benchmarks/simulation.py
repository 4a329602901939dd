"""Env steps per second of Fetch and Hand: ours, Gymnasium-Robotics, EnvPool, bare mj_step."""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from typing import Any

import gymnasium as gym
import mujoco
import numpy as np
from mjbatch import Batch

from benchmarks.rates import compared
from hindsight.envs.make import make
from hindsight.envs.simulations import Simulations
from hindsight.envs.vector import RobotVectorEnv
from hindsight.training.run import machine, versions
from hindsight.types import Array

FAMILIES = ("FetchPush-v4", "FetchPickAndPlace-v4", "HandReach-v3", "HandManipulateBlock-v1")
NUM, PROCESSES, ROUNDS, PAUSE = 64, 16, 9, 0.1


def _actions(env_id: str, steps: int, num: int) -> Array:
    """The same random actions for everyone."""
    dim = 4 if env_id.startswith("Fetch") else 20
    return np.random.default_rng(0).uniform(-1, 1, (steps, num, dim)).astype(np.float32)


Round = Callable[[], float]
"""Plays one round and returns its env steps per second."""


def _timed(play: Callable[[], int]) -> Round:
    """Rounds of `play`, which returns its steps."""

    def one() -> float:
        start = time.perf_counter()
        steps = play()
        return steps / (time.perf_counter() - start)

    return one


def _episodes(env: Any, env_id: str, horizon: int, num: int, reset: dict[str, Any]) -> Round:
    """An episode in each of `num` envs."""
    actions = _actions(env_id, horizon - 1, num)

    def play() -> int:
        env.reset(**reset)
        for action in actions:
            env.step(action)
        return len(actions) * num

    return _timed(play)


def ours(env_id: str, horizon: int, threads: int, stack: ExitStack) -> Round:
    env = RobotVectorEnv(env_id, NUM, threads=threads)
    stack.callback(env.close)
    return _episodes(env, env_id, horizon, NUM, {"seed": 0})


def single(env_id: str, horizon: int) -> Round:
    env = make(env_id)
    actions = _actions(env_id, horizon - 1, 4)

    def play() -> int:
        for i in range(4):
            env.reset(seed=i)
            for action in actions[:, i]:
                env.step(action)
        return 4 * (horizon - 1)

    return _timed(play)


def vector(env_id: str, horizon: int, kind: str, stack: ExitStack) -> Round:
    """Gymnasium's SyncVectorEnv or AsyncVectorEnv, one env per process in the latter."""
    num, make_env = PROCESSES, partial(make, env_id)
    env: Any = (
        gym.vector.AsyncVectorEnv([make_env] * num)
        if kind == "async"
        else gym.vector.SyncVectorEnv([make_env] * num)
    )
    stack.callback(env.close)
    return _episodes(env, env_id, horizon, num, {"seed": 0})


def envpool(env_id: str, horizon: int, threads: int) -> Round | None:
    try:
        import envpool as pool

        env = pool.make_gymnasium(env_id, num_envs=NUM, num_threads=threads)
    except Exception:  # not installed, or without this task
        return None
    return _episodes(env, env_id, horizon, NUM, {})


def bare(states: Array, env_id: str, threads: int) -> Round:
    """mj_step alone, each thread on its share of the states; only the calls are timed."""
    template: Any = make(env_id).unwrapped
    model, substeps, kind = template.model, template.n_substeps, mujoco.mjtState.mjSTATE_INTEGRATION

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

    def one() -> float:
        with ThreadPoolExecutor(threads) as pool:
            return len(states) * NUM / max(pool.map(work, range(threads)))

    return one


def bare_together(states: Array, env_id: str, threads: int) -> Round:
    """The same, but the threads meet after every env step, as those of any vector env must."""
    template: Any = make(env_id).unwrapped
    batch = Batch(template.model, NUM, threads)
    current = batch.bind("state")

    def one() -> float:
        seconds = 0.0
        for step in states:
            current[:] = step
            start = time.perf_counter()
            batch.step(nstep=template.n_substeps)
            seconds += time.perf_counter() - start
        return len(states) * NUM / seconds

    return one


def passed_through(env_id: str, horizon: int) -> Array:
    """The states [step, env, ...] that our simulation passes in an episode, with their controls."""
    template: Any = make(env_id).unwrapped
    simulations = Simulations(template, NUM)
    physics, ids = simulations.physics, np.arange(NUM)
    simulations.reset(ids, range(NUM))
    data = mujoco.MjData(template.model)
    states = []
    for action in _actions(env_id, horizon - 1, NUM):
        before = physics.state.copy()
        simulations.task.control(ids, action)
        states.append(_with_controls(template.model, data, before, physics))
        physics.batch.step(ids, nstep=template.n_substeps)
        simulations.task.settle(ids)
    return np.stack(states)


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


def rounds(players: dict[str, Round]) -> dict[str, Array]:
    """The rates of all in each of some rounds, after one to warm up: the machine's speed may drift.

    Each round has another order, and a pause before each player: threads of the one before may not
    sleep at once.
    """
    rng = np.random.default_rng(0)
    found: dict[str, list[float]] = {name: [] for name in players}
    for _ in range(ROUNDS + 1):
        for i in rng.permutation(len(players)):
            name = list(players)[i]
            time.sleep(PAUSE)
            found[name].append(players[name]())
    return {name: np.array(rates[1:]) for name, rates in found.items()}


def compare(mine: Round, others: dict[str, Round]) -> dict[str, Any]:
    """Our rate and theirs."""
    rates = rounds({"hindsight": mine} | others)
    return {name: compared(rates["hindsight"], rate) for name, rate in rates.items()}


def run() -> dict[str, Any]:
    threads = os.cpu_count() or 1
    rows: dict[str, dict[str, Any]] = {}
    for env_id in FAMILIES:
        spec = make(env_id).spec
        horizon = int(spec.max_episode_steps or 50) if spec else 50
        with warnings.catch_warnings(), ExitStack() as stack:
            warnings.simplefilter("ignore")
            states = passed_through(env_id, horizon)
            mine = ours(env_id, horizon, threads, stack)
            # First by ourselves: the sixteen processes of AsyncVectorEnv, even idle, would disturb.
            limits = {"bare mj_step": bare(states, env_id, threads)}
            limits["bare mj_step, in step"] = bare_together(states, env_id, threads)
            rows[env_id] = compare(mine, limits)
            peers: dict[str, Round | None] = {
                "Gymnasium-Robotics, one env": single(env_id, horizon),
                "SyncVectorEnv": vector(env_id, horizon, "sync", stack),
                "AsyncVectorEnv": vector(env_id, horizon, "async", stack),
                "EnvPool": envpool(env_id, horizon, threads),
            }
            there = {name: peer for name, peer in peers.items() if peer is not None}
            rows[env_id] |= dict.fromkeys(peers) | {
                k: v for k, v in compare(mine, there).items() if k in there
            }
    return {
        "envs": rows,
        "num_envs": NUM,
        "threads": threads,
        "machine": machine(),
        "versions": dict(versions()),
    }


def table(result: dict[str, Any]) -> str:
    lines = [
        f"env steps per second, {result['num_envs']} envs, {result['threads']} threads (in "
        "brackets: ours / theirs)"
    ]
    for env_id, rates in result["envs"].items():
        lines.append(env_id)
        for name, rate in rates.items():
            shown = "not installed, or without this task"
            if rate is not None:
                shown = f"{rate['steps_per_second']:6,.0f}  ({rate['hindsight_is']:.2f})"
            lines.append(f"  {name:28} {shown}")
    return "\n".join(lines)
