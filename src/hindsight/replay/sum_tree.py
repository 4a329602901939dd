"""Proportional priorities: a sum tree over a fixed array of entries. P(i) = p_i^alpha / sum_j
p_j^alpha."""

from __future__ import annotations

import numpy as np

from hindsight.compiled import compiled
from hindsight.errors import HindsightError
from hindsight.replay.priority_index import check_ids, check_priorities, distinct, strata
from hindsight.saving.tree import State, fitting
from hindsight.types import Array, Floats64, Ints

FAN = 8  # children per node: eight float64 are one cache line
FLAT = 0.01
"""Below this alpha, p^alpha is so near 1 for every p that p cannot be told from it."""
SMALLEST, LARGEST = 1e-300, 1e290
"""Of p^alpha; 10^18 of the largest have a finite sum."""


class SumTree:
    """Entries 0..capacity-1, each with a priority; entries without one, or with priority 0, are
    never drawn.

    Level 0 holds p^alpha of the entries, each level above the sums of FAN nodes of the one
    below, the last one the total. A sum is always that of its children as they are: recomputed,
    not adjusted, so it does not drift. float64; 9 bytes per entry. No priority above 0 is so
    small that it is never drawn, nor so large that the total is infinite: p^alpha stays within
    SMALLEST and LARGEST.
    """

    def __init__(self, capacity: int, alpha: float = 0.6) -> None:
        self.capacity = capacity
        self.alpha = alpha
        sizes = [-(-capacity // FAN) * FAN]
        while sizes[-1] > 1:
            nodes = sizes[-1] // FAN
            sizes.append(1 if nodes == 1 else -(-nodes // FAN) * FAN)
        self._starts: Ints = np.concatenate([[0], np.cumsum(sizes)])  # of the levels in the tree
        self._tree = np.zeros(int(self._starts[-1]))
        self._count = np.zeros(1, np.int64)
        # p^alpha tells no more what p was: it is kept, too.
        self._flat = np.zeros(capacity) if alpha < FLAT else None

    def __len__(self) -> int:
        """Entries that can be drawn."""
        return int(self._count[0])

    @property
    def nbytes(self) -> int:
        return int(self._tree.nbytes)

    def set(self, ids: Ints, priorities: Array) -> None:
        """Give entries [n] their priorities [n]. Of an entry that is named twice, the last one
        counts."""
        ids, values = check_ids(ids, self.capacity), check_priorities(priorities)
        with np.errstate(over="ignore", under="ignore"):
            mass = np.clip(values**self.alpha, SMALLEST, LARGEST)
        _set(self._tree, self._starts, self._count, ids, np.where(values > 0, mass, 0.0))
        if self._flat is not None:
            self._flat[ids] = values

    def remove(self, ids: Ints) -> None:
        """These entries are not drawn any more."""
        ids = check_ids(ids, self.capacity)
        _set(self._tree, self._starts, self._count, ids, np.zeros(len(ids)))
        if self._flat is not None:
            self._flat[ids] = 0.0

    @property
    def total(self) -> float:
        """Sum of all p^alpha."""
        return float(self._tree[-1])

    def priority(self, ids: Ints) -> Floats64:
        """The priority of each entry; 0 without one."""
        values: Floats64 = self._tree[ids] if self._flat is None else self._flat[ids]
        return values ** (1.0 / self.alpha) if self._flat is None else values

    def largest(self) -> float:
        """The largest priority; 0 if there is none."""
        if self._flat is not None:
            return float(self._flat.max())
        top: float = float(self._tree[: self.capacity].max()) ** (1.0 / self.alpha)
        return top

    def probability(self, ids: Ints) -> Floats64:
        """Exact probability of each entry in one draw."""
        shares: Floats64 = self._tree[ids] / self._tree[-1]
        return shares

    def sample(
        self, n: int, rng: np.random.Generator, stratified: bool = True
    ) -> tuple[Ints, Floats64]:
        """n entries, drawn with replacement, and the probability of each in one draw."""
        ids = _draw(self._tree, self._starts, strata(n, self.total, rng, stratified))
        return ids, self.probability(ids)

    def export_state(self) -> State:
        """The entries that can be drawn, and p^alpha of each: the sums above them follow."""
        entries = np.flatnonzero(self._tree[: self.capacity]).astype(np.int32)
        state = {"entries": entries, "mass": self._tree[entries]}
        return state if self._flat is None else state | {"priority": self._flat[entries]}

    def restore_state(self, state: State) -> None:
        entries = distinct(state["entries"], self.capacity)
        mass = fitting(state["mass"], "mass", entries.shape, np.float64)
        if not (np.isfinite(mass).all() and (mass > 0).all()):
            raise HindsightError("mass must be finite and more than 0")
        if self._flat is not None:
            saved = fitting(state["priority"], "priority", entries.shape, np.float64)
            self._flat[:] = 0.0
            self._flat[entries] = check_priorities(saved)
        self._tree[:] = 0.0
        self._tree[entries] = mass
        self._count[0] = len(entries)
        _sum_up(self._tree, self._starts)


@compiled
def _set(tree: Floats64, starts: Ints, count: Ints, ids: Ints, values: Floats64) -> None:
    for j in range(len(ids)):
        count[0] += (values[j] > 0.0) - (tree[ids[j]] > 0.0)
        tree[ids[j]] = values[j]
    for j in range(len(ids)):
        node = ids[j]
        for level in range(len(starts) - 2):
            first = starts[level] + node // FAN * FAN
            total = 0.0
            for child in range(first, first + FAN):
                total += tree[child]
            node //= FAN
            tree[starts[level + 1] + node] = total


@compiled
def _sum_up(tree: Floats64, starts: Ints) -> None:
    """All sums, from those of the entries."""
    for level in range(len(starts) - 2):
        for node in range((starts[level + 1] - starts[level]) // FAN):
            total = 0.0
            for child in range(starts[level] + node * FAN, starts[level] + (node + 1) * FAN):
                total += tree[child]
            tree[starts[level + 1] + node] = total


@compiled
def _draw(tree: Floats64, starts: Ints, targets: Floats64) -> Ints:
    """The entries in whose share of the total the targets fall. Only nodes with a positive sum
    are entered."""
    ids = np.empty(len(targets), np.int64)
    for j in range(len(targets)):
        target, node = targets[j], 0
        for level in range(len(starts) - 3, -1, -1):
            first = node * FAN
            node = -1
            for child in range(first, first + FAN):
                mass = tree[starts[level] + child]
                if mass > 0.0:
                    node = child
                    if target < mass:
                        break
                    target -= mass
        ids[j] = node
    return ids
