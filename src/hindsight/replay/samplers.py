"""Samplers: which transitions (slot, step) are replayed."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from hindsight.replay.storage import Storage
from hindsight.saving.tree import State, fitting
from hindsight.types import Bools, Floats, Ints


class Sampler(Protocol):
    def added(self, storage: Storage, slots: Ints, moved: Floats) -> None:
        """Episodes were stored in `slots`; their achieved goals moved by `moved` [n]."""

    def sample(self, batches: int, batch_size: int, rng: np.random.Generator) -> tuple[Ints, Ints]:
        """Slots and steps, both [batches, batch_size]."""

    def export_state(self) -> State: ...

    def restore_state(self, state: State, storage: Storage) -> None: ...


class UniformSampler:
    """Every stored transition is equally likely; or, with a `power`, as likely as (distance moved)^power.

    The distance is that of its episode's achieved goal, `least` if it is less: energy-based prioritisation (Zhao and
    Tresp, 2018) for envs of any kind.
    """

    def __init__(self, power: float = 0.0, least: float = 0.01) -> None:
        self.power = power
        self.least = least
        self._slots = np.zeros(0, np.int64)
        self._ends = self._starts = np.zeros(0, np.int64)
        self._weight_ends = np.zeros(0)
        self._weights = np.zeros(0)

    def added(self, storage: Storage, slots: Ints, moved: Floats) -> None:
        self.index(np.arange(storage.size), storage.length)
        if self.power:
            if len(self._weights) == 0:
                self._weights = np.zeros(storage.slots)
            self._weights[slots] = np.maximum(moved, self.least).astype(np.float64) ** self.power
            self._weight_ends = np.cumsum(self._weights[: storage.size] * storage.length[: storage.size])

    def export_state(self) -> State:
        return {"weights": self._weights[: len(self._slots)].copy()} if self.power else {}

    def restore_state(self, state: State, storage: Storage) -> None:
        self.index(np.arange(storage.size), storage.length)
        if self.power:
            self._weights = np.zeros(storage.slots)
            self._weights[: storage.size] = fitting(state["weights"], "weights", (storage.size,), np.float64)
            self._weight_ends = np.cumsum(self._weights[: storage.size] * storage.length[: storage.size])

    def index(self, slots: Ints, lengths: Ints) -> None:
        """Draw from these slots from now on."""
        self._slots = slots
        self._ends = np.cumsum(lengths[slots])
        self._starts = self._ends - lengths[slots]

    def __bool__(self) -> bool:
        return len(self._slots) > 0

    def sample(self, batches: int, batch_size: int, rng: np.random.Generator) -> tuple[Ints, Ints]:
        if self.power:
            mass = rng.random((batches, batch_size)) * self._weight_ends[-1]
            which = np.minimum(np.searchsorted(self._weight_ends, mass, side="right"), len(self._slots) - 1)
            return self._slots[which], rng.integers(0, self._ends[which] - self._starts[which])
        number = rng.integers(0, self._ends[-1], (batches, batch_size))
        which = np.searchsorted(self._ends, number, side="right")
        return self._slots[which], number - self._starts[which]


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

    def export_state(self) -> State:
        return {"moved": self._moved.copy()}

    def restore_state(self, state: State, storage: Storage) -> None:
        self._moved = fitting(state["moved"], "moved", (storage.slots,), np.bool_)
        self._moved[storage.size :] = False
        self.everything.restore_state({}, storage)
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
