"""A ring of whole episodes. The oldest episode is overwritten first; nothing is ever copied per
goal."""

from __future__ import annotations

import numpy as np

from hindsight.envs.contract import GoalEnvSpec
from hindsight.episodes import Episodes
from hindsight.errors import HindsightError
from hindsight.goals import BORROWED, DESIRED, another_episode
from hindsight.saving.tree import State, all_between, between, fitting
from hindsight.types import Array, Bools, Ints


def slot_count(spec: GoalEnvSpec, buffer_size: int) -> int:
    """How many episodes a replay of `buffer_size` transitions holds."""
    if buffer_size < spec.horizon * len(spec.stage_weights):
        raise HindsightError(
            f"replay.buffer_size {buffer_size} is smaller than one episode of {spec.horizon} steps"
        )
    stages = len(spec.stage_weights)
    return buffer_size // spec.horizon // stages * stages


COLUMNS = (
    "observation",
    "achieved_goal",
    "desired_goal",
    "action",
    "terminated",
    "success",
    "length",
)


class Storage:
    """Room for `buffer_size // horizon` episodes, addressed by slot. Slots 0..size-1 are in use."""

    def __init__(self, spec: GoalEnvSpec, buffer_size: int, borrowed: int = 0) -> None:
        """With `borrowed`, every episode has room for that many goals of others."""
        slots, horizon = slot_count(spec, buffer_size), spec.horizon
        action = (slots, horizon) if spec.actions.discrete else (slots, horizon, spec.actions.dim)
        goal = spec.goal.shape
        self.slots = slots
        self.stage_weights = np.array(spec.stage_weights)
        self.size = 0
        self.next = 0
        features = spec.observation
        self.observation = np.zeros((slots, horizon + 1, features.dim), features.dtype)
        self.achieved_goal = np.zeros((slots, horizon + 1, *goal), spec.goal_dtype)
        self.desired_goal = np.zeros((slots, *goal), spec.goal_dtype)
        self.borrowed_goal = np.zeros((slots, borrowed, *goal), spec.goal_dtype)
        self.action = np.zeros(action, np.int64 if spec.actions.discrete else np.float32)
        self.terminated = np.zeros((slots, horizon), np.bool_)
        self.success = np.zeros((slots, horizon), np.bool_)
        self.length = np.zeros(slots, np.int64)

    def add(self, episodes: Episodes) -> Ints:
        """Store the episodes and return their slots; of more episodes than fit, the last ones."""
        count = min(len(episodes), self.slots)
        slots = (self.next + np.arange(count)) % self.slots
        for name in COLUMNS:
            getattr(self, name)[slots] = getattr(episodes, name)[-count:]
        self.next = int((self.next + count) % self.slots)
        self.size = min(self.size + count, self.slots)
        return slots

    def borrow(self, slots: Ints, rng: np.random.Generator) -> None:
        """Copy desired goals of other episodes to these: what was borrowed lives as long as who
        borrowed it."""
        each = self.borrowed_goal.shape[1]
        lenders = self.another(np.repeat(slots, each), rng).reshape(-1, each)
        self.borrowed_goal[slots] = self.desired_goal[lenders]

    def another(self, slots: Ints, rng: np.random.Generator) -> Ints:
        """For each slot, that of another episode, of the same stage."""
        return another_episode(slots, self.size, rng, len(self.stage_weights))

    def of_last_stage(self, slots: Ints) -> Bools:
        """Which episodes pursue the task's own goal: all, without relay goals."""
        stages = len(self.stage_weights)
        last: Bools = slots % stages == stages - 1
        return last

    def stage_weight(self, slots: Ints) -> Array | None:
        """How often the episodes in these slots are replayed, by their stages; None if all are
        alike."""
        weights = self.stage_weights
        return None if (weights == weights[0]).all() else weights[slots % len(weights)]

    def goal(self, slots: Ints, times: Ints) -> Array:
        """The goals [n, ...] at the addresses: achieved at a time, or desired where the time is
        DESIRED, or borrowed where it is below."""
        goals = at(self.achieved_goal, slots, np.maximum(times, 0))
        desired = np.flatnonzero(times == DESIRED)
        goals[desired] = self.desired_goal.take(slots[desired], axis=0)
        if self.borrowed_goal.size:
            borrowed = np.flatnonzero(times <= BORROWED)
            goals[borrowed] = at(self.borrowed_goal, slots[borrowed], BORROWED - times[borrowed])
        return goals

    def export_state(self) -> State:
        """The slots in use."""
        columns = {name: getattr(self, name)[: self.size].copy() for name in self._saved()}
        return {"size": self.size, "next": self.next, **columns}

    def restore_state(self, state: State) -> None:
        size = between(state["size"], "size", 0, self.slots)
        horizon = self.terminated.shape[1]
        all_between(fitting(state["length"], "length", (size,), np.int64), "length", 1, horizon)
        for name in self._saved():
            column = getattr(self, name)
            column[:size] = fitting(state[name], name, (size, *column.shape[1:]), column.dtype)
        self.size, self.next = size, between(state["next"], "next", 0, self.slots - 1)

    def _saved(self) -> tuple[str, ...]:
        return (*COLUMNS, "borrowed_goal") if self.borrowed_goal.size else COLUMNS


def at(array: Array, slots: Ints, times: Ints) -> Array:
    """array[slots, times] for an array [slots, times, ...], in less than half the time."""
    flat = array.reshape(-1, *array.shape[2:])
    rows: Array = flat.take(slots * array.shape[1] + times, axis=0)
    return rows
