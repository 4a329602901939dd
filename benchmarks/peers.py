"""Stable-Baselines3, if it is installed: the peer of several benchmarks."""

from __future__ import annotations

import warnings
from typing import Any

from hindsight.envs.make import make


def stable_baselines3() -> Any | None:
    """The package, or None."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            import stable_baselines3
    except ImportError:
        return None
    return stable_baselines3


def ddpg(
    package: Any, env_id: str, hidden: tuple[int, ...], batch: int, episodes: int, updates: int
) -> Any:
    """Its DDPG with HerReplayBuffer: `updates` updates after every so many episodes."""
    return package.DDPG(
        "MultiInputPolicy",
        make(env_id),
        replay_buffer_class=package.HerReplayBuffer,
        buffer_size=1_000_000,
        batch_size=batch,
        policy_kwargs={"net_arch": list(hidden)},
        learning_starts=500,
        train_freq=(episodes, "episode"),
        gradient_steps=updates,
        device="cpu",
        seed=0,
    )
