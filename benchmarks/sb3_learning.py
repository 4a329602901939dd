"""What is learnt by Stable-Baselines3's learners with its own HER buffer, and with ours."""

from __future__ import annotations

import itertools
import sys
import time
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np

from benchmarks import peers
from hindsight.envs.make import make
from hindsight.errors import HindsightError
from hindsight.training.run import machine, versions

SEEDS = (0, 1, 2)
HPER = {
    "replay": {"goals_chosen": "stored"},
    "priority": {"sampling": "rank", "queues": "two_queues"},
}


class Task(NamedTuple):
    env: str
    env_options: dict[str, Any]
    learner: str
    settings: dict[str, Any]
    evaluate_at: tuple[int, ...]
    episodes: int  # of an evaluation


TASKS = {
    "FetchReach-v4, SAC": Task(
        "FetchReach-v4",
        {},
        "SAC",
        {
            "gamma": 0.95,
            "ent_coef": "auto_0.05",
            "learning_rate": 1e-3,
            "learning_starts": 300,
            "policy_kwargs": {"net_arch": [128, 128]},
        },
        (4000, 6000, 8000),
        25,
    ),
    "bit flip, 12 bits, DQN": Task(
        "hindsight/BitFlip-v0",
        {"bits": 12},
        "DQN",
        {
            "gamma": 0.98,
            "learning_rate": 1e-3,
            "learning_starts": 200,
            "train_freq": 1,
            "target_update_interval": 200,
            "exploration_fraction": 0.3,
            "batch_size": 64,
            "policy_kwargs": {"net_arch": [128]},
        },
        (1000, 1500, 2000, 3000),
        100,
    ),
}
"""Small networks, so that all of it takes minutes on one core."""


def run() -> dict[str, Any]:
    sb3 = peers.stable_baselines3()
    if sb3 is None:
        raise HindsightError("Stable-Baselines3 is not installed: see `make bench`")
    import torch as th

    import hindsight.integrations.sb3 as ours

    th.set_num_threads(1)
    rows = []
    players: tuple[tuple[str, Any, str, Any, dict[str, Any]], ...] = (
        ("HerReplayBuffer", sb3, "", sb3.HerReplayBuffer, {}),
        ("HER", sb3, "", ours.HindsightReplayBuffer, {}),
        ("HPER, two queues", ours, "Prioritized", ours.HindsightReplayBuffer, HPER),
    )
    for group in (players[:2], players[2:]):  # HER by both, then what only ours has
        for (name, task), seed in itertools.product(TASKS.items(), SEEDS):
            for buffer, package, prefix, kind, settings in group:
                learner = getattr(package, prefix + task.learner)
                row = {"task": name, "buffer": buffer, "seed": seed}
                rows.append(row | _learn(task, learner, kind, settings, seed))
                print(rows[-1], file=sys.stderr, flush=True)
    return {
        "version": sb3.__version__,
        "rows": rows,
        "machine": machine(),
        "versions": dict(versions()),
    }


def _learn(task: Task, learner: Any, buffer: Any, settings: Any, seed: int) -> dict[str, Any]:
    env, test = (make(task.env, **task.env_options) for _ in range(2))
    model = learner(
        "MultiInputPolicy",
        env,
        replay_buffer_class=buffer,
        replay_buffer_kwargs=settings,
        buffer_size=100_000,
        device="cpu",
        seed=seed,
        **task.settings,
    )
    return learning_curve(model, test, task.evaluate_at, task.episodes)


def learning_curve(
    model: Any, test: gym.Env[Any, Any], evaluate_at: tuple[int, ...], episodes: int
) -> dict[str, Any]:
    """Train a model: success of its greedy policy after so many steps, and the seconds of
    training."""
    success: list[float] = []
    start, seconds = time.process_time(), 0.0

    def evaluate(now: dict[str, Any], _: dict[str, Any]) -> bool:
        nonlocal start, seconds
        if now["self"].num_timesteps in evaluate_at:
            seconds += time.process_time() - start
            success.append(success_rate(model, test, episodes))
            start = time.process_time()
        return True

    model.learn(evaluate_at[-1], callback=evaluate, log_interval=None)
    return {"steps": evaluate_at, "success": success, "cpu_seconds": round(seconds, 1)}


def success_rate(model: Any, env: gym.Env[Any, Any], episodes: int) -> float:
    """The share of episodes, the same ones every time, that end at their goal."""
    reached = []
    for seed in range(episodes):
        observation, _ = env.reset(seed=10_000 + seed)
        over = False
        while not over:
            action, _ = model.predict(observation, deterministic=True)
            observation, _, terminated, truncated, info = env.step(action)
            over = terminated or truncated
        reached.append(bool(info["is_success"]))
    return float(np.mean(reached))


def table(result: dict[str, Any]) -> str:
    """Markdown: success by seed at every evaluation."""
    lines = [f"Stable-Baselines3 {result['version']}, seeds {', '.join(map(str, SEEDS))}"]
    for name, task in TASKS.items():
        steps = " | ".join(f"{steps:,} steps" for steps in task.evaluate_at)
        lines += ["", f"| {name} | {steps} | CPU seconds |", "|---" * (len(task.evaluate_at) + 2)]
        lines[-1] += "|"
        mine = [row for row in result["rows"] if row["task"] == name]
        for buffer in dict.fromkeys(row["buffer"] for row in mine):
            seeds = [row for row in mine if row["buffer"] == buffer]
            cells = [
                ", ".join(f"{row['success'][i]:.2f}" for row in seeds)
                for i in range(len(task.evaluate_at))
            ]
            spent = ", ".join(f"{row['cpu_seconds']:.0f}" for row in seeds)
            lines.append(f"| {buffer} | {' | '.join(cells)} | {spent} |")
    return "\n".join(lines)
