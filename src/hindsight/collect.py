"""The collector: plays whole episodes with a policy and returns them as `Episodes`."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from hindsight.envs.batch import EnvBatch, Frame
from hindsight.envs.contract import GoalEnvSpec
from hindsight.episodes import Episodes
from hindsight.errors import HindsightError
from hindsight.types import Array, Floats

Act = Callable[[Floats, Floats], Array | tuple[Array, Floats]]
"""(observation features [n, o], goal features [n, g]) -> actions [n, a], or [n] if discrete.

A stochastic policy returns their log-probabilities [n], too. Envs are given actions clipped to their box."""


class Collector:
    """Plays one episode per seed, `envs.num_envs` at a time. Episodes whose simulation diverged are left out."""

    def __init__(self, envs: EnvBatch, spec: GoalEnvSpec) -> None:
        self.envs = envs
        self.spec = spec

    def collect(self, act: Act, seeds: Sequence[int]) -> Episodes:
        size = self.envs.num_envs
        rounds = [self._round(act, seeds[i : i + size]) for i in range(0, len(seeds), size)]
        episodes = Episodes.concatenate(rounds)
        if len(episodes) == 0:
            raise HindsightError(f"{self.spec.id}: all {len(seeds)} simulations diverged in one round")
        return episodes

    def _round(self, act: Act, seeds: Sequence[int]) -> Episodes:
        n, horizon, spec = len(seeds), self.spec.horizon, self.spec
        frame = self.envs.reset(seeds)
        goal = spec.goal(frame.desired_goal)
        observation = np.zeros((n, horizon + 1, spec.observation.dim), np.float32)
        achieved = np.zeros((n, horizon + 1, *frame.achieved_goal.shape[1:]), spec.goal_dtype)
        action: Array = np.zeros((n, horizon), np.int64)
        if not spec.actions.discrete:
            action = np.zeros((n, horizon, spec.actions.dim), np.float32)
        reward = np.zeros((n, horizon), np.float32)
        log_prob: Floats | None = None
        terminated, success = np.zeros((n, horizon), np.bool_), np.zeros((n, horizon), np.bool_)
        length = np.full(n, horizon, np.int64)
        desired = frame.desired_goal.astype(spec.goal_dtype)
        observation[:, 0], achieved[:, 0] = spec.observation(frame.observation), frame.achieved_goal
        for t in range(horizon):
            alive = ~_ended(frame)
            chosen = act(observation[:, t], goal)
            if isinstance(chosen, tuple):
                log_prob = np.zeros((n, horizon), np.float32) if log_prob is None else log_prob
                chosen, log_prob[:, t] = chosen
            action[:, t] = chosen
            frame = self.envs.step(self._inside(action[:, t]))
            observation[:, t + 1], achieved[:, t + 1] = spec.observation(frame.observation), frame.achieved_goal
            reward[alive, t] = frame.reward[alive]
            terminated[alive, t] = frame.terminated[alive]
            success[alive, t] = frame.success[alive]
            length[alive & _ended(frame)] = t + 1
            if _ended(frame).all():
                break
        episodes = Episodes(observation, achieved, desired, action, reward, terminated, success, length, log_prob)
        return episodes.select(~frame.diverged) if frame.diverged.any() else episodes

    def _inside(self, action: Array) -> Array:
        low, high = self.spec.actions.low, self.spec.actions.high
        return (
            action if self.spec.actions.discrete else action.clip(np.array(low, np.float32), np.array(high, np.float32))
        )


def _ended(frame: Frame) -> Array:
    return frame.terminated | frame.truncated


def episode_seeds(seed: int, stream: int, first: int, count: int) -> list[int]:
    """Reset seeds of the episodes `first` to `first + count` of one of a run's streams (training, evaluation, ...)."""
    return [
        int(np.random.SeedSequence((seed, stream, i)).generate_state(1)[0] >> 1) for i in range(first, first + count)
    ]
