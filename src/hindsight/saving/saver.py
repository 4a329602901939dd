"""Saves checkpoints in the background, so that training waits only while its state is copied."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, Literal

from hindsight.errors import HindsightError, say
from hindsight.saving.checkpoints import Checkpoint, Checkpoints, Snapshot
from hindsight.saving.mirror import Mirror

WhenFailed = Literal["continue", "stop"]


class SaveFailed(HindsightError):
    """Something could not be written, and the settings say that the run shall stop."""


class Saver:
    """Writes one checkpoint at a time, on a thread of its own. A failure is told once it is
    known, or is raised."""

    def __init__(
        self,
        checkpoints: Checkpoints,
        when_failed: WhenFailed = "stop",
        stalled: float = 0.0,
        check: Callable[[], None] = lambda: None,
        mirror: Mirror | None = None,
    ) -> None:
        self.checkpoints = checkpoints
        self.mirror = mirror
        self.check = check
        """Called before anything is written; raises OSError if it must not be."""
        self.when_failed = when_failed
        self.stalled = stalled
        """Seconds that training has waited for checkpoints so far."""
        self.last: Checkpoint | None = None
        self._pool = ThreadPoolExecutor(1, "checkpoint")
        self._writing: Future[Checkpoint] | None = None
        self._started = time.monotonic()
        self._copy_failed: OSError | None = None
        self._copy_is_vital = when_failed == "stop"
        self._failing: set[Path | str] = (
            set()
        )  # has been told, and is not told again until it was written once more

    def minutes_since(self) -> float:
        """Minutes since the last checkpoint was begun."""
        return (time.monotonic() - self._started) / 60

    def save(self, snapshot: Callable[[], Snapshot]) -> None:
        """Wait for the checkpoint before, copy the state, and let the rest be done in the
        background."""
        start = time.perf_counter()
        self.wait()
        self._started = time.monotonic()
        self._writing = self._pool.submit(self._write, snapshot())
        self.stalled += time.perf_counter() - start

    def _write(self, snapshot: Snapshot) -> Checkpoint:
        self.check()
        checkpoint = self.checkpoints.write(snapshot)
        if self.mirror is not None:
            try:
                self.mirror.copy(checkpoint, self.checkpoints.names())
                self._copy_failed = None
            except OSError as error:
                self._copy_failed = error
        return checkpoint

    def poll(self) -> None:
        """Tell of a failure if there is one to tell of."""
        if self._writing is not None and self._writing.done():
            self.wait()

    def wait(self) -> None:
        """Until what was begun is on the disk, and copied."""
        writing, self._writing = self._writing, None
        if writing is not None:
            self.attempt(self.checkpoints.directory, writing.result, self._keep)
            if self.mirror is not None:
                self.attempt(self.mirror.address, self._copied, vital=self._copy_is_vital)

    def copy_files(self, paths: Sequence[Path]) -> None:
        """Copy files that are no checkpoint, if there is a mirror."""
        if (mirror := self.mirror) is not None:
            self.attempt(
                mirror.address, lambda: mirror.copy_files(paths), vital=self._copy_is_vital
            )

    def _copied(self) -> None:
        if self._copy_failed is not None:
            raise self._copy_failed

    def attempt(
        self,
        path: Path | str,
        write: Callable[[], Any],
        then: Callable[[Any], None] | None = None,
        vital: bool = True,
    ) -> bool:
        """Write something. Where that fails, say so once and return False, or, if the settings
        say so and it is vital, raise SaveFailed."""
        try:
            self.check()
            result = write()
        except OSError as error:
            last = (
                f"the last good checkpoint is {self.last.path}"
                if self.last
                else "there is no checkpoint yet"
            )
            reason = f"cannot write to {path}: {error.strerror or error}; {last}"
            if self.when_failed == "stop" and vital:
                raise SaveFailed(reason) from None
            if path not in self._failing:
                say(f"{reason}; going on")
            self._failing.add(path)
            return False
        self._failing.discard(path)
        if then is not None:
            then(result)
        return True

    def _keep(self, checkpoint: Checkpoint) -> None:
        self.last = checkpoint

    def close(self) -> None:
        """Wait for what is being written. What goes wrong in it has been told, or is told by
        `wait` before."""
        self._pool.shutdown()
