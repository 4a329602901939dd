"""What is seen of a training: a bar on a terminal, one cell's output in a notebook, lines
elsewhere."""

from __future__ import annotations

import html
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import NamedTuple, Protocol

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


class Now(NamedTuple):
    """How far a training is."""

    step: int
    steps: int
    success: str
    """Of the last evaluation."""
    seconds: float
    evaluated: bool
    """Just now."""

    @property
    def rate(self) -> str:
        return f"{self.step / max(self.seconds, 1e-9):,.0f} steps/s"

    @property
    def left(self) -> str:
        return f"{self.seconds * (self.steps - self.step) / max(self.step, 1):.0f} s left"


class Screen(Protocol):
    """Where a training is shown. `start` says at once that something happens."""

    def start(self) -> None: ...

    def show(self, now: Now) -> None: ...

    def stop(self) -> None: ...


class Bar:
    """On a terminal of 80 columns: the bar takes what the numbers leave."""

    def __init__(self, title: str, steps: int, console: Console) -> None:
        self.title, self.console = title, console
        self._bar = Progress(
            TextColumn("[bold]{task.description}"),
            BarColumn(bar_width=None),
            MofNCompleteColumn(),
            TextColumn("{task.fields[rate]} · left"),
            TimeRemainingColumn(),
            console=console,
            expand=True,
            transient=True,  # if nothing comes of it
        )
        self._task = self._bar.add_task("compiling ...", total=steps, rate="- steps/s")

    def start(self) -> None:
        self.console.print(self.title, markup=False, highlight=False)
        self._bar.start()

    def show(self, now: Now) -> None:
        self._bar.live.transient = False
        self._bar.update(
            self._task,
            completed=now.step,
            description=f"success {now.success}",
            rate=now.rate,
        )

    def stop(self) -> None:
        self._bar.stop()


class Cell:
    """One output of a notebook's cell, which is replaced."""

    EVERY = 0.25
    """Seconds between two updates, at least."""

    def __init__(self, title: str, steps: int) -> None:
        self.title, self.steps = title, steps
        self._last: Now | None = None
        self._shown = 0.0

    def start(self) -> None:
        from IPython.display import display

        content = self._content(0, "compiling ...")
        self._handle = display(content, raw=True, display_id=True)  # type: ignore[no-untyped-call]

    def show(self, now: Now) -> None:
        self._last = now
        if now.evaluated or time.monotonic() - self._shown >= self.EVERY:
            self._update(now)

    def stop(self) -> None:
        if self._last is not None:
            self._update(self._last)

    def _update(self, now: Now) -> None:
        self._shown = time.monotonic()
        numbers = f"step {now.step:,} of {now.steps:,} · {now.rate} · {now.left}"
        content = self._content(now.step, f"success {now.success} · {numbers}")
        self._handle.update(content, raw=True)

    def _content(self, step: int, text: str) -> dict[str, str]:
        bar = f'<progress value="{step}" max="{self.steps}" style="width: 100%"></progress>'
        return {
            "text/plain": f"{self.title}: {text}",
            "text/html": f"<div>{html.escape(self.title)}<br>{bar}<br>{html.escape(text)}</div>",
        }


class Lines:
    """In a pipe or a file: a line per evaluation."""

    def __init__(self, title: str, env: str, console: Console) -> None:
        self.title, self.env, self.console = title, env, console

    def start(self) -> None:
        self._print(f"{self.title}: compiling ...")

    def show(self, now: Now) -> None:
        if now.evaluated:
            self._print(
                f"{self.env}  step {now.step:,}/{now.steps:,}  success {now.success}  "
                f"{now.seconds:.0f} s, about {now.left}"
            )

    def stop(self) -> None:
        pass

    def _print(self, text: str) -> None:
        self.console.print(text, highlight=False, markup=False, soft_wrap=True)


class Display:
    """Shows success rate, steps, steps per second and time left, where it is best seen."""

    def __init__(self, config: TrainConfig, quiet: bool = False) -> None:
        self.success = "-"
        self.screen: Screen | None = None if quiet else _screen(config)

    def __enter__(self) -> Display:
        self._try(lambda screen: screen.start())
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._try(lambda screen: screen.stop())

    def show(self, progress: TrainingProgress) -> None:
        if progress.evaluation is not None:
            self.success = f"{progress.evaluation.success_rate:.2f}"
        now = Now(
            min(progress.step, progress.steps),  # the last episodes may go beyond
            progress.steps,
            self.success,
            progress.metrics["time/total"],
            progress.evaluation is not None,
        )
        self._try(lambda screen: screen.show(now))

    def _try(self, action: Callable[[Screen], None]) -> None:
        """If it can be shown: a log file on a full disk is no reason to stop."""
        try:
            if self.screen is not None:
                action(self.screen)
        except BrokenPipeError:  # whoever read our output has gone: that is how one stops a pipe
            raise
        except OSError:
            pass


def _screen(config: TrainConfig) -> Screen:
    console = Console()
    title = printable(f"{config.env}, seed {config.seed}")
    if console.is_jupyter:
        return Cell(title, config.steps)
    # A bar replaces stdout and stderr while it is shown: two threads would restore each other's.
    if console.is_terminal and threading.current_thread() is threading.main_thread():
        return Bar(title, config.steps, console)
    return Lines(title, printable(config.env), console)
