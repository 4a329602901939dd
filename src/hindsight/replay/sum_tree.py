"""Proportional priorities: a sum tree over a fixed array of entries. P(i) = p_i^alpha / sum_j p_j^alpha."""

from __future__ import annotations

import numpy as np
from numba import njit

from hindsight.errors import HindsightError
from hindsight.replay.priorities import check_ids, check_priorities, distinct, strata
from hindsight.saving.tree import State, fitting
from hindsight.types import Array, Floats64, Ints


class SumTree:
    """Entries 0..capacity-1, each with a priority; entries without one, or with priority 0, are never drawn.

    Leaf i is node capacity + i, node 1 is the root, and a parent is always the sum of its children as they are: sums
    are recomputed, not adjusted, so they do not drift. float64; 16 bytes per entry.
    """

    def __init__(self, capacity: int, alpha: float = 0.6) -> None:
        self.capacity = capacity
        self.alpha = alpha
        self._tree = np.zeros(2 * capacity)
        self._count = np.zeros(1, np.int64)

    def __len__(self) -> int:
        """Entries that can be drawn."""
        return int(self._count[0])

    def set(self, ids: Ints, priorities: Array) -> None:
        """Give entries [n] their priorities [n]. Of an entry that is named twice, the last one counts."""
        ids, values = check_ids(ids, self.capacity), check_priorities(priorities)
        masses = np.where(values > 0, values**self.alpha, 0.0)
        _set(self._tree, self._count, self.capacity, ids, masses)

    def remove(self, ids: Ints) -> None:
        """These entries are not drawn any more."""
        ids = check_ids(ids, self.capacity)
        _set(self._tree, self._count, self.capacity, ids, np.zeros(len(ids)))

    @property
    def total(self) -> float:
        """Sum of all p^alpha."""
        return float(self._tree[1])

    def priority(self, ids: Ints) -> Floats64:
        """The priority of each entry; 0 without one."""
        values: Floats64 = self._tree[self.capacity + ids]
        return values if self.alpha == 0 else values ** (1.0 / self.alpha)

    def largest(self) -> float:
        """The largest priority; 0 if there is none."""
        top = float(self._tree[self.capacity :].max())
        return top if self.alpha == 0 else top ** (1.0 / self.alpha)

    def probability(self, ids: Ints) -> Floats64:
        """Exact probability of each entry in one draw."""
        shares: Floats64 = self._tree[self.capacity + ids] / self._tree[1]
        return shares

    def sample(self, n: int, rng: np.random.Generator, stratified: bool = True) -> tuple[Ints, Floats64]:
        """n entries, drawn with replacement, and the probability of each in one draw."""
        ids = _draw(self._tree, self.capacity, strata(n, self.total, rng, stratified))
        return ids, self.probability(ids)

    def export_state(self) -> State:
        """The entries that can be drawn, and p^alpha of each: the sums above them follow."""
        entries = np.flatnonzero(self._tree[self.capacity :]).astype(np.int32)
        return {"entries": entries, "mass": self._tree[self.capacity + entries]}

    def restore_state(self, state: State) -> None:
        entries = distinct(state["entries"], self.capacity)
        mass = fitting(state["mass"], "mass", entries.shape, np.float64)
        if not (np.isfinite(mass).all() and (mass > 0).all()):
            raise HindsightError("mass must be finite and more than 0")
        self._tree[:] = 0.0
        self._tree[self.capacity + entries] = mass
        self._count[0] = len(entries)
        _sum_up(self._tree, self.capacity)


@njit(cache=True)
def _set(tree: Floats64, count: Ints, capacity: int, ids: Ints, values: Floats64) -> None:
    for j in range(len(ids)):
        leaf = capacity + ids[j]
        count[0] += (values[j] > 0.0) - (tree[leaf] > 0.0)
        tree[leaf] = values[j]
    for j in range(len(ids)):
        node = (capacity + ids[j]) >> 1
        while node >= 1:
            tree[node] = tree[2 * node] + tree[2 * node + 1]
            node >>= 1


@njit(cache=True)
def _sum_up(tree: Floats64, capacity: int) -> None:
    for node in range(capacity - 1, 0, -1):
        tree[node] = tree[2 * node] + tree[2 * node + 1]


@njit(cache=True)
def _draw(tree: Floats64, capacity: int, targets: Floats64) -> Ints:
    """The entries in whose share of the total the targets fall. Only nodes with a positive sum are entered."""
    ids = np.empty(len(targets), np.int64)
    for j in range(len(targets)):
        target, node = targets[j], 1
        while node < capacity:
            left, right = tree[2 * node], tree[2 * node + 1]
            if target < left or right <= 0.0:
                node = 2 * node
            else:
                target -= left
                node = 2 * node + 1
        ids[j] = node - capacity
    return ids
