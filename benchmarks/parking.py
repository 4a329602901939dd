"""highway-env's parking-v0: the SAC and HER of Stable-Baselines3's documentation.

What `hindsight train parking-v0` reaches stands in docs/results.md, made by `hindsight reproduce
other_envs`.
"""

from __future__ import annotations

import sys
from typing import Any

from benchmarks import peers
from benchmarks.sb3_learning import learning_curve
from hindsight.envs.make import make
from hindsight.errors import HindsightError
from hindsight.training.run import machine, versions

SEEDS = (0,)
EVALUATE_AT = (10_000, 20_000, 30_000, 40_000, 50_000)
EPISODES = 50
SETTINGS: dict[str, Any] = {
    "learning_rate": 1e-3,
    "gamma": 0.95,
    "batch_size": 256,
    "buffer_size": 1_000_000,
    "learning_starts": 1000,
    "policy_kwargs": {"net_arch": [256, 256, 256]},
}


def run() -> dict[str, Any]:
    sb3 = peers.stable_baselines3()
    if sb3 is None:
        raise HindsightError("Stable-Baselines3 is not installed: see `make bench`")
    import torch as th

    th.set_num_threads(1)
    rows = []
    for seed in SEEDS:
        rows.append({"seed": seed} | _learn(sb3, seed))
        print(rows[-1], file=sys.stderr, flush=True)
    return {
        "version": sb3.__version__,
        "rows": rows,
        "machine": machine(),
        "versions": dict(versions()),
    }


def _learn(sb3: Any, seed: int) -> dict[str, Any]:
    env, test = make("parking-v0"), make("parking-v0")
    model = sb3.SAC(
        "MultiInputPolicy",
        env,
        replay_buffer_class=sb3.HerReplayBuffer,
        replay_buffer_kwargs={"n_sampled_goal": 4, "goal_selection_strategy": "future"},
        device="cpu",
        seed=seed,
        **SETTINGS,
    )
    return learning_curve(model, test, EVALUATE_AT, EPISODES)


def table(result: dict[str, Any]) -> str:
    """Markdown: success at every evaluation."""
    steps = " | ".join(f"{steps:,} steps" for steps in EVALUATE_AT)
    lines = [
        f"Stable-Baselines3 {result['version']}, SAC and HerReplayBuffer, parking-v0",
        "",
        f"| seed | {steps} | CPU minutes |",
        "|---" * (len(EVALUATE_AT) + 2) + "|",
    ]
    for row in result["rows"]:
        cells = " | ".join(f"{rate:.2f}" for rate in row["success"])
        lines.append(f"| {row['seed']} | {cells} | {row['cpu_seconds'] / 60:.1f} |")
    return "\n".join(lines)
