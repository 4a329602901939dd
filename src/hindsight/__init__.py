"""Hindsight learning: agents for goal-directed tasks with sparse rewards learn from the goals they
reached instead.

import hindsight

run = hindsight.train("FetchReach-v4", seed=1) policy = hindsight.load(run.path) action =
policy(observation)
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

import hindsight.envs
import hindsight.training.forks  # noqa: F401  (notices forks from now on)
from hindsight.errors import HindsightError

if TYPE_CHECKING:
    from hindsight.api import evaluate, resume, train
    from hindsight.config import OffPolicyConfig, OnPolicyConfig, TrainConfig
    from hindsight.envs import make_vec
    from hindsight.envs.relay_goals import RelayGoal
    from hindsight.replay import HindsightReplay, PriorityConfig, ReplayConfig, make_replay
    from hindsight.training.evaluate import Evaluation
    from hindsight.training.policy import Policy, load
    from hindsight.training.progress import Progress
    from hindsight.training.run import Run
    from hindsight.training.session import Callback, Logger

__version__ = "0.1.0"
__all__ = [
    "Callback",
    "Evaluation",
    "HindsightError",
    "HindsightReplay",
    "Logger",
    "OffPolicyConfig",
    "OnPolicyConfig",
    "Policy",
    "PriorityConfig",
    "Progress",
    "RelayGoal",
    "ReplayConfig",
    "Run",
    "TrainConfig",
    "evaluate",
    "load",
    "make_replay",
    "make_vec",
    "resume",
    "train",
]

# Where each name is. JAX is imported when it is first needed, so that env workers and `hindsight
# --help` start fast.
_HOMES = {
    "hindsight.api": ("evaluate", "resume", "train"),
    "hindsight.config": ("OffPolicyConfig", "OnPolicyConfig", "TrainConfig"),
    "hindsight.envs": ("make_vec",),
    "hindsight.envs.relay_goals": ("RelayGoal",),
    "hindsight.replay": ("HindsightReplay", "PriorityConfig", "ReplayConfig", "make_replay"),
    "hindsight.training.evaluate": ("Evaluation",),
    "hindsight.training.policy": ("Policy", "load"),
    "hindsight.training.progress": ("Progress",),
    "hindsight.training.run": ("Run",),
    "hindsight.training.session": ("Callback", "Logger"),
}
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module 'hindsight' has no attribute {name!r}")
    return getattr(import_module(_HOME_OF[name]), name)


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
