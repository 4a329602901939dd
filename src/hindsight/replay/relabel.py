"""Alternate goals for replayed transitions: chosen when they are sampled (HER), or when episodes
are stored (HPER)."""

from __future__ import annotations

import numpy as np

from hindsight.envs.contract import GoalEnvSpec
from hindsight.errors import HindsightError
from hindsight.goals import BORROWED, DESIRED, GoalRule, relabelled_count
from hindsight.replay.pairs import Addresses, Pairs
from hindsight.replay.storage import Storage, at
from hindsight.schedules import Schedule
from hindsight.types import Bools, Ints

REDRAWS = 4
"""How often a stored goal that is achieved before the step is drawn again, before it is dropped."""


class Relabel:
    """Draws alternate goals: a share of them are desired goals of other episodes, the others
    follow a rule. Of these, some that are achieved before the step are dropped or replaced."""

    def __init__(
        self,
        spec: GoalEnvSpec,
        storage: Storage,
        rule: GoalRule,
        other_goals: Schedule,
        drop_achieved: Schedule,
        replace_achieved: Schedule,
    ) -> None:
        self.spec = spec
        self.storage = storage
        self.rule = rule
        self.other_goals = other_goals
        self.drop_achieved = drop_achieved
        self.replace_achieved = replace_achieved

    def when_sampled(
        self, drawn: Addresses, replay_k: float, progress: float, rng: np.random.Generator
    ) -> Addresses:
        """Alternate goals for the first k / (1 + k) of each batch [U, B]; the first of these are
        those of other episodes.

        Of the rest, some that are achieved before the step give way to their own desired goal
        (drop_achieved) or to that of another episode (replace_achieved).
        """
        batches, batch_size = drawn.slot.shape
        count = relabelled_count(batch_size, replay_k)
        if count == 0:
            return drawn
        stored = self.storage.size
        slot, step = drawn.slot[:, :count].ravel(), drawn.step[:, :count].ravel()
        goal_slot, goal_time = self.rule(slot, step, self.storage.length[:stored], rng)
        drop, replace = self.drop_achieved(progress), self.replace_achieved(progress)
        first = np.arange(count) < round(count * self.other_goals(progress))
        borrow: Bools = np.tile(first, batches)
        achieved = np.zeros_like(borrow)
        if drop > 0 or replace > 0:
            achieved = self._achieved_before(slot, step, goal_slot, goal_time) & ~borrow
        if replace > 0:
            borrow |= achieved & (rng.random(len(slot)) < replace)
        if replace > 0 or borrow.any():
            goal_slot = np.where(borrow, self.storage.another(slot, rng), goal_slot)
            goal_time = np.where(borrow, DESIRED, goal_time)
        if drop > 0:
            back = achieved & ~borrow & (rng.random(len(slot)) < drop)
            goal_slot = np.where(back, slot, goal_slot)
            goal_time = np.where(back, DESIRED, goal_time)
        goal_slots, goal_times = drawn.slot.copy(), drawn.goal_time.copy()
        goal_slots[:, :count] = goal_slot.reshape(batches, count)
        goal_times[:, :count] = goal_time.reshape(batches, count)
        return Addresses(drawn.slot, drawn.step, goal_slots, goal_times)

    def when_stored(
        self, pairs: Pairs, slots: Ints, replay_k: float, progress: float, rng: np.random.Generator
    ) -> Ints:
        """The alternate pairs of newly stored episodes, their goals chosen.

        A share of the goals are those of other episodes, copied (other_goals). Of the rest,
        some that are achieved before the step give way to such a goal, too (replace_achieved),
        or are drawn again (drop_achieved); pairs that find no other are dropped.
        """
        ids = pairs.alternate_of(slots, self.storage.length[slots], replay_k)
        address, lengths = pairs.address(ids), self.storage.length[: self.storage.size]
        goal_slot, goal_time = self.rule(address.slot, address.step, lengths, rng)
        if not np.array_equal(goal_slot, address.slot):
            raise HindsightError(
                "this goal rule takes goals of other episodes: they cannot be chosen when stored, "
                "but by replay.other_goals"
            )
        borrow = np.zeros(len(ids), np.bool_)
        if pairs.borrowed:
            self.storage.borrow(slots, rng)
            borrow = rng.random(len(ids)) < self.other_goals(progress)
            achieved = self._achieved_before(address.slot, address.step, goal_slot, goal_time)
            borrow |= achieved & (rng.random(len(ids)) < self.replace_achieved(progress))
            which = rng.integers(0, pairs.borrowed, len(ids))
            goal_time = np.where(borrow, BORROWED - which, goal_time)
        drop = self.drop_achieved(progress)
        if drop > 0:
            redo = np.flatnonzero((rng.random(len(ids)) < drop) & ~borrow)
            for attempt in range(REDRAWS + 1):
                slot, step = address.slot[redo], address.step[redo]
                if attempt:
                    _, goal_time[redo] = self.rule(slot, step, lengths, rng)
                redo = redo[self._achieved_before(slot, step, slot, goal_time[redo])]
            kept = np.ones(len(ids), np.bool_)
            kept[redo] = False
            ids, goal_time = ids[kept], goal_time[kept]
        pairs.set_goals(ids, goal_time)
        return ids

    def _achieved_before(self, slot: Ints, step: Ints, goal_slot: Ints, goal_time: Ints) -> Bools:
        """Where the goal is achieved already before the step."""
        return self.spec.reached(
            at(self.storage.achieved_goal, slot, step), self.storage.goal(goal_slot, goal_time)
        )
