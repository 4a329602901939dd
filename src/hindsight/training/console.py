"""The live display of a training: a progress bar on a terminal, a line per evaluation elsewhere."""

from __future__ import annotations

import threading
from types import TracebackType

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeRemainingColumn,
)

from hindsight.config import TrainConfig
from hindsight.errors import printable
from hindsight.training.progress import Progress as TrainingProgress


class Display:
    """Shows success rate, steps, steps per second and time left."""

    def __init__(self, config: TrainConfig, quiet: bool = False) -> None:
        self.config = config
        self.quiet = quiet
        self.console = Console()
        self.success = "-"
        # A bar replaces stdout and stderr while it is shown: two threads would restore each
        # other's.
        self.has_bar = (
            self.console.is_terminal and threading.current_thread() is threading.main_thread()
        )
        # Fits 80 columns: the bar takes what the numbers leave.
        self._bar = Progress(
            TextColumn("[bold]{task.description}"),
            BarColumn(bar_width=None),
            MofNCompleteColumn(),
            TextColumn("{task.fields[rate]} steps/s · left"),
            TimeRemainingColumn(),
            console=self.console,
            disable=quiet or not self.has_bar,
            expand=True,
        )
        self._task = self._bar.add_task("compiling ...", total=config.steps, rate="-")

    def __enter__(self) -> Display:
        if self.has_bar and not self.quiet:
            title = printable(f"{self.config.env}, seed {self.config.seed}")
            self.console.print(title, markup=False, highlight=False)
        self._bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._bar.stop()

    def show(self, progress: TrainingProgress) -> None:
        """Show it, if it can be shown: a log file on a full disk is no reason to stop."""
        try:
            self._show(progress)
        except BrokenPipeError:  # whoever read our output has gone: that is how one stops a pipe
            raise
        except OSError:
            pass

    def _show(self, progress: TrainingProgress) -> None:
        if progress.evaluation is not None:
            self.success = f"{progress.evaluation.success_rate:.2f}"
        seconds = progress.metrics["time/total"]
        self._bar.update(
            self._task,
            completed=min(progress.step, progress.steps),
            description=f"success {self.success}",
            rate=f"{progress.step / max(seconds, 1e-9):,.0f}",
        )
        if progress.evaluation is not None and not self.quiet and not self.has_bar:
            left = seconds * max(progress.steps - progress.step, 0) / progress.step
            self.console.print(
                f"{self.config.env}  step {progress.step:,}/{progress.steps:,}  success "
                f"{self.success}  "
                f"{seconds:.0f} s, about {left:.0f} s left",
                highlight=False,
            )
