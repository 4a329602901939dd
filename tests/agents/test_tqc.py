"""TQC: truncated targets and the quantile loss, against numbers worked out by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hindsight.agents.shapes import Shapes
from hindsight.agents.tqc import TQC, TQCConfig, quantile_huber
from hindsight.envs.contract import Actions
from hindsight.errors import HindsightError
from hindsight.replay.batch import Batch

SHAPES = Shapes(1, 1, Actions(0, (-1.0,), (1.0,)), 0.5, (-20.0, 0.0), 0.0)
CONFIG = TQCConfig(net_arch=(4,), num_quantiles=3, drop_per_critic=1, entropy_in_target=False)
KEY = jax.random.key(0)
BATCH = Batch(
    *(np.zeros((2, 1), np.float32),) * 4,
    *(np.array(x, np.float32) for x in ([-1, 0], [0, 1], [1, 1])),
)


def tqc(quantiles: list[list[float]], **settings: Any) -> tuple[TQC, Any]:
    """An agent whose critics say these quantiles [critics, k] of everything."""
    size = {"num_critics": len(quantiles), "num_quantiles": len(quantiles[0])}
    agent = TQC(replace(CONFIG, **size, **settings), SHAPES)
    state = agent.init(KEY)
    critic = jax.tree.map(jnp.zeros_like, state.critic)
    critic["params"]["Dense_1"]["bias"] = jnp.array(quantiles)
    state = state._replace(critic=critic, target_critic=jax.tree.map(jnp.copy, critic))
    return agent, agent.scheduled(state, SHAPES.no_scale(), 0.0)


@pytest.mark.parametrize(
    ("drop", "left"),
    [(0, [-6.0, -5.0, -4.0, -3.0, -2.0, -1.0]), (1, [-6.0, -5.0, -4.0, -3.0]), (2, [-6.0, -5.0])],
)
def test_the_largest_quantiles_of_all_critics_are_dropped(drop: int, left: list[float]) -> None:
    agent, state = tqc([[-1.0, -4.0, -2.0], [-6.0, -3.0, -5.0]], drop_per_critic=drop)
    outputs = agent.critics(state.critic, jnp.zeros((2, 2)), jnp.zeros((2, 1)))
    assert agent.next_values(outputs).tolist() == [left, left]
    assert agent.actor_values(outputs).tolist() == [-3.5, -3.5]  # none dropped
    # -1 + 0.5 z for each quantile; the second transition terminated with reward 0.
    target = agent.target(state, BATCH, KEY)
    np.testing.assert_allclose(target, [[-1 + 0.5 * z for z in left], [0.0] * len(left)])


def test_a_single_critic_and_five() -> None:
    agent, state = tqc([[-2.0, -1.0, -3.0]])
    np.testing.assert_allclose(agent.target(state, BATCH, KEY)[0], [-2.5, -2.0])
    agent, state = tqc([[-1.0, -2.0, -3.0]] * 5)
    assert agent.target(state, BATCH, KEY).shape == (2, 10)
    assert float(agent.target(state, BATCH, KEY)[0].mean()) == pytest.approx(-1 - 0.5 * 2.5)


def test_every_target_is_clipped() -> None:
    agent, state = tqc([[-90.0, -60.0, -10.0], [-80.0, 50.0, 60.0]])
    np.testing.assert_allclose(agent.target(state, BATCH, KEY)[0], [-20.0, -20.0, -20.0, -6.0])


def test_the_quantile_loss_by_hand() -> None:
    # One target, 0; two quantiles for the shares 1/4 and 3/4: -2 (the error 2, Huber 1.5) and 0.5
    # (-0.5, Huber 0.125).
    loss = quantile_huber(jnp.array([[-2.0, 0.5]]), jnp.array([[0.0]]))
    assert loss.tolist() == pytest.approx([(0.25 * 1.5 + 0.25 * 0.125) / 2])
    # Two targets, -1 and 3, and one quantile, the median, 1: errors -2 and 2.
    assert quantile_huber(jnp.array([[1.0]]), jnp.array([[-1.0, 3.0]])).tolist() == pytest.approx(
        [0.75]
    )


def test_the_gradient_of_the_quantile_loss_is_that_of_small_steps() -> None:
    rng = np.random.default_rng(0)
    quantiles = rng.normal(0.0, 1.5, (2, 3, 4))
    target, pull = rng.normal(0.0, 2.0, (3, 5)), rng.uniform(0.5, 1.0, (2, 3))

    def loss(z: Any) -> Any:
        return (pull * quantile_huber(z, jnp.asarray(target, jnp.float32))).sum()

    found, step = jax.grad(loss)(jnp.asarray(quantiles, jnp.float32)), 1e-2
    for at in np.ndindex(quantiles.shape):
        aside = np.zeros_like(quantiles)
        aside[at] = step
        slope = (float(loss(quantiles + aside)) - float(loss(quantiles - aside))) / (2 * step)
        assert float(found[at]) == pytest.approx(slope, abs=2e-3)


def test_the_quantile_loss_is_least_at_the_quantiles() -> None:
    targets = jnp.asarray(
        np.random.default_rng(0).uniform(0.0, 1000.0, (1, 4001))
    )  # Huber's middle hardly counts
    place, found = jax.grad(lambda z: quantile_huber(z, targets).sum()), jnp.zeros((1, 4))
    for _ in range(400):
        found = found - 5000.0 / 100 * place(found) * 4
    np.testing.assert_allclose(
        found[0], np.quantile(targets, [0.125, 0.375, 0.625, 0.875]), atol=15
    )


def test_the_critics_loss_and_td_errors_by_hand() -> None:
    agent, state = tqc([[-4.0, -2.0], [-3.0, -1.0]], drop_per_critic=1)
    # Targets of the first transition: -1 + 0.5 (-4) = -3 and -1 + 0.5 (-3) = -2.5; of the second 0
    # and 0.
    td = agent.td_errors(state, BATCH)
    np.testing.assert_allclose(td.value, [-2.5, -2.5])
    np.testing.assert_allclose(td.error, [-2.75 + 2.5, 2.5])
    largest, state = tqc([[-4.0, -2.0], [-3.0, -1.0]], td_error="largest")
    np.testing.assert_allclose(largest.td_errors(state, BATCH).error, [-0.75, 3.0])
    weight, expected = np.array([1.0, 0.5]), 0.0
    for quantiles in ([-4.0, -2.0], [-3.0, -1.0]):
        for row, targets in enumerate(([-3.0, -2.5], [0.0, 0.0])):
            for share, z in zip((0.25, 0.75), quantiles, strict=True):
                for y in targets:
                    error = y - z
                    huber = error**2 / 2 if abs(error) <= 1 else abs(error) - 0.5
                    expected += weight[row] / 2 * (share if error > 0 else 1 - share) * huber / 4
    outputs = agent.critics(state.critic, jnp.zeros((2, 2)), jnp.zeros((2, 1)))
    found = agent.critic_loss(outputs, agent.target(state, BATCH, KEY), jnp.asarray(weight))
    assert float(found) == pytest.approx(expected, rel=1e-5)


def test_more_dropped_means_lower_values() -> None:
    """Where targets are all there is to learn, values end lower the more is dropped."""
    means = []
    for drop in (0, 3):
        agent = TQC(
            replace(CONFIG, net_arch=(16,), num_quantiles=5, drop_per_critic=drop, tau=0.2), SHAPES
        )
        state = agent.scheduled(agent.init(KEY), SHAPES.no_scale(), 0.0)
        batches = jax.tree.map(
            lambda x: np.stack([np.asarray(x)] * 300), BATCH._replace(terminated=np.zeros(2))
        )
        state, td, _ = agent.learn(state, batches, KEY)
        means.append(float(td.value[-1].mean()))
    assert means[1] < means[0]


def test_settings_that_do_not_go_together_are_refused() -> None:
    with pytest.raises(HindsightError, match="leaves none of 3 quantiles"):
        replace(CONFIG, drop_per_critic=3).check()
    with pytest.raises(HindsightError, match="loss changes nothing"):
        replace(CONFIG, loss="huber").check()
