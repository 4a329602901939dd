"""Env steps per second of A3C on FetchReach, by its number of workers, each on one thread."""

from __future__ import annotations

import os
import time
from contextlib import ExitStack, closing
from dataclasses import replace
from typing import Any

from hindsight.agents.a2c import A3CConfig
from hindsight.api import default_config, describe
from hindsight.envs.make import factory
from hindsight.training.loops import make_loop
from hindsight.training.run import machine, versions

ENV = "FetchReach-v4"
WARM_UP, MEASURED = 4, 24  # batches


def rate(workers: int) -> float:
    """Steps per second after the first batches (compilation)."""
    spec = describe(ENV, factory(ENV))
    config = default_config("a3c", spec)
    assert isinstance(config.agent, A3CConfig)
    agent = replace(config.agent, workers=workers)
    config = replace(config, steps=10**9, workers=workers, eval_every=10**9, agent=agent)
    with ExitStack() as stack:
        loop = make_loop(config, spec, factory(ENV), stack)
        training = stack.enter_context(closing(loop.train()))
        for _ in range(WARM_UP):
            before = next(training)
        start = time.perf_counter()
        for _ in range(MEASURED):
            after = next(training)
        seconds = time.perf_counter() - start
    return (after.step - before.step) / seconds


def run() -> dict[str, Any]:
    cores = os.cpu_count() or 1
    rates = {workers: round(rate(workers), 1) for workers in sorted({1, cores})}
    return {
        "env": ENV,
        "steps_per_second": rates,
        "ratio": round(rates[cores] / rates[1], 2),
        "machine": machine(),
        "versions": dict(versions()),
    }


def table(result: dict[str, Any]) -> str:
    lines = [f"A3C on {ENV}, env steps per second of whole training:"]
    lines += [
        f"  {workers} worker{'s' * (workers > 1)}: {n:,.0f}"
        for workers, n in result["steps_per_second"].items()
    ]
    return "\n".join([*lines, f"  {result['ratio']} times as fast (aim: 1.5)"])
