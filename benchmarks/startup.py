"""Seconds until a program can act, each in a new process, and milliseconds per action."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from hindsight.acting import Actor, ActorShape
from hindsight.deploy import load
from hindsight.envs.contract import Actions
from hindsight.envs.spaces import Features
from hindsight.errors import HindsightError
from hindsight.integrations.onnx import export
from hindsight.normalizer import Scale
from hindsight.training.policy import Policy

ROUNDS = 9
ACTIONS = 2000
OBSERVATION, GOAL, WIDTHS = 25, 3, (256, 256, 256)
LOAD = """
import hindsight.deploy, numpy as np
policy = hindsight.deploy.load({path!r})
policy({{"observation": np.zeros(25, np.float32), "desired_goal": np.zeros(3, np.float32)}})
"""


def run() -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as directory:
        policy = fetch_policy()
        policy.save(Path(directory))
        onnx = export(policy, Path(directory) / "policy.onnx").path
        programs = {
            "python -c pass": ["-c", "pass"],
            "import numpy": ["-c", "import numpy"],
            "import hindsight": ["-c", "import hindsight"],
            "import hindsight.deploy": ["-c", "import hindsight.deploy"],
            "the same, load a run's policy, act once": ["-c", LOAD.format(path=directory)],
            "the same, load policy.onnx, act once": ["-c", LOAD.format(path=str(onnx))],
            "hindsight --help": ["-m", "hindsight.cli", "--help"],
            "hindsight train --help": ["-m", "hindsight.cli", "train", "--help"],
            "import jax": ["-c", "import jax"],
        }
        seconds: dict[str, list[tuple[float, float]]] = {name: [] for name in programs}
        for _ in range(ROUNDS + 1):  # the first warms the disk's cache
            for name, arguments in programs.items():
                seconds[name].append(_seconds(arguments))
        latency = {"NumPy": _milliseconds(load(directory))}
        with threadpool_limits(1, user_api="blas"):
            latency["NumPy, one BLAS thread"] = _milliseconds(load(directory))
        latency["onnxruntime"] = _milliseconds(load(onnx))
    return {
        "seconds": {
            name: {
                "wall": statistics.median(wall for wall, _ in times[1:]),
                "processor": statistics.median(processor for _, processor in times[1:]),
            }
            for name, times in seconds.items()
        },
        "milliseconds per action": latency,
    }


def fetch_policy() -> Policy:
    """An untrained policy of the sizes of FetchPush."""
    rng = np.random.default_rng(0)
    sizes = [OBSERVATION + GOAL, *WIDTHS, 4]
    layers = {
        f"Dense_{i}": {
            "kernel": rng.normal(0, (1 / n) ** 0.5, (n, m)).astype(np.float32),
            "bias": np.zeros(m, np.float32),
        }
        for i, (n, m) in enumerate(pairwise(sizes))
    }
    scale = (f(n, np.float32) for n in (OBSERVATION, GOAL) for f in (np.zeros, np.ones))
    shape = ActorShape("tanh", Actions(0, (-1.0,) * 4, (1.0,) * 4), False, 200.0, 5.0)
    settings = {"method": "ddpg", "net_arch": list(WIDTHS)}
    actor = Actor(shape, {"params": layers}, Scale(*scale))
    return Policy("FetchPush-v4", actor, Features((OBSERVATION,)), Features((GOAL,)), settings)


def _seconds(arguments: list[str]) -> tuple[float, float]:
    """Until it ends, and those of them that it spent on a processor."""
    start = time.perf_counter()
    process = subprocess.Popen([sys.executable, *arguments], stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise HindsightError(f"python {' '.join(arguments)} failed")
    return time.perf_counter() - start, used.ru_utime + used.ru_stime


def _milliseconds(policy: Callable[[dict[str, Any]], Any]) -> dict[str, float]:
    """Median and 99th percentile for one observation."""
    rng = np.random.default_rng(0)
    times = []
    for _ in range(ACTIONS):
        observation = {
            "observation": rng.standard_normal(OBSERVATION, np.float32),
            "desired_goal": rng.standard_normal(GOAL, np.float32),
        }
        start = time.perf_counter()
        policy(observation)
        times.append(1000 * (time.perf_counter() - start))
    return {"median": statistics.median(times), "99 of 100": float(np.percentile(times, 99))}


def table(result: dict[str, Any]) -> str:
    rows = ["| seconds in a new process | until it ends | of a processor |", "|---|---|---|"]
    for name, value in result["seconds"].items():
        rows.append(f"| `{name}` | {value['wall']:.2f} | {value['processor']:.2f} |")
    rows += ["", "| ms per action | median | 99 of 100 are below |", "|---|---|---|"]
    for name, value in result["milliseconds per action"].items():
        rows.append(f"| {name} | {value['median']:.3f} | {value['99 of 100']:.3f} |")
    return "\n".join(rows)
