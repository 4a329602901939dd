"""The options of `hindsight reproduce`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from tyro.conf import Positional, arg

from hindsight.lab.places import OnRay


@dataclass
class ReproduceOptions(OnRay):
    """Run the paper's tables and figures, and ours. Interrupted runs are continued."""

    names: Annotated[tuple[str, ...], Positional, arg(metavar="NAME")] = ()
    """Which experiments; `all` for all of them. --list shows them."""
    list: bool = False
    """Show all experiments: where in the paper, runs, how many of them measured, minutes."""
    budget: float | None = None
    """Run what fits into so many minutes, what says most first."""
    seeds: tuple[int, ...] = ()
    """Only these seeds."""
    only: tuple[str, ...] = ()
    """Only these configurations (the names in front of -seed in experiments/results/NAME)."""
    missing: bool = False
    """Only what has no measured row in experiments/results yet."""
    runs_dir: Path | None = None
    """Where to put the runs; by default runs/reproduce/NAME."""
    steps: int | None = None
    """Shrink every run to about so many steps, for a trial: kept apart, never a result."""
    plan: bool = False
    """Show what would be run, and run nothing."""
    draw: bool = False
    """Draw the figure from the measured rows into docs/figures, without training."""
    tables: bool = False
    """Make the tables in README and docs anew from the measured rows."""
    import_runs: tuple[Path, ...] = ()
    """Add run directories of the experiment's settings to the measured rows."""
    jobs: int = 1
    """Runs at a time. More than one share the machine: their minutes are not to be trusted, and
    their rows say so. With --ray 1 stands for as many as there are cores for."""
    shared_machine: bool = False
    """Other programs ran meanwhile: minutes are not to be trusted."""
    quiet: bool = False
    """Show no progress of the trainings."""
