"""A session of training: its progress goes to the files, the screen and whoever else listens."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from typing import Any

from hindsight.saving.lock import RunLock
from hindsight.saving.mirror import Mirror
from hindsight.training.console import Display
from hindsight.training.progress import Progress
from hindsight.training.reopen import Reopened
from hindsight.training.run import Run
from hindsight.training.signals import StopSignals
from hindsight.training.writer import RunWriter

Callback = Callable[[Progress], bool | None]
"""Called after every cycle, once its files are written; return True to stop the training."""
Logger = Callable[[dict[str, float], int], Any]
"""Called after every cycle with the metrics and the env step, as `wandb.log` is. It sees what
callbacks add to `progress.metrics`."""


def follow(
    training: Iterable[Progress],
    run: Run,
    display: Display,
    reopened: Reopened | None = None,
    callbacks: Sequence[Callback] = (),
    logger: Logger | None = None,
    mirror: Mirror | None = None,
) -> None:
    """Let a training go on until it is done, a callback stops it, or a signal does: that is raised,
    once all is saved.

    SIGINT becomes KeyboardInterrupt, SIGTERM SystemExit(143), SIGHUP SystemExit(129).
    """
    with ExitStack() as stack:
        stop = stack.enter_context(StopSignals())
        stop.check(f"stopped before the first cycle; to resume: hindsight resume {run.path}")
        lock = reopened.lock if reopened else stack.enter_context(RunLock(run.path))
        writer = stack.enter_context(
            RunWriter(run, lock, reopened.checkpoint if reopened else None, mirror)
        )
        for progress in training:
            writer.write(progress)
            display.show(progress)
            answers = [
                callback(progress) for callback in callbacks
            ]  # all are called, whatever the first says
            if logger is not None:
                logger(dict(progress.metrics), progress.step)
            stop.check(f"stopped at step {progress.step}; to resume: hindsight resume {run.path}")
            if progress.done or any(answers):
                break
