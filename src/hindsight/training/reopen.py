"""Taking up a run where it was left: it is locked first, and looked at then, so that nothing
changes in between."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from hindsight.errors import HindsightError
from hindsight.saving.checkpoints import Checkpoint, Checkpoints
from hindsight.saving.files import refuse_links
from hindsight.saving.lock import RunLock
from hindsight.saving.mirror import Mirror
from hindsight.training.conditions import changed
from hindsight.training.policy import POLICY
from hindsight.training.run import CONFIG, Run, read_config
from hindsight.training.writer import RunWriter


@dataclass(frozen=True)
class Reopened:
    """A run that is ours to resume."""

    run: Run
    """With the settings of the checkpoint, and more steps if more were asked for."""
    lock: RunLock
    checkpoint: Checkpoint | None
    """None: it was stopped before its first, and starts from its settings."""

    @property
    def is_done(self) -> bool:
        """Whether nothing is left to train. What is left to write is the summary: it was stopped
        just before that."""
        return self.checkpoint is not None and self.checkpoint.step >= self.run.config.steps

    def finish(self, mirror: Mirror | None = None) -> Run:
        """Write what was not written."""
        with RunWriter(self.run, self.lock, self.checkpoint, mirror):
            return self.run


@contextmanager
def reopen(path: Path, steps: int = 0, mirror: Mirror | None = None) -> Iterator[Reopened]:
    """Lock a run, and find out from where it goes on: from the newest checkpoint, here or at the
    mirror. `steps` are added to those that it was made for."""
    if mirror is not None and not path.exists():
        _begin_copy(path, mirror)
    if not path.is_dir():
        raise HindsightError(f"{path} does not exist")
    if steps < 0:
        raise HindsightError(f"steps must be 0 or more, got {steps}")
    if mirror is None:
        _require_run(path)
    with RunLock(path) as lock:
        refuse_links(path)
        if mirror is not None:
            _fetch(path, mirror)
            _require_run(path)
        checkpoint = _newest(path)
        config = read_config(path / CONFIG if checkpoint is None else checkpoint.config)
        found = Reopened(Run(path, replace(config, steps=config.steps + steps)), lock, checkpoint)
        taken = 0 if checkpoint is None else checkpoint.step
        if _finished_at(found.run) == taken and (found.is_done or not steps):
            raise HindsightError(
                f"{path} is finished, with {taken} steps: say how many more, by --steps or steps="
            )
        yield found


def _require_run(path: Path) -> None:
    if not (path / CONFIG).exists() and not (path / "checkpoints").exists():
        raise HindsightError(
            f"there is no run in {path}: it has neither {CONFIG} nor checkpoints; train it anew"
        )


def _begin_copy(path: Path, mirror: Mirror) -> None:
    """A directory for a run that is only at the mirror."""
    try:
        if not mirror.names():
            raise HindsightError(
                f"{path} does not exist, and there are no checkpoints at {mirror.address}"
            )
        path.mkdir(parents=True)
    except OSError as error:
        raise HindsightError(f"cannot copy {mirror.address} to {path}: {error}") from None


def _fetch(path: Path, mirror: Mirror) -> None:
    try:
        if mirror.fetch(Checkpoints(path / "checkpoints")):
            mirror.fetch_files([path / name for name in POLICY])
    except OSError as error:
        raise HindsightError(f"cannot copy {mirror.address} to {path}: {error}") from None


def _newest(path: Path) -> Checkpoint | None:
    """The newest intact checkpoint, with a warning about what is not as it was; None if none was
    ever made."""
    checkpoints = Checkpoints(path / "checkpoints")
    if not checkpoints.names():
        return None
    checkpoint, skipped = checkpoints.newest()
    for problem in skipped:
        warnings.warn(f"{problem}; using {checkpoint.path} instead", stacklevel=5)
    other = changed(checkpoint.versions)
    if other:
        warnings.warn(
            f"{path} was trained with {', '.join(other)}: it may go on a little differently",
            stacklevel=5,
        )
    return checkpoint


def _finished_at(run: Run) -> int | None:
    """The step at which it was finished, which is before its last one if it was good enough; None
    if it was not."""
    try:
        summary = run.summary
    except HindsightError:
        return None
    return summary.get("steps") if summary.get("status") == "finished" else None
