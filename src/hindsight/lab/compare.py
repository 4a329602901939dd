"""`hindsight compare`: what runs say, in the terminal."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro
from rich.console import Console

from hindsight.errors import HindsightError
from hindsight.options import needs_report, parse

if TYPE_CHECKING:
    from hindsight.lab.groups import Group
    from hindsight.lab.runs import Skipped


@dataclass
class Compare:
    """Compare runs: success over seeds with intervals, settings that differ, conclusions.

    Runs that differ in seed only are one group. Directories that cannot be used are named and
    skipped: exit code 1; 2 if none can be used.
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
    from hindsight.lab.terminal import as_json, show

    if options.json:
        print(json.dumps(as_json(groups, skipped), indent=2))
    else:
        console = Console()
        show(
            groups, console if console.is_terminal else Console(width=160)
        )  # a pipe has no width: tables must fit
    return 1 if skipped else 0


def grouped(
    paths: Sequence[Path], labels: Sequence[str], command: str, reported: set[Skipped] | None = None
) -> tuple[list[Group], list[Skipped]]:
    """The groups of runs, and directories of no use: named on stderr unless in `reported`."""
    with needs_report():
        from hindsight.lab.groups import group
        from hindsight.lab.runs import load
    if not paths:
        raise HindsightError(f"which runs? For example: hindsight {command} runs/*")
    runs, skipped = load(paths)
    reported = set() if reported is None else reported
    for item in skipped:
        if item not in reported:
            print(f"hindsight: skipped {item.path}: {item.reason}", file=sys.stderr)
        reported.add(item)
    if not runs:
        raise HindsightError(f"no run to {command}: none of the {len(paths)} given can be used")
    return group(runs, labels), skipped
