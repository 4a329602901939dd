"""Hindsight learning: agents for goal-directed tasks with sparse rewards learn from the goals they reached instead.

import hindsight

run = hindsight.train("FetchReach-v4", seed=1)
policy = hindsight.load(run.path)
action = policy(observation)
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import hindsight.envs
import hindsight.training.forks  # noqa: F401  (notices forks from now on)
from hindsight.errors import HindsightError
from hindsight.training.signals import StopSignals

if TYPE_CHECKING:
    from hindsight.envs.make import Env, EnvFactory
    from hindsight.training.evaluate import Evaluation
    from hindsight.training.policy import Policy
    from hindsight.training.run import Run

__version__ = "0.1.0"
__all__ = ["HindsightError", "evaluate", "load", "resume", "train"]


# JAX is imported when it is first needed, so that env workers and `hindsight --help` start fast.


def train(env: str | Env | EnvFactory, **options: Any) -> Run:
    """Train on a goal env; see `hindsight.api.train` for the options."""
    with StopSignals():  # before JAX is imported, which loses a KeyboardInterrupt now and then
        from hindsight import api

        return api.train(env, **options)


def resume(run: str | Path, **options: Any) -> Run:
    """Go on with a stopped run as if it had not been stopped; see `hindsight.api.resume` for the options."""
    with StopSignals():  # before JAX is imported, which loses a KeyboardInterrupt now and then
        from hindsight import api

        return api.resume(run, **options)


def evaluate(run: str | Path, episodes: int = 100, seed: int = 0, trust: bool = False) -> Evaluation:
    """Play fresh episodes greedily with the policy of a run directory: success rate and mean return.

    With `trust`, a run that was not made here may import the module that its env names.
    """
    from hindsight import api

    return api.evaluate(run, episodes, seed, trust)


def load(run: str | Path) -> Policy:
    """The policy of a run directory: `action = policy(observation)` for one dict observation, or a batch of them."""
    from hindsight import api

    return api.load(run)
