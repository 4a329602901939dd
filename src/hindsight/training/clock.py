"""Wall time by activity, as metrics."""

from __future__ import annotations

import time

from hindsight.saving.tree import State


class Clock:
    """Wall time by activity. These metrics are the only ones that differ between equal runs."""

    def __init__(self) -> None:
        self.start = self.last = time.perf_counter()
        self.laps: dict[str, float] = {}

    def lap(self, name: str) -> None:
        now = time.perf_counter()
        self.laps[name] = self.laps.get(name, 0.0) + now - self.last
        self.last = now

    def metrics(self) -> dict[str, float]:
        self.lap("other")
        return {"time/total": self.last - self.start} | {
            f"time/{name}": t for name, t in self.laps.items()
        }

    def export_state(self) -> State:
        return {"total": time.perf_counter() - self.start, "laps": dict(self.laps)}

    def restore_state(self, state: State) -> None:
        """Go on counting from there: the time in between does not count."""
        self.last = time.perf_counter()
        self.start = self.last - float(state["total"])
        self.laps = {str(name): float(seconds) for name, seconds in state["laps"].items()}
