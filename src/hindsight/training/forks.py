"""JAX's threads do not live on in a forked process: what waits for them waits for ever. Training
there is refused."""

from __future__ import annotations

import os
import sys

from hindsight.errors import HindsightError

_forked = False


def _note_fork() -> None:
    """In a new process: whether JAX had started its threads in the old one."""
    global _forked
    bridge = sys.modules.get("jax._src.xla_bridge")
    started = getattr(bridge, "backends_are_initialized", lambda: bridge is not None)
    _forked = _forked or bool(started())


os.register_at_fork(after_in_child=_note_fork)


def refuse_fork() -> None:
    """Raise HindsightError in a process that was forked from one that had used JAX."""
    if _forked:
        raise HindsightError(
            "this process was forked from one that had used JAX, whose threads do not survive "
            "that: start it by "
            "multiprocessing's spawn or forkserver, or as a program of its own"
        )
