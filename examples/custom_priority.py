"""Hindsight prioritised replay by a priority of your own, against the usual one.

python examples/custom_priority.py --steps 10000
"""

from __future__ import annotations

import numpy as np
import tyro

import hindsight
from hindsight.replay import SIGNALS, Signals


def surprise(pairs: Signals) -> np.ndarray:
    """What went better than expected. The usual priority is |TD error|."""
    return pairs.td_error.clip(min=0.0)


SIGNALS["surprise"] = surprise


def main(steps: int = 10_000, seed: int = 0) -> dict[str, float]:
    found = {}
    for signal in ("td_error", "surprise"):
        run = hindsight.train(
            "hindsight/BitFlip-v0",
            preset="hper",
            priority={"signal": signal},
            steps=steps,
            seed=seed,
        )
        found[signal] = hindsight.evaluate(run.path).success_rate
        print(f"{signal}: {found[signal]:.2f}   {run.path}")
    print("one seed says nothing: hindsight compare needs several of each")
    return found


if __name__ == "__main__":
    tyro.cli(main)
