"""Goal rules: which achieved goal stands in for the desired one. Pure functions of indices.

Of an episode of length L, `achieved_goal[t]` for t = 0..L are its achieved goals; step t leads
from t to t + 1.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from hindsight.types import Ints

DESIRED = -1
"""As a goal time: not an achieved goal, but the episode's desired goal."""
BORROWED = -2
"""As a goal time, this and what is below: a desired goal of another episode, of which the episode
keeps copies."""

GoalRule = Callable[[Ints, Ints, Ints, np.random.Generator], tuple[Ints, Ints]]
"""(slots [n], steps [n], lengths of all stored episodes [S], rng) -> (goal slots [n], goal times
[n])."""


def future(slots: Ints, steps: Ints, lengths: Ints, rng: np.random.Generator) -> tuple[Ints, Ints]:
    """A goal achieved after the step, uniform over t+1..L of the same episode."""
    return slots, rng.integers(steps + 1, lengths[slots] + 1)


def final(slots: Ints, steps: Ints, lengths: Ints, rng: np.random.Generator) -> tuple[Ints, Ints]:
    """The goal achieved at the end of the same episode."""
    return slots, lengths[slots]


def episode(slots: Ints, steps: Ints, lengths: Ints, rng: np.random.Generator) -> tuple[Ints, Ints]:
    """Any goal achieved in the same episode, uniform over 0..L."""
    return slots, rng.integers(0, lengths[slots] + 1)


def random(slots: Ints, steps: Ints, lengths: Ints, rng: np.random.Generator) -> tuple[Ints, Ints]:
    """Any goal achieved in any stored episode: an episode, then a time of it, both uniform."""
    others = rng.integers(0, len(lengths), len(slots))
    return others, rng.integers(0, lengths[others] + 1)


def next_future(
    slots: Ints, steps: Ints, lengths: Ints, rng: np.random.Generator
) -> tuple[Ints, Ints]:
    """Half of the time what the step itself achieved, at t+1; else as `future` (next-future
    goals: what one step does is learnt first)."""
    times = rng.integers(steps + 1, lengths[slots] + 1)
    return slots, np.where(rng.random(len(slots)) < 0.5, steps + 1, times)


RULES: dict[str, GoalRule] = {
    "future": future,
    "next_future": next_future,
    "final": final,
    "episode": episode,
    "random": random,
}


def another_episode(slots: Ints, stored: int, rng: np.random.Generator, stages: int = 1) -> Ints:
    """For each slot, a different one, uniform over the other stored episodes (itself if it is
    the only one). If each of `stages` slots is of another stage: over those of the same."""
    if stored < 2 * stages:
        return slots
    return (slots + stages * rng.integers(1, stored // stages, len(slots))) % stored


def relabelled_count(batch_size: int, replay_k: float) -> int:
    """How many transitions of a batch get an alternate goal: the share k / (1 + k), rounded."""
    return round(batch_size * replay_k / (1.0 + replay_k))
