"""What a user would pick instead: Stable-Baselines3's TQC and HerReplayBuffer with the settings of
the RL Zoo, one training per Fetch task until 0.95 of 100 fresh episodes end at their goal, or for
an hour.

The zoo's envs are Fetch-v1, which no longer runs; its settings are those of its `tqc.yml`.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

from benchmarks import peers
from hindsight.envs.make import make
from hindsight.errors import HindsightError
from hindsight.training.run import machine, versions

SUCCESS = 0.95
MINUTES = 60.0
FEW, MANY = 20, 100
"""Episodes of an evaluation, and of the one that confirms it."""
SEED = 0
SHARED: dict[str, Any] = {
    "learning_rate": 1e-3,
    "gamma": 0.95,
    "buffer_size": 1_000_000,
    "replay_buffer_kwargs": {"n_sampled_goal": 4, "goal_selection_strategy": "future"},
}
OBJECT = SHARED | {
    "tau": 0.05,
    "batch_size": 2048,
    "policy_kwargs": {"net_arch": [512, 512, 512], "n_critics": 2},
}


class Task(NamedTuple):
    settings: dict[str, Any]
    evaluate_every: int
    normalized: bool = False
    """Observations and rewards, by VecNormalize."""


TASKS = {
    "FetchReach-v4": Task(
        SHARED
        | {
            "batch_size": 256,
            "learning_starts": 1000,
            "policy_kwargs": {"net_arch": [64, 64], "n_critics": 1},
        },
        evaluate_every=1_000,
        normalized=True,
    ),
    "FetchPush-v4": Task(OBJECT, evaluate_every=5_000),
    "FetchPickAndPlace-v4": Task(OBJECT | {"batch_size": 1024}, evaluate_every=5_000),
    "FetchSlide-v4": Task(OBJECT, evaluate_every=5_000),
}


def run(envs: Sequence[str] = ()) -> dict[str, Any]:
    """On all tasks, or on some."""
    sb3 = peers.stable_baselines3()
    if sb3 is None:
        raise HindsightError("Stable-Baselines3 is not installed: see `make bench`")
    for env in envs:
        if env not in TASKS:
            raise HindsightError(f"no task {env!r}; there are {', '.join(TASKS)}")
    rows = []
    for env in envs or TASKS:
        rows.append({"env": env} | _train(sb3, env, TASKS[env]))
        print(rows[-1], file=sys.stderr, flush=True)
    return {
        "version": sb3.__version__,
        "rows": rows,
        "machine": machine(),
        "versions": dict(versions()),
    }


def _train(sb3: Any, env_id: str, task: Task) -> dict[str, Any]:
    """Steps and minutes of training, without those of evaluations, and the success of each
    evaluation."""
    from sb3_contrib import TQC
    from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

    env = DummyVecEnv([lambda: make(env_id)])
    if task.normalized:
        env = VecNormalize(env, gamma=task.settings["gamma"])
    model = TQC(
        "MultiInputPolicy",
        env,
        replay_buffer_class=sb3.HerReplayBuffer,
        device="cpu",
        seed=SEED,
        **task.settings,
    )
    test = make(env_id)
    curve: list[tuple[int, float, float]] = []
    reached = False
    seconds, start = 0.0, time.perf_counter()

    def go_on(now: dict[str, Any], _: dict[str, Any]) -> bool:
        nonlocal seconds, start, reached
        steps = now["self"].num_timesteps
        so_far = seconds + time.perf_counter() - start
        over = so_far > 60 * MINUTES
        if steps % task.evaluate_every and not over:
            return True
        seconds = so_far
        success = _success(model, test, 10_000, FEW)
        if success >= SUCCESS or over:
            success = _success(model, test, 20_000, MANY)
            reached = success >= SUCCESS
        curve.append((steps, round(seconds / 60, 2), success))
        print(env_id, *curve[-1], file=sys.stderr, flush=True)
        start = time.perf_counter()
        return not (reached or over)

    model.learn(10**9, callback=go_on, log_interval=None)
    return {"reached": reached, "curve": curve}


def _success(model: Any, env: Any, first_seed: int, episodes: int) -> float:
    """The share of greedy episodes that end at their goal."""
    normalizer = model.get_vec_normalize_env()
    successes = 0
    for seed in range(first_seed, first_seed + episodes):
        observation, _ = env.reset(seed=seed)
        over = False
        while not over:
            seen = observation if normalizer is None else normalizer.normalize_obs(observation)
            action, _ = model.predict(seen, deterministic=True)
            observation, _, terminated, truncated, info = env.step(action)
            over = terminated or truncated
        successes += bool(info["is_success"])
    return successes / episodes


def table(result: dict[str, Any]) -> str:
    """Markdown."""
    lines = [
        f"Stable-Baselines3 {result['version']}, TQC and HerReplayBuffer, settings of the RL Zoo",
        "",
        f"| env | {SUCCESS} | steps | minutes | success at the end |",
        "|---|---|---|---|---|",
    ]
    for row in result["rows"]:
        steps, minutes, success = row["curve"][-1]
        reached = "reached" if row["reached"] else "not reached"
        lines.append(f"| {row['env']} | {reached} | {steps:,} | {minutes:.1f} | {success:.2f} |")
    return "\n".join(lines)
