"""Whether memory stays flat over 300,000 env steps with a full replay, checkpoints and all."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from hindsight.api import train
from hindsight.errors import HindsightError
from hindsight.training.progress import Progress

ENV, CAPACITY, STEPS = "FetchReach-v4", 50_000, 300_000


def run(steps: int = STEPS, capacity: int = CAPACITY) -> dict[str, Any]:
    """Train HPER with overlap and many checkpoints; fit a line through the resident sizes."""
    sizes: list[tuple[int, float]] = []

    def watch(progress: Progress) -> None:
        if progress.step > 2 * capacity:  # full, and everything compiled
            sizes.append((progress.step, resident()))

    with tempfile.TemporaryDirectory() as directory:
        settings: dict[str, Any] = {"replay.goals_chosen": "stored", "replay.buffer_size": capacity}
        settings |= {"priority.sampling": "rank", "priority.queues": "two_queues", "overlap": True}
        settings |= {"checkpoint.minutes": 0.2, "gradient_steps": 10, "agent.net_arch": (64, 64)}
        path = Path(directory) / "run"
        run = train(
            ENV, run_dir=path, quiet=True, steps=2 * capacity + steps, callbacks=[watch], **settings
        )
        stall = run.metrics[-1]["time/checkpoint"]
        minutes = run.metrics[-1]["time/total"] / 60
    return {
        "steps": steps,
        "minutes": minutes,
        "checkpoint_stall_seconds": stall,
        **line(np.array(sizes)),
    }


def line(sizes: Any) -> dict[str, float]:
    """Slope of the sizes [n, 2] (step, MB) per 100,000 steps, and what it could be by chance.

    The error is that of means over ten equal parts, because sizes that follow each other are alike.
    """
    parts = np.array([part.mean(axis=0) for part in np.array_split(sizes, 10)])
    x, y = parts[:, 0] / 1e5, parts[:, 1]
    (slope, _), covariance = np.polyfit(x, y, 1, cov=True)
    error = float(np.sqrt(covariance[0, 0]))
    return {
        "slope_mb": float(slope),
        "error_mb": error,
        "first_mb": float(sizes[0, 1]),
        "last_mb": float(sizes[-1, 1]),
        "largest_mb": float(sizes[:, 1].max()),
    }


def resident() -> float:
    """Resident size of this process in MB."""
    try:
        text = Path("/proc/self/status").read_text()
    except OSError:
        raise HindsightError("this benchmark reads /proc, which only Linux has") from None
    return float(text.partition("VmRSS:")[2].split()[0]) / 1e3


def table(result: dict[str, Any]) -> str:
    return (
        f"resident size over {result['steps']:,} steps of {ENV}: {result['first_mb']:.0f} MB "
        "first, "
        f"{result['last_mb']:.0f} MB last, {result['largest_mb']:.0f} MB at most\n"
        f"slope {result['slope_mb']:+.2f} ± {result['error_mb']:.2f} MB per 100,000 steps; "
        f"{result['minutes']:.1f} minutes, of which checkpoints "
        f"{result['checkpoint_stall_seconds']:.1f} s"
    )
