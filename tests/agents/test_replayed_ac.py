"""The off-policy actor-critic: its critic by hand, what the policy learns from it, what does not
fit."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hindsight
from conftest import LineEnv
from hindsight.agents.hpg import HPGConfig
from hindsight.agents.ppo import PPOConfig
from hindsight.agents.registry import config_class, make_agent
from hindsight.agents.replayed_ac import ReplayedAC, ReplayedACConfig, State
from hindsight.agents.shapes import Shapes
from hindsight.config import OnPolicyConfig, config_of
from hindsight.envs.contract import Actions, inspect
from hindsight.errors import HindsightError
from hindsight.normalizer import Scale
from hindsight.replay.batch import Batch
from hindsight.schedules import Schedule
from hindsight.settings import with_settings

GAMMA = 0.9
KEY = jax.random.key(0)
PLAIN = Scale(*(np.full(1, x, np.float32) for x in (0, 1, 0, 1)))


def new_agent(discrete: bool, **settings: Any) -> ReplayedAC:
    actions = Actions(choices=3) if discrete else Actions(low=(-2.0,), high=(4.0,))
    config = {"net_arch": (8,), "gamma": GAMMA, "minibatches": 2} | settings
    return ReplayedAC(ReplayedACConfig(**config), Shapes(1, 1, actions, GAMMA, None, 0.0))


def started(agent: ReplayedAC, key: int = 0) -> State:
    state: State = agent.scheduled(agent.init(jax.random.key(key)), PLAIN, 0.0)
    return state


def transitions(discrete: bool, count: int = 6) -> Batch:
    """The first reaches its goal, the second ends there, the third ends elsewhere, the others do
    neither."""
    rng = np.random.default_rng(0)
    place = rng.uniform(-2, 2, (3, count, 1)).astype(np.float32)
    action: Any = rng.uniform(-5, 7, (count, 1)).astype(np.float32)
    if discrete:
        action = rng.integers(3, size=count)
    reward, ended = -np.ones(count, np.float32), np.zeros(count, np.float32)
    reward[:2], ended[1:3] = 0.0, 1.0
    return Batch(*place, action, reward, ended, np.ones(count, np.float32))


@pytest.mark.parametrize("discrete", [True, False])
def test_what_the_critic_learns_by_hand(discrete: bool) -> None:
    ours, batch = new_agent(discrete), transitions(discrete)
    # A target unlike the critic, so that it shows which of the two is asked.
    state = started(ours)._replace(target=started(ours, 7).critic)
    after = jnp.concatenate([batch.next_observation, batch.goal], axis=1)
    before = jnp.concatenate([batch.observation, batch.goal], axis=1)
    distribution = ours.distribution(state.policy, after)
    apply = ours._action_values.apply
    if discrete:
        follows = (jnp.exp(distribution) * apply(state.target, after)).sum(axis=1)
        now = apply(state.critic, before)[jnp.arange(6), batch.action]
    else:  # the policy's mean, without its noise; actions as the env gets them, in units of half its range
        follows = apply(state.target, jnp.concatenate([after, distribution[:, :1]], axis=1))[:, 0]
        unit = np.clip((batch.action - 1.0) / 3.0, -1.0, 1.0)
        now = apply(state.critic, jnp.concatenate([before, unit], axis=1))[:, 0]
    later = GAMMA * np.where(batch.terminated, 0.0, follows)
    target = np.array(np.clip((1 - GAMMA) * batch.reward + later, -1.0, 0.0))
    assert target[1] == 0.0  # at the goal, for good
    target[2] = -1.0  # failed: never at the goal again
    learnt, td, metrics = ours.update(state, batch, KEY)
    np.testing.assert_allclose(td.error, target - now, atol=1e-6)
    np.testing.assert_allclose(td.value, now, atol=1e-6)
    assert float(metrics["critic_loss"]) == pytest.approx(
        float(np.mean((target - now) ** 2)), rel=1e-4
    )
    jax.tree.map(np.testing.assert_array_equal, learnt.policy, state.policy)
    kept = 0.995
    expected = jax.tree.map(
        lambda old, new: kept * old + (1 - kept) * new, state.target, learnt.critic
    )
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-6), learnt.target, expected)


def test_a_new_critic_hopes_for_the_best() -> None:
    """0 is the highest value there is: what has not been tried looks good."""
    ours, batch = new_agent(discrete=False), transitions(discrete=False)
    state = started(ours)
    inputs = ours.inputs(PLAIN, batch.observation, batch.goal)
    assert float(jnp.abs(ours.action_value(state.critic, inputs, batch.action)).max()) < 0.05


@pytest.mark.parametrize("discrete", [True, False])
def test_advantages_are_over_the_policy_itself(discrete: bool) -> None:
    ours = new_agent(discrete)
    critic, policy = ours.init(jax.random.key(1)).critic, ours.init_policy(jax.random.key(2))
    inputs = np.random.default_rng(0).normal(size=(5, 2)).astype(np.float32)
    distribution = ours.distribution(policy, inputs)
    value = ours.mean_value(critic, inputs, distribution)
    if discrete:
        all_actions = (ours.action_value(critic, inputs, jnp.full(5, a)) for a in range(3))
        gains = jnp.stack([each - value for each in all_actions], axis=1)
        np.testing.assert_allclose((jnp.exp(distribution) * gains).sum(axis=1), 0.0, atol=1e-7)
    else:
        mean = ours.shapes.actions.from_unit(distribution[:, :1])
        np.testing.assert_allclose(ours.action_value(critic, inputs, mean), value, atol=1e-6)
        inside, outside = (np.full((5, 1), x, np.float32) for x in (4.0, 40.0))
        one, other = (ours.action_value(critic, inputs, action) for action in (inside, outside))
        np.testing.assert_array_equal(one, other)  # the env clips both to the same


def test_closeness_by_hand() -> None:
    gaussian, categorical = new_agent(False, init_std=0.5), new_agent(True)
    assert float(gaussian.closeness(jnp.array([0.0, np.log(0.5)]))) == pytest.approx(0.0, abs=1e-6)
    # KL of N(0.5, 0.25) from N(0, 0.5): log 2 + (0.0625 + 0.25) / 0.5 - 1/2.
    found = float(gaussian.closeness(jnp.array([0.5, np.log(0.25)])))
    assert found == pytest.approx(-(np.log(2) + 0.3125 / 0.5 - 0.5), rel=1e-4)
    chances = jnp.log(jnp.array([0.5, 0.25, 0.25]))
    assert float(categorical.closeness(chances)) == pytest.approx(1.5 * np.log(2))


@pytest.mark.parametrize("discrete", [True, False])
def test_random_actions_are_as_many_as_asked_and_inside_the_box(discrete: bool) -> None:
    """By a policy that is sure of itself: it takes the action 0, or -5, which is outside of the
    box."""
    schedule = Schedule.parse("linear(0.5, 0.1)")
    ours, rng = new_agent(discrete, random_actions=schedule), np.random.default_rng(0)
    state = started(ours)
    layers = state.policy["network"]["params"]
    bias = jnp.array([50.0, 0.0, 0.0]) if discrete else jnp.array([-2.0])
    sure = {**layers, "Dense_1": {"kernel": 0.0 * layers["Dense_1"]["kernel"], "bias": bias}}
    policy = {**state.policy, "network": {"params": sure}}
    if not discrete:
        policy["log_std"] = jnp.full(1, -20.0)
    actor = ours.actor(state._replace(policy=policy))
    rows = np.zeros((20_000, 1), np.float32), np.ones((20_000, 1), np.float32)
    for progress, share in ((0.0, 0.5), (1.0, 0.1)):
        action = np.asarray(ours.explorer(actor, progress, rng)(*rows))
        assert action.dtype == (np.int64 if discrete else np.float32)
        if discrete:  # a random action may be 0, too
            assert np.bincount(action) / len(action) == pytest.approx(
                [1 - share * 2 / 3, share / 3, share / 3], abs=0.02
            )
            continue
        changed = action[np.abs(action + 5.0) > 1e-3]
        assert len(changed) / len(action) == pytest.approx(share, abs=0.02)
        assert -2.0 <= changed.min() < -1.8
        assert 3.8 < changed.max() <= 4.0


def test_a_policy_learns_what_the_critic_says() -> None:
    """The larger an action, the likelier it reaches the goal: the policy's mean moves up."""
    rates = {"learning_rate": Schedule.parse(1e-2), "critic_learning_rate": Schedule.parse(1e-2)}
    config = ReplayedACConfig(net_arch=(16,), gamma=GAMMA, **rates)
    actions = Actions(low=(-1.0,), high=(1.0,))
    ours = ReplayedAC(config, Shapes(1, 1, actions, GAMMA, None, 0.0))
    state = started(ours)
    rng = np.random.default_rng(0)
    place = rng.uniform(-1, 1, (3, 400, 64, 1)).astype(np.float32)
    action = rng.uniform(-1, 1, (400, 64, 1)).astype(np.float32)
    reward = np.where(action[..., 0] > rng.uniform(-1, 1, (400, 64)), 0.0, -1.0).astype(np.float32)
    ended, none = np.ones((400, 64), np.float32), np.zeros(400, np.float32)
    taught = Batch(*place, action, reward, ended, ended, none, none)

    def teach(state: State, batch: Batch) -> tuple[State, Any]:
        state, _, metrics = ours.update(state, batch, KEY)
        return state, metrics["critic_loss"]

    state, losses = jax.jit(lambda state: jax.lax.scan(teach, state, taught))(state)
    # What is left is chance: to miss is to fail, -1, so p (1 - p), on average 1 / 6.
    assert float(losses[-100:].mean()) == pytest.approx(1 / 6, rel=0.1)

    few = jax.tree.map(lambda part: part[:40], taught)
    flat = (part.reshape(-1, 1)[: config.rows] for part in (few.observation, few.goal))
    inputs = ours.inputs(PLAIN, *flat)
    distribution = ours.distribution(state.policy, inputs)
    drawn = ours.drawn(distribution, jax.random.key(1))
    value = ours.mean_value(state.critic, inputs, distribution)
    advantage = ours.action_value(state.critic, inputs, drawn) - value
    assert np.corrcoef(np.clip(drawn[:, 0], -1, 1), advantage)[0, 1] > 0.9

    before = distribution[:, 0].mean()
    moved, metrics = ours.after_updates(state, [few], jax.random.key(2))
    assert float(ours.distribution(moved.policy, inputs)[:, 0].mean()) > float(before) + 1e-3
    jax.tree.map(
        np.testing.assert_array_equal, moved.critic, state.critic
    )  # it learns from replay only
    assert all(np.isfinite(float(value)) for value in metrics.values())
    entropy = float(ours.entropy(distribution).mean())
    assert float(metrics["entropy"]) == pytest.approx(entropy, rel=1e-5)  # of the policy as it was
    assert float(metrics["closeness"]) < 0.0
    assert float(metrics["kl"]) > 0.0


def test_minibatches_without_rows_are_refused() -> None:
    for agent in (ReplayedACConfig(rows=3, minibatches=4), PPOConfig(rows=3, minibatches=4)):
        with pytest.raises(HindsightError, match="minibatches 4 are more than the 3 rows"):
            agent.check()
    ours = new_agent(True, rows=0, minibatches=19)  # of all 18 rows that are replayed
    batches = jax.tree.map(lambda x: np.stack([np.asarray(x)] * 3), transitions(True))
    with pytest.raises(HindsightError, match="minibatches 19 are more than the 18 rows"):
        ours.after_updates(started(ours), [batches], KEY)


@pytest.mark.parametrize("discrete", [True, False])
def test_learning_is_updates_of_the_critic_then_of_the_policy(discrete: bool) -> None:
    ours = new_agent(discrete, rows=0)
    one = transitions(discrete)._replace(beta=0.0, actor_beta=0.0)
    batches = jax.tree.map(lambda x: np.stack([np.asarray(x)] * 3), one)
    learnt, td, metrics = ours.learn(started(ours), batches, KEY)
    assert td.error.shape == td.value.shape == (3, 6)
    state, errors = started(ours), []
    for _ in range(3):
        state, each, _ = ours.update(state, one, KEY)
        errors.append(each.error)
    np.testing.assert_allclose(td.error, np.stack(errors), rtol=1e-4, atol=1e-6)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-5), learnt, state)
    improved, more = ours.after_updates(state, [batches], KEY)
    assert any(np.any(a != b) for a, b in pairs_of(improved.policy, state.policy))
    assert set(metrics | more) >= {"critic_loss", "q_mean", "value", "entropy", "closeness", "kl"}


@pytest.mark.parametrize("rows", [0, 6, 40])
def test_the_policy_learns_once_a_cycle_however_it_was_drawn(rows: int) -> None:
    """It learnt after every draw, and one episode that ended early made 20 draws of a cycle."""
    ours = new_agent(True, rows=rows, minibatches=2)
    one = transitions(True)._replace(beta=0.0, actor_beta=0.0)
    whole = jax.tree.map(lambda x: np.stack([np.asarray(x)] * 3), one)
    parts = [jax.tree.map(lambda x, i=i: x[i : i + 1], whole) for i in range(3)]
    state = started(ours)
    at_once, in_parts = (ours.after_updates(state, draws, KEY)[0] for draws in ([whole], parts))
    assert all(np.array_equal(a, b) for a, b in pairs_of(at_once.policy, in_parts.policy))


def pairs_of(one: Any, other: Any) -> list[tuple[Any, Any]]:
    return list(zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True))


def test_what_does_not_go_with_it_is_named() -> None:
    for agent in (HPGConfig(), PPOConfig()):
        with pytest.raises(HindsightError, match="unknown setting 'replay"):
            with_settings(OnPolicyConfig("x", agent=agent), {"replay": {"replay_k": 3.0}})
    for method in ("ppo", "a3c"):
        with pytest.raises(HindsightError, match=r"unknown setting 'agent\.random_actions'"):
            with_settings(config_of(method, "x"), {"agent.random_actions": 0.1})
    config = config_of("replayed-ac", "x")
    with pytest.raises(HindsightError, match=r"agent\.gamma must be at least 0 and below 1"):
        with_settings(config, {"agent.gamma": 1.0})
    with pytest.raises(HindsightError, match="own episode"):
        with_settings(config, {"replay": {"goals_chosen": "stored", "goal_rule": "random"}})
    with pytest.raises(HindsightError, match="simulator jax is for policy gradients"):
        hindsight.train("hindsight/BitFlip-v0", method="replayed-ac", simulator="jax")


@pytest.mark.parametrize("method", ["replayed-ac", "hpg", "ppo"])
def test_a_reward_that_is_not_sparse_is_refused(method: str) -> None:
    dense = replace(inspect(LineEnv()), success_reward=None)
    with pytest.raises(HindsightError, match="not sparse"):
        make_agent(config_class(method)(), dense)


@pytest.mark.slow
def test_a_point_on_a_line_is_learnt(tmp_path: Path) -> None:
    """Without `entropy` the mean of a Gaussian drifts out of the box, and greedy actions
    overshoot."""
    agent = {"gamma": 0.9, "net_arch": (64, 64), "random_actions": 0.2, "entropy": 0.2}
    run = hindsight.train(
        "test/Line-v0",
        method="replayed-ac",
        steps=20_000,
        num_envs=32,
        episodes_per_cycle=64,
        gradient_steps=40,
        batch_size=512,
        run_dir=tmp_path / "run",
        quiet=True,
        agent=agent,
    )
    assert hindsight.evaluate(run.path, episodes=100).success_rate > 0.9
