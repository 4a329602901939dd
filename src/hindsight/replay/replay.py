"""Hindsight replay: storage, sampler and goal rule composed. Relabelling recomputes reward and terminated."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from hindsight.config import ReplayConfig
from hindsight.envs.contract import GoalEnvSpec
from hindsight.episodes import Episodes
from hindsight.goals import DESIRED, RULES, another_episode, relabelled_count
from hindsight.replay.samplers import MovedSampler, Sampler, UniformSampler
from hindsight.replay.storage import Storage
from hindsight.types import Array, Bools, Ints, Tensor


class Batch(NamedTuple):
    """`U` batches of `B` transitions each, as the learner reads them: every array is [U, B, ...]."""

    observation: Tensor
    next_observation: Tensor
    goal: Tensor  # features
    action: Tensor
    reward: Tensor
    terminated: Tensor  # 0 or 1


class Addresses(NamedTuple):
    """Where replayed transitions are stored and which goal each pursues; every array is [U, B]."""

    slot: Ints
    step: Ints
    goal_slot: Ints
    goal_time: Ints  # a time of the goal slot's episode, or DESIRED


class HindsightReplay:
    """Hindsight experience replay with goals chosen when sampled."""

    def __init__(self, spec: GoalEnvSpec, config: ReplayConfig) -> None:
        self.spec = spec
        self.config = config
        self.storage = Storage(spec, config.capacity)
        self.rule = RULES[config.goals]
        self.sampler: Sampler = UniformSampler()
        if config.moved_share > 0:
            self.sampler = MovedSampler(config.moved_share, config.moved_threshold, self.storage.slots)
        self.ends_on_success = False

    def add(self, episodes: Episodes) -> None:
        slots = self.storage.add(episodes)
        self.sampler.added(self.storage, slots, episodes.distance_moved()[-len(slots) :])
        self.ends_on_success |= bool((episodes.terminated & episodes.success).any())

    def sample(
        self, batches: int, batch_size: int, progress: float, rng: np.random.Generator
    ) -> tuple[Batch, Addresses]:
        """`batches` batches, in each of which the share k / (1 + k) pursues an alternate goal.

        `progress` of the training, from 0 to 1, says where the schedules stand.
        """
        slot, step = self.sampler.sample(batches, batch_size, rng)
        goal_slot, goal_time = slot.copy(), np.full_like(step, DESIRED)
        count = relabelled_count(batch_size, self.config.replay_k(progress))
        if count:
            shape = (batches, count)
            relabelled = self.relabel(slot[:, :count].ravel(), step[:, :count].ravel(), progress, rng)
            goal_slot[:, :count], goal_time[:, :count] = (part.reshape(shape) for part in relabelled)
        addresses = Addresses(slot, step, goal_slot, goal_time)
        return self.read(addresses), addresses

    def relabel(self, slot: Ints, step: Ints, progress: float, rng: np.random.Generator) -> tuple[Ints, Ints]:
        """Alternate goals for the transitions [n]; those already met are mostly swapped for other desired goals."""
        stored = self.storage.size
        goal_slot, goal_time = self.rule(slot, step, self.storage.length[:stored], rng)
        replace_met = self.config.replace_met(progress)
        if replace_met > 0:
            met = self.spec.reached(self.storage.achieved_goal[slot, step], self.storage.goal(goal_slot, goal_time))
            swap = met & (rng.random(len(slot)) < replace_met)
            goal_slot = np.where(swap, another_episode(slot, stored, rng), goal_slot)
            goal_time = np.where(swap, DESIRED, goal_time)
        return goal_slot, goal_time

    def read(self, addresses: Addresses) -> Batch:
        """The transitions at the addresses, with the reward and terminated of the goals they pursue."""
        shape = addresses.slot.shape
        slot, step, goal_slot, goal_time = (part.ravel() for part in addresses)
        store = self.storage
        goal = store.goal(goal_slot, goal_time)
        achieved = store.achieved_goal[slot, step + 1]
        own = (goal_time == DESIRED) & (goal_slot == slot)
        parts = (
            store.observation[slot, step],
            store.observation[slot, step + 1],
            self.spec.goal(goal),
            store.action[slot, step],
            self.spec.goal_reward(achieved, goal),
            self._terminated(slot, step, achieved, goal, own).astype(np.float32),
        )
        return Batch(*(part.reshape(*shape, *part.shape[1:]) for part in parts))

    def _terminated(self, slot: Ints, step: Ints, achieved: Array, goal: Array, own: Bools) -> Bools:
        """As it happened for an episode's own goal. For others: where the goal ends the episode, or a failure did."""
        happened = self.storage.terminated[slot, step]
        failed = happened & ~self.storage.success[slot, step]
        if self.spec.goal_terminated is not None:
            at_goal = self.spec.goal_terminated(achieved, goal)
        elif self.ends_on_success:
            at_goal = self.spec.reached(achieved, goal)
        else:
            at_goal = np.zeros_like(happened)
        return np.where(own, happened, at_goal | failed)
