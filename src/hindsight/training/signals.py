"""SIGINT, SIGTERM and SIGHUP during a training: the first asks it to stop at the next safe
point, a second stops at once."""

from __future__ import annotations

import os
import select
import signal
import sys
import threading
from types import FrameType, TracebackType
from typing import Any

from hindsight.errors import say

CAUGHT = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
LIFELINE = "HINDSIGHT_LIFELINE"
"""Environment variable: a file descriptor that hangs up when the parent ends, in whatever way.
Then we stop, too."""


class StopSignals:
    """While it is entered, signals are noted instead of raised: an exception could be lost in a
    destructor, or in one of JAX's callbacks.

    The second one is the system's own again: it ends the process at once, whatever it is doing;
    in a notebook or at a Python prompt, where more than this training would be lost, it is
    Python's own. Only a program's main thread can handle signals; in other threads this does
    nothing. Entered within another, it is that one: the command line enters it before JAX is
    imported, so that no signal is lost before the first cycle.
    """

    _entered: StopSignals | None = None

    def __init__(self) -> None:
        self.received: signal.Signals | None = None
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> StopSignals:
        if threading.current_thread() is not threading.main_thread():
            return self
        if StopSignals._entered is not None:
            return StopSignals._entered
        StopSignals._entered = self
        for number in CAUGHT:
            before = signal.getsignal(number)
            if number == signal.SIGHUP and before == signal.SIG_IGN:
                continue  # by nohup: the terminal may go
            self._before[number] = before
            signal.signal(number, self._note)
        _watch_parent()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if StopSignals._entered is self:
            StopSignals._entered = None
            for number, before in self._before.items():
                signal.signal(number, signal.SIG_DFL if before is None else before)

    def check(self, message: str = "stopped before it began") -> None:
        """Raise what a signal stands for, if one was received: KeyboardInterrupt, or SystemExit."""
        if self.received is None:
            return
        if self.received == signal.SIGINT:
            raise KeyboardInterrupt(message)
        say(message)
        raise SystemExit(128 + self.received)

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.received = signal.Signals(number)
        interactive = hasattr(sys, "ps1") or "ipykernel" in sys.modules
        for each, before in self._before.items():
            signal.signal(each, before if interactive and before is not None else signal.SIG_DFL)
        say("stopping after this cycle; once more stops at once")


def _watch_parent() -> None:
    """If our parent gave us a lifeline, end as by SIGTERM when it is cut."""
    lifeline = os.environ.pop(LIFELINE, "")
    if not lifeline.isdigit():
        return

    def watch(descriptor: int) -> None:
        wait_for_hangup(descriptor)
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, args=(int(lifeline),), daemon=True).start()


def wait_for_hangup(descriptor: int) -> None:
    """Return when the other end of a pipe or socket is closed, as it is when its process ends."""
    poll = select.poll()
    poll.register(descriptor, 0)  # a hang-up is told without being asked for
    poll.poll()
