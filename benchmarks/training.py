"""Env steps per second of whole training at equal work, against Stable-Baselines3's DDPG with
HerReplayBuffer.

We and our peer take turns of some seconds, and ratios are those within a turn: a machine's speed
may drift. The peer trains in a process of its own, so that neither has to live with the other's
threads.
"""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from multiprocessing.connection import Connection
from typing import Any

import numpy as np

from benchmarks import peers
from benchmarks.learner import BATCH, HIDDEN, UPDATES, best, precisions, products, xla_products
from benchmarks.rates import compared
from benchmarks.simulation import Round, bare, passed_through, rounds
from hindsight.agents.ddpg import DDPGConfig
from hindsight.api import describe
from hindsight.collect import Collector
from hindsight.config import OffPolicyConfig
from hindsight.envs.batch import make_batch
from hindsight.envs.make import factory
from hindsight.settings import Precision
from hindsight.training.loops import off_policy
from hindsight.training.run import machine, versions

ENV, NUM = "FetchPush-v4", 32
UPDATES_PER_100_STEPS = 40
WARM_UP = 2  # cycles
PEER_STEPS = 600


def training(precision: Precision) -> OffPolicyConfig:
    """Cycles of 1,600 steps, with the next one's episodes simulated meanwhile."""
    return OffPolicyConfig(
        ENV,
        steps=10**9,
        num_envs=NUM,
        episodes_per_cycle=NUM,
        updates_per_step=UPDATES_PER_100_STEPS / 100,
        batch_size=BATCH,
        eval_every=10**9,
        overlap=True,
        agent=DDPGConfig(net_arch=HIDDEN, precision=precision),
    )


@contextmanager
def ours(shares: dict[str, float], precision: Precision) -> Iterator[Round]:
    """Rates of our cycles; where the time goes, in `shares`."""
    config = training(precision)
    make_env = factory(ENV)
    spec = describe(ENV, make_env)
    envs = make_batch(make_env, spec, NUM)
    with (
        ExitStack() as stack,
        closing(off_policy(config, spec, Collector(envs, spec), stack).train()) as cycles,
    ):
        for _ in range(WARM_UP):
            last = next(cycles)

        def cycle() -> float:
            nonlocal last
            start, before = time.perf_counter(), last
            last = next(cycles)
            seconds = time.perf_counter() - start
            for name in ("collect", "replay", "learn"):
                spent = last.metrics[f"time/{name}"] - before.metrics[f"time/{name}"]
                shares[name] = shares.get(name, 0.0) + spent
            return (last.step - before.step) / seconds

        yield cycle
    envs.close()


@contextmanager
def stable_baselines() -> Iterator[Round | None]:
    """The same work by Stable-Baselines3: one env, 40 updates after two episodes of 50 steps."""
    if peers.stable_baselines3() is None:
        yield None
        return
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=_train_peer, args=(there,), daemon=True)
    process.start()
    here.recv()  # ready

    def some_steps() -> float:
        here.send(PEER_STEPS)
        return PEER_STEPS / float(here.recv())

    yield some_steps
    here.send(0)
    process.join()


def _train_peer(pipe: Connection) -> None:
    """Train for as many steps as asked, and answer with the seconds, until asked for none."""
    model = peers.ddpg(
        peers.stable_baselines3(), ENV, HIDDEN, BATCH, episodes=2, updates=UPDATES_PER_100_STEPS
    )
    model.learn(1000)
    pipe.send(None)
    while steps := pipe.recv():
        start = time.perf_counter()
        model.learn(steps, reset_num_timesteps=False)
        pipe.send(time.perf_counter() - start)


def limit(physics: Round, precision: Precision) -> Round:
    """Steps per second of bare mj_step calls, then bare matrix products of this precision."""
    multiply = xla_products(BATCH, UPDATES, precision)

    def one() -> float:
        seconds = UPDATES_PER_100_STEPS / 100 * best(multiply) / UPDATES
        return 1.0 / (1.0 / physics() + seconds)

    return one


def run() -> dict[str, Any]:
    shares: dict[Precision, dict[str, float]] = {precision: {} for precision in precisions()}
    physics = bare(passed_through(ENV, 50), ENV, 2)
    with ExitStack() as stack:
        players: dict[str, Round] = {}
        for precision in precisions():
            players[f"hindsight {precision}"] = stack.enter_context(
                ours(shares[precision], precision)
            )
            players[f"limit {precision}"] = limit(physics, precision)
        peer = stack.enter_context(stable_baselines())
        rates = rounds(players | ({} if peer is None else {"peer": peer}))
    package = peers.stable_baselines3()
    return {
        "env": ENV,
        "batch": BATCH,
        "updates_per_100_steps": UPDATES_PER_100_STEPS,
        "gflop_per_update": round(sum(2 * m * k * n for m, k, n in products()) / 1e9, 3),
        "stable_baselines3": None if package is None else package.__version__,
        "rows": [
            {
                "precision": precision,
                "steps_per_second": round(float(np.median(rates[f"hindsight {precision}"])), 1),
                "shares_of_time": {
                    name: round(spent / sum(shares[precision].values()), 3)
                    for name, spent in shares[precision].items()
                },
                "limit": compared(rates[f"hindsight {precision}"], rates[f"limit {precision}"]),
                "stable_baselines3": None
                if peer is None
                else compared(rates[f"hindsight {precision}"], rates["peer"]),
            }
            for precision in precisions()
        ],
        "machine": machine(),
        "versions": dict(versions()),
    }


def table(result: dict[str, Any]) -> str:
    version = result["stable_baselines3"]
    lines = [
        f"{result['env']}, batch {result['batch']}, {result['updates_per_100_steps']} updates "
        "per 100 env steps"
    ]
    for row in result["rows"]:
        lines += [
            f"hindsight, {row['precision']}: {row['steps_per_second']:.0f} env steps/s; time: "
            f"{row['shares_of_time']}",
            f"  limit (bare mj_step, then bare matrix products): {_shown(row['limit'])}",
        ]
        if row["stable_baselines3"] is not None:
            lines.append(f"  Stable-Baselines3 {version}: {_shown(row['stable_baselines3'])}")
    if version is None:
        lines.append(
            "Stable-Baselines3 is not installed: pip install 'hindsight-rl[bench]' to compare"
        )
    return "\n".join(lines)


def _shown(found: dict[str, Any]) -> str:
    low, high = found["middle_half_of_turns"]
    return (
        f"{found['steps_per_second']:.0f} env steps/s; we are {found['hindsight_is']:.2f} times "
        "as fast "
        f"(half of the turns: {low:.2f} to {high:.2f})"
    )
