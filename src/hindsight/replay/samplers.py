"""Samplers: which transitions (slot, step) are replayed."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from hindsight.episodes import Episodes
from hindsight.replay.storage import Storage
from hindsight.types import Array, Bools, Ints


class Sampler(Protocol):
    def stored(self, storage: Storage) -> None:
        """Episodes were stored: draw from all that are there now."""

    def sample(self, batches: int, batch_size: int, rng: np.random.Generator) -> tuple[Ints, Ints]:
        """Slots and steps, both [batches, batch_size]."""


class Movement:
    """How far the achieved goals of stored episodes moved; by `direction`, or as a whole.

    By direction (up and down are two), each is measured by how far goals usually move in it: an
    object that is lifted, among many that are pushed, has moved far, as long as lifting is rare.
    """

    def __init__(self, slots: int, directions: int | None = None) -> None:
        self.by_direction = directions is not None
        self.moved = np.zeros((slots, directions or 1))

    def add(self, slots: Ints, episodes: Episodes) -> None:
        """The last of the episodes were stored in these slots."""
        moved = (
            episodes.largest_change() if self.by_direction else episodes.distance_moved()[:, None]
        )
        self.moved[slots] = moved[-len(slots) :]

    def far(self, size: int, threshold: float) -> Bools:
        """[size]: in which episodes the goal moved by more than the threshold, in its own unit."""
        return _length(self.moved[:size]) > threshold

    def weight(
        self, size: int, power: float, least: float, slots: Ints | slice = slice(None)
    ) -> Array:
        """Distances, `least` if they are less, to a power; of some of the first `size` slots, or
        of all of those."""
        moved = self.moved[:size][slots]
        if self.by_direction:
            usual = np.sqrt(np.mean(self.moved[:size] ** 2, axis=0))
            overall = np.sqrt(np.mean(usual**2))
            moved = moved * np.divide(overall, usual, out=np.zeros_like(usual), where=usual > 0)
        weight: Array = np.maximum(_length(moved), least) ** power
        return weight


def _length(vectors: Array) -> Array:
    """Euclidean, of rows. The square root of the square of one float32 number is that number."""
    length: Array = np.sqrt(np.sum(vectors**2, axis=1))
    return length


class UniformSampler:
    """Every transition of the stored episodes is equally likely; or, with weights, as likely as
    its episode's."""

    def __init__(self) -> None:
        self._slots = self._lengths = np.zeros(0, np.int64)
        self._ends: Array = self._slots
        self._weighted = False

    def stored(self, storage: Storage) -> None:
        slots = np.arange(storage.size)
        self.index(slots, storage, storage.stage_weight(slots))

    def index(self, slots: Ints, storage: Storage, weights: Array | None = None) -> None:
        """Draw from these slots from now on, with weights [len(slots)]."""
        self._slots, self._lengths, self._weighted = (
            slots,
            storage.length[slots],
            weights is not None,
        )
        self._ends = np.cumsum(self._lengths if weights is None else weights * self._lengths)

    def __bool__(self) -> bool:
        return len(self._slots) > 0

    def sample(self, batches: int, batch_size: int, rng: np.random.Generator) -> tuple[Ints, Ints]:
        if self._weighted:
            mass = rng.random((batches, batch_size)) * self._ends[-1]
            which = np.minimum(
                np.searchsorted(self._ends, mass, side="right"), len(self._slots) - 1
            )
            return self._slots[which], rng.integers(0, self._lengths[which])
        number = rng.integers(0, self._ends[-1], (batches, batch_size))
        which = np.searchsorted(self._ends, number, side="right")
        starts: Ints = self._ends[which] - self._lengths[which]
        return self._slots[which], number - starts


class MovedSampler:
    """Episodes whose achieved goal moved come first.

    A `share` of every batch is from those in which it moved by more than `threshold`, the rest
    from all. Where the achieved goal is an object's place, most early episodes never touch it,
    and replaying those teaches to leave it alone. While no episode has moved, everything is
    uniform. With a `power`, episodes (of the share, if there is one) are as likely as (distance
    moved)^power, the distance being at least `threshold`: energy-based prioritisation (Zhao and
    Tresp, 2018) for envs of any kind.
    """

    def __init__(self, movement: Movement, share: float, power: float, threshold: float) -> None:
        self.movement = movement
        self.share = share
        self.power = power
        self.threshold = threshold
        self.everything = UniformSampler()
        self.moved_only = UniformSampler()

    def stored(self, storage: Storage) -> None:
        size = storage.size
        weight = self.movement.weight(size, self.power, self.threshold) if self.power else None
        by_stage = storage.stage_weight(np.arange(size))
        if by_stage is not None:
            weight = by_stage if weight is None else by_stage * weight
        if self.share == 0:
            self.everything.index(np.arange(size), storage, weight)
            return
        self.everything.stored(storage)
        far = np.flatnonzero(self.movement.far(size, self.threshold))
        self.moved_only.index(far, storage, None if weight is None else weight[far])

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
