"""Which estimate of the policy gradient points where: cosines with the exact gradient, on bit flip
and four rooms.

A policy learns, by exact gradients or by HPG. On its way every estimator, with every baseline,
estimates the gradient from the same batches of episodes. Values are exact, so that what differs is
the estimate, and not a critic.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.flatten_util import ravel_pytree

from hindsight.agents.goal_batch import GoalBatch
from hindsight.agents.hindsight_weights import (
    Baseline,
    Estimator,
    advantages,
    baseline_is_unbiased,
    coefficients,
    log_ratios,
    log_steps,
    weights,
    where_it_continues,
    with_tails,
)
from hindsight.agents.hpg import HPGConfig
from hindsight.agents.losses import adam_step
from hindsight.agents.policy_gradient import PolicyGradient, State, goal_shares
from hindsight.agents.registry import make_on_policy_agent
from hindsight.envs.contract import inspect
from hindsight.envs.jax_envs import JaxEnv, in_jax
from hindsight.envs.make import make
from hindsight.lab.exact import Tables, enumerated, greedy, log_policy, mean_return, values
from hindsight.networks import Params
from hindsight.normalizer import Scale
from hindsight.schedules import Schedule
from hindsight.training.in_jax import as_pursued, fixed_scale, in_hindsight, learning, play
from hindsight.types import Array, Tensor

LEARNING_RATE = 1e-3
FOURIER_FEATURES = 4
ROWS, ENTROPY = 1024, 5e-4  # of HPG
ESTIMATORS: tuple[Estimator, ...] = get_args(Estimator)
BASELINES: tuple[Baseline, ...] = get_args(Baseline)
LAMBDAS = (0.95, 0.0)
ADVANTAGES = tuple(f"advantage, lambda {gae_lambda:g}" for gae_lambda in LAMBDAS)
COLUMNS = (*BASELINES, "value, always", "td, always", *ADVANTAGES, f"{ADVANTAGES[0]}, always")
"""Baselines as HPG subtracts them, then advantages as the learners with a critic use them: left
out where the goal was chosen because of the episode itself, or (always) not."""


@dataclass(frozen=True)
class Setting:
    """An env, enumerated and in JAX, and the network that plays it."""

    world: Tables
    env: JaxEnv
    agent: PolicyGradient
    scale: Scale

    def log_policy(self, policy: Params) -> Tensor:
        return log_policy(self.world, self.agent, self.scale, policy)

    def mean_return(self, policy: Params) -> Tensor:
        return mean_return(self.world, jnp.exp(self.log_policy(policy)))


def measure(
    seed: int,
    env: str,
    learnt_by: Literal["exact gradients", "HPG"],
    steps: tuple[int, ...],
    compared: tuple[int, ...],
    episodes: int,
    batches: int,
    **kwargs: Any,
) -> dict[str, Any]:
    """Scores after so many `steps` of Adam, and cosines after those that are `compared`."""
    made = make(env, **kwargs)
    spec, twin = inspect(made, env), in_jax(made)
    assert twin is not None
    config = HPGConfig(
        fourier_features=FOURIER_FEATURES, rows=ROWS, entropy=Schedule.parse(ENTROPY)
    )
    agent = make_on_policy_agent(config, spec)
    setting = Setting(
        enumerated(made.unwrapped, spec.horizon), twin, agent, fixed_scale(twin, spec)
    )
    first, second = jax.random.split(jax.random.key(seed))
    start = agent.init(first)
    found = (
        trained(setting, start.policy, steps)
        if learnt_by == "exact gradients"
        else trained_by_hpg(setting, start, steps, episodes, second)
    )
    policies = dict(zip(steps, found, strict=True))
    return {
        "learnt_by": learnt_by,
        "episodes": episodes,
        "batches": batches,
        "scores": [
            {"steps": number, **scores(setting, policy)} for number, policy in policies.items()
        ],
        "cosines": [
            {"steps": number, **row}
            for number in compared
            for row in cosines(
                setting, policies[number], episodes, jax.random.split(second, batches)
            )
        ],
    }


def trained(setting: Setting, policy: Params, stops: tuple[int, ...]) -> Iterator[Params]:
    """The policy after each of these numbers of steps of Adam along the exact gradient."""

    @jax.jit
    def ascend(policy: Params, optimizer: Any) -> tuple[Params, Any]:
        gradient = jax.grad(lambda p: -setting.mean_return(p))(policy)
        return adam_step(policy, gradient, optimizer, LEARNING_RATE)

    optimizer = optax.scale_by_adam().init(policy)
    for step in range(1, stops[-1] + 1):
        policy, optimizer = ascend(policy, optimizer)
        if step in stops:
            yield policy


def trained_by_hpg(
    setting: Setting,
    state: State,
    stops: tuple[int, ...],
    episodes: int,
    key: Tensor,
) -> Iterator[Params]:
    """The policy after each of these numbers of batches."""
    learn = learning(setting.agent, setting.env, setting.scale, setting.world.horizon, episodes)
    state, done = setting.agent.scheduled(state, setting.scale, 0.0), 0
    for stop in stops:
        keys = jax.random.split(jax.random.fold_in(key, stop), stop - done)
        state, *_ = learn(state, keys, 0, len(keys))
        done = stop
        yield state.policy


def scores(setting: Setting, policy: Params) -> dict[str, float]:
    """Exact mean returns of the policy and of its likeliest actions, in steps, as in HPG."""
    log_pi = setting.log_policy(policy)
    found = {"sampled": jnp.exp(log_pi), "greedy": greedy(log_pi)}
    horizon = setting.world.horizon
    return {
        name: round(horizon * float(mean_return(setting.world, table)), 4)
        for name, table in found.items()
    }


def cosines(setting: Setting, policy: Params, episodes: int, keys: Tensor) -> list[dict[str, Any]]:
    """Of every estimate with the exact gradient: of one batch (mean and deviation, a batch per
    key), of their mean."""
    exact = _flat(jax.jit(jax.grad(setting.mean_return))(policy))
    value = values(setting.world, jnp.exp(setting.log_policy(policy)))

    @jax.jit
    def estimates(policy: Params, value: Tensor, key: Tensor) -> Tensor:
        """All of them from one batch [estimators * columns, parameters]."""
        first, second = jax.random.split(key)
        keys = jax.random.split(first, episodes)
        played = play(
            setting.env, setting.agent, policy, setting.scale, setting.world.horizon, keys
        )
        hindsight = in_hindsight(played, len(setting.world.position), second)
        plain = estimated(setting, policy, value, as_pursued(played), ESTIMATORS[:1])
        return jnp.concatenate(
            [plain, estimated(setting, policy, value, hindsight, ESTIMATORS[1:])]
        )

    single, total = [], 0.0
    for key in keys:
        found = estimates(policy, value, key)
        single.append(_cosine(found, exact))
        total = total + found
    one, deviation, mean = np.mean(single, axis=0), np.std(single, axis=0), _cosine(total, exact)
    names = [(estimator, column) for estimator in ESTIMATORS for column in COLUMNS]
    return [
        {"estimator": estimator, "baseline": column}
        | {"one": round(float(a), 4), "deviation": round(float(b), 4), "mean": round(float(c), 4)}
        for (estimator, column), a, b, c in zip(names, one, deviation, mean, strict=True)
    ]


def estimated(
    setting: Setting,
    policy: Params,
    value: Tensor,
    batch: GoalBatch,
    estimators: Sequence[Estimator],
) -> Tensor:
    """The gradient as estimators find it in a batch, each with every baseline [estimators *
    columns, parameters].

    Of hindsight goals only those that are goals of the env count: the learners also use the corners
    where it starts.
    """
    world = setting.world
    state, _ = _number(world.position, batch.observation)  # [N, T+1]
    goal, is_goal = _number(world.position[world.goal], batch.goal)  # [G, N or 1]
    goal, time = goal[..., None], jnp.arange(world.horizon + 1)
    result = batch.outcome(1.0)
    log_pi, pull = jax.vjp(
        lambda p: setting.log_policy(p)[goal, state[:, :-1], batch.action], policy
    )
    log_rho = log_ratios(log_pi, batch.log_prob, result.alive)
    log_step = log_steps(log_pi, batch.log_prob, result.alive)
    seen = value[time, goal, state]  # [G, N, T+1]
    free = baseline_is_unbiased(batch.hit, batch.was_pursued)
    subtracted = where_it_continues(seen, result)
    tailed, unbiased = with_tails(result, subtracted, 1.0), jnp.where(free, subtracted, 0.0)
    found = []
    for estimator in estimators:
        weight = weights(log_rho, result, estimator) * goal_shares(batch.used & is_goal.all(axis=1))
        found.append(coefficients(weight, result.reward))
        found.append(coefficients(weight, tailed, 1.0, unbiased, "value"))
        found.append(coefficients(weight, result.reward, 1.0, unbiased, "td"))
        found.append(coefficients(weight, result.reward, 1.0, subtracted, "paper"))
        found.append(coefficients(weight, tailed, 1.0, subtracted, "value"))
        found.append(coefficients(weight, result.reward, 1.0, subtracted, "td"))
        gains = [advantages(log_step, result, seen, 1.0, gae_lambda)[0] for gae_lambda in LAMBDAS]
        found += [weight * jnp.where(free, gain, gain + seen[..., :-1]) for gain in gains]
        found.append(weight * gains[0])
    return jax.lax.map(lambda coefficient: _flat(pull(coefficient)[0]), jnp.stack(found))


def _number(rows: Array, wanted: Tensor) -> tuple[Tensor, Tensor]:
    """Which of the rows [R, d] each of [..., d] is, and whether it is any."""
    same = (wanted[..., None, :] == rows).all(axis=-1)
    return jnp.argmax(same, axis=-1), same.any(axis=-1)


def _flat(gradient: Params) -> Tensor:
    return ravel_pytree(gradient)[0]


def _cosine(found: Tensor, exact: Tensor) -> Array:
    """Of each row [K, parameters] with one vector; 0 of a row that points nowhere, because no
    goal was reached."""
    lengths = jnp.linalg.norm(found, axis=1) * jnp.linalg.norm(exact)
    return np.asarray(found @ exact / jnp.where(lengths > 0, lengths, 1.0))
