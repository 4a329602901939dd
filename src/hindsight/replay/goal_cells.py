"""How hard goals are for many states: the mean TD error of all pairs whose goals are near."""

from __future__ import annotations

import numpy as np

from hindsight.saving.tree import State, fitting
from hindsight.types import Array, Floats64, Ints

CELLS = 4096
ACROSS = 16
"""Cells along the range of the first goals, in each direction."""
KEPT = 0.995
"""Share of what a cell knows that it keeps at each push."""


class GoalCells:
    """A grid over goals, hashed to a table: sums of |TD error| and how many there were."""

    def __init__(self) -> None:
        self.origin, self.width = np.zeros(0), np.zeros(0)
        self.table = np.zeros((2, CELLS))

    def means(self, goals: Array, errors: Floats64) -> Floats64:
        """The mean error [n] near each goal [n, g], relative to that of all; these errors
        included."""
        if not len(self.origin):
            self.origin = goals.min(axis=0).astype(np.float64)
            self.width = np.maximum(np.ptp(goals, axis=0).astype(np.float64) / ACROSS, 1e-6)
        cells = self._cells(goals)
        self.table *= KEPT
        self.table[0] += np.bincount(cells, errors, CELLS)
        self.table[1] += np.bincount(cells, minlength=CELLS)
        total, count = self.table[:, cells]
        overall = self.table[0].sum() / self.table[1].sum()
        means: Floats64 = total / count / max(overall, 1e-12)
        return means

    def _cells(self, goals: Array) -> Ints:
        numbers = np.floor((goals - self.origin) / self.width).astype(np.int64)
        primes = np.array([73856093, 19349663, 83492791, 2654435761])
        mixed: Ints = (numbers * np.resize(primes, numbers.shape[1])).sum(axis=1) % CELLS
        return mixed

    def export_state(self) -> State:
        return {
            "origin": self.origin.copy(),
            "width": self.width.copy(),
            "table": self.table.copy(),
        }

    def restore_state(self, state: State) -> None:
        shape = np.shape(state["origin"])
        self.origin = fitting(state["origin"], "origin", shape, np.float64)
        self.width = fitting(state["width"], "width", shape, np.float64)
        self.table[:] = fitting(state["table"], "table", self.table.shape, np.float64)
