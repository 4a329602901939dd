"""`hindsight compare`: what runs say, in the terminal."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro
from rich.console import Console

from hindsight.errors import HindsightError, say
from hindsight.options import needs_report, parse

if TYPE_CHECKING:
    from hindsight.report.groups import Group
    from hindsight.report.load import Skipped


@dataclass
class Compare:
    """Compare runs: success over seeds with intervals, settings that differ, and what can be concluded.

    Runs that differ in seed only are one group. Directories that cannot be used are named and skipped: exit code 1;
    2 if none can be used.
    """

    runs: Annotated[tuple[Path, ...], tyro.conf.Positional]
    """Run directories."""
    labels: tuple[str, ...] = ()
    """A name per group, in the order of the runs; by default the settings in which they differ."""
    json: bool = False
    """Print one JSON object."""


def compare(arguments: Sequence[str]) -> int:
    options = parse(Compare, arguments, "hindsight compare")
    groups, skipped = grouped(options.runs, options.labels, "compare")
    from hindsight.report.terminal import as_json, show

    if options.json:
        print(json.dumps(as_json(groups, skipped), indent=2))
    else:
        console = Console()
        show(groups, console if console.is_terminal else Console(width=160))  # a pipe has no width: tables must fit
    return 1 if skipped else 0


def grouped(
    paths: Sequence[Path], labels: Sequence[str], command: str, told: set[Skipped] | None = None
) -> tuple[list[Group], list[Skipped]]:
    """The groups of runs, and the directories that cannot be used: named on stderr, unless they are in `told`."""
    with needs_report():
        from hindsight.report.groups import group
        from hindsight.report.load import load
    if not paths:
        raise HindsightError(f"which runs? For example: hindsight {command} runs/*")
    runs, skipped = load(paths)
    told = set() if told is None else told
    for item in skipped:
        if item not in told:
            say(f"skipped {item.path}: {item.reason}")
        told.add(item)
    if not runs:
        raise HindsightError(f"no run to {command}: none of the {len(paths)} given can be used")
    return group(runs, labels), skipped
