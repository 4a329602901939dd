"""Estimates against the exact gradient: those of the learners, right where theory says so."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax.flatten_util import ravel_pytree

from hindsight.agents.a2c import A2CConfig
from hindsight.agents.config import OnPolicyAgentConfig
from hindsight.agents.hpg import HPGConfig
from hindsight.agents.policy_gradient import PolicyGradient, Rates, State
from hindsight.agents.registry import make_on_policy_agent
from hindsight.envs.contract import inspect
from hindsight.envs.jax_envs import JaxBitFlip
from hindsight.envs.make import make
from hindsight.lab.estimators import (
    COLUMNS,
    ESTIMATORS,
    Setting,
    cosines,
    estimated,
    scores,
    trained,
    trained_by_hpg,
)
from hindsight.lab.exact import enumerated
from hindsight.lab.reproduce import measured_tables
from hindsight.lab.reproduce.experiment import Measurement
from hindsight.training.in_jax import as_pursued, fixed_scale, in_hindsight, play

BITS = 3


def bits(config: OnPolicyAgentConfig) -> tuple[Setting, PolicyGradient]:
    env, twin = make("hindsight/BitFlip-v0", bits=BITS), JaxBitFlip(BITS)
    spec = inspect(env)
    agent = make_on_policy_agent(config, spec)
    world = enumerated(env.unwrapped, BITS)
    return Setting(world, twin, agent, fixed_scale(twin, spec)), agent


def uneven(policy: Any) -> Any:
    """A policy whose goals differ."""
    return jax.tree.map(lambda x: 20.0 * x, policy)


@pytest.mark.parametrize(
    ("config", "column"),
    [
        (HPGConfig(), "none"),
        (HPGConfig(baseline="paper", estimator="per_decision"), "paper"),
        (HPGConfig(baseline="value", hindsight=False), "value"),
        (HPGConfig(baseline="value"), "value"),
        (HPGConfig(baseline="value", leave_one_out=False), "value, always"),
        (HPGConfig(baseline="td"), "td"),
        (HPGConfig(baseline="td", leave_one_out=False), "td, always"),
        (A2CConfig(), "advantage, lambda 0.95"),
        (A2CConfig(leave_one_out=False), "advantage, lambda 0.95, always"),
        (A2CConfig(gae_lambda=0.0, estimator="step"), "advantage, lambda 0"),
    ],
)
def test_an_estimate_is_what_the_learner_follows(config: OnPolicyAgentConfig, column: str) -> None:
    small: Any = {"net_arch": (8,), "rows": 0}
    setting, learner = bits(type(config)(**{**vars(config), **small}))
    name = config.estimator if config.hindsight else "plain"

    @jax.jit
    def both(state: State, key: jax.Array) -> tuple[jax.Array, jax.Array]:
        keys = jax.random.split(key, 6)
        played = play(setting.env, setting.agent, state.policy, setting.scale, BITS, keys)
        batch = in_hindsight(played, 0, key) if config.hindsight else as_pursued(played)
        now = state._replace(scale=setting.scale, rates=Rates(1.0, 1.0, 0.0))
        after, _ = learner.update(now, batch, key)
        followed = ravel_pytree(after.policy_optimizer.mu)[
            0
        ]  # the first step of Adam keeps a tenth of the gradient

        inputs = setting.agent.inputs(setting.scale, *setting.world.pairs())
        times = [jnp.full(inputs.shape[:-1], t / BITS) for t in range(BITS + 1)]
        value = jnp.stack([setting.agent.value(state.critic, inputs, time) for time in times])
        return -followed, estimated(setting, state.policy, value, batch, [name])[
            COLUMNS.index(column)
        ]

    state = learner.init(jax.random.key(0))
    followed, found = both(state._replace(policy=uneven(state.policy)), jax.random.key(1))
    cosine = followed @ found / jnp.linalg.norm(followed) / jnp.linalg.norm(found)
    assert float(cosine) == pytest.approx(1.0, abs=1e-4)


def test_exact_gradients_climb() -> None:
    setting, learner = bits(HPGConfig(net_arch=(8,)))
    policy = learner.init(jax.random.key(0)).policy
    policies = [policy, *trained(setting, policy, (5, 20))]
    found = [scores(setting, p)["sampled"] for p in policies]
    assert len(found) == 3
    assert found[0] < found[1] < found[2]


def test_hpg_climbs() -> None:
    setting, learner = bits(HPGConfig(net_arch=(8,)))
    start = learner.init(jax.random.key(0))
    found = trained_by_hpg(setting, start, (5, 50), 16, jax.random.key(1))
    climbed = [scores(setting, p)["sampled"] for p in (start.policy, *found)]
    assert climbed[0] < climbed[1] < climbed[2]


def test_the_plain_estimate_is_right_on_average_and_a_value_helps_it() -> None:
    setting, learner = bits(HPGConfig(net_arch=(8,)))
    policy = uneven(learner.init(jax.random.key(0)).policy)
    rows = cosines(setting, policy, 32, jax.random.split(jax.random.key(1), 60))
    assert [(row["estimator"], row["baseline"]) for row in rows] == [
        (e, c) for e in ESTIMATORS for c in COLUMNS
    ]
    found = {(row["estimator"], row["baseline"]): row for row in rows}
    for column in ("none", "value", "advantage, lambda 0"):
        assert found["plain", column]["mean"] > 0.97
        assert found["plain", column]["mean"] > found["plain", column]["one"]
    assert found["plain", "value"]["one"] > found["plain", "none"]["one"]


def test_the_table_by_hand() -> None:
    """Two seeds: means of 0.1 and 0.3, 0.4 and 0.6, 10 and 11, 12 and 12."""

    def values(seed: int) -> dict[str, Any]:
        row = {"steps": 10, "estimator": "plain", "baseline": "none"}
        row |= {"one": 0.1 + 0.2 * seed, "mean": 0.4 + 0.2 * seed}
        scores = [{"steps": 60, "sampled": 10.0 + seed, "greedy": 12.0}]
        return {
            "values": {
                "learnt_by": "exact gradients",
                "episodes": 16,
                "batches": 48,
                "cosines": [row],
                "scores": scores,
            }
        }

    made = measured_tables.table(
        Measurement("x", "estimators", 1.0), {seed: values(seed) for seed in (0, 1)}
    )
    assert made.splitlines() == [
        "| cosine of a batch of 16 episodes | after steps | none |",
        "|---|---|---|",
        "| plain | 10 | 0.20 [0.10, 0.30] |",
        "",
        "| cosine of the mean of 48 batches | after steps | none |",
        "|---|---|---|",
        "| plain | 10 | 0.50 [0.40, 0.60] |",
        "",
        "Score of the policy that learns by exact gradients (2 seeds):",
        "",
        "- after 60 steps: 10.50 [10.00, 11.00] as it plays, 12.00 [12.00, 12.00] greedy",
    ]
