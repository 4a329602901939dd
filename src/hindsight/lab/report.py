"""The page of `hindsight report`, written once or again and again while runs are training."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from hindsight.errors import HindsightError, needs
from hindsight.lab.compare import grouped
from hindsight.saving.files import write_aside

if TYPE_CHECKING:
    from hindsight.lab.runs import Skipped


def report(
    paths: Sequence[Path],
    output: Path,
    labels: Sequence[str],
    title: str,
    video: bool,
    watch: float | None,
    base: str = "",
) -> int:
    """Write the page, every `watch` seconds until no run is training; how many were skipped."""
    if output.suffix not in (".html", ".htm"):
        raise HindsightError(f"cannot write {output}: the name of a page ends in .html")
    if not output.parent.is_dir():
        raise HindsightError(f"cannot write {output}: there is no directory {output.parent}")
    reported: set[Skipped] = set()
    while True:
        skipped, running = write_page(paths, output, labels, title, video, watch, reported, base)
        if watch is None or not running:
            return skipped
        time.sleep(watch)


def write_page(
    paths: Sequence[Path],
    output: Path,
    labels: Sequence[str] = (),
    title: str = "",
    video: bool = True,
    watch: float | None = None,
    reported: set[Skipped] | None = None,
    base: str = "",
) -> tuple[int, int]:
    """Write the page; how many directories were skipped, and how many runs are still running."""
    groups, skipped = grouped(paths, labels, "report", reported)
    with needs("report"):
        from hindsight.lab.page.render import page
        from hindsight.lab.video import best_policies

    running = sum(run.state == "running" for g in groups for run in g.runs)
    wanted = video and not (watch and running)  # a video takes time from the training
    html = page(groups, skipped, best_policies(groups) if wanted else None, watch, title, base)
    try:
        write_aside(output, html.encode())
    except OSError as error:
        raise HindsightError(f"cannot write {output}: {error.strerror}") from None
    return len(skipped), running
