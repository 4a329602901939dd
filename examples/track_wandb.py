"""Metrics to Weights & Biases: pip install wandb

python examples/track_wandb.py --steps 10000
WANDB_MODE=offline python examples/track_wandb.py      # without an account
"""

from __future__ import annotations

import tyro
import wandb

import hindsight
from hindsight.settings import flatten


def main(env: str = "hindsight/BitFlip-v0", steps: int = 10_000, seed: int = 0) -> None:
    with wandb.init(project="hindsight", name=f"{env}-{seed}") as tracked:
        run = hindsight.train(env, steps=steps, seed=seed, logger=tracked.log)
        tracked.config.update(flatten(run.config))
        tracked.summary["success_rate"] = hindsight.evaluate(run.path).success_rate


if __name__ == "__main__":
    tyro.cli(main)
