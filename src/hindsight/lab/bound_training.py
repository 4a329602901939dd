"""The gap of Appendix D during a training: measured after every update, and drawn."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np

from hindsight.envs.contract import GoalEnvSpec
from hindsight.envs.jax_envs import in_jax
from hindsight.envs.make import EnvFactory
from hindsight.errors import HindsightError
from hindsight.gradients.config import OnPolicyConfig
from hindsight.lab.bound import Gap, compare, tables
from hindsight.lab.exact import Tables
from hindsight.networks import Params, forward
from hindsight.training.in_jax import train_in_jax
from hindsight.training.policy import Policy
from hindsight.types import Array

matplotlib.use("Agg")
from matplotlib import pyplot as plt

SMALL_STEP = 0.01
"""The share of an update at which the order of the error shows: halve the step, and a second-order error quarters."""


def measure(config: OnPolicyConfig, spec: GoalEnvSpec, make_env: EnvFactory) -> Iterator[dict[str, float]]:
    """Train, and after every batch compare the policy with the one before: exact gain, surrogates, and their gaps."""
    env = make_env()
    world, twin = tables(env.unwrapped, spec.horizon), in_jax(env)
    if twin is None:
        raise HindsightError(f"{spec.id} is not written in JAX")
    before: Policy | None = None
    for progress in train_in_jax(replace(config, eval_every=1), spec, twin):
        if before is not None:
            old, new = (policy_table(world, p, p.parameters) for p in (before, progress.policy))
            whole = compare(world, old, new)
            nearby = policy_table(world, before, _between(before.parameters, progress.policy.parameters, SMALL_STEP))
            small = compare(world, old, nearby)
            yield {"batch": progress.cycle, "score": progress.metrics["eval/score"]} | {
                f"{name}{suffix}": value
                for suffix, found in (("", whole), ("_small", small))
                for name, value in _values(found).items()
            }
        before = progress.policy


def policy_table(world: Tables, policy: Policy, parameters: Params) -> Array:
    """Action probabilities [G, S, A] of a categorical policy in every state under every goal."""
    model: Any = getattr(policy.agent, "model")  # noqa: B009  (only policy-gradient learners have one)
    inputs = model.inputs(policy.scale, *world.pairs())
    logits = forward(parameters["network"], inputs, tanh=True).astype(np.float64)
    chance = np.exp(logits - logits.max(axis=-1, keepdims=True))
    table: Array = chance / chance.sum(axis=-1, keepdims=True)
    return table


def _between(old: Params, new: Params, share: float) -> Params:
    import jax

    return jax.tree.map(lambda a, b: a + share * (b - a), old, new)


def _values(found: Gap) -> dict[str, float]:
    corrected_gap = found.corrected - found.gain
    return found._asdict() | {"gap": found.gap, "corrected_gap": corrected_gap}


def draw(rows: dict[str, list[dict[str, float]]], path: Path) -> None:
    """For each env: gain and surrogates per update, and the gaps relative to the gain, for whole and small steps."""
    figure, axes = plt.subplots(2, len(rows), figsize=(5.5 * len(rows), 6.5), layout="constrained", squeeze=False)
    for column, (name, found) in enumerate(rows.items()):
        batch = np.array([row["batch"] for row in found])
        upper, lower = axes[:, column]
        for key, label, colour in (
            ("gain", "gain of the new policy", "#000000"),
            ("surrogate", "surrogate of App. D: states of another goal", "#D55E00"),
            ("corrected", "surrogate with the states of the goal itself", "#0072B2"),
        ):
            upper.plot(batch, [row[key] for row in found], label=label, color=colour, lw=1)
        for suffix, style, step in (("", "-", "whole update"), ("_small", "--", "a hundredth of it")):
            scale = np.array([max(abs(row[f"gain{suffix}"]), 1e-12) for row in found])
            for key, colour in (("gap", "#D55E00"), ("corrected_gap", "#0072B2")):
                ratio = np.abs([row[f"{key}{suffix}"] for row in found]) / scale
                lower.semilogy(batch, ratio, style, color=colour, lw=1, label=f"{key.replace('_', ' ')}, {step}")
        upper.set(title=name, ylabel="per episode")
        lower.set(xlabel="batch", ylabel="|gap| / |gain|")
        for axis in (upper, lower):
            axis.grid(alpha=0.3)
            axis.legend(frameon=False, fontsize=8)
    figure.savefig(path, dpi=120)
    plt.close(figure)
