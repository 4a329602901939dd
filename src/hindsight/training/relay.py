"""Relay goals (Luo et al., 2022, "Relay Hindsight Experience Replay"): a task in stages, learnt by
one learner.

A goal says which stage it is of: it is a vector of the stage's goal, padded with zeros to the
longest, and of the stage's number, one-hot. Every episode is stored once for each stage, with what
that stage achieves and wants. So replay, relabelling, priorities and agents need not know of
stages. While exploring, the first stage that is not done leads part of the time. What is evaluated
and saved is the last stage's policy, which is one of the task's own goals.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from hindsight.acting import Actor
from hindsight.config import OffPolicyConfig, TrainConfig
from hindsight.envs.contract import GoalEnvSpec
from hindsight.envs.relay_goals import RelayGoal, distance
from hindsight.envs.spaces import Features
from hindsight.episodes import Episodes
from hindsight.errors import HindsightError
from hindsight.replay.replay import failure_rewards
from hindsight.types import Array, Bools, Floats, Ints


@dataclass(frozen=True)
class Stages:
    """All that acting needs to know of the stages of a task; it can be sent to other processes."""

    goals: tuple[RelayGoal, ...]
    """Of all stages but the last."""
    size: int
    """Of the longest goal."""

    def __len__(self) -> int:
        return len(self.goals) + 1

    def padded(self, goals: Array, stage: int) -> Array:
        padded = np.zeros((*goals.shape[:-1], self.size + len(self)))
        padded[..., : goals.shape[-1]] = goals
        padded[..., self.size + stage] = 1.0
        return padded

    def first_undone(self, observation: Floats) -> Ints:
        """[n]: the number of the first stage whose goal is not near; the last, if all are."""
        stage = np.full(len(observation), len(self.goals))
        for i in reversed(range(len(self.goals))):
            stage = np.where(self.goals[i].near(observation), stage, i)
        return stage

    def features(self, observation: Floats, goal: Floats, stage: Ints) -> Floats:
        """What the networks read of the goals of these stages [n, size + stages]: now, or the
        task's [n, g]."""
        features = self.padded(goal, len(self.goals))
        for i, relay_goal in enumerate(self.goals):
            rows = np.flatnonzero(stage == i)
            features[rows] = self.padded(relay_goal.desired(observation[rows]), i)
        return features.astype(np.float32)


class Relay:
    """The stages of a task: relay goals, then the task's own goal. Without relay goals, nothing
    changes anything."""

    def __init__(self, task: GoalEnvSpec, config: TrainConfig) -> None:
        self.task = task
        self.goals = task.relay_goals if config.relay else ()
        self.guidance = config.relay_guidance
        self.spec = task
        if config.relay:
            _check(task)
        size = max([task.goal.dim, *(_dim(goal, task) for goal in self.goals)])
        self.stages = Stages(self.goals, size)
        if config.relay:
            weight = config.relay_weight if isinstance(config, OffPolicyConfig) else 1.0
            self.spec = replace(
                task,
                goal=Features((size + len(self.stages),)),
                goal_dtype=np.dtype(np.float64),
                goal_reward=self._reward,
                goal_terminated=None if task.goal_terminated is None else self._terminated,
                stage_weights=(weight,) * len(self.goals) + (1.0,),
            )

    # ------------------------------------------------------------------------------------- storing

    def of_every_stage(self, episodes: Episodes) -> Episodes:
        """Each episode once for every stage, one after the other."""
        if not self.goals:
            return episodes
        order = np.arange(len(self.stages) * len(episodes)).reshape(len(self.stages), -1).T.ravel()
        return Episodes.concatenate(self.by_stage(episodes)).select(order)

    def by_stage(self, episodes: Episodes) -> list[Episodes]:
        """The episodes as each stage sees them."""
        if not self.goals:
            return [episodes]
        return [self._of_stage(i, episodes) for i in range(len(self.stages))]

    def _of_stage(self, stage: int, episodes: Episodes) -> Episodes:
        n, times = episodes.achieved_goal.shape[:2]
        terminated = episodes.terminated
        if stage == len(self.goals):
            achieved = episodes.achieved_goal.reshape(n, times, -1)
            desired = episodes.desired_goal.reshape(n, -1)
        else:
            goal, observation = self.goals[stage], episodes.observation
            achieved = goal.achieved(observation.reshape(n * times, -1)).reshape(n, times, -1)
            desired = goal.desired(observation[:, 0])  # where it is at first
            terminated = terminated & ~episodes.success  # success is the task's, not this stage's
        achieved, desired = self.stages.padded(achieved, stage), self.stages.padded(desired, stage)
        wanted = np.repeat(desired, times - 1, axis=0)
        reward = self._reward(achieved[:, 1:].reshape(len(wanted), -1), wanted).reshape(n, -1)
        success = episodes.success
        if stage < len(self.goals):
            success = (reward >= np.float32(self.task.success_reward)) & ~terminated
        # What the env gave for failing counts for the goals of every stage.
        reward[np.arange(n), episodes.length - 1] += failure_rewards(episodes, self.task)
        return replace(
            episodes,
            achieved_goal=achieved,
            desired_goal=desired,
            reward=reward,
            terminated=terminated,
            success=success,
        )

    def _rows(self, goals: Array) -> list[Ints]:
        """Which goals are of each stage."""
        stage = goals[:, self.stages.size :].argmax(axis=1)
        return [np.flatnonzero(stage == i) for i in range(len(self.stages))]

    def _reward(self, achieved: Array, desired: Array) -> Floats:
        reward = np.zeros(len(desired), np.float32)
        *early, last = self._rows(desired)
        reward[last] = self.task.goal_reward(self._own(achieved[last]), self._own(desired[last]))
        hit, miss = self.task.success_reward, self.task.rewards[0]
        assert hit is not None
        for goal, rows in zip(self.goals, early, strict=True):
            apart = distance(achieved[rows, : self.stages.size], desired[rows, : self.stages.size])
            reward[rows] = np.where(apart < goal.tolerance, hit, miss)
        return reward

    def _terminated(self, achieved: Array, desired: Array) -> Bools:
        """Where the task's own goal ends the episode; the goal of an earlier stage never does."""
        ends = np.zeros(len(desired), np.bool_)
        last = self._rows(desired)[-1]
        assert self.task.goal_terminated is not None
        ends[last] = self.task.goal_terminated(self._own(achieved[last]), self._own(desired[last]))
        return ends

    def _own(self, goals: Array) -> Array:
        """The task's goals, as the env has them."""
        shape, dtype = self.task.goal.shape, self.task.goal_dtype
        return goals[:, : self.task.goal.dim].astype(dtype).reshape(-1, *shape)

    # -------------------------------------------------------------------------------------- acting

    def leading(
        self, observation: Floats, goal: Floats, progress: float, rng: np.random.Generator
    ) -> Floats:
        """The goals to explore with: for each, with a probability, of the first stage that is not
        done; else of the one after it."""
        stage, last = self.stages.first_undone(observation), len(self.stages) - 1
        guided = rng.random(len(stage)) < self.guidance(progress)
        stage = np.where(guided, stage, np.minimum(stage + 1, last))
        return self.stages.features(observation, goal, stage)

    def last_stage(self, actor: Actor) -> Actor:
        """What an actor does for the task's own goals."""
        if not self.goals:
            return actor
        own = self.task.goal.dim
        return actor.with_last_goal_features(
            self.stages.padded(np.zeros(own), len(self.goals))[own:]
        )

    def metrics(self, episodes: Episodes) -> dict[str, float]:
        """Share of the episodes in which each early stage was done at some time."""
        n, times = episodes.observation.shape[:2]
        visited = np.arange(times) <= episodes.length[:, None]
        found = {}
        for i, goal in enumerate(self.goals):
            near = goal.near(episodes.observation.reshape(n * times, -1)).reshape(n, times)
            found[f"train/stage_{i + 1}"] = float(np.mean((near & visited).any(axis=1)))
        return found


def _check(task: GoalEnvSpec) -> None:
    if not task.relay_goals:
        raise HindsightError(
            f"{task.id} has no relay goals: give the env a `relay_goals`, or pass them to "
            "hindsight.train (docs/relay-goals.md)"
        )
    if task.success_reward is None:
        raise HindsightError(f"relay goals need a reward of two values, which {task.id} has not")
    if task.observation.pixels or task.goal.pixels:
        raise HindsightError(f"relay goals are made of numbers, and {task.id} has images")
    if task.goal.categories:
        raise HindsightError(
            f"relay goals need goals that are vectors; {task.id} has Discrete ones"
        )


def _dim(goal: RelayGoal, task: GoalEnvSpec) -> int:
    """Of the goal of a stage. Raises HindsightError if its functions do not fit."""
    rows = np.zeros((2, task.observation.dim), np.float32)
    try:
        achieved, desired = (np.asarray(f(rows)) for f in (goal.achieved, goal.desired))
    except Exception as error:  # of the user's own code
        reason = f"{type(error).__name__}: {' '.join(str(error).split())}"
        raise HindsightError(
            f"{task.id}: a relay goal fails for observations [n, {task.observation.dim}]: {reason}"
        ) from error
    if achieved.shape != desired.shape or achieved.ndim != 2 or len(achieved) != 2:
        raise HindsightError(
            f"{task.id}: achieved and desired of a relay goal must be [n, g], of observations "
            f"[n, o]; for n = 2 they are {achieved.shape} and {desired.shape}"
        )
    return int(achieved.shape[1])
