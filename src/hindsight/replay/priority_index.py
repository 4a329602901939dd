"""What all priority indexes share: checks of what comes in, strata, and bias correction."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from hindsight.errors import HindsightError
from hindsight.saving.tree import State, all_between
from hindsight.types import Array, Floats64, Ints, Tensor


class PriorityIndex(Protocol):
    """Priorities over a fixed array of entries, drawn with exact, known probabilities."""

    capacity: int

    def __len__(self) -> int: ...

    @property
    def nbytes(self) -> int: ...

    def set(self, ids: Ints, priorities: Array) -> None: ...

    def remove(self, ids: Ints) -> None: ...

    def priority(self, ids: Ints) -> Floats64: ...

    def largest(self) -> float: ...

    def probability(self, ids: Ints) -> Floats64: ...

    def sample(
        self, n: int, rng: np.random.Generator, stratified: bool = True
    ) -> tuple[Ints, Floats64]: ...

    def export_state(self) -> State: ...

    def restore_state(self, state: State) -> None: ...


def check_ids(ids: Array, capacity: int) -> Ints:
    """The ids as integers, or an error if one is not an entry."""
    checked: Ints = np.asarray(ids, np.int64).ravel()
    if len(checked) and (checked.min() < 0 or checked.max() >= capacity):
        raise HindsightError(
            f"entries are 0 to {capacity - 1}, got {checked.min()} to {checked.max()}"
        )
    return checked


def check_priorities(priorities: Array, largest: float = np.inf) -> Floats64:
    """The priorities as float64, or an error if one is negative, not finite, or above the
    largest that can be kept."""
    checked: Floats64 = np.asarray(priorities, np.float64).ravel()
    wrong = ~(np.isfinite(checked) & (checked >= 0) & (checked <= largest))
    if wrong.any():
        raise HindsightError(f"priorities must be finite and 0 or more, got {checked[wrong][0]}")
    return checked


def distinct(entries: Array, capacity: int) -> Ints:
    """Saved entries as integers, or an error if they are not entries, or one is there twice."""
    if entries.dtype.kind != "i" or entries.ndim != 1:
        raise HindsightError(
            f"entries must be whole numbers in a row, got {entries.dtype} {list(entries.shape)}"
        )
    ids: Ints = all_between(entries, "entries", 0, capacity - 1).astype(np.int64)
    seen = np.zeros(capacity, np.bool_)
    seen[ids] = True
    if np.count_nonzero(seen) != len(ids):
        raise HindsightError("an entry has two priorities")
    return ids


FLOAT32_MAX = float(np.finfo(np.float32).max)


def strata(n: int, total: float, rng: np.random.Generator, stratified: bool) -> Floats64:
    """n targets in [0, total): one in each of n pieces of equal size, or all anywhere."""
    if not total > 0:
        raise HindsightError("there is nothing to sample: no entry has a priority above 0")
    targets = rng.random(n)
    if stratified:
        targets = (np.arange(n) + targets) / n
    return targets * total


def importance_weights(importance: Tensor, beta: Tensor) -> Tensor:
    """importance^beta over its largest, where importance is 1 / (N P(i)) [B]. NumPy or JAX.

    With beta 1 a prioritised sample is as unbiased as a uniform one.
    """
    weights = importance**beta
    return weights / weights.max()
