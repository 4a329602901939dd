"""Env steps per second of whole training at equal work, against Stable-Baselines3's DDPG with HerReplayBuffer."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from hindsight.api import describe
from hindsight.bench import peers
from hindsight.bench.learner import BATCH, HIDDEN, products, time_products
from hindsight.config import DDPGConfig, ReplayConfig, TrainConfig
from hindsight.envs.batch import make_batch
from hindsight.envs.make import factory
from hindsight.training.off_policy import train_off_policy
from hindsight.training.off_policy_state import OffPolicyState
from hindsight.training.run import machine, versions

ENV = "FetchPush-v4"
UPDATES_PER_100_STEPS = 40
WARM_UP, MEASURED = 4, 8  # cycles of 1,600 steps
PEER_STEPS = 3000


def ours() -> dict[str, float]:
    """Steps per second after the first cycles (compilation), and shares of the time."""
    num = 32
    config = TrainConfig(
        ENV,
        steps=10**9,
        num_envs=num,
        episodes_per_cycle=num,
        updates_per_cycle=num * 50 * UPDATES_PER_100_STEPS // 100,
        batch_size=BATCH,
        eval_every=10**9,
        overlap=True,
        agent=DDPGConfig(hidden=HIDDEN),
        replay=ReplayConfig(capacity=1_000_000),
    )
    make_env = factory(ENV)
    spec = describe(ENV, make_env)
    envs = make_batch(make_env, spec, num)
    training = train_off_policy(config, spec, OffPolicyState(config, spec, envs))
    for _ in range(WARM_UP):
        before = next(training)
    for _ in range(MEASURED):
        after = next(training)
    training.close()
    envs.close()
    seconds = {k: after.metrics[k] - before.metrics[k] for k in before.metrics if k.startswith("time/")}
    total = seconds.pop("time/total")
    shares = {k.removeprefix("time/"): round(v / total, 3) for k, v in seconds.items()}
    return {"steps_per_second": (after.step - before.step) / total, **shares}


def stable_baselines() -> tuple[float, str] | None:
    """The same work by Stable-Baselines3: one env, 40 updates after every two episodes of 50 steps."""
    sb3 = peers.stable_baselines3()
    if sb3 is None:
        return None
    model = peers.ddpg(sb3, ENV, HIDDEN, BATCH, episodes=2, updates=UPDATES_PER_100_STEPS)
    model.learn(1000)
    start = time.perf_counter()
    model.learn(PEER_STEPS, reset_num_timesteps=False)
    return PEER_STEPS / (time.perf_counter() - start), sb3.__version__


def run() -> dict[str, Any]:
    from hindsight.bench.simulation import bare, passed_through, rounds

    mine = ours()
    physics = float(np.median(rounds({"bare": bare(passed_through(ENV, 50), ENV, 2)})["bare"]))
    matrix = min(time_products().values()) / 1e3
    limit = 1.0 / (1.0 / physics + UPDATES_PER_100_STEPS / 100 * matrix)
    peer = stable_baselines()
    return {
        "env": ENV,
        "batch": BATCH,
        "updates_per_100_steps": UPDATES_PER_100_STEPS,
        "steps_per_second": round(mine.pop("steps_per_second"), 1),
        "shares_of_time": mine,
        "limit_steps_per_second": round(limit, 1),
        "gflop_per_update": round(sum(2 * m * k * n for m, k, n in products()) / 1e9, 3),
        "stable_baselines3": None if peer is None else {"steps_per_second": round(peer[0], 1), "version": peer[1]},
        "machine": machine(),
        "versions": dict(versions()),
    }


def table(result: dict[str, Any]) -> str:
    rate, peer = result["steps_per_second"], result["stable_baselines3"]
    lines = [
        f"{result['env']}, batch {result['batch']}, {result['updates_per_100_steps']} updates per 100 env steps",
        f"hindsight: {rate:.0f} env steps/s; time: {result['shares_of_time']}",
        f"limit (bare mj_step, then bare matrix products): {result['limit_steps_per_second']:.0f} env steps/s, "
        f"of which we reach {rate / result['limit_steps_per_second']:.2f}",
    ]
    if peer is None:
        lines.append("Stable-Baselines3 is not installed: pip install 'hindsight-rl[bench]' to compare")
    else:
        lines.append(
            f"Stable-Baselines3 {peer['version']}: {peer['steps_per_second']:.0f} env steps/s; "
            f"we are {rate / peer['steps_per_second']:.2f} times as fast"
        )
    return "\n".join(lines)
