"""Rank-based priorities with exact ranks: P(i) proportional to (1 / rank(i))^alpha, rank 1 the largest priority.

The entries are kept in order in blocks of at most BLOCK; moving one touches its old and its new block only. A block
that is full splits; when no block is free, all are packed anew, which happens so rarely that it does not count.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from hindsight.replay.priorities import FLOAT32_MAX, check_ids, check_priorities, distinct, strata
from hindsight.saving.tree import State, fitting
from hindsight.types import Array, Bools, Floats64, Ints

SUMS = 1 << 16  # how many sums of weights are added at a time
BLOCK = 512
PACKED = 384  # entries per block after packing


class RankWeights:
    """The sums 1, 1 + 2^-alpha, 1 + 2^-alpha + 3^-alpha, ...

    Those for n entries begin those for n + 1, so one array serves every size; it grows with the buffer, piece by
    piece, so that the sums do not depend on when it grew.
    """

    def __init__(self, alpha: float) -> None:
        self.alpha = alpha
        self._sums = np.zeros(0)

    def sums(self, n: int) -> Floats64:
        """The first n sums."""
        if len(self._sums) < n:
            parts = [self._sums]
            for known in range(len(self._sums), max(n, 2 * len(self._sums)), SUMS):
                ranks = np.arange(known + 1, known + SUMS + 1, dtype=np.float64)
                start = parts[-1][-1] if known else 0.0
                parts.append(start + np.cumsum(ranks**-self.alpha))
            self._sums = np.concatenate(parts)
        return self._sums[:n]

    def sample(self, n: int, entries: int, rng: np.random.Generator, stratified: bool) -> tuple[Ints, Floats64]:
        """n ranks, counted from 0, of so many entries, and their probabilities."""
        if entries == 0:
            strata(n, 0.0, rng, stratified)
        sums = self.sums(entries)
        ranks = np.searchsorted(sums, strata(n, float(sums[-1]), rng, stratified), side="right")
        ranks = np.minimum(ranks, entries - 1)
        return ranks, self.probability(ranks, entries)

    def probability(self, ranks: Ints, entries: int) -> Floats64:
        shares: Floats64 = (ranks + 1.0) ** -self.alpha / self.sums(entries)[-1]
        return shares


class RankOrder:
    """Entries 0..capacity-1 in the order of their priorities (float32; equal ones by number)."""

    def __init__(self, capacity: int, alpha: float = 0.7) -> None:
        self.capacity = capacity
        self.weights = RankWeights(alpha)
        blocks = -(-capacity // PACKED) * 5 // 4 + 4
        self._priority = np.zeros(capacity, np.float32)
        self._block = np.full(capacity, -1, np.int32)  # where an entry is; -1: nowhere
        self._entries = np.zeros((blocks, BLOCK), np.int32)
        self._count = np.zeros(blocks, np.int32)
        self._order = np.zeros(blocks, np.int32)  # blocks in use, in order of priority, then the free ones
        self._order[:] = np.arange(blocks)
        self._used = np.ones(1, np.int64)  # how many are in use

    def __len__(self) -> int:
        return int(self._count.sum())

    def set(self, ids: Ints, priorities: Array) -> None:
        """Give entries [n] their priorities [n]. Of an entry that is named twice, the last one counts."""
        ids, values = check_ids(ids, self.capacity), check_priorities(priorities, FLOAT32_MAX).astype(np.float32)
        _set(self._priority, self._block, self._entries, self._count, self._order, self._used, ids, values)

    def remove(self, ids: Ints) -> None:
        """These entries are not drawn any more."""
        ids = check_ids(ids, self.capacity)
        _remove(self._priority, self._block, self._entries, self._count, self._order, self._used, ids)

    def rank(self, ids: Ints) -> Ints:
        """Ranks, counted from 0, of entries that have a priority."""
        return _rank(self._priority, self._block, self._entries, self._count, self._order, self._used, ids)

    def priority(self, ids: Ints) -> Floats64:
        """The priority of each entry; 0 without one."""
        return np.where(self._block[ids] >= 0, self._priority[ids], 0.0).astype(np.float64)

    def largest(self) -> float:
        """The largest priority; 0 if there is none."""
        return float(self._priority[self._entries[self._order[0], 0]]) if len(self) else 0.0

    def probability(self, ids: Ints) -> Floats64:
        """Exact probability of each entry in one draw; 0 without a priority."""
        stored: Bools = self._block[ids] >= 0
        result = np.zeros(len(ids))
        result[stored] = self.weights.probability(self.rank(ids[stored]), len(self))
        return result

    def sample(self, n: int, rng: np.random.Generator, stratified: bool = True) -> tuple[Ints, Floats64]:
        """n entries, drawn with replacement, and the probability of each in one draw."""
        ranks, probabilities = self.weights.sample(n, len(self), rng, stratified)
        return _at(self._entries, self._count, self._order, self._used, ranks), probabilities

    def export_state(self) -> State:
        """The entries and their priorities: their order, and so all that is drawn, follows from these."""
        entries = np.flatnonzero(self._block >= 0).astype(np.int32)
        return {"entries": entries, "priority": self._priority[entries]}

    def restore_state(self, state: State) -> None:
        entries = distinct(state["entries"], self.capacity)
        priorities = fitting(state["priority"], "priority", entries.shape, np.float32)
        check_priorities(priorities, FLOAT32_MAX)
        ordered = entries[np.lexsort((entries, -priorities))]
        self._priority[entries] = priorities
        used = max(1, -(-len(entries) // PACKED))
        block = np.arange(len(entries)) // PACKED
        self._entries[block, np.arange(len(entries)) % PACKED] = ordered
        self._block[:] = -1
        self._block[ordered] = block
        self._count[:] = np.bincount(block, minlength=len(self._count))
        self._order[:] = np.arange(len(self._order))
        self._used[0] = used


@njit(cache=True)
def _before(priority: Array, a: int, b: int) -> bool:
    """Whether entry a comes before entry b."""
    return priority[a] > priority[b] or (priority[a] == priority[b] and a < b)


@njit(cache=True)
def _find(priority: Array, row: Array, count: int, entry: int) -> int:
    """How many entries of a block come before this one: its position if it is there, else where it belongs."""
    low, high = 0, count
    while low < high:
        middle = (low + high) >> 1
        if _before(priority, row[middle], entry):
            low = middle + 1
        else:
            high = middle
    return low


@njit(cache=True)
def _take_out(
    priority: Array, block: Array, entries: Array, count: Array, order: Array, used: Array, entry: int
) -> None:
    b = block[entry]
    row, n = entries[b], count[b]
    position = _find(priority, row, n, entry)
    for k in range(position, n - 1):
        row[k] = row[k + 1]
    count[b] = n - 1
    block[entry] = -1
    if n == 1 and used[0] > 1:  # give the empty block back
        at = 0
        while order[at] != b:
            at += 1
        for k in range(at, used[0] - 1):
            order[k] = order[k + 1]
        used[0] -= 1
        order[used[0]] = b


@njit(cache=True)
def _put_in(priority: Array, block: Array, entries: Array, count: Array, order: Array, used: Array, entry: int) -> None:
    low, high = 0, used[0] - 1  # the first block whose last entry does not come before the new one, or the last block
    while low < high:
        middle = (low + high) >> 1
        b = order[middle]
        if count[b] > 0 and _before(priority, entries[b, count[b] - 1], entry):
            low = middle + 1
        else:
            high = middle
    b = order[low]
    if count[b] == BLOCK:
        if used[0] == len(order):
            _pack(block, entries, count, order, used)
            _put_in(priority, block, entries, count, order, used, entry)
            return
        _split(block, entries, count, order, used, low)
        if _before(priority, entries[b, count[b] - 1], entry):
            b = order[low + 1]
    row, n = entries[b], count[b]
    position = _find(priority, row, n, entry)
    for k in range(n, position, -1):
        row[k] = row[k - 1]
    row[position] = entry
    count[b] = n + 1
    block[entry] = b


@njit(cache=True)
def _split(block: Array, entries: Array, count: Array, order: Array, used: Array, at: int) -> None:
    """Move the second half of a full block into a free one behind it."""
    old, new = order[at], order[used[0]]
    for k in range(used[0], at + 1, -1):
        order[k] = order[k - 1]
    order[at + 1] = new
    used[0] += 1
    half = BLOCK // 2
    for k in range(half, BLOCK):
        entries[new, k - half] = entries[old, k]
        block[entries[old, k]] = new
    count[old], count[new] = half, BLOCK - half


@njit(cache=True)
def _pack(block: Array, entries: Array, count: Array, order: Array, used: Array) -> None:
    """Spread all entries over as few blocks as PACKED allows."""
    total = 0
    for k in range(used[0]):
        total += count[order[k]]
    ids = np.empty(total, np.int32)
    j = 0
    for k in range(used[0]):
        b = order[k]
        for i in range(count[b]):
            ids[j] = entries[b, i]
            j += 1
    for b in range(len(order)):
        order[b], count[b] = b, 0
    for j in range(total):
        b = j // PACKED
        entries[b, count[b]] = ids[j]
        count[b] += 1
        block[ids[j]] = b
    used[0] = max(1, (total + PACKED - 1) // PACKED)


@njit(cache=True)
def _set(
    priority: Array, block: Array, entries: Array, count: Array, order: Array, used: Array, ids: Ints, values: Array
) -> None:
    for j in range(len(ids)):
        entry = ids[j]
        if block[entry] >= 0:
            _take_out(priority, block, entries, count, order, used, entry)
        priority[entry] = values[j]
        _put_in(priority, block, entries, count, order, used, entry)


@njit(cache=True)
def _remove(priority: Array, block: Array, entries: Array, count: Array, order: Array, used: Array, ids: Ints) -> None:
    for j in range(len(ids)):
        if block[ids[j]] >= 0:
            _take_out(priority, block, entries, count, order, used, ids[j])


@njit(cache=True)
def _rank(priority: Array, block: Array, entries: Array, count: Array, order: Array, used: Array, ids: Ints) -> Ints:
    before = np.zeros(len(order), np.int64)  # by block: how many entries come before it
    total = 0
    for k in range(used[0]):
        before[order[k]] = total
        total += count[order[k]]
    ranks = np.empty(len(ids), np.int64)
    for j in range(len(ids)):
        b = block[ids[j]]
        ranks[j] = before[b] + _find(priority, entries[b], count[b], ids[j])
    return ranks


@njit(cache=True)
def _at(entries: Array, count: Array, order: Array, used: Array, ranks: Ints) -> Ints:
    ends = np.empty(used[0], np.int64)
    total = 0
    for k in range(used[0]):
        total += count[order[k]]
        ends[k] = total
    ids = np.empty(len(ranks), np.int64)
    for j in range(len(ranks)):
        k = np.searchsorted(ends, ranks[j], side="right")
        b = order[k]
        ids[j] = entries[b, ranks[j] - (ends[k] - count[b])]
    return ids
