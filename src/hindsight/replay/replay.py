"""Hindsight replay: storage, goal rule, sampler and priorities composed. Relabelling recomputes reward and terminated.

Goals are chosen when sampled (HER) or when stored (HPER); transitions, or pairs of a transition and a goal, are drawn
uniformly or by priority. Every combination works.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from hindsight.config import PriorityConfig, ReplayConfig
from hindsight.envs.contract import GoalEnvSpec
from hindsight.episodes import Episodes
from hindsight.errors import HindsightError
from hindsight.goals import DESIRED, RULES, another_episode, relabelled_count
from hindsight.replay.pairs import Addresses, Pairs
from hindsight.replay.prioritized import Priorities, TDErrors
from hindsight.replay.samplers import MovedSampler, Movement, Sampler, UniformSampler
from hindsight.replay.storage import Storage, at
from hindsight.saving.tree import State, fitting
from hindsight.types import Array, Bools, Floats, Ints, Tensor


class Batch(NamedTuple):
    """`U` batches of `B` transitions each, as the learner reads them: every array is [U, B, ...]."""

    observation: Tensor
    next_observation: Tensor
    goal: Tensor  # features
    action: Tensor
    reward: Tensor
    terminated: Tensor  # 0 or 1
    importance: Tensor  # 1 / (N P(i)): 1 if all were drawn alike


class Replayed(NamedTuple):
    """What a learner makes `U` updates from."""

    batch: Batch  # [U, B, ...]; with fresh priorities these are candidates, B times as many
    actor: Batch | None = None  # [U, B, ...] for the actor; None: the same
    draws: Floats | None = None  # [U, B] uniform numbers that choose among the candidates; None: take all
    beta: float = 0.0  # exponent of the importance weights in the critic's loss
    actor_beta: float = 0.0  # and in the actor's
    alpha: float = 1.0  # exponent of the fresh priorities


class Sample(NamedTuple):
    """What was replayed, and from where."""

    replayed: Replayed
    addresses: Addresses  # [U, B]
    ids: Ints | None  # [U, B] of the entries whose priorities an update changes; None: there are none
    sampled_at: int  # how many times episodes had been stored


REDRAWS = 4
"""How often a stored goal that is met before the step is drawn again, before it is dropped."""

Evaluate = Callable[[Batch], TDErrors]
"""TD errors [n] and values [n] of a batch [n, ...]."""


class HindsightReplay:
    """Stores whole episodes and replays their transitions, most of them with goals that were achieved instead."""

    def __init__(
        self, spec: GoalEnvSpec, config: ReplayConfig | None = None, priority: PriorityConfig | None = None
    ) -> None:
        self.spec = spec
        self.config = config = config or ReplayConfig()
        self.priority = priority = priority or PriorityConfig()
        self.storage = Storage(spec, config.capacity)
        self.rule = RULES[config.goals]
        self.stored_goals = config.goals_chosen == "stored"
        rare = config.moved_unit == "usual"
        directions = 2 * int(np.prod(self.storage.achieved_goal.shape[2:]))
        self.movement = Movement(self.storage.slots, directions if rare else None)
        self.sampler: Sampler = UniformSampler()
        if config.moved_share > 0 or config.moved_power > 0:
            self.sampler = MovedSampler(self.movement, config.moved_share, config.moved_power, config.moved_threshold)
        self.priorities: Priorities | None = None
        if self.stored_goals or priority.index != "none":
            most = config.replay_k.bounds()[1] if self.stored_goals else 0.0
            pairs = Pairs(self.storage.slots, spec.horizon, config.goal_numbers, most)
            self.priorities = Priorities(pairs, priority)
        self.ends = self.ends_on_success = False  # whether any episode has ended before its time, and on success

    # ------------------------------------------------------------------------------------------------------- storing

    def add(
        self,
        episodes: Episodes,
        evaluate: Evaluate | None = None,
        progress: float = 0.0,
        rng: np.random.Generator | None = None,
    ) -> None:
        """Store episodes. With priorities, `evaluate` gives the TD errors of the new entries, all in one call;
        without it they get the largest priority there is. `rng` chooses the goals that are chosen when stored.
        """
        slots = self.storage.add(episodes)
        self.movement.add(slots, episodes)
        self.sampler.stored(self.storage)
        self.ends |= bool(episodes.terminated.any())
        self.ends_on_success |= bool((episodes.terminated & episodes.success).any())
        if self.priorities is None:
            return
        lengths = self.storage.length[slots]
        ids = self.priorities.pairs.actual_of(slots, lengths)
        if self.stored_goals:
            if rng is None:
                raise HindsightError("goals are chosen when stored, so add needs a random generator: add(..., rng=rng)")
            ids = np.concatenate([ids, self._choose_goals(slots, lengths, progress, rng)])
        config = self.config
        weight = self.movement.weight(self.storage.size, config.moved_power, config.moved_threshold, slots)
        self.priorities.replace(slots, weight)
        td = None if evaluate is None else evaluate(self.read(self.priorities.pairs.address(ids)))
        self.priorities.add(ids, td)

    def _choose_goals(self, slots: Ints, lengths: Ints, progress: float, rng: np.random.Generator) -> Ints:
        """The alternate pairs of newly stored episodes, their goals chosen."""
        assert self.priorities is not None
        pairs = self.priorities.pairs
        ids = pairs.alternate_of(slots, lengths, self.config.replay_k(progress))
        address, lengths_of_all = pairs.address(ids), self.storage.length[: self.storage.size]
        _, goal_time = self.rule(address.slot, address.step, lengths_of_all, rng)
        drop = self.config.drop_met(progress)
        if drop > 0:
            # Draw again where the goal is met before the step; drop those that find no other.
            redo = np.flatnonzero(rng.random(len(ids)) < drop)
            for attempt in range(REDRAWS + 1):
                slot, step = address.slot[redo], address.step[redo]
                if attempt:
                    _, goal_time[redo] = self.rule(slot, step, lengths_of_all, rng)
                redo = redo[self._met(slot, step, slot, goal_time[redo])]
            kept = np.ones(len(ids), np.bool_)
            kept[redo] = False
            ids, goal_time = ids[kept], goal_time[kept]
        pairs.set_goals(ids, goal_time)
        return ids

    # ------------------------------------------------------------------------------------------------------ replaying

    def sample(self, batches: int, batch_size: int, progress: float, rng: np.random.Generator) -> Sample:
        """`batches` batches. `progress` of the training, from 0 to 1, says where the schedules stand.

        Of goals chosen when sampled, the share k / (1 + k) of each batch is alternate.
        """
        config, draws, actor = self.priority, None, None
        candidates = batch_size * config.fresh
        replay_k = self.config.replay_k(progress)
        if self.priorities is None:
            ids, addresses = None, self._desired(*self.sampler.sample(batches, candidates, rng))
            importance = np.ones(addresses.slot.shape, np.float32)
        else:
            ids, odds = self.priorities.sample(batches, candidates, replay_k, rng)
            addresses = self.priorities.pairs.address(ids)
            importance = (1.0 / odds).astype(np.float32)
        if not self.stored_goals:
            addresses = self.relabel(addresses, replay_k, progress, rng)
        if config.fresh > 1:
            draws = rng.random((batches, batch_size), np.float32)
        if config.actor == "uniform":
            uniform = self._desired(*self.sampler.sample(batches, batch_size, rng))
            actor = self.read(self.relabel(uniform, replay_k, progress, rng))
        beta = 0.0 if config.correct == "none" else config.beta(progress)
        actor_beta = beta if config.correct == "both" else 0.0
        batch = self.read(addresses, importance)
        alpha = 1.0 if config.alpha is None else config.alpha
        now = 0 if self.priorities is None else self.priorities.now
        return Sample(Replayed(batch, actor, draws, beta, actor_beta, alpha), addresses, ids, now)

    def update(self, sample: Sample, td: TDErrors) -> None:
        """New TD errors [U, B] of what was sampled. Of an entry sampled twice, the last counts; one that was
        overwritten meanwhile keeps the priority of its successor.
        """
        if self.priorities is not None and sample.ids is not None:
            self.priorities.update(sample.ids.ravel(), td, sample.sampled_at)

    def _desired(self, slot: Ints, step: Ints) -> Addresses:
        return Addresses(slot, step, slot, np.full_like(step, DESIRED))

    def relabel(self, drawn: Addresses, replay_k: float, progress: float, rng: np.random.Generator) -> Addresses:
        """Alternate goals for the first k / (1 + k) of each batch [U, B].

        Of those that are met before the step, some give way to their own desired goal (drop_met) or to that of another
        episode (replace_met).
        """
        batches, batch_size = drawn.slot.shape
        count = relabelled_count(batch_size, replay_k)
        if count == 0:
            return drawn
        stored = self.storage.size
        slot, step = drawn.slot[:, :count].ravel(), drawn.step[:, :count].ravel()
        goal_slot, goal_time = self.rule(slot, step, self.storage.length[:stored], rng)
        drop, replace = self.config.drop_met(progress), self.config.replace_met(progress)
        if drop > 0 or replace > 0:
            met = self._met(slot, step, goal_slot, goal_time)
            if replace > 0:
                swap = met & (rng.random(len(slot)) < replace)
                goal_slot = np.where(swap, another_episode(slot, stored, rng), goal_slot)
                goal_time = np.where(swap, DESIRED, goal_time)
                met &= ~swap
            if drop > 0:
                back = met & (rng.random(len(slot)) < drop)
                goal_slot, goal_time = np.where(back, slot, goal_slot), np.where(back, DESIRED, goal_time)
        goal_slots, goal_times = drawn.slot.copy(), drawn.goal_time.copy()
        goal_slots[:, :count] = goal_slot.reshape(batches, count)
        goal_times[:, :count] = goal_time.reshape(batches, count)
        return Addresses(drawn.slot, drawn.step, goal_slots, goal_times)

    def _met(self, slot: Ints, step: Ints, goal_slot: Ints, goal_time: Ints) -> Bools:
        """Where the goal is met before the step."""
        return self.spec.reached(at(self.storage.achieved_goal, slot, step), self.storage.goal(goal_slot, goal_time))

    def read(self, addresses: Addresses, importance: Floats | None = None) -> Batch:
        """The transitions at the addresses, with the reward and terminated of the goals they pursue."""
        shape = addresses.slot.shape
        slot, step, goal_slot, goal_time = (part.ravel() for part in addresses)
        store = self.storage
        goal = store.goal(goal_slot, goal_time)
        achieved = at(store.achieved_goal, slot, step + 1)
        own = (goal_time == DESIRED) & (goal_slot == slot)
        parts = (
            at(store.observation, slot, step),
            at(store.observation, slot, step + 1),
            self.spec.goal(goal),
            at(store.action, slot, step),
            self.spec.goal_reward(achieved, goal),
            self._terminated(slot, step, achieved, goal, own).astype(np.float32),
            np.ones(len(slot), np.float32) if importance is None else importance.ravel(),
        )
        return Batch(*(part.reshape(*shape, *part.shape[1:]) for part in parts))

    def _terminated(self, slot: Ints, step: Ints, achieved: Array, goal: Array, own: Bools) -> Bools:
        """As it happened for an episode's own goal. For others: where the goal ends the episode, or a failure did."""
        if not self.ends and self.spec.goal_terminated is None:
            return np.zeros(len(slot), np.bool_)
        happened: Bools = at(self.storage.terminated, slot, step)
        failed = happened & ~at(self.storage.success, slot, step)
        if self.spec.goal_terminated is not None:
            at_goal = self.spec.goal_terminated(achieved, goal)
        elif self.ends_on_success:
            at_goal = self.spec.reached(achieved, goal)
        else:
            at_goal = np.zeros_like(happened)
        return np.where(own, happened, at_goal | failed)

    # --------------------------------------------------------------------------------------------------------- saving

    def export_state(self) -> State:
        """All that is stored, as copies: with the generator that is passed in, all that sampling depends on."""
        state = {
            "storage": self.storage.export_state(),
            "moved": self.movement.moved[: self.storage.size].copy(),
            "ends": self.ends,
            "ends_on_success": self.ends_on_success,
        }
        if self.priorities is not None:
            state["priorities"] = self.priorities.export_state(self.storage.size)
        return state

    def restore_state(self, state: State) -> None:
        """Go on from an exported state of a replay with the same settings."""
        self.storage.restore_state(state["storage"])
        size, movement = self.storage.size, self.movement.moved
        movement[:size] = fitting(state["moved"], "moved", (size, movement.shape[1]), np.float64)
        self.sampler.stored(self.storage)
        self.ends, self.ends_on_success = bool(state["ends"]), bool(state["ends_on_success"])
        if self.priorities is not None:
            self.priorities.restore_state(state["priorities"], self.storage.size)
