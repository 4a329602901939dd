"""Rates measured in turns, because the machine's speed drifts: only those of a turn compare."""

from __future__ import annotations

from typing import Any

import numpy as np

from hindsight.types import Array


def times_as_fast(mine: Array, theirs: Array) -> dict[str, Any]:
    """Our rate over theirs in the same turn: the median, and the quarter and three-quarter
    points."""
    low, middle, high = (round(float(q), 3) for q in np.quantile(mine / theirs, (0.25, 0.5, 0.75)))
    return {"hindsight_is": middle, "middle_half_of_turns": [low, high]}


def compared(mine: Array, theirs: Array) -> dict[str, Any]:
    """With their median rate."""
    rate = round(float(np.median(theirs)), 1)
    return {"steps_per_second": rate, **times_as_fast(mine, theirs)}
