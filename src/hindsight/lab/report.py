"""`hindsight report`: the page, once or again and again while runs go on."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from hindsight.errors import HindsightError
from hindsight.lab.compare import grouped
from hindsight.options import needs_report, parse
from hindsight.saving.files import write_aside

if TYPE_CHECKING:
    from hindsight.lab.runs import Skipped

SECONDS = 10.0


@dataclass
class Report:
    """Write one page that needs no network: curves, replay, settings, video, conclusions.

    Directories that cannot be used are named and skipped: exit code 1; 2 if none can be used.
    """

    runs: Annotated[tuple[Path, ...], tyro.conf.Positional]
    """Run directories."""
    output: Annotated[Path, tyro.conf.arg(aliases=["-o"])] = Path("report.html")
    """The page."""
    labels: tuple[str, ...] = ()
    """A name per group, in the order of the runs; by default what their directories or settings
    are called."""
    title: str = ""
    video: bool = True
    """Show a video of the best policy of every env."""
    watch: Annotated[float | None, tyro.conf.arg(metavar="[SECONDS]")] = None
    """Write the page again every so many seconds (10) until no run is running; the browser
    follows. The video comes with the last one."""


def report(arguments: Sequence[str]) -> int:
    options = parse(Report, _with_seconds(arguments), "hindsight report")
    if options.output.suffix not in (".html", ".htm"):
        raise HindsightError(f"cannot write {options.output}: the name of a page ends in .html")
    if not options.output.parent.is_dir():
        raise HindsightError(
            f"cannot write {options.output}: there is no directory {options.output.parent}"
        )
    if options.watch is not None and not 1 <= options.watch < 1e6:
        raise HindsightError(f"--watch must be 1 second or more, got {options.watch:g}")
    reported: set[Skipped] = set()
    how = (options.labels, options.title, options.video, options.watch, reported)
    while True:
        skipped, running = write_page(options.runs, options.output, *how)
        if options.watch is None or not running:
            break
        time.sleep(options.watch)
    print(f"page: {options.output}")
    return 1 if skipped else 0


def write_page(
    paths: Sequence[Path],
    output: Path,
    labels: Sequence[str] = (),
    title: str = "",
    video: bool = True,
    watch: float | None = None,
    reported: set[Skipped] | None = None,
) -> tuple[int, int]:
    """Write the page; how many directories were skipped, and how many runs are still running."""
    groups, skipped = grouped(paths, labels, "report", reported)
    with needs_report():
        from hindsight.lab.page.render import page
        from hindsight.lab.video import best_policies

    running = sum(run.state == "running" for g in groups for run in g.runs)
    wanted = video and not (watch and running)  # a video takes time from the training
    html = page(groups, skipped, best_policies(groups) if wanted else None, watch, title)
    try:
        write_aside(output, html.encode())
    except OSError as error:
        raise HindsightError(f"cannot write {output}: {error.strerror}") from None
    return len(skipped), running


def _with_seconds(arguments: Sequence[str]) -> list[str]:
    """`--watch` without a number means every ten seconds."""
    found = list(arguments)
    for i, token in enumerate(found):
        following = found[i + 1] if i + 1 < len(found) else ""
        if token == "--watch" and not following.replace(".", "", 1).isdigit():
            return [*found[:i], f"--watch={SECONDS}", *found[i + 1 :]]
    return found
