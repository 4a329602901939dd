"""Priorities of stored pairs: what sets them, and which queues they are kept in.

A priority is a function of what is known of a pair (`Signals`), chosen by name
(`priority.signal`), times the weight of its episode. A new signal is one function in `SIGNALS`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Literal

import numpy as np

from hindsight.errors import HindsightError, nearest
from hindsight.replay.batch import Batch, TDErrors
from hindsight.replay.pairs import Pairs
from hindsight.replay.priority_index import check_priorities
from hindsight.replay.queues import ALPHA, Kind, Queues
from hindsight.saving.tree import State, between, fitting
from hindsight.schedules import Schedule
from hindsight.settings import (
    Count,
    Exponent,
    NotNegative,
    Range,
    Search,
    Share,
    refuse_changes,
)
from hindsight.types import Array, Floats, Floats64, Ints


@dataclass(frozen=True)
class PriorityConfig:
    """Which transitions, or pairs of a transition and a goal, are replayed more often than
    others."""

    sampling: Literal["uniform", "proportional", "rank", "rank_heap"] = "uniform"
    """In proportion to the priority, by its exact rank, or by its place in a heap (the paper's);
    or all alike."""
    signal: str = "td_error"
    """What sets the priority of a pair."""
    alpha: Annotated[Exponent, Search(0.2, 1.0)] = None
    """How much priorities count, 0 for not at all; 0.6 for proportional and 0.7 for rank if not
    given."""
    beta: Annotated[Schedule, Range(0, 2)] = Schedule("linear", (0.5, 1.0))
    """How much of the bias is corrected by importance weights: 1 for all of it. Above 1 they weigh
    against what is drawn often, as the paper's code does."""
    bias_correction: Literal["critic", "both", "none"] = "critic"
    """Whose loss the importance weights go into."""
    pairs_per_rank: Count = 1
    """So many neighbours in the order count as of one rank, as if the pairs were divided among so
    many workers with queues of their own."""
    queues: Literal["single_queue", "two_queues"] = "single_queue"
    """One queue, or one each for actual and alternate goals, drawn 1 : replay_k (if goals are
    chosen when stored)."""
    stratified: bool = True
    """Draw one entry from each of batch_size pieces of equal probability."""
    updates_per_draw: Count = 10
    """Updates of the learner between two draws: the priorities of a draw are as old as that."""
    initial: Literal["td_error", "largest", "predicted"] = "td_error"
    """Priority of new pairs: by their TD errors, the largest stored, or what a small model
    predicts."""
    epsilon: NotNegative = 1e-6
    """Added to |TD error|."""
    shared: Share = 0.0
    """How far the other goals of a transition follow the TD error of the one that was replayed."""
    sweep: Share = 0.0
    """How much of a pair's priority the pair of the step before, under the same goal, gets at
    least, if there is one (prioritised sweeping)."""
    fresh: Count = 1
    """Candidates drawn per transition replayed; fresh TD errors choose among them. 1 turns it
    off."""
    chosen_by: Literal["critic", "model"] = "critic"
    """Whose TD errors choose among the candidates: the critic's, or those that a small model
    predicts, which suggests pairs without evaluating them."""

    def check(self) -> None:
        """Raise HindsightError naming a setting that nothing would read."""
        if self.signal not in SIGNALS:
            raise HindsightError(
                f"unknown priority.signal {self.signal!r}.{nearest(self.signal, SIGNALS)}"
            )
        if self.sampling == "uniform":
            why = "while priority.sampling is uniform"
            names: tuple[str, ...] = ("signal", "updates_per_draw", "initial", "shared", "sweep")
            names += ("alpha", "beta", "bias_correction", "epsilon") if self.fresh == 1 else ()
            refuse_changes(self, names, "priority.", why)
        if self.kind == "proportional":
            why = "while priority.sampling is not by rank"
            refuse_changes(self, ("pairs_per_rank",), "priority.", why)
        if self.fresh == 1:
            refuse_changes(self, ("chosen_by",), "priority.", "while priority.fresh is 1")
        else:
            why = "where fresh TD errors choose among candidates"
            refuse_changes(self, ("pairs_per_rank",), "priority.", why)

    @property
    def exponent(self) -> float:
        """Alpha, or its default."""
        return ALPHA[self.kind] if self.alpha is None else self.alpha

    @property
    def kind(self) -> Kind:
        """Of the queues. Pairs that are all alike are kept as pairs of equal priority."""
        return "proportional" if self.sampling == "uniform" else self.sampling


class Signals:
    """What is known of n pairs."""

    def __init__(self, td: TDErrors, age: Ints, read: Callable[[], Batch]) -> None:
        self.td_error: Floats64 = np.asarray(td.error, np.float64).ravel()
        self.value: Floats64 = np.asarray(td.value, np.float64).ravel()
        """Q(s||g, a)."""
        self.age = age
        """How many collections ago the priority was set; 0 for a new pair."""
        self._read = read

    @cached_property
    def _batch(self) -> Batch:
        return self._read()

    @property
    def reward(self) -> Floats:
        reward: Floats = self._batch.reward
        return reward

    @property
    def goal(self) -> Floats:
        """Features [n, g]."""
        goal: Floats = self._batch.goal
        return goal


def td_error(signals: Signals) -> Floats64:
    """|TD error|: what a pair can still teach (Schaul et al., 2016)."""
    return np.abs(signals.td_error)


SIGNALS: dict[str, Callable[[Signals], Floats64]] = {"td_error": td_error}


class Priorities:
    """The queues of all pairs. A priority is the signal times the episode's weight."""

    def __init__(self, pairs: Pairs, config: PriorityConfig) -> None:
        self.pairs = pairs
        self.config = config
        self.signal = SIGNALS[config.signal]
        two = config.queues == "two_queues"
        alpha = (
            config.exponent if self.prioritised else 1.0
        )  # pairs that are alike are as likely as their episodes
        self.queues = Queues(
            config.kind,
            alpha,
            pairs.actual,
            pairs.alternate,
            two,
            config.stratified,
            config.pairs_per_rank,
        )
        self.now = 0  # how many times episodes were stored
        self._stored_at = np.zeros(pairs.slots, np.int64)
        self._set_at = np.zeros(pairs.actual + pairs.alternate, np.uint16)  # modulo 2**16
        self._episode_weight = np.ones(pairs.slots, np.float32)

    @property
    def prioritised(self) -> bool:
        return self.config.sampling != "uniform"

    def replace(self, slots: Ints, episode_weight: Array) -> None:
        """These slots hold new episodes: forget the pairs that they held, and weigh those to
        come."""
        pairs = self.pairs.of_slots(slots)
        self.queues.remove(pairs)
        self._episode_weight[slots] = episode_weight
        self.now += 1
        self._stored_at[slots] = self.now
        self._set_at[pairs] = self.now % 2**16

    def push(
        self, ids: Ints, td: TDErrors | None, read: Callable[[Ints], Batch], sampled_at: int
    ) -> None:
        """Push pairs that were stored or sampled when `now` was `sampled_at`, by their TD errors.

        Without TD errors they get the largest priority that is stored, as far as the weights of
        their episodes allow, or 1 if none is. Those overwritten since are left alone. The other
        goals of their transitions follow them by the share `shared`.
        """
        if td is None:
            weight = self._episode_weight[self.pairs.address(ids).slot]
            largest = 0.0
            if (
                self.prioritised
            ):  # of an episode of the largest weight, so that none gets more than the largest
                largest = self.queues.largest() / self._episode_weight[self._stored_at > 0].max()
            self._set(ids, (largest or 1.0) * weight.astype(np.float64))
            return
        signal = self.signal(Signals(td, self.age(ids), lambda: read(ids)))
        priorities = check_priorities(np.maximum(signal + self.config.epsilon, 0.0))
        kept = self._stored_at[self.pairs.address(ids).slot] <= sampled_at
        ids, priorities = ids[kept], priorities[kept]
        if self.config.shared > 0:
            self._share(ids, priorities)
        if self.config.sweep > 0:
            self._sweep(ids, priorities)
        self._set(ids, priorities * self._episode_weight[self.pairs.address(ids).slot])

    def _set(self, ids: Ints, priorities: Floats64) -> None:
        self.queues.set(ids, priorities)
        self._set_at[ids] = self.now % 2**16

    def _share(self, ids: Ints, priorities: Floats64) -> None:
        """Move the other stored goals of the pairs' transitions towards the pairs' priorities."""
        others, which = self.pairs.same_transition(ids)
        old = self.queues.priority(others)
        stored = old > 0
        others, which, old = others[stored], which[stored], old[stored]
        weight = self._episode_weight[self.pairs.address(others).slot]
        share = self.config.shared
        self.queues.set(others, (1.0 - share) * old + share * priorities[which] * weight)

    def _sweep(self, ids: Ints, priorities: Floats64) -> None:
        """Raise the pairs of the steps before, which the values of these teach."""
        before, which = self.pairs.before(ids, lambda pairs: self.queues.priority(pairs) > 0)
        weight = self._episode_weight[self.pairs.address(before).slot]
        least = self.config.sweep * priorities[which] * weight
        raised = np.flatnonzero((old := self.queues.priority(before)) > 0)
        raised = raised[(least > old)[raised]]
        raised = raised[np.argsort(least[raised], kind="stable")]  # of one named twice, the most
        self.queues.set(before[raised], least[raised])

    def sample(
        self, batches: int, n: int, replay_k: float, rng: np.random.Generator
    ) -> tuple[Ints, Floats64]:
        """`batches` times n pairs, and how many times more often each is drawn than if all were
        equal: N P(i).

        What the weights of episodes do is meant, and no bias, so it is left out, up to a factor
        that all share. Ranks are of both together: by rank it cannot be told apart.
        """
        drawn = [self.queues.sample(n, replay_k, rng) for _ in range(batches)]
        ids, odds = np.stack([ids for ids, _ in drawn]), np.stack([odds for _, odds in drawn])
        if self.config.kind == "proportional":
            odds /= self._episode_weight[self.pairs.address(ids).slot] ** self.queues.alpha
        return ids, odds

    def age(self, ids: Ints) -> Ints:
        """How many collections ago the priorities were set."""
        age: Ints = (self.now - self._set_at[ids].astype(np.int64)) % 2**16
        return age

    def export_state(self, episodes: int) -> State:
        """Of the first `episodes` slots, those in use."""
        return {
            "queues": self.queues.export_state(),
            "now": self.now,
            "stored_at": self._stored_at[:episodes].copy(),
            "set_at": np.concatenate(self.pairs.used(self._set_at, episodes)),
            "episode_weight": self._episode_weight[:episodes].copy(),
        }

    def restore_state(self, state: State, episodes: int) -> None:
        self.queues.restore_state(state["queues"])
        self.now = between(state["now"], "now", 0, 2**62)
        self._stored_at[:episodes] = fitting(state["stored_at"], "stored_at", (episodes,), np.int64)
        self._episode_weight[:episodes] = fitting(
            state["episode_weight"], "episode_weight", (episodes,), np.float32
        )
        actual, alternate = self.pairs.used(self._set_at, episodes)
        set_at = fitting(state["set_at"], "set_at", (len(actual) + len(alternate),), np.uint16)
        actual[:], alternate[:] = set_at[: len(actual)], set_at[len(actual) :]
