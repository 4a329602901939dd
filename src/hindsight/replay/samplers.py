"""Samplers: which transitions (slot, step) are replayed."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from hindsight.replay.storage import Storage
from hindsight.types import Bools, Floats, Ints


class Sampler(Protocol):
    def added(self, storage: Storage, slots: Ints, moved: Floats) -> None:
        """Episodes were stored in `slots`; their achieved goals moved by `moved` [n]."""

    def sample(self, batches: int, batch_size: int, rng: np.random.Generator) -> tuple[Ints, Ints]:
        """Slots and steps, both [batches, batch_size]."""


class UniformSampler:
    """Every stored transition is equally likely."""

    def __init__(self) -> None:
        self._slots = np.zeros(0, np.int64)
        self._ends = np.zeros(0, np.int64)

    def added(self, storage: Storage, slots: Ints, moved: Floats) -> None:
        self.index(np.arange(storage.size), storage.length)

    def index(self, slots: Ints, lengths: Ints) -> None:
        """Draw from these slots from now on."""
        self._slots = slots
        self._ends = np.cumsum(lengths[slots])

    def __bool__(self) -> bool:
        return len(self._slots) > 0

    def sample(self, batches: int, batch_size: int, rng: np.random.Generator) -> tuple[Ints, Ints]:
        number = rng.integers(0, self._ends[-1], (batches, batch_size))
        which = np.searchsorted(self._ends, number, side="right")
        return self._slots[which], number - np.concatenate([[0], self._ends])[which]


class MovedSampler:
    """A share of every batch from episodes whose achieved goal moved by more than `threshold`, the rest uniform.

    Where the achieved goal is an object's place, most early episodes never touch it, and replaying those teaches to
    leave it alone. While no episode has moved, everything is uniform.
    """

    def __init__(self, share: float, threshold: float, slots: int) -> None:
        self.share = share
        self.threshold = threshold
        self.everything = UniformSampler()
        self.moved_only = UniformSampler()
        self._moved: Bools = np.zeros(slots, np.bool_)

    def added(self, storage: Storage, slots: Ints, moved: Floats) -> None:
        self._moved[slots] = moved > self.threshold
        self.everything.added(storage, slots, moved)
        self.moved_only.index(np.flatnonzero(self._moved), storage.length)

    def sample(self, batches: int, batch_size: int, rng: np.random.Generator) -> tuple[Ints, Ints]:
        chosen = round(batch_size * self.share) if self.moved_only else 0
        slots, steps = self.everything.sample(batches, batch_size - chosen, rng)
        if chosen == 0:
            return slots, steps
        moved_slots, moved_steps = self.moved_only.sample(batches, chosen, rng)
        order = rng.permuted(np.tile(np.arange(batch_size), (batches, 1)), axis=1)
        slots = np.take_along_axis(np.concatenate([moved_slots, slots], axis=1), order, axis=1)
        steps = np.take_along_axis(np.concatenate([moved_steps, steps], axis=1), order, axis=1)
        return slots, steps
