"""SIGINT and SIGTERM during a training: the first asks it to stop at the next safe point, a second stops at once."""

from __future__ import annotations

import signal
import sys
import threading
from types import FrameType, TracebackType
from typing import Any

CAUGHT = (signal.SIGINT, signal.SIGTERM)


class StopSignals:
    """While it is entered, signals are noted instead of raised; a handler cannot be lost in a destructor.

    The second one is the system's own again: it ends the process at once, whatever it is doing; in a notebook or at a
    Python prompt, where more than this training would be lost, it is Python's own. Only a program's main thread can
    handle signals; in other threads this does nothing.
    """

    def __init__(self) -> None:
        self.received: signal.Signals | None = None
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> StopSignals:
        if threading.current_thread() is threading.main_thread():
            self._before = {number: signal.signal(number, self._note) for number in CAUGHT}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, before in self._before.items():
            signal.signal(number, signal.SIG_DFL if before is None else before)

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.received = signal.Signals(number)
        interactive = hasattr(sys, "ps1") or "ipykernel" in sys.modules
        for each, before in self._before.items():
            signal.signal(each, before if interactive and before is not None else signal.SIG_DFL)
        print("\nhindsight: stopping after this cycle; once more stops at once", file=sys.stderr, flush=True)
