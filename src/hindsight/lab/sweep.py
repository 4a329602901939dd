"""The trainings of a sweep: settings x seeds, side by side, and one page at the end."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from hindsight.config import TrainConfig
from hindsight.errors import HindsightError
from hindsight.lab.grid import GridRun, grid, write_configs
from hindsight.lab.jobs import Place, Runner
from hindsight.lab.report import write_page


def sweep(
    directory: Path,
    vary: Sequence[str],
    seeds: Sequence[int],
    configure: Callable[[list[str], dict[str, Any]], TrainConfig],
    place: Callable[[], Place[GridRun]],
    video: bool,
) -> int:
    """Train every combination at a place; `configure` makes its config."""
    runs = grid(directory, vary, seeds, configure)
    try:
        write_configs(runs)
    except OSError as error:
        raise HindsightError(f"cannot write to {directory}: {error.strerror}") from None
    runner = Runner(runs, place())
    runner.run()
    skipped, _ = write_page([run.run_dir for run in runs], directory / "report.html", video=video)
    print(f"page: {directory / 'report.html'}")
    for name, reason in runner.failures.items():
        print(f"hindsight: {name} failed: {reason}", file=sys.stderr)
    return 1 if runner.failures or skipped else 0
