"""The last equation of the paper's Appendix D, exactly, and how it goes during a training.

TRPO with hindsight replaces the gain of a new policy pi over the old one pi',

    gain      = E_g [ sum over steps of  E_{s ~ rho(pi_g),    a ~ pi_g}  A^{pi'_g}(s, a) ],

by a surrogate with the states that the old policy visits while it pursues *another* goal g',

    surrogate = E_g [ sum over steps of  E_{s ~ rho(pi'_g'),  a ~ pi_g}  A^{pi'_g}(s, a) ].

The equation is their difference, for which the paper asks for a bound. `corrected` is the surrogate
with the states of pi'_g, which whole-trajectory importance weights estimate: it is TRPO's own, and
its error is of second order.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import jax
import numpy as np

from hindsight.acting import Actor, Params
from hindsight.config import OnPolicyConfig
from hindsight.envs.contract import GoalEnvSpec
from hindsight.envs.jax_envs import in_jax
from hindsight.envs.make import EnvFactory
from hindsight.errors import HindsightError
from hindsight.lab.exact import Tables, enumerated
from hindsight.training.in_jax import InJax
from hindsight.types import Array, Floats64

SMALL_STEP = 0.01
"""The share of an update at which the order of the error shows: halve the step, and a
second-order error quarters."""


class Gap(NamedTuple):
    """How the new policy compares with the old one, per episode; returns lie between 0 and 1."""

    gain: float
    surrogate: float
    corrected: float

    @property
    def gap(self) -> float:
        """The last equation of Appendix D."""
        return self.surrogate - self.gain


def deterministic_tables(env: Any, horizon: int) -> Tables:
    """Enumerate a bit flip or rooms env in which an action leads to one state."""
    world = enumerated(env, horizon)
    if world.slip > 0:
        raise HindsightError(
            "the gap can be computed for bit flip and for rooms without slips only"
        )
    return world


def compare(world: Tables, old: Array, new: Array) -> Gap:
    """Gain and surrogates of a new policy over an old one, both as probabilities [G, S, A]."""
    old, new = old.astype(np.float64), new.astype(np.float64)
    advantage = advantages(world, old)  # [T, G, S, A]
    better = np.einsum("gsa,tgsa->tgs", new, advantage)
    goals = np.arange(len(world.goal))
    gain = corrected = surrogate = 0.0
    by_new, by_old = (np.repeat(world.start[None], len(goals), axis=0) for _ in range(2))  # [G, S]
    # The old policy pursues g', and g is looked at: [g', g, S], the part of it that has reached
    # neither.
    across = np.broadcast_to(world.start, (len(goals), len(goals), len(world.start))).copy()
    for t in range(world.horizon):
        gain += float((by_new * better[t]).sum(axis=1).mean())
        corrected += float((by_old * better[t]).sum(axis=1).mean())
        surrogate += float((across * better[t]).sum(axis=2).mean())
        by_new, by_old = (
            _move(world, by_new[:, None], new)[:, 0],
            _move(world, by_old[:, None], old)[:, 0],
        )
        by_new[goals, world.goal] = by_old[goals, world.goal] = 0.0
        across = _move(world, across, old)
        across[goals, :, world.goal] = 0.0
        across[:, goals, world.goal] = 0.0
    return Gap(gain, surrogate, corrected)


def advantages(world: Tables, policy: Array) -> Floats64:
    """A(s, a, g) with t steps taken [T, G, S, A]: reaching g with step t is worth (T - t) / T,
    and ends the episode."""
    goals, states, actions = policy.shape
    reaches = world.after[None] == world.goal[:, None, None]  # [G, S, A]
    value = np.zeros((goals, states))
    found = np.zeros((world.horizon, goals, states, actions))
    for t in reversed(range(world.horizon)):
        action_value = np.where(reaches, (world.horizon - t) / world.horizon, value[:, world.after])
        value = (policy * action_value).sum(axis=-1)
        found[t] = action_value - value[..., None]
    return found


def _move(world: Tables, chance: Array, policy: Array) -> Array:
    """State probabilities [P, ..., S] after one step of the policies [P, S, A]."""
    matrix = np.zeros((len(policy), len(world.after), len(world.after)))
    rows = np.arange(len(world.after))
    for action in range(world.after.shape[1]):
        matrix[:, rows, world.after[:, action]] += policy[
            :, :, action
        ]  # an action leads to one state
    return chance @ matrix


def measure(
    config: OnPolicyConfig, spec: GoalEnvSpec, make_env: EnvFactory
) -> Iterator[dict[str, float]]:
    """Train, and after every batch compare the policy with the one before it."""
    env = make_env()
    world, twin = deterministic_tables(env.unwrapped, spec.horizon), in_jax(env)
    if twin is None:
        raise HindsightError(f"{spec.id} is not written in JAX")
    before: Actor | None = None
    for progress in InJax(replace(config, eval_every=1), spec, twin).train():
        if before is not None:
            after = progress.policy.actor
            old, new = policy_table(world, before), policy_table(world, after)
            whole = compare(world, old, new)
            params = _between(before.params, after.params, SMALL_STEP)
            small = compare(world, old, policy_table(world, replace(before, params=params)))
            yield {"batch": progress.cycle, "score": progress.metrics["eval/score"]} | {
                f"{name}{suffix}": value
                for suffix, found in (("", whole), ("_small", small))
                for name, value in _values(found).items()
            }
        before = progress.policy.actor


def policy_table(world: Tables, policy: Actor) -> Array:
    """Action probabilities [G, S, A] of a categorical policy in every state under every goal."""
    logits = policy.outputs(*world.pairs()).astype(np.float64)
    chance = np.exp(logits - logits.max(axis=-1, keepdims=True))
    table: Array = chance / chance.sum(axis=-1, keepdims=True)
    return table


def _between(old: Params, new: Params, share: float) -> Params:
    return jax.tree.map(lambda a, b: a + share * (b - a), old, new)


def _values(found: Gap) -> dict[str, float]:
    corrected_gap = found.corrected - found.gain
    return found._asdict() | {"gap": found.gap, "corrected_gap": corrected_gap}
