"""Seconds for a checkpoint of a full replay: that training waits, in the background, to read."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from hindsight.api import describe
from hindsight.envs.make import factory
from hindsight.episodes import Episodes
from hindsight.replay.priorities import PriorityConfig
from hindsight.replay.replay import HindsightReplay, ReplayConfig, make_replay
from hindsight.saving.checkpoints import Checkpoints, Snapshot

ENV, CAPACITY, EPISODES = "FetchPush-v4", 1_000_000, 500


def run() -> dict[str, Any]:
    spec = describe(ENV, factory(ENV))
    uniform = make_replay(spec, ReplayConfig(buffer_size=CAPACITY))
    stored = ReplayConfig(buffer_size=CAPACITY, goals_chosen="stored")
    pairs = make_replay(spec, stored, PriorityConfig(sampling="proportional", queues="two_queues"))
    return {"transitions": CAPACITY, "HER": measure(uniform), "HPER": measure(pairs)}


def measure(replay: HindsightReplay) -> dict[str, float]:
    """Fill a replay with random episodes; seconds to copy, write and read its state."""
    rng, spec = np.random.default_rng(0), replay.spec
    n, horizon = EPISODES, spec.horizon
    while replay.storage.size < replay.storage.slots:
        goals = rng.random((n, horizon + 1, *spec.goal.shape)).astype(spec.goal_dtype)
        observation = rng.random((n, horizon + 1, spec.observation.dim), np.float32)
        action = rng.random((n, horizon, spec.actions.dim), np.float32)
        flags = np.zeros((n, horizon), np.bool_)
        reward, length = np.zeros((n, horizon), np.float32), np.full(n, horizon)
        episodes = Episodes(observation, goals, goals[:, 0], action, reward, flags, flags, length)
        replay.push(replay.store(episodes, rng=rng), None)
    with tempfile.TemporaryDirectory() as directory:
        metrics = Path(directory) / "metrics.jsonl"
        metrics.write_bytes(b"")
        checkpoints = Checkpoints(Path(directory) / "checkpoints")
        times = [time.perf_counter()]
        state = {"replay": replay.export_state()}
        times.append(time.perf_counter())
        checkpoint = checkpoints.write(Snapshot(1, 1, None, state, b"{}", metrics, 0))
        times.append(time.perf_counter())
        replay.restore_state(checkpoints.newest()[0].load()["replay"])
        times.append(time.perf_counter())
        size = sum(file.bytes for file in checkpoint.files.values())
    stall, write, load = np.diff(times).tolist()
    return {
        "megabytes": size / 1e6,
        "stall_seconds": stall,
        "background_seconds": write,
        "load_seconds": load,
    }


def table(result: dict[str, Any]) -> str:
    lines = [f"a checkpoint of {result['transitions']:,} transitions of {ENV}:"]
    for name in ("HER", "HPER"):
        r = result[name]
        lines.append(
            f"  {name:5} {r['megabytes']:5.0f} MB   training waits {r['stall_seconds']:.2f} s   "
            "written in "
            f"{r['background_seconds']:.2f} s in the background   checked and read in "
            f"{r['load_seconds']:.2f} s"
        )
    return "\n".join(lines)
