"""Hindsight policy gradients where the paper (and HPG) tried them: bit flip and grids."""

from typing import Any

from hindsight.lab.reproduce.experiment import Experiment, Training

BITS, ROOM, ROOMS = "hindsight/BitFlip-v0", "hindsight/EmptyRoom-v0", "hindsight/FourRooms-v0"


def both(slug: str, env: str, line: str, best: float, **kwargs: Any) -> tuple[Training, Training]:
    """With hindsight and without."""
    common: dict[str, Any] = {
        "method": "hpg",
        "line": line,
        "best_score": best,
        "episodes": 2000,
        "env_kwargs": kwargs,
    }
    common["seeds"] = (0, 1, 2, 3, 4)
    without = {"agent.hindsight": False}
    return (
        Training(slug, env, column="with hindsight", **common),
        Training(f"{slug}-none", env, column="without hindsight", settings=without, **common),
    )


EXPERIMENT = Experiment(
    order=11,
    title="Hindsight policy gradients in bit flip and grids",
    where="Sec. 2.3",
    entries=(
        *both("bits-8", BITS, "bit flip, 8 bits", 4.99, bits=8),
        *both("bits-16", BITS, "bit flip, 16 bits", 9.00, bits=16),
        *both("empty-room", ROOM, "empty room", 21.92),
        *both("four-rooms", ROOMS, "four rooms", 18.84),
    ),
    line_heading="env",
    cell="score",
    figure="score",
)
