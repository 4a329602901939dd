"""Acting in NumPy is what learning in JAX believes: greedy actions, draws and their
probabilities."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from hindsight.acting import Actor, RandomActions
from hindsight.agents.registry import AGENTS, agent_class, config_class
from hindsight.agents.shapes import Shapes
from hindsight.envs.contract import Actions
from hindsight.networks import MLP, to_numpy
from hindsight.normalizer import Scale

BOX, CHOICES = Actions(0, (-2.0, 0.0), (4.0, 1.0)), Actions(choices=3)
ROWS = 500
KINDS = {"continuous": (BOX,), "discrete": (CHOICES,), "any": (BOX, CHOICES)}
CASES = [(method, actions) for method in AGENTS for actions in KINDS[agent_class(method).acts]]


def rows(count: int = ROWS) -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    observation, goal = rng.normal(size=(count, 5)), rng.normal(size=(count, 2))
    observation[0] = 1e5  # is clipped
    return observation.astype(np.float32), goal.astype(np.float32)


def trained(method: str, actions: Actions, **settings: Any) -> tuple[Any, Any, Actor]:
    """An agent, a state far from its start, so that actions differ, and the actor of that state."""
    rng = np.random.default_rng(1)
    agent = agent_class(method)(
        config_class(method)(net_arch=(32, 16), **settings),
        Shapes(5, 2, actions, 0.9, (-10.0, 0.0), 0.0),
    )
    scale = Scale(*(rng.uniform(0.5, 2, n).astype(np.float32) for n in (5, 5, 2, 2)))
    state = agent.scheduled(agent.init(jax.random.key(0)), scale, 0.0)
    last = next(name for name in ("network", "actor", "policy") if name in state._fields)
    params = jax.tree.map(
        lambda x: x + rng.normal(0, 0.5, x.shape).astype(np.float32), getattr(state, last)
    )
    state = state._replace(**{last: params})
    return agent, state, agent.actor(state)


def settings_of(method: str) -> list[dict[str, Any]]:
    more: list[dict[str, Any]] = [{}, {"normalize": False}, {"clip_observation": 1.0}]
    if hasattr(config_class(method)(), "layer_norm"):
        more.append({"layer_norm": True})
    if hasattr(config_class(method)(), "fourier_features"):
        more.append({"fourier_features": 3})
    return more


@pytest.mark.parametrize(("method", "actions"), CASES)
def test_the_best_actions_are_those_of_jax(method: str, actions: Actions) -> None:
    observation, goal = rows()
    for settings in settings_of(method):
        agent, state, actor = trained(method, actions, **settings)
        inputs = agent.inputs(state.scale, jnp.asarray(observation), jnp.asarray(goal))
        if method == "dqn":
            values = agent.values(state.network, state.scale, observation, goal)
            expected = jnp.argmax(values, axis=-1)
        elif method in ("ddpg", "td3"):
            expected = actions.from_unit(agent.policy(state.actor, inputs))
        elif method in ("sac", "tqc"):
            mean = jnp.split(agent._actor.apply(state.actor, inputs), 2, axis=-1)[0]
            expected = actions.from_unit(jnp.tanh(mean))
        else:
            distribution = agent.distribution(state.policy, inputs)
            expected = jnp.argmax(distribution, axis=-1)
            if not actions.discrete:
                expected = actions.from_unit(jnp.split(distribution, 2, axis=-1)[0].clip(-1, 1))
        found = actor(observation, goal)
        if actions.discrete:
            assert found.dtype == np.int64
            assert len(np.unique(found)) > 1
            assert (found == np.asarray(expected)).mean() > 0.99  # but for ties within rounding
        else:
            assert found.dtype == np.float32
            assert found.std() > 0.1
            np.testing.assert_allclose(found, expected, atol=1e-4)
            assert (found >= np.float32(actions.low)).all()
            assert (found <= np.float32(actions.high)).all()


STOCHASTIC = [case for case in CASES if case[0] in ("ppo", "hpg", "replayed-ac")]


@pytest.mark.parametrize(("method", "actions"), STOCHASTIC)
def test_log_probabilities_of_draws_are_those_of_jax(method: str, actions: Actions) -> None:
    observation, goal = rows()
    for settings in settings_of(method):
        agent, state, actor = trained(method, actions, **settings)
        assert actor.stochastic
        action, log_prob = actor.sample(observation, goal, np.random.default_rng(0))
        inputs = agent.inputs(state.scale, jnp.asarray(observation), jnp.asarray(goal))
        expected = agent.log_prob(agent.distribution(state.policy, inputs), action)
        np.testing.assert_allclose(log_prob, expected, rtol=1e-3, atol=1e-3)
        assert log_prob.dtype == np.float32


@pytest.mark.parametrize(("method", "actions"), STOCHASTIC)
def test_draws_follow_the_distribution_of_jax(method: str, actions: Actions) -> None:
    agent, state, actor = trained(method, actions)
    observation, goal = (np.repeat(part[1:2], 20_000, axis=0) for part in rows())
    action, _ = actor.sample(observation, goal, np.random.default_rng(0))
    inputs = agent.inputs(state.scale, jnp.asarray(observation[:1]), jnp.asarray(goal[:1]))
    distribution = np.asarray(agent.distribution(state.policy, inputs))[0]
    if actions.discrete:
        share = np.bincount(action, minlength=actions.choices) / len(action)
        assert share == pytest.approx(np.exp(distribution), abs=0.015)
        return
    mean, log_std = np.split(distribution, 2)
    unit = actions.to_unit(action)
    for i in range(actions.dim):
        normal = stats.norm(mean[i], np.exp(log_std[i]))
        assert stats.kstest(unit[:, i], normal.cdf).pvalue > 1e-4


@pytest.mark.parametrize("method", ["ddpg", "td3", "dqn"])
def test_others_draw_nothing(method: str) -> None:
    assert not trained(method, CHOICES if method == "dqn" else BOX)[2].stochastic


@pytest.mark.parametrize("widths", [(8,), (7,) * 12])
def test_widths_of_the_network(widths: tuple[int, ...]) -> None:
    shape = agent_class("ddpg")(
        config_class("ddpg")(net_arch=widths), Shapes(5, 2, BOX, 0.9)
    ).actor_shape()
    params = to_numpy(MLP(widths, 2).init(jax.random.key(0), jnp.zeros((1, 7))))
    assert Actor(shape, params, Shapes(5, 2, BOX, 0.9).no_scale()).widths == [*widths, 2]


def test_actions_to_and_from_units() -> None:
    unit = np.random.default_rng(0).uniform(-1, 1, (50, 2)).astype(np.float32)
    for numpy in (np, jnp):
        action = BOX.from_unit(numpy.asarray(unit))
        np.testing.assert_allclose(BOX.to_unit(action), unit, atol=1e-6)
    assert BOX.inside(np.float32([[-9.0, 9.0], [1.0, 0.5]])).tolist() == [[-2.0, 1.0], [1.0, 0.5]]
    assert CHOICES.inside(np.array([2, 0])).tolist() == [2, 0]


def test_random_choices_are_any_of_them() -> None:
    random, rng = RandomActions(CHOICES, 0.6), np.random.default_rng(0)
    action = random(np.zeros(30_000, np.int64), rng)
    assert np.bincount(action) / len(action) == pytest.approx([0.6, 0.2, 0.2], abs=0.01)
