"""Settings of the policy-gradient learners that work for an env without further options. Measured results are in
docs/policy-gradients.md."""

from __future__ import annotations

from typing import Any

from hindsight.gradients.config import LEARNERS, OnPolicyConfig


def preset(method: str, env: str, discrete: bool, horizon: int) -> OnPolicyConfig:
    """The preset of a method for an env id."""
    learner = LEARNERS[method]
    settings: dict[str, Any] = {}
    if env.startswith("hindsight/"):
        return OnPolicyConfig(env, steps=50_000, agent=learner(**settings))
    return OnPolicyConfig(
        env,
        steps=500_000,
        num_envs=32,
        episodes_per_cycle=32,
        eval_every=5,
        eval_episodes=50,
        agent=learner(gamma=0.98, **settings),
    )
