"""Hindsight replay: storage, goal rule, sampler and priorities composed. Relabelling recomputes
reward and terminated.

Goals are chosen when sampled (HER) or when stored (HPER); transitions, or pairs of a transition
and a goal, are drawn uniformly or by priority. Every combination works.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Literal, NamedTuple

import numpy as np

from hindsight.envs.contract import GoalEnvSpec
from hindsight.episodes import Episodes
from hindsight.errors import HindsightError
from hindsight.goals import DESIRED, RULES
from hindsight.replay.batch import Batch, Fresh, NewPairs, RewardScale, Sample, TDErrors
from hindsight.replay.pairs import Addresses, GoalNumbers, Pairs
from hindsight.replay.priorities import Priorities, PriorityConfig
from hindsight.replay.relabel import Relabel
from hindsight.replay.samplers import MovedSampler, Movement, Sampler, UniformSampler
from hindsight.replay.storage import Storage, at
from hindsight.saving.tree import State, fitting
from hindsight.schedules import Schedule
from hindsight.settings import (
    Count,
    NotNegative,
    RateSchedule,
    Search,
    Share,
    ShareSchedule,
    refuse_changes,
)
from hindsight.types import Array, Bools, Floats, Ints

BORROWED_GOALS = 16
"""Desired goals of others that an episode keeps, if its pairs may pursue such goals."""


@dataclass(frozen=True)
class ReplayConfig:
    """What is stored and what is replayed."""

    buffer_size: Count = 1_000_000
    """Stored transitions."""
    goal_rule: str = "future"
    """Which achieved goals stand in for the desired one: future, next_future, final, episode or
    random."""
    goals_chosen: Literal["sampled", "stored"] = "sampled"
    """When alternate goals are chosen: anew for every batch (HER), or once, when an episode is
    stored (HPER)."""
    replay_k: Annotated[RateSchedule, Search(1.0, 8.0)] = Schedule.parse(4.0)
    """Alternate goals per actual goal; 0 turns hindsight off. Chosen when sampled: k/(1+k) of
    every batch. Chosen when stored: about k per transition, by `goal_numbers`; two queues are
    also drawn 1 : k."""
    goal_numbers: GoalNumbers = "early_doubled"
    """Alternate goals of step t of T, if chosen when stored: k, k t/T, k (1 - t/T), or 2k (T -
    t)/(T + 1)."""
    other_goals: ShareSchedule = Schedule.parse(0.0)
    """Share of the alternate goals that are desired goals of other episodes. With replay_k 4, 0.5
    is 2 : 2 : 1 of achieved, others' and own goals, if none is dropped or replaced; step(0, 0.5,
    0.02) begins after 2 % of the training."""
    drop_achieved: ShareSchedule = Schedule.parse(0.0)
    """Probability that an alternate goal achieved before the step is drawn again, or dropped if
    there is no other."""
    replace_achieved: ShareSchedule = Schedule.parse(0.0)
    """Probability that an alternate goal achieved before the step gives way to another episode's
    desired goal."""
    moved_share: Share = 0.0
    """Share of every batch from episodes whose achieved goal moved; 0 turns the rule off."""
    moved_threshold: NotNegative = 0.01
    """How far it must have moved (in the goal's own unit)."""
    moved_power: NotNegative = 0.0
    """Episodes are replayed in proportion to (distance that the achieved goal moved)^power; 0
    turns it off."""
    moved_unit: Literal["goal", "usual"] = "goal"
    """Distance in the goal's own unit; or, in each direction, by how far goals usually move in
    it: rare moves first."""


def check_replay(replay: ReplayConfig, priority: PriorityConfig) -> None:
    """Raise HindsightError naming settings that do not go together, or that nothing would read."""
    stored, prioritised = replay.goals_chosen == "stored", priority.sampling != "uniform"
    if replay.goal_rule not in RULES:
        known = ", ".join(RULES)
        raise HindsightError(f"unknown replay.goal_rule {replay.goal_rule!r}: choose from {known}")
    refused = (
        (
            stored and replay.goal_rule == "random",
            "achieved goals chosen when stored are those of their own episode: replay.goal_rule "
            "cannot be random",
        ),
        (
            (stored or prioritised) and replay.moved_share > 0,
            "replay.moved_share is for uniform replay: set it to 0 and use replay.moved_power",
        ),
        (
            replay.moved_power > 0 and replay.moved_threshold == 0,
            "replay.moved_power needs a replay.moved_threshold above 0: episodes in which nothing "
            "moved would have no weight at all",
        ),
        (
            priority.queues == "two_queues" and not stored,
            "two queues need goals chosen when stored: set replay.goals_chosen to stored, too",
        ),
    )
    for wrong, text in refused:
        if wrong:
            raise HindsightError(text)
    if replay.replay_k.bounds()[1] == 0:
        refuse_changes(replay, ("other_goals",), "replay.", "while replay.replay_k is 0")
    if not stored:
        refuse_changes(replay, ("goal_numbers",), "replay.", "while replay.goals_chosen is sampled")
    if not replay.moved_power:
        refuse_changes(replay, ("moved_unit",), "replay.", "while replay.moved_power is 0")
    if not (stored or prioritised):
        refuse_changes(priority, ("stratified",), "priority.", "while priority.sampling is uniform")
    priority.check()


def failure_rewards(episodes: Episodes, spec: GoalEnvSpec) -> Floats:
    """Of every episode [N] that failed, what its last reward has besides that of its goal, such as
    a penalty for a collision; 0 for the others."""
    found, failed = np.zeros(len(episodes), np.float32), np.flatnonzero(episodes.failed())
    if len(failed):
        length = episodes.length[failed]
        achieved = episodes.achieved_goal[failed, length]
        own = episodes.reward[failed, length - 1]
        extra = own - spec.goal_reward(achieved, episodes.desired_goal[failed])
        found[failed] = np.where(np.isclose(extra, 0.0, atol=1e-4), 0.0, extra)
    return found


class Seen(NamedTuple):
    """What episodes have told of the env."""

    ends: bool
    """Before their time."""
    ends_on_success: bool
    reached_from: float
    """Of a dense reward: the smallest with which a goal was reached."""
    missed_until: float
    """And the largest without."""


class HindsightReplay:
    """Stores whole episodes and replays their transitions, most of them with goals that were
    achieved instead."""

    def __init__(
        self,
        spec: GoalEnvSpec,
        storage: Storage,
        relabel: Relabel,
        sampler: Sampler,
        movement: Movement,
        pairs: Pairs | None = None,
        priorities: Priorities | None = None,
        config: ReplayConfig | None = None,
        priority: PriorityConfig | None = None,
    ) -> None:
        self.spec = spec
        self.storage = storage
        self.relabel = relabel
        self.sampler = sampler
        self.movement = movement
        self.pairs = pairs
        self.priorities = priorities
        self.config = config or ReplayConfig()
        self.priority = priority or PriorityConfig()
        self.stored_goals = self.config.goals_chosen == "stored"
        # Whether any episode has ended before its time, and on success
        self.ends = self.ends_on_success = False
        # Of episodes that failed [slots]: what the env gave for it, besides the reward of the goal
        self.failure_reward = np.zeros(storage.slots, np.float32)
        # Of a dense reward: the smallest with which a goal was reached, and the largest without
        self.reached_from, self.missed_until = np.inf, -np.inf
        self.reward_scale = RewardScale()  # how rewards are given out
        self._scale_by: Callable[[bool], RewardScale] | None = None

    @property
    def prioritised(self) -> bool:
        return self.priorities is not None and self.priorities.prioritised

    @property
    def seen(self) -> Seen:
        return Seen(self.ends, self.ends_on_success, self.reached_from, self.missed_until)

    @seen.setter
    def seen(self, seen: Seen) -> None:
        self.ends, self.ends_on_success, self.reached_from, self.missed_until = seen

    @property
    def ends_at_goal(self) -> bool:
        """Whether reaching a goal ends an episode: as it was seen to, or by the env's own word
        about some goals."""
        goals = self.storage.desired_goal[: min(self.storage.size, 64)]
        if self.ends_on_success or self.spec.goal_terminated is None or not len(goals):
            return self.ends_on_success
        return bool(self.spec.goal_terminated(goals, goals).any())

    def scale_rewards(self, by: Callable[[bool], RewardScale]) -> None:
        """Give rewards out by a scale, which may depend on whether goals end episodes."""
        self._scale_by = by
        self.reward_scale = by(self.ends_at_goal)

    # ------------------------------------------------------------------------------------- storing

    def store(
        self,
        episodes: Episodes,
        progress: float = 0.0,
        rng: np.random.Generator | None = None,
        found: NewPairs | None = None,
    ) -> Ints:
        """Store episodes and return the numbers of their new pairs, which wait to be pushed; none
        if nothing is.

        `rng` chooses the goals that are chosen when stored, unless the pairs were found already.
        """
        slots = self.storage.add(episodes)
        self.failure_reward[slots] = failure_rewards(episodes, self.spec)[-len(slots) :]
        self.movement.add(slots, episodes)
        self.sampler.stored(self.storage)
        if self.spec.success_reward is None:
            self._tell_reached(episodes)
        self.ends |= bool(episodes.terminated.any())
        self.ends_on_success |= bool((episodes.terminated & episodes.success).any())
        if self._scale_by is not None:
            self.scale_rewards(self._scale_by)
        if self.pairs is None or self.priorities is None:
            return np.zeros(0, np.int64)
        if found is not None and len(slots) < len(episodes):
            raise HindsightError(
                f"replay.buffer_size holds {len(slots)} episodes, fewer than the "
                f"{len(episodes)} of one cycle: make it larger"
            )
        new = self.pairs.actual_of(slots, self.storage.length[slots])
        if found is not None:
            new = self.pairs.add(found.places, slots)
        elif self.stored_goals:
            if rng is None:
                raise HindsightError(
                    "goals are chosen when stored, which needs a random generator: store(..., "
                    "rng=rng)"
                )
            replay_k = self.config.replay_k(progress)
            new = np.concatenate(
                [new, self.relabel.when_stored(self.pairs, slots, replay_k, progress, rng)]
            )
        power, least = self.config.moved_power, self.config.moved_threshold
        weight = self.movement.weight(self.storage.size, power, least, slots)
        by_stage = self.storage.stage_weight(slots)
        self.priorities.replace(slots, weight if by_stage is None else by_stage * weight)
        return new

    def _tell_reached(self, episodes: Episodes) -> None:
        """Learn from the env's own word how good a dense reward must be for the goal to count as
        reached."""
        real = episodes.real
        desired = np.repeat(episodes.desired_goal, episodes.length, axis=0)
        reward = self.spec.goal_reward(episodes.achieved_goal[:, 1:][real], desired)
        success = episodes.success[real]
        self.reached_from = float(reward[success].min(initial=self.reached_from))
        self.missed_until = float(reward[~success].max(initial=self.missed_until))

    def _reached(self, achieved: Array, goal: Array) -> Bools:
        """Where goals are reached. Of a dense reward: exactly, or as closely as has been seen to
        do, if the reward alone decides."""
        if self.spec.success_reward is None and self.missed_until < self.reached_from < np.inf:
            return self.spec.goal_reward(achieved, goal) >= self.reached_from
        return self.spec.reached(achieved, goal)

    def new_pairs(self, pairs: Ints, td: TDErrors | None) -> NewPairs | None:
        """What another replay needs to store the same pairs; None if there are no pairs."""
        return None if self.pairs is None else NewPairs(self.pairs.places(pairs), td)

    def push(self, pairs: Ints | None, td: TDErrors | None, sampled_at: int | None = None) -> None:
        """Push pairs into the queues by their TD errors; new ones without TD errors get the largest
        priority.

        Of a pair that is there twice, the last counts; one that was overwritten since
        `sampled_at` is left alone.
        """
        if self.priorities is None or pairs is None:
            return
        if not self.prioritised:
            if sampled_at is not None:
                return  # all pairs are alike
            td = None
        at = self.priorities.now if sampled_at is None else sampled_at
        self.priorities.push(pairs.ravel(), td, self.read, at)

    # ----------------------------------------------------------------------------------- replaying

    def sample(
        self, batches: int, batch_size: int, progress: float, rng: np.random.Generator
    ) -> Sample:
        """`batches` batches. `progress` of the training, from 0 to 1, says where the schedules
        stand.

        Of goals chosen when sampled, the share k / (1 + k) of each batch is alternate.
        """
        priority = self.priority
        candidates = batch_size * priority.fresh
        replay_k = self.config.replay_k(progress)
        pairs, importance = None, None
        if self.pairs is None or self.priorities is None:
            addresses = self._desired(*self.sampler.sample(batches, candidates, rng))
        else:
            pairs, odds = self.priorities.sample(batches, candidates, replay_k, rng)
            addresses = self.pairs.address(pairs)
            if self.prioritised:  # else more is drawn of some episodes on purpose, and no bias
                importance = (1.0 / odds).astype(np.float32)
        if not self.stored_goals:
            addresses = self.relabel.when_sampled(addresses, replay_k, progress, rng)
        draws = rng.random((batches, batch_size), np.float32) if priority.fresh > 1 else None
        beta = 0.0 if priority.bias_correction == "none" else priority.beta(progress)
        actor_beta = _each(beta if priority.bias_correction == "both" else 0.0, batches)
        fresh = None
        if draws is not None:
            fresh = Fresh(
                draws,
                _each(priority.exponent, batches),
                _each(priority.epsilon, batches),
                np.tile(np.array(self._ranked(), np.float32), (batches, 1)),
                *self._queues(pairs, batch_size, replay_k),
            )
        batch = self._read(addresses, importance)
        batch = batch._replace(beta=_each(beta, batches), actor_beta=actor_beta, fresh=fresh)
        now = 0 if self.priorities is None else self.priorities.now
        return Sample(batch, addresses, pairs, now)

    def _ranked(self) -> tuple[int, int]:
        """How many entries of the queues, one or two, have ranks."""
        if self.priorities is None or self.priority.kind == "proportional":
            return 0, 0
        sizes = [len(index) for index in self.priorities.queues.indexes]
        return sizes[0], sizes[-1]

    def _queues(
        self, pairs: Ints | None, batch_size: int, replay_k: float
    ) -> tuple[Array | None, Array | None]:
        """Of two queues: which one each pair is of, and which one each to be chosen."""
        if pairs is None or self.priorities is None or len(self.priorities.queues.indexes) == 1:
            return None, None
        counts = self.priorities.queues.counts(batch_size, replay_k)
        due = np.repeat(np.arange(2, dtype=np.int32), counts)
        queue = (pairs >= self.priorities.pairs.actual).astype(np.int32)
        return queue, np.tile(due, (len(pairs), 1))

    def _desired(self, slot: Ints, step: Ints) -> Addresses:
        return Addresses(slot, step, slot, np.full_like(step, DESIRED))

    def read(self, pairs: Ints) -> Batch:
        """The transitions of pairs [n], with the reward and terminated of the goals they pursue."""
        assert self.pairs is not None
        return self._read(self.pairs.address(pairs))

    def _read(self, addresses: Addresses, importance: Floats | None = None) -> Batch:
        shape = addresses.slot.shape
        slot, step, goal_slot, goal_time = (part.ravel() for part in addresses)
        store = self.storage
        goal = store.goal(goal_slot, goal_time)
        achieved = at(store.achieved_goal, slot, step + 1)
        own = (goal_time == DESIRED) & (goal_slot == slot)
        terminated = self._terminated(slot, step, achieved, goal, own).astype(np.float32)
        reward = self.spec.goal_reward(achieved, goal)
        if self.failure_reward.any():  # it is the same whatever the goal
            reward = reward + np.where(self._failed(slot, step), self.failure_reward[slot], 0.0)
        parts: tuple[Array, ...] = (
            at(store.observation, slot, step),
            at(store.observation, slot, step + 1),
            self.spec.goal(goal),
            at(store.action, slot, step),
            self.reward_scale(reward, terminated),
            terminated,
            np.ones(len(slot), np.float32) if importance is None else importance.ravel(),
        )
        shaped = (part.reshape(*shape, *part.shape[1:]) for part in parts)
        observation, after, features, action, reward, terminated, weight = shaped
        return Batch(observation, after, features, action, reward, terminated, weight)

    def _terminated(
        self, slot: Ints, step: Ints, achieved: Array, goal: Array, own: Bools
    ) -> Bools:
        """As it happened for an episode's own goal. For others: where the goal ends the episode,
        or a failure did."""
        if not self.ends and self.spec.goal_terminated is None:
            return np.zeros(len(slot), np.bool_)
        happened: Bools = at(self.storage.terminated, slot, step)
        failed = self._failed(slot, step)
        if self.spec.goal_terminated is not None:
            at_goal = self.spec.goal_terminated(achieved, goal)
        elif self.ends_on_success:
            at_goal = self._reached(achieved, goal) & self.storage.of_last_stage(slot)
        else:
            at_goal = np.zeros_like(happened)
        return np.where(own, happened, at_goal | failed)

    def _failed(self, slot: Ints, step: Ints) -> Bools:
        failed: Bools = at(self.storage.terminated, slot, step)
        return failed & ~at(self.storage.success, slot, step)

    # -------------------------------------------------------------------------------------- saving

    def export_state(self) -> State:
        """All that is stored, as copies: with the generator that is passed in, all that sampling
        depends on."""
        size = self.storage.size
        state = {
            "storage": self.storage.export_state(),
            "moved": self.movement.moved[:size].copy(),
            "failure_reward": self.failure_reward[:size].copy(),
            "reached": np.array([self.reached_from, self.missed_until]),
            "ends": self.ends,
            "ends_on_success": self.ends_on_success,
        }
        if self.pairs is not None and self.priorities is not None:
            state["pairs"] = self.pairs.export_state(size)
            state["priorities"] = self.priorities.export_state(size)
        return state

    def restore_state(self, state: State) -> None:
        """Continue from an exported state of a replay with the same settings."""
        self.storage.restore_state(state["storage"])
        size, movement = self.storage.size, self.movement.moved
        movement[:size] = fitting(state["moved"], "moved", (size, movement.shape[1]), np.float64)
        self.failure_reward[:size] = fitting(
            state["failure_reward"], "failure_reward", (size,), np.float32
        )
        reached = fitting(state["reached"], "reached", (2,), np.float64)
        self.reached_from, self.missed_until = map(float, reached)
        self.sampler.stored(self.storage)
        self.ends, self.ends_on_success = bool(state["ends"]), bool(state["ends_on_success"])
        if self._scale_by is not None:
            self.scale_rewards(self._scale_by)
        if self.pairs is not None and self.priorities is not None:
            self.pairs.restore_state(state["pairs"], size)
            self.priorities.restore_state(state["priorities"], size)


def _each(value: float, batches: int) -> Floats:
    return np.full(batches, value, np.float32)


def make_replay(
    spec: GoalEnvSpec, config: ReplayConfig | None = None, priority: PriorityConfig | None = None
) -> HindsightReplay:
    """The replay that the settings describe, put together from its parts."""
    config, priority = config or ReplayConfig(), priority or PriorityConfig()
    check_replay(config, priority)
    stored = config.goals_chosen == "stored"
    others = max(rate.bounds()[1] for rate in (config.other_goals, config.replace_achieved))
    borrowed = BORROWED_GOALS if stored and others > 0 else 0
    storage = Storage(spec, config.buffer_size, borrowed)
    relabel = Relabel(
        spec,
        storage,
        RULES[config.goal_rule],
        config.other_goals,
        config.drop_achieved,
        config.replace_achieved,
    )
    directions = (
        2 * int(np.prod(storage.achieved_goal.shape[2:])) if config.moved_unit == "usual" else None
    )
    movement = Movement(storage.slots, directions)
    sampler: Sampler = UniformSampler()
    if config.moved_share > 0 or config.moved_power > 0:
        sampler = MovedSampler(
            movement, config.moved_share, config.moved_power, config.moved_threshold
        )
    pairs = priorities = None
    if stored or priority.sampling != "uniform":
        most = config.replay_k.bounds()[1] if stored else 0.0
        pairs = Pairs(storage.slots, spec.horizon, config.goal_numbers, most, borrowed)
        priorities = Priorities(pairs, priority)
    return HindsightReplay(
        spec, storage, relabel, sampler, movement, pairs, priorities, config, priority
    )
