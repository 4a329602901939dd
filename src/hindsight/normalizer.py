"""Running mean and deviation of observations and goals, in float64, fed from every stored
episode. Pixels are divided by 255 instead."""

from __future__ import annotations

import warnings
from typing import NamedTuple, Protocol

import numpy as np

from hindsight.envs.contract import GoalEnvSpec
from hindsight.envs.spaces import Features
from hindsight.episodes import Episodes
from hindsight.pixels import namespace
from hindsight.saving.tree import State, between, fitting
from hindsight.types import Array, Tensor


class Moments:
    """Mean and deviation of all rows seen so far, merged batch by batch (Chan et al.'s update)."""

    def __init__(self, dim: int, epsilon: float) -> None:
        self.epsilon = epsilon
        self.count = 0
        self.mean = np.zeros(dim)
        self.squares = np.zeros(dim)

    def add(self, rows: Array) -> None:
        """Take in rows [n, dim]."""
        n = len(rows)
        if n == 0:
            return
        rows = rows.astype(np.float64)
        mean = rows.mean(axis=0)
        total = self.count + n
        delta = mean - self.mean
        self.squares += ((rows - mean) ** 2).sum(axis=0) + delta**2 * (self.count * n / total)
        self.mean = self.mean + delta * (n / total)
        self.count = total

    def export_state(self) -> State:
        return {"count": self.count, "mean": self.mean.copy(), "squares": self.squares.copy()}

    def restore_state(self, state: State) -> None:
        self.count = between(state["count"], "count", 0, 2**62)
        self.mean = fitting(state["mean"], "mean", self.mean.shape, np.float64)
        self.squares = fitting(state["squares"], "squares", self.mean.shape, np.float64)

    @property
    def deviation(self) -> Array:
        return (
            np.maximum(np.sqrt(self.squares / max(self.count, 1)), self.epsilon)
            if self.count
            else np.ones_like(self.mean)
        )


class PixelMoments:
    """In their place for pixels: nothing is learnt."""

    mean = np.zeros(1)
    deviation = np.full(1, 255.0)

    def add(self, rows: Array) -> None: ...

    def export_state(self) -> State:
        return {}

    def restore_state(self, state: State) -> None: ...


def moments_of(features: Features, epsilon: float) -> Moments | PixelMoments:
    return PixelMoments() if features.pixels else Moments(features.dim, epsilon)


class Scale(NamedTuple):
    """What the networks need to normalise: float32 means and deviations of observation and goal."""

    observation_mean: Tensor
    observation_deviation: Tensor
    goal_mean: Tensor
    goal_deviation: Tensor


class NormalizerSettings(Protocol):
    """The settings of a learner that a normaliser reads."""

    @property
    def normalizer_epsilon(self) -> float: ...

    @property
    def clip_observation(self) -> float: ...


class Normalizer:
    """Moments of observations, and of achieved and desired goals together (half and half)."""

    def __init__(self, observation: Features, goal: Features, epsilon: float, clip: float) -> None:
        self.clip = clip
        self._warned = False
        self.goal_features = goal
        self.observation = moments_of(observation, epsilon)
        self.goal = moments_of(goal, epsilon)

    @staticmethod
    def of(spec: GoalEnvSpec, config: NormalizerSettings) -> Normalizer:
        return Normalizer(
            spec.observation, spec.goal, config.normalizer_epsilon, config.clip_observation
        )

    def add(self, episodes: Episodes) -> None:
        visited = np.arange(episodes.observation.shape[1]) <= episodes.length[:, None]
        if not isinstance(self.observation, PixelMoments):
            self._add_observations(self.observation, episodes.observation[visited])
        if not isinstance(self.goal, PixelMoments):
            self.goal.add(self.goal_features(episodes.achieved_goal[visited]))
            self.goal.add(
                self.goal_features(np.repeat(episodes.desired_goal, episodes.length + 1, axis=0))
            )

    def _add_observations(self, moments: Moments, seen: Array) -> None:
        largest = float(np.abs(seen).max(initial=0.0))
        if largest > self.clip and not self._warned:
            self._warned = True
            warnings.warn(
                f"observations of up to {largest:g} are clipped to {self.clip:g}: if they are no "
                "mistake, set agent.clip_observation higher",
                stacklevel=2,
            )
        moments.add(np.clip(seen, -self.clip, self.clip))

    def export_state(self) -> State:
        return {"observation": self.observation.export_state(), "goal": self.goal.export_state()}

    def restore_state(self, state: State) -> None:
        self.observation.restore_state(state["observation"])
        self.goal.restore_state(state["goal"])

    def scale(self) -> Scale:
        o, g = self.observation, self.goal
        return Scale(*(x.astype(np.float32) for x in (o.mean, o.deviation, g.mean, g.deviation)))


def network_inputs(
    scale: Scale,
    observation: Tensor,
    goal: Tensor,
    clip_observation: float,
    clip_normalized: float,
    fourier_features: int = 0,
) -> Tensor:
    """The input of every network [..., i]: normalised observation and goal side by side, and, if
    asked for, sin and cos of 1 to `fourier_features` times both. NumPy or JAX, as given. What is
    uint8 are pixels."""
    numpy = namespace(observation, goal, *scale)
    if observation.dtype != np.uint8:
        observation = observation.clip(-clip_observation, clip_observation)
    o = (observation - scale.observation_mean) / scale.observation_deviation
    g = (goal - scale.goal_mean) / scale.goal_deviation
    plain = numpy.concatenate([o, g], axis=-1).clip(-clip_normalized, clip_normalized)
    if not fourier_features:
        return plain
    angles = [np.float32(k) * plain for k in range(1, fourier_features + 1)]
    return numpy.concatenate([plain, *map(numpy.sin, angles), *map(numpy.cos, angles)], axis=-1)
