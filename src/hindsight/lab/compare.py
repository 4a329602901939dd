"""Groups of runs for `hindsight compare` and `hindsight report`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from hindsight.errors import HindsightError, needs, say

if TYPE_CHECKING:
    from hindsight.lab.groups import Group
    from hindsight.lab.runs import Skipped


def grouped(
    paths: Sequence[Path], labels: Sequence[str], command: str, reported: set[Skipped] | None = None
) -> tuple[list[Group], list[Skipped]]:
    """The groups of runs, and directories of no use: named on stderr unless in `reported`."""
    with needs("report"):
        from hindsight.lab.groups import group
        from hindsight.lab.runs import load
    if not paths:
        raise HindsightError(f"which runs? For example: hindsight {command} runs/*")
    runs, skipped = load(paths)
    reported = set() if reported is None else reported
    for item in skipped:
        if item not in reported:
            say(f"skipped {item.path}: {item.reason}")
        reported.add(item)
    if not runs:
        raise HindsightError(f"no run to {command}: none of the {len(paths)} given can be used")
    return group(runs, labels), skipped
