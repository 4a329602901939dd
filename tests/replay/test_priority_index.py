"""Priority indexes: exact probabilities, sizes of any kind, and a naive sorted list as the
judge."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from scipy.stats import chi2

from hindsight.errors import HindsightError
from hindsight.replay import rank_order
from hindsight.replay.priority_index import importance_weights
from hindsight.replay.rank_heap import RankHeap
from hindsight.replay.rank_order import RankOrder, RankWeights
from hindsight.replay.sum_tree import SumTree

INDEXES: list[Any] = [SumTree, RankHeap, RankOrder]


class IndexMachine(RuleBasedStateMachine):
    """Random sets, removals and repeated ids; after each, the index is compared with a
    dictionary."""

    kind: Any = SumTree

    @initialize(capacity=st.integers(1, 40))
    def start(self, capacity: int) -> None:
        self.index = self.kind(capacity, alpha=0.7)
        self.model: dict[int, float] = {}

    @rule(data=st.data())
    def set(self, data: st.DataObject) -> None:
        ids = data.draw(st.lists(st.integers(0, self.index.capacity - 1), max_size=12))
        values = data.draw(
            st.lists(st.sampled_from([0.5, 1.0, 2.0, 7.0]), min_size=len(ids), max_size=len(ids))
        )
        self.index.set(np.array(ids, np.int64), np.array(values))
        self.model |= dict(zip(ids, values, strict=True))

    @rule(data=st.data())
    def remove(self, data: st.DataObject) -> None:
        ids = data.draw(st.lists(st.integers(0, self.index.capacity - 1), max_size=6))
        self.index.remove(np.array(ids, np.int64))
        for i in ids:
            self.model.pop(i, None)

    @rule(value=st.sampled_from([np.nan, np.inf, -1.0]))
    def refuse(self, value: float) -> None:
        with pytest.raises(HindsightError, match="finite"):
            self.index.set(np.array([0, 0]), np.array([1.0, value]))

    @invariant()
    def probabilities_are_those_of_the_model(self) -> None:
        if not hasattr(self, "index") or not self.model:
            return
        ids = np.arange(self.index.capacity)
        probability = self.index.probability(ids)
        assert probability.sum() == pytest.approx(1.0)
        assert set(np.flatnonzero(probability)) == set(self.model)
        self.check_order(probability)
        drawn, stated = self.index.sample(16, np.random.default_rng(len(self.model)))
        assert set(drawn.tolist()) <= set(self.model)
        assert stated == pytest.approx(probability[drawn])

    def check_order(self, probability: Any) -> None:
        weights = np.array([self.model.get(i, 0.0) for i in range(self.index.capacity)]) ** 0.7
        assert probability == pytest.approx(weights / weights.sum())


class HeapMachine(IndexMachine):
    kind = RankHeap

    def check_order(self, probability: Any) -> None:
        heap = self.index._heap[: len(self.index)]
        assert sorted(heap.tolist()) == sorted(self.model)
        for at in range(1, len(heap)):
            assert self.model[int(heap[(at - 1) // 2])] >= self.model[int(heap[at])]


class OrderMachine(IndexMachine):
    kind = RankOrder

    def check_order(self, probability: Any) -> None:
        expected = sorted(self.model, key=lambda i: (-self.model[i], i))
        assert self.index.rank(np.array(expected)).tolist() == list(range(len(expected)))


for machine in (IndexMachine, HeapMachine, OrderMachine):
    machine.TestCase.settings = settings(max_examples=40, stateful_step_count=25)
TestSumTree, TestRankHeap, TestRankOrder = (
    IndexMachine.TestCase,
    HeapMachine.TestCase,
    OrderMachine.TestCase,
)


@pytest.mark.parametrize("kind", INDEXES)
@pytest.mark.parametrize("capacity", [1, 7, 64, 1000])
@pytest.mark.parametrize("stratified", [True, False])
def test_frequencies_match_the_stated_probabilities(
    kind: Any, capacity: int, stratified: bool
) -> None:
    rng = np.random.default_rng(capacity)
    index = kind(capacity, alpha=0.6)
    index.set(np.arange(capacity), rng.exponential(size=capacity))
    index.set(rng.integers(0, capacity, 200), rng.exponential(size=200))  # after a life of updates
    draws, rounds = 100, 2000
    drawn = np.concatenate([index.sample(draws, rng, stratified)[0] for _ in range(rounds)])
    expected = index.probability(np.arange(capacity)) * draws * rounds
    counts = np.bincount(drawn, minlength=capacity)
    statistic = ((counts - expected) ** 2 / expected).sum()
    assert statistic < chi2.ppf(1 - 1e-6, max(capacity - 1, 1))


@pytest.mark.parametrize("kind", INDEXES)
def test_while_the_buffer_grows_and_wraps(kind: Any) -> None:
    rng = np.random.default_rng(0)
    index = kind(50, alpha=0.6)
    for step in range(120):
        index.set(np.array([step % 50]), np.array([rng.random() + 0.1]))
        filled = min(step + 1, 50)
        ids, probabilities = index.sample(32, rng)
        assert ids.max() < filled
        assert index.probability(np.arange(50))[:filled].sum() == pytest.approx(1.0)
        assert probabilities == pytest.approx(index.probability(ids))


def test_sums_stay_exact_after_many_updates() -> None:
    rng = np.random.default_rng(0)
    tree = SumTree(1000, alpha=1.0)
    for _ in range(1000):
        tree.set(rng.integers(0, 1000, 10_000), rng.random(10_000) * 10.0 ** rng.integers(-8, 8))
    fresh = SumTree(1000, alpha=1.0)
    fresh.set(np.arange(1000), tree._tree[:1000])
    assert (fresh._tree == tree._tree).all()


@pytest.mark.parametrize("ties", [False, True])
def test_exact_order_through_splits_packing_and_returns(ties: bool) -> None:
    rng = np.random.default_rng(0)
    n = 6000
    index = RankOrder(n)
    priorities = np.zeros(n, np.float32)
    for round_ in range(60):  # always at one end, so that blocks fill, split and are packed anew
        ids = rng.permutation(n)[: n // 3]
        values = (rng.random(len(ids)) + (round_ if round_ % 2 else -round_ + 100)).astype(
            np.float32
        )
        values = np.ceil(values) if ties else values
        index.set(ids, values)
        priorities[ids] = values
    stored = np.flatnonzero(priorities)
    expected = stored[np.lexsort((stored, -priorities[stored]))]
    assert (index.rank(expected) == np.arange(len(expected))).all()
    assert (
        rank_order._at(index._blocks, index._block_ends(), np.arange(len(expected))) == expected
    ).all()
    index.remove(expected[::2])
    assert (index.rank(expected[1::2]) == np.arange(len(expected) // 2)).all()


@given(st.integers(1, 300), st.floats(0, 2))
def test_rank_weights_of_a_size_begin_those_of_the_next(n: int, alpha: float) -> None:
    weights = RankWeights(alpha)
    small = weights.sums(n).copy()
    assert (weights.sums(3 * n)[:n] == small).all()
    assert small == pytest.approx(np.cumsum(np.arange(1, n + 1) ** -alpha))


@pytest.mark.parametrize("kind", [RankHeap, RankOrder])
def test_neighbours_share_a_rank_as_in_as_many_queues(kind: Any) -> None:
    index, one = kind(12, alpha=0.7, per_rank=3), kind(4, alpha=0.7)
    index.set(np.arange(12), np.arange(12, 0, -1))
    one.set(np.arange(4), np.arange(4, 0, -1))
    each = index.probability(np.arange(12)).reshape(4, 3)
    assert each == pytest.approx(np.repeat(one.probability(np.arange(4))[:, None] / 3, 3, axis=1))
    drawn, stated = index.sample(600, np.random.default_rng(0))
    assert stated == pytest.approx(each.ravel()[drawn])
    assert np.bincount(drawn, minlength=12) == pytest.approx(600 * each.ravel(), abs=2)


def test_importance_weights_by_hand() -> None:
    importance = 1.0 / (8 * np.array([0.5, 0.25, 0.125]))
    assert importance_weights(importance, 1.0) == pytest.approx([0.25, 0.5, 1.0])
    assert importance_weights(importance, 0.5) == pytest.approx([0.5, 0.5**0.5, 1.0])
    assert importance_weights(importance, 0.0) == pytest.approx([1.0, 1.0, 1.0])


@pytest.mark.parametrize("kind", INDEXES)
def test_bad_calls_change_nothing(kind: Any) -> None:
    index = kind(4)
    with pytest.raises(HindsightError, match="nothing to sample"):
        index.sample(3, np.random.default_rng(0))
    index.set(np.array([1]), np.array([2.0]))
    for ids, values in (([4], [1.0]), ([-1], [1.0]), ([0, 2], [1.0, np.nan])):
        with pytest.raises(HindsightError):
            index.set(np.array(ids), np.array(values))
    assert index.probability(np.arange(4)).tolist() == [0, 1, 0, 0]


@pytest.mark.parametrize("alpha", [0.0, 1e-17, 0.005, 0.6, 1.0, 10.0])
def test_a_sum_tree_tells_the_priorities_that_were_set(alpha: float) -> None:
    """Whatever alpha is: with 0 all are drawn alike, but are not alike."""
    priorities = np.array([1e-25, 0.5, 3.0, 1e25])
    tree = SumTree(5, alpha)
    tree.set(np.arange(4), priorities)
    restored = SumTree(5, alpha)
    restored.restore_state(tree.export_state())
    for index in (tree, restored):
        np.testing.assert_allclose(index.priority(np.arange(5)), [*priorities, 0.0], rtol=1e-9)
        assert index.largest() == pytest.approx(1e25)
        assert len(index) == 4
    tree.remove(np.array([3]))
    assert tree.largest() == pytest.approx(3.0)
    if alpha < 1e-9:
        np.testing.assert_allclose(tree.probability(np.arange(4)), [1 / 3, 1 / 3, 1 / 3, 0])


@pytest.mark.parametrize("alpha", [0.0, 0.6, 10.0])
def test_the_smallest_priority_is_drawn_and_the_largest_is_finite(alpha: float) -> None:
    tree = SumTree(3, alpha)
    tree.set(np.array([1]), np.array([1e-300]))
    assert len(tree) == 1
    assert tree.sample(4, np.random.default_rng(0))[0].tolist() == [1] * 4
    if alpha <= 1:
        assert tree.priority(np.array([1]))[0] == pytest.approx(1e-300, rel=1e-9)
    tree.set(np.array([0, 2]), np.array([1e300, 1e300]))
    assert np.isfinite(tree.total)
    assert set(tree.sample(8, np.random.default_rng(0))[0]) >= {0, 2}
