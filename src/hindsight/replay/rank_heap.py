"""Rank-based priorities as the paper keeps them: a binary heap whose array position stands for the
rank.

Positions are ranks only roughly: a heap puts every entry before its children, no more. Like the
paper's code, and unlike Schaul et al. (2015), nothing ever sorts it. `RankOrder` is exact at all
times.
"""

from __future__ import annotations

import numpy as np

from hindsight.compiled import compiled
from hindsight.replay.priority_index import FLOAT32_MAX, check_ids, check_priorities, distinct
from hindsight.replay.rank_order import RankWeights
from hindsight.saving.tree import State, fitting
from hindsight.types import Array, Bools, Floats64, Ints


class RankHeap:
    """Entries 0..capacity-1 in a max-heap by priority (float32). 12 bytes per entry."""

    def __init__(self, capacity: int, alpha: float = 0.7, per_rank: int = 1) -> None:
        self.capacity = capacity
        self.weights = RankWeights(alpha, per_rank)
        self._priority = np.zeros(capacity, np.float32)
        self._heap = np.zeros(capacity, np.int32)  # entries by position
        self._position = np.full(capacity, -1, np.int32)  # -1: not in the heap
        self._size = np.zeros(1, np.int64)

    def __len__(self) -> int:
        return int(self._size[0])

    @property
    def nbytes(self) -> int:
        return int(self._priority.nbytes + self._heap.nbytes + self._position.nbytes)

    def set(self, ids: Ints, priorities: Array) -> None:
        """Give entries [n] their priorities [n]. Of an entry that is named twice, the last one
        counts."""
        ids, values = (
            check_ids(ids, self.capacity),
            check_priorities(priorities, FLOAT32_MAX).astype(np.float32),
        )
        _set(self._priority, self._heap, self._position, self._size, ids, values)

    def remove(self, ids: Ints) -> None:
        """These entries are not drawn any more."""
        _remove(
            self._priority, self._heap, self._position, self._size, check_ids(ids, self.capacity)
        )

    def rank(self, ids: Ints) -> Ints:
        """Positions in the heap, counted from 0."""
        return self._position[ids].astype(np.int64)

    def priority(self, ids: Ints) -> Floats64:
        """The priority of each entry; 0 without one."""
        return np.where(self._position[ids] >= 0, self._priority[ids], 0.0).astype(np.float64)

    def largest(self) -> float:
        """The largest priority; 0 if there is none."""
        return float(self._priority[self._heap[0]]) if len(self) else 0.0

    def probability(self, ids: Ints) -> Floats64:
        """Exact probability of each entry in one draw; 0 without a priority."""
        stored: Bools = self._position[ids] >= 0
        result = np.zeros(len(ids))
        result[stored] = self.weights.probability(self.rank(ids[stored]), len(self))
        return result

    def sample(
        self, n: int, rng: np.random.Generator, stratified: bool = True
    ) -> tuple[Ints, Floats64]:
        """n entries, drawn with replacement, and the probability of each in one draw."""
        ranks, probabilities = self.weights.sample(n, len(self), rng, stratified)
        return self._heap[ranks].astype(np.int64), probabilities

    def export_state(self) -> State:
        """The entries in the order of the heap, and their priorities."""
        heap = self._heap[: len(self)].copy()
        return {"entries": heap, "priority": self._priority[heap]}

    def restore_state(self, state: State) -> None:
        entries = distinct(state["entries"], self.capacity)
        priorities = fitting(state["priority"], "priority", entries.shape, np.float32)
        check_priorities(priorities, FLOAT32_MAX)
        self._heap[: len(entries)] = entries
        self._priority[entries] = priorities
        self._position[:] = -1
        self._position[entries] = np.arange(len(entries))
        self._size[0] = len(entries)


@compiled
def _place(heap: Array, position: Array, at: int, entry: int) -> None:
    heap[at] = entry
    position[entry] = at


@compiled
def _sift(priority: Array, heap: Array, position: Array, size: int, at: int) -> None:
    """Move the entry at a position up or down to where it belongs."""
    entry = heap[at]
    while at > 0 and priority[heap[(at - 1) >> 1]] < priority[entry]:
        _place(heap, position, at, heap[(at - 1) >> 1])
        at = (at - 1) >> 1
    while 2 * at + 1 < size:
        child = 2 * at + 1
        if child + 1 < size and priority[heap[child + 1]] > priority[heap[child]]:
            child += 1
        if priority[heap[child]] <= priority[entry]:
            break
        _place(heap, position, at, heap[child])
        at = child
    _place(heap, position, at, entry)


@compiled
def _set(
    priority: Array, heap: Array, position: Array, size: Array, ids: Ints, values: Array
) -> None:
    for j in range(len(ids)):
        entry = ids[j]
        priority[entry] = values[j]
        if position[entry] < 0:
            _place(heap, position, size[0], entry)
            size[0] += 1
        _sift(priority, heap, position, size[0], position[entry])


@compiled
def _remove(priority: Array, heap: Array, position: Array, size: Array, ids: Ints) -> None:
    for j in range(len(ids)):
        at = position[ids[j]]
        if at < 0:
            continue
        size[0] -= 1
        position[ids[j]] = -1
        if at < size[0]:
            _place(heap, position, at, heap[size[0]])
            _sift(priority, heap, position, size[0], at)
