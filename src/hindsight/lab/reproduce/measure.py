"""Measurements that are no trainings: speed of sampling, the bound of Appendix D, estimators, which
way the policy gradient pushes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hindsight import api
from hindsight.config import OnPolicyConfig
from hindsight.envs.make import factory
from hindsight.lab.reproduce.experiment import Measurement
from hindsight.lab.reproduce.folder import benchmark


def measure(entry: Measurement, seed: int, trial_steps: int | None) -> dict[str, Any]:
    settings = dict(entry.settings)
    if entry.what == "replay":
        replay = benchmark("replay")
        trial = (
            {}
            if trial_steps is None
            else {"entries": max(trial_steps, 500 * replay.HORIZON), "peers": False, "turns": 1}
        )
        values: dict[str, Any] = replay.run(**trial)
        return values
    if entry.what == "estimators":
        from hindsight.lab import estimators

        if trial_steps is not None:
            few = (min(trial_steps, *settings["steps"]),)
            settings |= {"steps": few, "compared": few, "batches": 2}
        return estimators.measure(seed, **settings)
    if entry.what == "push_gradient":
        from hindsight.lab import push_gradient

        if trial_steps is not None:
            settings |= {"steps": (0, min(trial_steps, 2)), "compared": (0,)}
            settings |= {"batches": push_gradient.GROUPS, "parts": ("returns, pursued goals",)}
        return push_gradient.measure(seed, **settings)
    if trial_steps is not None:
        return bound(**(settings | {"steps": trial_steps}), seed=seed, envs=1)
    return bound(**settings, seed=seed)


def bound(
    method: str, bits: int, steps: int, seed: int, envs: int = 2
) -> dict[str, list[dict[str, float]]]:
    """Gain, surrogates and gaps after every update, in bit flip and then the empty room."""
    from hindsight.lab.bound import measure as measure_bound

    rows = {}
    for env, kwargs in (("hindsight/BitFlip-v0", {"bits": bits}), ("hindsight/EmptyRoom-v0", {}))[
        :envs
    ]:
        make_env = factory(env, kwargs)
        spec = api.describe(env, make_env)
        config = api.default_config(method, spec)
        assert isinstance(config, OnPolicyConfig)
        config = replace(config, env_kwargs=kwargs, steps=steps, seed=seed)
        rows[f"{bits} bits" if kwargs else "empty room"] = [
            {name: float(f"{value:.6g}") for name, value in row.items()}
            for row in measure_bound(config, spec, make_env)
        ]
    return rows
