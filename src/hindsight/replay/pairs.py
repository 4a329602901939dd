"""Goals chosen when stored: how many alternate goals a transition gets, and the numbers of
(transition, goal) pairs.

With room for A alternate goals per episode of at most T steps and S slots, pair `slot * T +
step` is a transition with its actual goal, and the pairs from S * T on are the alternate ones, A
per slot, in the order of their steps. The number of a pair is its address: nothing is looked up
but the time at which its goal was achieved, and evicting an episode is overwriting its pairs.
The desired goal of another episode is one of a few copies that the episode keeps, so that it is
evicted with the pair.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple

import numpy as np

from hindsight.goals import BORROWED, DESIRED
from hindsight.saving.tree import State, all_between, fitting
from hindsight.types import Array, Bools, Floats64, Ints

GoalNumbers = Literal["uniform", "late", "early", "early_doubled", "early_doubled_plus_1"]


class Addresses(NamedTuple):
    """Where replayed transitions are stored and which goal each pursues; arrays of one shape."""

    slot: Ints
    step: Ints
    goal_slot: Ints
    goal_time: Ints  # a time of the goal slot's episode, or DESIRED, or BORROWED and below

    @property
    def alternate(self) -> Bools:
        """Where the goal is not the one that the episode pursued."""
        other: Bools = (self.goal_time != DESIRED) | (self.goal_slot != self.slot)
        return other


def goal_number(rule: GoalNumbers, step: Array, length: Array, replay_k: float) -> Ints:
    """How many alternate goals step t of an episode of T steps gets.

    uniform k; late t/T k (the paper's Section 3.2); early (1 - t/T) k (its Algorithm 2);
    early_doubled 2 k (T - t)/(T + 1) (its published code), which is k on average and gives each
    step its share of the future; early_doubled_plus_1 one more (the same code for one queue).
    """
    t, T = np.asarray(step, np.float64), np.asarray(length, np.float64)
    if rule == "early_doubled_plus_1":
        return goal_number("early_doubled", t, T, replay_k) + (replay_k > 0)
    shares: dict[str, Floats64] = {
        "uniform": np.ones(np.broadcast_shapes(t.shape, T.shape)),
        "late": t / T,
        "early": 1.0 - t / T,
        "early_doubled": 2.0 * (T - t) / (T + 1.0),
    }
    return np.rint(shares[rule] * replay_k).astype(np.int64)


class Places(NamedTuple):
    """The pairs of new episodes, whose number depends on where those are stored; arrays [n].

    A place below T is a step with the actual goal; from T on, they are the alternate pairs.
    """

    episode: Array
    place: Array
    goal_time: Array  # when the goal was achieved, or DESIRED


class Pairs:
    """The pairs of `slots` episodes of at most `horizon` steps, with room for up to `replay_k`
    goals on average. An episode keeps `borrowed` goals of others."""

    def __init__(
        self, slots: int, horizon: int, rule: GoalNumbers, replay_k: float, borrowed: int = 0
    ) -> None:
        steps = np.arange(horizon)
        lengths = np.arange(1, horizon + 1)
        numbers = goal_number(rule, steps[:, None], lengths, replay_k)
        room = np.where(lengths > steps[:, None], numbers, 0).max(axis=1)
        self.slots = slots
        self.horizon = horizon
        self.rule: GoalNumbers = rule
        self.borrowed = borrowed
        self.actual = slots * horizon
        self.first: Ints = np.concatenate(
            [[0], np.cumsum(room)]
        )  # alternate pairs of an episode before each step
        self.per_episode = int(self.first[-1])
        self.alternate = slots * self.per_episode
        self._step_of = np.repeat(steps, room)
        self._goal_time = np.zeros(self.alternate, np.int16 if horizon < 2**15 else np.int32)

    def address(self, ids: Ints) -> Addresses:
        """Where the pairs are stored and which goals they pursue."""
        if self.per_episode == 0:
            slot, step = np.divmod(ids, self.horizon)
            return Addresses(slot, step, slot, np.full_like(ids, DESIRED))
        alternate = ids >= self.actual
        number = np.where(alternate, ids - self.actual, 0)
        slot = np.where(alternate, number // self.per_episode, ids // self.horizon)
        step = np.where(alternate, self._step_of[number % self.per_episode], ids % self.horizon)
        goal_time = np.where(alternate, self._goal_time[number], DESIRED)
        return Addresses(slot, step, slot, goal_time)

    def places(self, ids: Ints) -> Places:
        """The pairs of episodes, by slot and their place there."""
        alternate = ids >= self.actual
        number = np.where(alternate, ids - self.actual, ids)
        size = np.where(alternate, self.per_episode, self.horizon)
        place = number % size + np.where(alternate, self.horizon, 0)
        goal_time = np.full_like(ids, DESIRED)
        goal_time[alternate] = self._goal_time[number[alternate]]
        return Places(*(part.astype(np.int32) for part in (number // size, place, goal_time)))

    def add(self, places: Places, slots: Ints) -> Ints:
        """The numbers of pairs whose episodes are now in these slots; their goals are set."""
        slot, alternate = slots[places.episode], places.place >= self.horizon
        ids: Ints = np.where(
            alternate,
            self.actual + slot * self.per_episode + places.place - self.horizon,
            slot * self.horizon + places.place,
        )
        self.set_goals(ids[alternate], places.goal_time[alternate])
        return ids

    def of_slots(self, slots: Ints) -> Ints:
        """All pairs that these slots have room for."""
        actual = (slots[:, None] * self.horizon + np.arange(self.horizon)).ravel()
        alternate = (
            self.actual + slots[:, None] * self.per_episode + np.arange(self.per_episode)
        ).ravel()
        return np.concatenate([actual, alternate])

    def actual_of(self, slots: Ints, lengths: Ints) -> Ints:
        """The pairs of the episodes' transitions with their actual goals."""
        real = np.arange(self.horizon) < lengths[:, None]
        return (slots[:, None] * self.horizon + np.arange(self.horizon))[real]

    def alternate_of(self, slots: Ints, lengths: Ints, replay_k: float) -> Ints:
        """The pairs that receive alternate goals: for each step as many as the rule says."""
        steps = np.arange(self.horizon)
        numbers = goal_number(self.rule, steps, np.maximum(lengths, 1)[:, None], replay_k)
        numbers = np.where(steps < lengths[:, None], numbers, 0)
        wanted = (np.arange(self.per_episode) - self.first[self._step_of]) < numbers[
            :, self._step_of
        ]
        return (self.actual + slots[:, None] * self.per_episode + np.arange(self.per_episode))[
            wanted
        ]

    def set_goals(self, ids: Ints, goal_time: Ints) -> None:
        """The alternate pairs `ids` pursue what was achieved at these times of their own
        episode, or goals that it borrowed."""
        self._goal_time[ids - self.actual] = goal_time

    def used(self, values: Array, episodes: int) -> tuple[Array, Array]:
        """Of values by pair, views of those of the first slots: with actual goals, and with
        alternate ones."""
        return values[: episodes * self.horizon], values[self.actual :][
            : episodes * self.per_episode
        ]

    def export_state(self, episodes: int) -> State:
        return {"goal_time": self._goal_time[: episodes * self.per_episode].copy()}

    def restore_state(self, state: State, episodes: int) -> None:
        used = self._goal_time[: episodes * self.per_episode]
        saved = fitting(state["goal_time"], "goal_time", used.shape, used.dtype)
        least = BORROWED - self.borrowed + 1 if self.borrowed else 0
        used[:] = all_between(saved, "goal_time", least, self.horizon)

    def before(self, ids: Ints, held: Callable[[Ints], Bools]) -> tuple[Ints, Ints]:
        """The pairs of the steps before, under the same goals, that are held; and which of `ids`
        each belongs to."""
        at = self.address(ids)
        own = np.flatnonzero((ids < self.actual) & (at.step > 0))
        start = self.first[np.maximum(at.step - 1, 0)]
        count = np.where(at.step > 0, self.first[at.step] - start, 0)
        which = np.flatnonzero((ids >= self.actual) & (count > 0))
        if not len(which):
            return ids[own] - 1, own
        place = np.arange(count.max())
        first = at.slot[which] * self.per_episode + start[which]
        room = place < count[which, None]
        numbers = np.where(room, first[:, None] + place, 0)
        room &= held(self.actual + numbers.ravel()).reshape(room.shape)
        room &= self._goal_time[numbers] == at.goal_time[which, None]
        found, same = room.any(axis=1), self.actual + first + room.argmax(axis=1)
        before = np.concatenate([ids[own] - 1, same[found]])
        return before, np.concatenate([own, which[found]])

    def same_transition(self, ids: Ints) -> tuple[Ints, Ints]:
        """All other pairs that there is room for at the transitions of `ids`, and which of `ids`
        each belongs to."""
        at = self.address(ids)
        start, count = self.first[at.step], self.first[at.step + 1] - self.first[at.step]
        which = np.repeat(np.arange(len(ids)), count)
        within = np.arange(len(which)) - np.repeat(np.cumsum(count) - count, count)
        alternate = self.actual + at.slot[which] * self.per_episode + start[which] + within
        others = np.concatenate([at.slot * self.horizon + at.step, alternate])
        which = np.concatenate([np.arange(len(ids)), which])
        other = others != ids[which]
        return others[other], which[other]
