"""Priorities of stored pairs: how TD errors become priorities, and what else has a say in them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from hindsight.config import PriorityConfig
from hindsight.replay.pairs import Pairs
from hindsight.replay.priorities import check_priorities
from hindsight.replay.queues import ALPHA, Kind, Queues
from hindsight.saving.tree import State, between, fitting
from hindsight.types import Array, Floats64, Ints, Tensor


class TDErrors(NamedTuple):
    """TD errors r + gamma Q'(s'||g, .) - Q(s||g, a) and values Q(s||g, a), of one shape."""

    error: Tensor
    value: Tensor


class Priorities:
    """The queues of all pairs. A priority is |TD error|, times the hardness of the goal, times the episode's weight."""

    def __init__(self, pairs: Pairs, config: PriorityConfig) -> None:
        self.pairs = pairs
        self.config = config
        kind: Kind = "proportional" if config.index == "none" else config.index
        alpha = ALPHA[kind] if config.alpha is None else config.alpha
        two = config.queues == "two_queues"
        self.queues = Queues(kind, alpha, pairs.actual, pairs.alternate, two, config.stratified)
        self.now = 0  # how many times episodes were stored
        self._stored_at = np.zeros(pairs.slots, np.int64)
        self._set_at = np.zeros(pairs.actual + pairs.alternate, np.uint16)  # modulo 2**16
        self._episode_weight = np.ones(pairs.slots, np.float32)
        self._values = np.array([np.inf, -np.inf])  # smallest and largest so far

    def of(self, td: TDErrors) -> Floats64:
        """Priorities before the episode's weight: |TD error| + epsilon, at least the floor, times the hardness."""
        config = self.config
        error = np.asarray(td.error, np.float64).ravel()
        if config.index == "none":
            return np.ones(len(error))
        priorities = np.maximum(np.abs(error) + config.epsilon, config.floor)
        if config.hardness:
            priorities = priorities * self._hardness(np.asarray(td.value, np.float64).ravel()) ** config.hardness
        return priorities

    def _hardness(self, value: Floats64) -> Floats64:
        """From nearly 0 for the goal of the highest value so far (soon reached) to 1 for that of the lowest."""
        low, high = self._values
        self._values[:] = low, high = min(low, value.min(initial=np.inf)), max(high, value.max(initial=-np.inf))
        hardness: Floats64 = np.clip((high - value) / max(high - low, 1e-9), 0.01, 1.0)
        return hardness

    def replace(self, slots: Ints, episode_weight: Array) -> None:
        """These slots hold new episodes: forget the pairs that they held, and weigh those to come."""
        self.queues.remove(self.pairs.of_slots(slots))
        self._episode_weight[slots] = episode_weight
        self.now += 1
        self._stored_at[slots] = self.now

    def add(self, ids: Ints, td: TDErrors | None) -> None:
        """New pairs, by their TD errors; without those, with the largest priority that is stored (1 if none is)."""
        if td is not None:
            self._set(ids, self.of(td))
        else:
            self.queues.set(ids, np.full(len(ids), self.queues.largest() or 1.0))
            self._set_at[ids] = self.now % 2**16

    def _set(self, ids: Ints, priorities: Floats64) -> None:
        weight = self._episode_weight[self.pairs.address(ids).slot]
        self.queues.set(ids, priorities * weight)
        self._set_at[ids] = self.now % 2**16

    def update(self, ids: Ints, td: TDErrors, sampled_at: int) -> None:
        """New TD errors of pairs that were sampled when `now` was `sampled_at`; those overwritten since are left alone.

        The other goals of their transitions follow them by the share `shared`.
        """
        priorities = check_priorities(self.of(td))
        if self.config.index == "none":
            return
        kept = self._stored_at[self.pairs.address(ids).slot] <= sampled_at
        ids, priorities = ids[kept], priorities[kept]
        if self.config.shared > 0:
            others, which = self.pairs.same_transition(ids)
            old = self.queues.priority(others)
            stored = old > 0
            others, which, old = others[stored], which[stored], old[stored]
            weight = self._episode_weight[self.pairs.address(others).slot]
            share = self.config.shared
            self.queues.set(others, (1.0 - share) * old + share * priorities[which] * weight)
        self._set(ids, priorities)

    def sample(self, batches: int, n: int, replay_k: float, rng: np.random.Generator) -> tuple[Ints, Floats64]:
        """`batches` times n pairs, and how many times more often each is drawn than if all were equal: N P(i)."""
        drawn = [self.queues.sample(n, replay_k, rng) for _ in range(batches)]
        return np.stack([ids for ids, _ in drawn]), np.stack([odds for _, odds in drawn])

    def age(self, ids: Ints) -> Array:
        """How many collections ago the priorities were set."""
        return (self.now - self._set_at[ids].astype(np.int64)) % 2**16

    def export_state(self, episodes: int) -> State:
        """Of the first `episodes` slots, those in use."""
        return {
            "pairs": self.pairs.export_state(episodes),
            "queues": self.queues.export_state(),
            "now": self.now,
            "stored_at": self._stored_at[:episodes].copy(),
            "set_at": np.concatenate(self.pairs.used(self._set_at, episodes)),
            "episode_weight": self._episode_weight[:episodes].copy(),
            "values": self._values.copy(),
        }

    def restore_state(self, state: State, episodes: int) -> None:
        self.pairs.restore_state(state["pairs"], episodes)
        self.queues.restore_state(state["queues"])
        self.now = between(state["now"], "now", 0, 2**62)
        self._stored_at[:episodes] = fitting(state["stored_at"], "stored_at", (episodes,), np.int64)
        self._episode_weight[:episodes] = fitting(state["episode_weight"], "episode_weight", (episodes,), np.float32)
        self._values[:] = fitting(state["values"], "values", (2,), np.float64)
        actual, alternate = self.pairs.used(self._set_at, episodes)
        set_at = fitting(state["set_at"], "set_at", (len(actual) + len(alternate),), np.uint16)
        actual[:], alternate[:] = set_at[: len(actual)], set_at[len(actual) :]
