"""The lock on a run directory: one process trains it at a time, on this machine or on any that
shares its file system.

It is a lock on a file in the directory, opened for writing: that is what NFS, too, passes on to
other machines. The system releases it when the process ends, in whatever way. The file stays; it
is empty.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import time
from pathlib import Path
from types import TracebackType

from hindsight.errors import HindsightError

LOCK = "lock"


class RunLock:
    """Held from the moment it is made until it is closed. Raises HindsightError if another
    process has it."""

    def __init__(self, directory: Path) -> None:
        self.path = directory / LOCK
        self._descriptor = _open(self.path, os.O_RDWR | os.O_CREAT)
        try:
            self._take(directory)
            self.check()
        except BaseException:
            self.close()
            raise

    def _take(self, directory: Path) -> None:
        if not stat.S_ISREG(os.fstat(self._descriptor).st_mode):
            raise HindsightError(f"{self.path} is not a plain file; remove it, if it is yours")
        for attempt in range(10):
            try:
                return fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if attempt < 9:  # whoever asks `is_held` has it for a moment
                    time.sleep(0.02)
            except OSError as error:
                raise HindsightError(f"cannot lock {directory}: {error.strerror}") from None
        raise HindsightError(f"{directory} is being trained by another process")

    def check(self) -> None:
        """Raise OSError if the directory is no longer there under its name: what is written
        would go elsewhere."""
        here, held = os.lstat(self.path), os.fstat(self._descriptor)
        if (here.st_dev, here.st_ino) != (held.st_dev, held.st_ino):
            raise OSError(errno.ESTALE, "the directory has been moved or replaced")

    def close(self) -> None:
        os.close(self._descriptor)

    def __enter__(self) -> RunLock:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def is_held(directory: Path) -> bool:
    """Whether a process trains a run now, as far as can be told."""
    try:
        descriptor = os.open(
            directory / LOCK, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        )
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return False


def _open(path: Path, flags: int) -> int:
    try:
        return os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o666)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise HindsightError(f"{path} is a link: nothing in a run may be one") from None
        raise HindsightError(f"cannot write to {path.parent}: {error.strerror}") from None
