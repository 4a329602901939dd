"""Rank-based priorities with exact ranks: P(i) proportional to (1 / rank(i))^alpha, rank 1 the
largest priority.

The entries are kept in order in blocks of at most BLOCK, each entry with its priority beside it;
moving one touches its old and its new block only. A block that is full splits; when no block is
free, all are packed anew, which happens so rarely that it does not count.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from hindsight.compiled import compiled
from hindsight.replay.priority_index import (
    FLOAT32_MAX,
    check_ids,
    check_priorities,
    distinct,
    strata,
)
from hindsight.saving.tree import State, fitting
from hindsight.types import Array, Bools, Floats64, Ints

SUMS = (
    1 << 16
)  # how many sums of weights are added at a time, so that they do not depend on how it grew
BLOCK = 128
PACKED = 112  # entries per block after packing
LINE = 16  # of so many numbers, one is read to have all in the cache
CHUNK = 256  # so many entries are moved at a time
COARSE = 64  # every so many-th sum is looked at first


class RankWeights:
    """The sums 1, 1 + 2^-alpha, 1 + 2^-alpha + 3^-alpha, ...; each term `per_rank` times.

    Those for n entries begin those for n + 1, so one array serves every size; it grows with the
    buffer, piece by piece, so that the sums do not depend on when it grew.
    """

    def __init__(self, alpha: float, per_rank: int = 1) -> None:
        self.alpha = alpha
        self.per_rank = per_rank
        self._sums = np.zeros(0)
        self._coarse = np.zeros(0)

    def sums(self, n: int) -> Floats64:
        """The first n sums."""
        if len(self._sums) < n:
            parts = [self._sums]
            for known in range(len(self._sums), max(n, 2 * len(self._sums)), SUMS):
                start = parts[-1][-1] if known else 0.0
                parts.append(start + np.cumsum(self._share(np.arange(known, known + SUMS))))
            self._sums = np.concatenate(parts)
            self._coarse = self._sums[COARSE - 1 :: COARSE].copy()
        return self._sums[:n]

    def sample(
        self, n: int, entries: int, rng: np.random.Generator, stratified: bool
    ) -> tuple[Ints, Floats64]:
        """n ranks, counted from 0, of so many entries, and their probabilities."""
        if entries == 0:
            strata(n, 0.0, rng, stratified)
        sums = self.sums(entries)
        ranks = _search(sums, self._coarse, strata(n, float(sums[-1]), rng, stratified))
        return ranks, self.probability(ranks, entries)

    def probability(self, ranks: Ints, entries: int) -> Floats64:
        return self._share(ranks) / float(self.sums(entries)[-1])

    def _share(self, ranks: Ints) -> Floats64:
        return np.asarray((ranks // self.per_rank + 1.0) ** -self.alpha, np.float64)


class Blocks(NamedTuple):
    """The arrays of a RankOrder. Block number order[k] is the k-th in order of priority."""

    block: Array  # [capacity] in which block an entry is; -1: in none
    entries: Array  # [blocks, BLOCK]
    keys: Array  # [blocks, BLOCK] their priorities, falling; equal ones by number
    counts: Array  # [blocks] how many entries a block has
    order: Array  # [blocks] those in use, in order of priority, then the free ones
    bound: Array  # [blocks] by place: the last key of the block
    size: Ints  # how many blocks are in use, how many entries there are; a sum nobody reads


class RankOrder:
    """Entries 0..capacity-1 in the order of their priorities (float32; equal ones by number). 15
    bytes per entry."""

    def __init__(self, capacity: int, alpha: float = 0.7, per_rank: int = 1) -> None:
        self.capacity = capacity
        self.weights = RankWeights(alpha, per_rank)
        self._ends: Ints | None = None  # those of `_ends`, until something moves
        blocks = -(-capacity // PACKED) * 9 // 8 + 4
        self._blocks = Blocks(
            block=np.full(capacity, -1, np.int32),
            entries=np.zeros((blocks, BLOCK), np.int32),
            keys=np.zeros((blocks, BLOCK), np.float32),
            counts=np.zeros(blocks, np.int32),
            order=np.arange(blocks, dtype=np.int32),
            bound=np.zeros(blocks, np.float32),
            size=np.array([1, 0, 0]),
        )

    def __len__(self) -> int:
        return int(self._blocks.size[1])

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for array in self._blocks)

    def set(self, ids: Ints, priorities: Array) -> None:
        """Give entries [n] their priorities [n]. Of an entry that is named twice, the last one
        counts."""
        ids, values = (
            check_ids(ids, self.capacity),
            check_priorities(priorities, FLOAT32_MAX).astype(np.float32),
        )
        self._ends = None
        _set(self._blocks, ids, values)

    def remove(self, ids: Ints) -> None:
        """These entries are not drawn any more."""
        self._ends = None
        _remove(self._blocks, check_ids(ids, self.capacity))

    def rank(self, ids: Ints) -> Ints:
        """Ranks, counted from 0, of entries that have a priority."""
        return _rank(self._blocks, self._block_ends(), ids)

    def priority(self, ids: Ints) -> Floats64:
        """The priority of each entry; 0 without one."""
        return _priority(self._blocks, ids)

    def largest(self) -> float:
        """The largest priority; 0 if there is none."""
        return float(self._blocks.keys[self._blocks.order[0], 0]) if len(self) else 0.0

    def probability(self, ids: Ints) -> Floats64:
        """Exact probability of each entry in one draw; 0 without a priority."""
        stored: Bools = self._blocks.block[ids] >= 0
        result = np.zeros(len(ids))
        result[stored] = self.weights.probability(self.rank(ids[stored]), len(self))
        return result

    def sample(
        self, n: int, rng: np.random.Generator, stratified: bool = True
    ) -> tuple[Ints, Floats64]:
        """n entries, drawn with replacement, and the probability of each in one draw."""
        ranks, probabilities = self.weights.sample(n, len(self), rng, stratified)
        return _at(self._blocks, self._block_ends(), ranks), probabilities

    def _block_ends(self) -> Ints:
        """By place: how many entries there are up to the end of the block."""
        if self._ends is None:
            self._ends = _ends(self._blocks)
        return self._ends

    def export_state(self) -> State:
        """The entries and their priorities: their order, and so all that is drawn, follows from
        these."""
        entries = np.flatnonzero(self._blocks.block >= 0).astype(np.int32)
        return {
            "entries": entries,
            "priority": self.priority(entries.astype(np.int64)).astype(np.float32),
        }

    def restore_state(self, state: State) -> None:
        entries = distinct(state["entries"], self.capacity)
        priorities = fitting(state["priority"], "priority", entries.shape, np.float32)
        check_priorities(priorities, FLOAT32_MAX)
        order = np.lexsort((entries, -priorities))
        self._ends = None
        self._blocks.block[:] = -1
        _fill(self._blocks, entries[order].astype(np.int32), priorities[order])


@compiled
def _first_above(sums: Array, target: float, low: int, n: int) -> int:
    """The place of the first of the n rising sums from `low` on that exceeds the target; low + n
    if none does."""
    while n > 0:
        half = (n + 1) >> 1
        low += half * (sums[low + half - 1] <= target)  # no branch that could be guessed wrongly
        n -= half
    return low


@compiled
def _search(sums: Floats64, coarse: Floats64, targets: Floats64) -> Ints:
    """For each target the first rank whose sum exceeds it; the last rank if none does."""
    ranks = np.empty(len(targets), np.int64)
    last = len(sums) - 1
    for j in range(len(targets)):
        low = min(_first_above(coarse, targets[j], 0, len(coarse)) * COARSE, last)
        ranks[j] = _first_above(sums, targets[j], low, min(COARSE, last - low))
    return ranks


@compiled
def _position(b: Blocks, block: int, entry: int) -> int:
    """Where an entry is in its block."""
    row = b.entries[block]
    position = 0
    for k in range(b.counts[block]):  # never stopping early, the processor takes 16 at a time
        position += k * (row[k] == entry)
    return position


@compiled
def _find(b: Blocks, entry: int, key: float) -> int:
    """The place of the first block whose last entry does not come before this one, or of the last
    block."""
    low, n = 0, b.size[0] - 1
    while n > 0:
        half = (n + 1) >> 1
        low += half * (b.bound[low + half - 1] > key)
        n -= half
    high = b.size[0] - 1 if b.bound[low] == key else low
    while low < high:  # among blocks that end with the same key
        middle = (low + high) >> 1
        block = b.order[middle]
        if b.bound[middle] == key and b.entries[block, b.counts[block] - 1] < entry:
            low = middle + 1
        else:
            high = middle
    return low


@compiled
def _take_out(b: Blocks, entry: int) -> None:
    block = b.block[entry]
    position, n = _position(b, block, entry), b.counts[block]
    if position == n - 1:
        at = _find(b, entry, b.keys[block, position])
        if n > 1:
            b.bound[at] = b.keys[block, n - 2]
        elif b.size[0] > 1:  # give the empty block back
            last = b.size[0] - 1
            b.order[at:last] = b.order[at + 1 : last + 1].copy()
            b.bound[at:last] = b.bound[at + 1 : last + 1].copy()
            b.order[last] = block
            b.size[0] = last
    row, keys = b.entries[block, position:], b.keys[block, position:]
    for k in range(n - 1 - position):
        row[k] = row[k + 1]
    for k in range(n - 1 - position):
        keys[k] = keys[k + 1]
    b.counts[block] = n - 1
    b.block[entry] = -1
    b.size[1] -= 1


@compiled
def _put_in(b: Blocks, entry: int, key: float) -> None:
    at = _find(b, entry, key)
    if b.counts[b.order[at]] == BLOCK:
        if b.size[0] == len(b.order):
            _pack(b)
        else:
            _split(b, at)
        at = _find(b, entry, key)
    block = b.order[at]
    row, keys, n = b.entries[block], b.keys[block], b.counts[block]
    position = 0
    for k in range(n):
        position += keys[k] > key
    while position < n and keys[position] == key and row[position] < entry:
        position += 1
    row, keys = row[position:], keys[position:]
    for k in range(n - position, 0, -1):
        row[k] = row[k - 1]
    for k in range(n - position, 0, -1):
        keys[k] = keys[k - 1]
    row[0], keys[0] = entry, key
    b.counts[block] = n + 1
    b.block[entry] = block
    b.bound[at] = b.keys[block, n]
    b.size[1] += 1


@compiled
def _split(b: Blocks, at: int) -> None:
    """Move the second half of a full block into a free one behind it."""
    last = b.size[0]
    old, new = b.order[at], b.order[last]
    b.order[at + 2 : last + 1] = b.order[at + 1 : last].copy()
    b.bound[at + 2 : last + 1] = b.bound[at + 1 : last].copy()
    b.size[0] = last + 1
    half = BLOCK // 2
    for k in range(half, BLOCK):
        b.entries[new, k - half], b.keys[new, k - half] = b.entries[old, k], b.keys[old, k]
        b.block[b.entries[old, k]] = new
    b.counts[old], b.counts[new] = half, BLOCK - half
    b.order[at + 1], b.bound[at + 1] = new, b.bound[at]
    b.bound[at] = b.keys[old, half - 1]


@compiled
def _pack(b: Blocks) -> None:
    """Spread all entries over as few blocks as PACKED allows."""
    total = b.size[1]
    ids, keys = np.empty(total, np.int32), np.empty(total, np.float32)
    j = 0
    for k in range(b.size[0]):
        block = b.order[k]
        n = b.counts[block]
        ids[j : j + n], keys[j : j + n] = b.entries[block, :n], b.keys[block, :n]
        j += n
    _fill(b, ids, keys)


@compiled
def _fill(b: Blocks, ids: Array, keys: Array) -> None:
    """Hold these entries, given in their order, and no others."""
    total = len(ids)
    for k in range(len(b.order)):
        n = min(max(total - k * PACKED, 0), PACKED)
        first = k * PACKED
        b.counts[k] = n
        b.entries[k, :n], b.keys[k, :n] = ids[first : first + n], keys[first : first + n]
        for i in range(n):
            b.block[ids[first + i]] = k
        b.order[k], b.bound[k] = k, b.keys[k, n - 1] if n else 0.0
    b.size[0] = max(1, (total + PACKED - 1) // PACKED)
    b.size[1] = total


@compiled
def _set(b: Blocks, ids: Ints, values: Array) -> None:
    for first in range(0, len(ids), CHUNK):
        last = min(first + CHUNK, len(ids))
        _read_old(b, ids[first:last])
        for j in range(first, last):
            if b.block[ids[j]] >= 0:
                _take_out(b, ids[j])
        _read_new(b, ids[first:last], values[first:last])
        for j in range(first, last):
            if b.block[ids[j]] >= 0:  # named twice
                _take_out(b, ids[j])
            _put_in(b, ids[j], values[j])


# Of millions of entries, nearly every block is out of the cache. Reading many of them in one go,
# where no read waits for another, brings them there in half the time.


@compiled
def _read_old(b: Blocks, ids: Ints) -> None:
    """The blocks where these entries are."""
    for j in range(len(ids)):
        if b.block[ids[j]] >= 0:
            _read(b, b.block[ids[j]])


@compiled
def _read_new(b: Blocks, ids: Ints, values: Array) -> None:
    """The blocks where they will be."""
    for j in range(len(ids)):
        _read(b, b.order[_find(b, ids[j], values[j])])


@compiled
def _read(b: Blocks, block: int) -> None:
    total = 0
    for k in range(0, BLOCK, LINE):
        total += b.entries[block, k] + (b.keys[block, k] > 0)
    b.size[2] = total


@compiled
def _remove(b: Blocks, ids: Ints) -> None:
    for j in range(len(ids)):
        if b.block[ids[j]] >= 0:
            _take_out(b, ids[j])


@compiled
def _priority(b: Blocks, ids: Ints) -> Floats64:
    found = np.zeros(len(ids))
    for j in range(len(ids)):
        block = b.block[ids[j]]
        if block >= 0:
            found[j] = b.keys[block, _position(b, block, ids[j])]
    return found


@compiled
def _ends(b: Blocks) -> Ints:
    """By place: how many entries there are up to the end of the block."""
    ends = np.empty(b.size[0], np.int64)
    total = 0
    for k in range(b.size[0]):
        total += b.counts[b.order[k]]
        ends[k] = total
    return ends


@compiled
def _rank(b: Blocks, ends: Ints, ids: Ints) -> Ints:
    ranks = np.empty(len(ids), np.int64)
    for j in range(len(ids)):
        block = b.block[ids[j]]
        position = _position(b, block, ids[j])
        at = _find(b, ids[j], b.keys[block, position])
        ranks[j] = ends[at] - b.counts[block] + position
    return ranks


@compiled
def _at(b: Blocks, ends: Ints, ranks: Ints) -> Ints:
    ids = np.empty(len(ranks), np.int64)
    for j in range(len(ranks)):
        at = _first_above(ends, ranks[j], 0, len(ends))
        block = b.order[at]
        ids[j] = b.entries[block, ranks[j] - (ends[at] - b.counts[block])]
    return ids
