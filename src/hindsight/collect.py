"""The collector: plays whole episodes with a policy and returns them as `Episodes`."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from hindsight.envs.batch import EnvBatch, Frame
from hindsight.envs.contract import GoalEnvSpec
from hindsight.episodes import Episodes
from hindsight.errors import HindsightError, of_the_env
from hindsight.saving.tree import Saveable
from hindsight.types import Array, Floats

Act = Callable[[Floats, Floats], Array | tuple[Array, Floats]]
"""(observation features [n, o], goal features [n, g]) -> actions [n, a], or [n] if discrete.

A stochastic policy returns their log-probabilities [n], too. Envs are given actions clipped to
their box.
"""


ATTEMPTS = 3
"""How often episodes are played again if not one of them is left."""


class Collecting(Protocol):
    """Plays one episode per seed: in this process (`Collector`), or in many (`distributed/`)."""

    @property
    def envs(self) -> Saveable:
        """What a checkpoint keeps of the envs."""

    def collect(self, act: Act, seeds: Sequence[int]) -> Episodes: ...

    def metrics(self) -> dict[str, float]:
        """Of the collection itself."""


class Collector:
    """Plays one episode per seed, `envs.num_envs` at a time. Episodes whose simulation failed
    are left out."""

    def __init__(self, envs: EnvBatch, spec: GoalEnvSpec) -> None:
        self.envs = envs
        self.spec = spec
        self._warned = False

    def metrics(self) -> dict[str, float]:
        return {}

    def collect(self, act: Act, seeds: Sequence[int]) -> Episodes:
        size = self.envs.num_envs
        for _ in range(ATTEMPTS):
            rounds = [self.play(act, seeds[i : i + size]) for i in range(0, len(seeds), size)]
            episodes = Episodes.concatenate(rounds)
            if len(episodes):
                return episodes
        raise all_failed(self.spec, seeds)

    def play(self, act: Act, seeds: Sequence[int]) -> Episodes:
        """One round of at most `envs.num_envs` episodes."""
        n, horizon, spec = len(seeds), self.spec.horizon, self.spec
        with of_the_env(f"{spec.id}: reset()"):
            frame = self.envs.reset(seeds)
        goal = spec.goal(frame.desired_goal)
        observation = np.zeros((n, horizon + 1, spec.observation.dim), spec.observation.dtype)
        achieved = np.zeros((n, horizon + 1, *frame.achieved_goal.shape[1:]), spec.goal_dtype)
        action: Array = np.zeros((n, horizon), np.int64)
        if not spec.actions.discrete:
            action = np.zeros((n, horizon, spec.actions.dim), np.float32)
        reward = np.zeros((n, horizon), np.float32)
        log_prob: Floats | None = None
        terminated, success = np.zeros((n, horizon), np.bool_), np.zeros((n, horizon), np.bool_)
        length, alive = np.full(n, horizon, np.int64), np.ones(n, np.bool_)
        pursued = frame.desired_goal.copy()
        desired = pursued.astype(spec.goal_dtype)
        observation[:, 0] = spec.seen(frame.observation, frame.achieved_goal)
        achieved[:, 0] = frame.achieved_goal
        for t in range(horizon):
            chosen = act(observation[:, t], goal)
            if isinstance(chosen, tuple):
                log_prob = np.zeros((n, horizon), np.float32) if log_prob is None else log_prob
                chosen, log_prob[:, t] = chosen
            action[:, t] = chosen
            with of_the_env(f"{spec.id}: step()"):
                frame = self.envs.step(spec.actions.inside(action[:, t]))
            observation[:, t + 1] = spec.seen(frame.observation, frame.achieved_goal)
            achieved[:, t + 1] = frame.achieved_goal
            reward[alive, t] = frame.reward[alive]
            terminated[alive, t] = frame.terminated[alive]
            success[alive, t] = frame.success[alive]
            changed = _differ(frame.desired_goal, pursued) & alive & ~frame.diverged
            ends = alive & (_ended(frame) | changed)
            length[ends] = t + 1
            if changed.any():
                self._check_reached(changed & ~_ended(frame), success, t)
                late = changed & ~success[:, t] & success[:, t - 1]  # reached a step ago
                length[late], terminated[late, t] = t, False
            alive &= ~ends
            if not alive.any():
                break
        episodes = Episodes(
            observation, achieved, desired, action, reward, terminated, success, length, log_prob
        )
        return episodes.select(~frame.diverged) if frame.diverged.any() else episodes

    def _check_reached(self, changed: Array, success: Array, t: int) -> None:
        """Where the desired goal has changed [n] at step t, it must have been reached [n, T], now
        or a step ago: then the episode ends there."""
        if not success[changed, max(t - 1, 0) : t + 1].any(axis=1).all():
            raise HindsightError(
                f"{self.spec.id}: desired_goal changes within an episode (at step {t + 1}, and it "
                "was not reached): it must stay as reset() gave it; end the episode there instead"
            )
        if not self._warned:
            self._warned = True
            warnings.warn(
                f"{self.spec.id}: desired_goal changes when it is reached; an episode ends there",
                stacklevel=2,
            )


def _differ(goals: Array, others: Array) -> Array:
    """[n] whether two goals [n, ...] differ."""
    differ: Array = (goals != others).reshape(len(goals), -1).any(axis=1)
    return differ


def all_failed(spec: GoalEnvSpec, seeds: Sequence[int]) -> HindsightError:
    return HindsightError(
        f"{spec.id}: all {len(seeds)} simulations failed, {ATTEMPTS} times in a row"
    )


def _ended(frame: Frame) -> Array:
    return frame.terminated | frame.truncated


def record(
    spec: GoalEnvSpec,
    observations: Sequence[Mapping[str, Any]],
    actions: Sequence[Any],
    terminated: bool,
    success: Sequence[bool] | None = None,
    reward: Sequence[float] | None = None,
) -> Episodes:
    """One episode that your own loop played, as `Episodes`: L + 1 dict observations and L actions.

    `terminated` says whether the env ended it (not the time limit). `reward` of each step is
    recomputed if it is not given: then a penalty for failing is lost. `success` of each step is
    taken from the recomputed one if it is not given.
    """
    length, horizon = len(actions), spec.horizon
    if not (0 < length <= horizon and len(observations) == length + 1):
        raise HindsightError(
            f"an episode has 1 to {horizon} actions and one observation more, got {length} and "
            f"{len(observations)}"
        )

    def column(key: str) -> Array:
        return np.stack([np.asarray(observation[key]) for observation in observations])

    def padded(rows: Array, size: int, dtype: Any) -> Array:
        out = np.zeros((1, size, *rows.shape[1:]), dtype)
        out[0, : len(rows)] = rows
        return out

    achieved, desired = column("achieved_goal"), column("desired_goal")
    seen = spec.seen(column("observation"), achieved)
    given = spec.goal_reward(achieved[1:], desired[:-1]) if reward is None else np.asarray(reward)
    reached = spec.reached(achieved[1:], desired[:-1]) if success is None else np.asarray(success)
    ends = np.zeros((1, horizon), np.bool_)
    ends[0, length - 1] = terminated
    return Episodes(
        padded(seen, horizon + 1, spec.observation.dtype),
        padded(achieved, horizon + 1, spec.goal_dtype),
        desired[:1].astype(spec.goal_dtype),
        padded(np.asarray(actions), horizon, np.int64 if spec.actions.discrete else np.float32),
        padded(given, horizon, np.float32),
        ends,
        padded(reached, horizon, np.bool_),
        np.array([length]),
    )


def episode_seeds(seed: int, stream: int, first: int, count: int) -> list[int]:
    """Reset seeds of the episodes `first` to `first + count` of one of a run's streams
    (training, evaluation, ...)."""
    return [
        int(np.random.SeedSequence((seed, stream, i)).generate_state(1)[0] >> 1)
        for i in range(first, first + count)
    ]
