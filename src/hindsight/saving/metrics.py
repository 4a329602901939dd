"""Reading metrics.jsonl: a row of numbers per cycle, the source of truth about a training."""

from __future__ import annotations

import json
import os
from pathlib import Path

from hindsight.errors import HindsightError
from hindsight.saving.files import FILE_LIMIT, is_plain

METRICS = "metrics.jsonl"


def read_metrics(run: Path, tail: int | None = None) -> list[dict[str, float]]:
    """The rows of a run directory, or only those within the last `tail` bytes.

    A last line that is cut is left out: it is being written, or was when the process was killed.
    """
    path = run / METRICS
    if not path.exists():
        raise HindsightError(f"{run} has no {METRICS}")
    if not is_plain(path) or path.stat().st_size > FILE_LIMIT:
        raise HindsightError(f"{path} is no plain file, or too large")
    with open(path, "rb") as file:
        start = 0 if tail is None else max(0, file.seek(0, os.SEEK_END) - tail)
        file.seek(start)
        *lines, _ = file.read().split(b"\n")
    rows = []
    for number, line in enumerate(lines[1:] if start else lines, 1):
        try:
            row = json.loads(line)
            whole = all(isinstance(value, int | float) for value in row.values())
        except (ValueError, AttributeError, RecursionError):
            whole = False
        if not whole or not {"cycle", "step", "time/total"} <= row.keys():
            raise HindsightError(f"{path} is broken: line {number} is not a row of metrics")
        rows.append(row)
    return rows
