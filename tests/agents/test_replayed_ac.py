"""A critic that learns from replay: its numbers by hand, what policies learn from it, and what does not go with it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hindsight
from conftest import LineEnv
from hindsight.agents.shapes import Shapes
from hindsight.envs.contract import Actions, inspect
from hindsight.errors import HindsightError
from hindsight.gradients.actor_critic import prepare
from hindsight.gradients.config import LEARNERS, A2CConfig, A3CConfig, HPGConfig, OnPolicyConfig, PPOConfig
from hindsight.gradients.learner import Learner
from hindsight.gradients.model import Model
from hindsight.gradients.replayed import KEPT
from hindsight.gradients.state import Rates
from hindsight.normalizer import Scale
from hindsight.replay.replay import Batch
from hindsight.schedules import Schedule
from hindsight.settings import with_settings
from hindsight.training.on_policy import make_replay

GAMMA = 0.9
PLAIN = Scale(*(np.full(1, x, np.float32) for x in (0, 1, 0, 1)))
RATES = Rates(1e-3, 1e-3, 0.1)


def learner(discrete: bool, **settings: Any) -> Learner:
    actions = Actions(choices=3) if discrete else Actions(low=(-2.0,), high=(4.0,))
    config = PPOConfig(hidden=(8,), gamma=GAMMA, critic="replayed", minibatches=2, **settings)
    return Learner(config, Shapes(1, 1, actions, GAMMA))


def transitions(discrete: bool, count: int = 6) -> Batch:
    """The first reaches its goal, the second ends there, the others do neither."""
    rng = np.random.default_rng(0)
    place = rng.uniform(-2, 2, (3, count, 1)).astype(np.float32)
    action = rng.integers(3, size=count) if discrete else rng.uniform(-5, 7, (count, 1)).astype(np.float32)
    reward, ended = -np.ones(count, np.float32), np.zeros(count, np.float32)
    reward[:2], ended[1] = 0.0, 1.0
    return Batch(*place, action, reward, ended, np.ones(count, np.float32))


@pytest.mark.parametrize("discrete", [True, False])
def test_what_the_critic_learns_by_hand(discrete: bool) -> None:
    ours, batch = learner(discrete), transitions(discrete)
    model, state = ours.model, ours.init(jax.random.key(0))
    # A target unlike the critic, so that it shows which of the two is asked.
    state = state._replace(target=model.init_critic(jax.random.key(7)))
    after = jnp.concatenate([batch.next_observation, batch.goal], axis=1)
    before = jnp.concatenate([batch.observation, batch.goal], axis=1)
    distribution = model.distribution(state.policy, after)
    if discrete:
        follows = (jnp.exp(distribution) * model._critic.apply(state.target, after)).sum(axis=1)
        now = model._critic.apply(state.critic, before)[jnp.arange(6), batch.action]
    else:  # the policy's mean, without its noise; and actions as the env gets them, in units of half its range
        follows = model._critic.apply(state.target, jnp.concatenate([after, distribution[:, :1]], axis=1))[:, 0]
        unit = np.clip((batch.action - 1.0) / 3.0, -1.0, 1.0)
        now = model._critic.apply(state.critic, jnp.concatenate([before, unit], axis=1))[:, 0]
    target = np.clip((1 - GAMMA) * batch.reward + GAMMA * np.where(batch.terminated, 0.0, follows), -1.0, 0.0)
    assert target[1] == 0.0  # at the goal, for good
    one = Batch(*(part[None] for part in batch))
    learnt, metrics = ours.replay(state, PLAIN, one, RATES)
    assert float(metrics["critic_loss"]) == pytest.approx(float(np.mean((target - now) ** 2)), rel=1e-4)
    jax.tree.map(np.testing.assert_array_equal, learnt.policy, state.policy)
    expected = jax.tree.map(lambda old, new: KEPT * old + (1 - KEPT) * new, state.target, learnt.critic)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-6), learnt.target, expected)


def test_a_new_critic_hopes_for_the_best() -> None:
    """0 is the highest value there is: what has not been tried looks good."""
    ours, batch = learner(discrete=False), transitions(discrete=False)
    state = ours.init(jax.random.key(0))
    inputs = ours.model.inputs(PLAIN, batch.observation, batch.goal)
    assert float(jnp.abs(ours.model.action_value(state.critic, inputs, batch.action)).max()) < 0.05


@pytest.mark.parametrize("discrete", [True, False])
def test_advantages_are_over_the_policy_itself(discrete: bool) -> None:
    model: Model = learner(discrete).model
    critic, policy = model.init_critic(jax.random.key(1)), model.init_policy(jax.random.key(2))
    inputs = np.random.default_rng(0).normal(size=(5, 2)).astype(np.float32)
    distribution = model.distribution(policy, inputs)
    value = model.state_value(critic, inputs, distribution)
    if discrete:
        gains = jnp.stack([model.action_value(critic, inputs, jnp.full(5, a)) - value for a in range(3)], axis=1)
        np.testing.assert_allclose((jnp.exp(distribution) * gains).sum(axis=1), 0.0, atol=1e-7)
    else:
        mean = model._box(distribution[:, :1])
        np.testing.assert_allclose(model.action_value(critic, inputs, mean), value, atol=1e-6)
        inside, outside = np.full((5, 1), 4.0, np.float32), np.full((5, 1), 40.0, np.float32)
        one, other = (model.action_value(critic, inputs, action) for action in (inside, outside))
        np.testing.assert_array_equal(one, other)  # the env clips both to the same


def test_nearness_by_hand() -> None:
    gaussian, categorical = learner(False, deviation=0.5).model, learner(True).model
    assert float(gaussian.nearness(jnp.array([0.0, np.log(0.5)]))) == pytest.approx(0.0, abs=1e-6)
    # KL of N(0.5, 0.25) from N(0, 0.5): log 2 + (0.0625 + 0.25) / 0.5 - 1/2.
    found = float(gaussian.nearness(jnp.array([0.5, np.log(0.25)])))
    assert found == pytest.approx(-(np.log(2) + 0.3125 / 0.5 - 0.5), rel=1e-4)
    assert float(categorical.nearness(jnp.log(jnp.array([0.5, 0.25, 0.25])))) == pytest.approx(1.5 * np.log(2))


@pytest.mark.parametrize("discrete", [True, False])
def test_random_actions_are_as_many_as_asked_and_inside_the_box(discrete: bool) -> None:
    model, rng = learner(discrete, random_actions=Schedule.parse("linear(0.5, 0.1)")).model, np.random.default_rng(0)
    assert [model.random_actions(progress) for progress in (0.0, 1.0)] == [0.5, pytest.approx(0.1)]
    action = np.full(20_000, -1) if discrete else np.full((20_000, 1), -9.0, np.float32)
    mixed = model.mixed(action, 0.3, rng)
    changed = mixed[mixed != action]
    assert len(changed) / len(action) == pytest.approx(0.3, abs=0.02)
    assert mixed.dtype == action.dtype
    if discrete:
        assert set(changed) == {0, 1, 2}
    else:
        assert -2.0 <= changed.min() < -1.8
        assert 3.8 < changed.max() <= 4.0


@pytest.mark.parametrize("method", ["a2c", "ppo", "trpo"])
def test_a_policy_learns_what_the_critic_says(method: str) -> None:
    """A critic that was taught that larger actions are better: every learner moves the policy's mean up."""
    settings = {"hidden": (16,), "gamma": GAMMA, "critic": "replayed"}
    ours = Learner(LEARNERS[method](**settings), Shapes(1, 1, Actions(low=(-1.0,), high=(1.0,)), GAMMA))
    state = ours.init(jax.random.key(0))
    rng = np.random.default_rng(0)
    place = rng.uniform(-1, 1, (3, 40, 64, 1)).astype(np.float32)
    action = rng.uniform(-1, 1, (40, 64, 1)).astype(np.float32)
    ended = np.ones((40, 64), np.float32)
    taught = Batch(*place, action, 5 * (action[..., 0] - 1.0), ended, ended)  # (1 - gamma) 5 (a - 1): from -1 to 0
    for _ in range(5):
        state, metrics = ours.replay(state, PLAIN, taught, Rates(1e-2, 1e-2, 0.0))
    assert float(metrics["critic_loss"]) < 1e-3
    batch = Batch(*(part.reshape(-1, *part.shape[2:]) for part in taught))
    rows, _ = prepare(ours.model, state, PLAIN, batch, jax.random.key(1))
    assert np.corrcoef(rows.action[:, 0], rows.advantage)[0, 1] > 0.9
    before = rows.distribution[:, 0].mean()
    moved, metrics = jax.jit(ours.update)(state, PLAIN, batch, Rates(1e-2, 1e-2, 0.0), jax.random.key(2))
    assert float(ours.model.distribution(moved.policy, rows.inputs)[:, 0].mean()) > float(before) + 1e-3
    jax.tree.map(np.testing.assert_array_equal, moved.critic, state.critic)  # it learns from replay only
    assert all(np.isfinite(float(value)) for value in metrics.values())
    entropy = float(ours.model.entropy(rows.distribution).mean())
    assert float(metrics["entropy"]) == pytest.approx(entropy, rel=1e-5)  # of the policy as it was
    assert float(metrics["nearness"]) < 0.0


def test_without_hindsight_only_pursued_goals_are_replayed() -> None:
    spec = inspect(LineEnv())
    config = OnPolicyConfig("x", agent=A2CConfig(critic="replayed", gamma=GAMMA))
    assert make_replay(config, spec).config.replay_k(0.0) == 4.0
    assert make_replay(with_settings(config, {"agent": {"hindsight": False}}), spec).config.replay_k(0.0) == 0.0


def test_what_does_not_go_with_it_is_named() -> None:
    for agent, message in (
        (PPOConfig(critic="replayed"), "gamma below 1"),
        (A3CConfig(critic="replayed", gamma=GAMMA), "a3c has no replay"),
        (PPOConfig(random_actions=Schedule.parse(0.1)), "need agent.critic replayed"),
    ):
        with pytest.raises(HindsightError, match=message):
            OnPolicyConfig("x", agent=agent)
    for agent in (HPGConfig(), PPOConfig()):
        with pytest.raises(HindsightError, match="replay_k"):
            with_settings(OnPolicyConfig("x", agent=agent), {"replay": {"replay_k": 3.0}})
    replayed = OnPolicyConfig("x", agent=PPOConfig(critic="replayed", gamma=GAMMA))
    with pytest.raises(HindsightError, match="never borrowed"):
        with_settings(replayed, {"replay": {"goals_chosen": "stored", "replace_met": 0.5}})
    with pytest.raises(HindsightError, match="outside of JAX"):
        hindsight.train(
            "hindsight/BitFlip-v0", method="ppo", simulator="jax", agent={"critic": "replayed", "gamma": GAMMA}
        )


@pytest.mark.slow
def test_a_point_on_a_line_is_learnt(tmp_path: Path) -> None:
    settings = {"critic": "replayed", "gamma": 0.9, "critic_updates": 40, "hidden": (64, 64), "random_actions": 0.2}
    run = hindsight.train(LineEnv, method="ppo", steps=20_000, run_dir=tmp_path / "run", quiet=True, agent=settings)
    assert hindsight.evaluate(run.path, episodes=100).success_rate > 0.9
