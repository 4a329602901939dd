"""Queues of pairs by priority: one for all of them, or one for actual and one for alternate
goals."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import numpy as np

from hindsight.goals import relabelled_count
from hindsight.replay.priority_index import PriorityIndex
from hindsight.replay.rank_heap import RankHeap
from hindsight.replay.rank_order import RankOrder
from hindsight.replay.sum_tree import SumTree
from hindsight.saving.tree import State
from hindsight.types import Array, Floats64, Ints

Kind = Literal["proportional", "rank", "rank_heap"]
ALPHA: dict[str, float] = {"proportional": 0.6, "rank": 0.7, "rank_heap": 0.7}
_INDEXES: dict[str, Callable[[int, float, int], PriorityIndex]] = {
    "proportional": lambda capacity, alpha, per_rank: SumTree(capacity, alpha),
    "rank": RankOrder,
    "rank_heap": RankHeap,
}


class Queues:
    """Pairs 0..actual-1 have actual goals, the `alternate` ones after them alternate goals."""

    def __init__(
        self,
        kind: Kind,
        alpha: float,
        actual: int,
        alternate: int,
        two: bool,
        stratified: bool,
        per_rank: int = 1,
    ) -> None:
        make = _INDEXES[kind]
        sizes = [actual, alternate] if two and alternate else [actual + alternate]
        self.actual = actual
        self.alpha = alpha
        self.stratified = stratified
        self.indexes = [make(size, alpha, per_rank) for size in sizes]

    def __len__(self) -> int:
        return sum(len(index) for index in self.indexes)

    def set(self, ids: Ints, priorities: Array) -> None:
        """Give the pairs their priorities. Of a pair that is named twice, the last one counts."""
        for index, mine, local in self._split(ids):
            index.set(local, priorities[mine])

    def remove(self, ids: Ints) -> None:
        """These pairs are not drawn any more."""
        for index, _, local in self._split(ids):
            index.remove(local)

    def priority(self, ids: Ints) -> Floats64:
        """The priorities of the pairs; 0 for those that are not in a queue."""
        result = np.zeros(len(ids))
        for index, mine, local in self._split(ids):
            result[mine] = index.priority(local)
        return result

    def largest(self) -> float:
        """The largest priority of all pairs; 0 if there is none."""
        return max(index.largest() for index in self.indexes)

    def sample(self, n: int, replay_k: float, rng: np.random.Generator) -> tuple[Ints, Floats64]:
        """n pairs in random order, and how many times more often each is drawn than if all were
        equal: N P(i).

        From two queues, as many are drawn as keep the ratio 1 : replay_k of actual to alternate
        goals.
        """
        counts = self.counts(n, replay_k)
        ids, odds = np.empty(n, np.int64), np.empty(n)
        places = rng.permutation(n)
        done = 0
        for index, first, count in zip(self.indexes, (0, self.actual), counts, strict=False):
            if count:
                drawn, probability = index.sample(count, rng, self.stratified)
                here = places[done : done + count]
                ids[here], odds[here] = drawn + first, probability * len(index)
                done += count
        return ids, odds

    def counts(self, n: int, replay_k: float) -> list[int]:
        """How many of n are of each queue."""
        if len(self.indexes) == 1:
            return [n]
        alternate = relabelled_count(n, replay_k) if len(self.indexes[1]) else 0
        return [n - alternate, alternate]

    def export_state(self) -> State:
        return {f"queue_{i}": index.export_state() for i, index in enumerate(self.indexes)}

    def restore_state(self, state: State) -> None:
        for i, index in enumerate(self.indexes):
            index.restore_state(state[f"queue_{i}"])

    def _split(self, ids: Ints) -> list[tuple[PriorityIndex, Array, Ints]]:
        """For each queue: its index, which of `ids` are in it, and their numbers there."""
        if len(self.indexes) == 1:
            return [(self.indexes[0], np.arange(len(ids)), ids)]
        alternate = np.flatnonzero(ids >= self.actual)
        actual = np.flatnonzero(ids < self.actual)
        return [
            (self.indexes[0], actual, ids[actual]),
            (self.indexes[1], alternate, ids[alternate] - self.actual),
        ]
