"""A critic of actions in on-policy learners: whose goals it learns under, what it learns, by hand,
and that what was pursued makes no difference."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hindsight
from conftest import LineEnv, random_episodes
from hindsight.agents.a2c import A2C, A2CConfig
from hindsight.agents.actor_critic import Steps, drawn_steps, steps_of
from hindsight.agents.goal_batch import GoalBatch, episode_goals, newly_achieved
from hindsight.agents.policy_gradient import State
from hindsight.agents.ppo import PPOConfig
from hindsight.agents.registry import config_class, make_on_policy_agent
from hindsight.agents.shapes import Shapes
from hindsight.config import OnPolicyConfig
from hindsight.envs.contract import Actions, inspect
from hindsight.episodes import Episodes
from hindsight.errors import HindsightError
from hindsight.normalizer import Scale
from hindsight.settings import with_settings
from hindsight.training.on_policy import GoalChoice
from hindsight.training.relay import Relay

GAMMA = 0.9
KEY = jax.random.key(0)
PLAIN = Scale(*(np.full(1, x, np.float32) for x in (0, 1, 0, 1)))
ACTION: dict[str, Any] = {"critic": "action", "gamma": GAMMA}


def new_agent(**settings: Any) -> A2C:
    config = ACTION | {"net_arch": (8,), "rows": 32, "critic_batch_size": 16} | settings
    actions = Actions(low=(-2.0,), high=(4.0,))
    return A2C(A2CConfig(**config), Shapes(1, 1, actions, GAMMA, None, 0.0))


def started(agent: A2C, key: int = 0) -> State:
    state: State = agent.scheduled(agent.init(jax.random.key(key)), PLAIN, 0.0)
    return state


def one_step(hit: bool, ends: bool, failed: bool = False) -> GoalBatch:
    """An episode of a single step under a single goal."""
    number = np.full((1, 1), 0.5, np.float32)
    yes = np.ones((1, 1), np.bool_)
    batch = GoalBatch(
        observation=np.array([[[0.3], [-0.7]]], np.float32),
        action=np.array([[[2.0]]], np.float32),
        log_prob=number,
        length=np.ones(1, np.int32),
        failed=np.array([failed]),
        pursued=number,
        goal=number[None],
        hit=np.array([[[hit]]]),
        counts=yes,
        used=yes[0],
        was_pursued=~yes[0],
        ends=np.array(ends),
    )
    return jax.tree.map(jnp.asarray, batch)


@given(st.integers(0, 10**6), st.integers(1, 15), st.booleans(), st.booleans())
def test_goals_of_an_episode_are_its_own(seed: int, count: int, pursued: bool, skip: bool) -> None:
    line_spec = inspect(LineEnv())
    rng = np.random.default_rng(seed)
    episodes = random_episodes(rng, 4, 12, line_spec)
    episodes = replace(episodes, log_prob=np.zeros(episodes.reward.shape, np.float32))
    may = newly_achieved(episodes, line_spec) & episodes.real
    batch = episode_goals(episodes, count, may, line_spec, False, rng, pursued, skip)
    own = min(count, 12)
    assert batch.goal.shape == (own + pursued, 4, line_spec.goal.dim)
    assert batch.was_pursued.tolist() == [False] * own + [True] * pursued
    features = line_spec.goal(episodes.achieved_goal[:, 1:].reshape(-1, 1)).reshape(4, 12, -1)
    for n in range(4):
        chosen = batch.goal[:own, n][batch.counts[:own, n]]
        assert len(chosen) == min(count, may[n].sum())  # as many as there are, none twice
        assert {g.tobytes() for g in chosen} <= {g.tobytes() for g in features[n][may[n]]}
    for g, n in np.argwhere(batch.counts[:own]):
        hits = [
            bool(line_spec.reached(a[None], batch.goal[g, n][None])[0])
            for a in episodes.achieved_goal[n, 1:]
        ]
        np.testing.assert_array_equal(batch.hit[g, n], hits & episodes.real[n])
        assert batch.hit[g, n].any()  # it achieved it
    if pursued:
        met = line_spec.reached(episodes.achieved_goal[:, 0], episodes.desired_goal)
        np.testing.assert_array_equal(batch.counts[-1], ~(met & skip))
        np.testing.assert_array_equal(batch.goal[-1], line_spec.goal(episodes.desired_goal))


@given(st.integers(0, 10**6))
def test_steps_are_drawn_by_their_chances(seed: int) -> None:
    rng = np.random.default_rng(seed)
    chance = np.where(rng.random((3, 2, 4)) < 0.5, rng.random((3, 2, 4)), 0.0).astype(np.float32)
    steps = Steps(chance, jnp.cumsum(chance.ravel()), hit=chance, over=chance)
    goal, episode, time, weight = drawn_steps(steps, 64, jax.random.key(seed))
    if not chance.any():
        assert float(weight.sum()) == 0.0
        return
    assert (chance[goal, episode, time] > 0).all()
    assert float(weight.sum()) == pytest.approx(1.0)


def test_a_fifth_of_the_steps_are_under_pursued_goals() -> None:
    one = one_step(True, False)
    twice = {name: np.repeat(getattr(one, name), 2, axis=0) for name in ("goal", "hit", "counts")}
    both = np.array([True, True])
    batch = one._replace(**twice, used=both, was_pursued=np.array([False, True]))
    np.testing.assert_allclose(steps_of(batch, GAMMA).chance.ravel(), [0.8, 0.2], rtol=1e-6)
    none = batch._replace(counts=np.array([[True], [False]]))  # all there is
    np.testing.assert_allclose(steps_of(none, GAMMA).chance.ravel(), [1.0, 0.0], rtol=1e-6)
    nothing = batch._replace(used=np.zeros(2, np.bool_))
    assert not steps_of(nothing, GAMMA).chance.any()


@pytest.mark.parametrize(
    ("hit", "ends", "failed", "reward", "follows"),
    [
        (False, False, False, -0.1, GAMMA),
        (True, False, False, 0.0, GAMMA),
        (True, True, False, 0.0, 0.0),
        (False, False, True, -1.0, 0.0),  # failed: never at the goal again
    ],
)
def test_what_it_learns_by_hand(
    hit: bool, ends: bool, failed: bool, reward: float, follows: float
) -> None:
    """Every draw of this batch is the same step, so the first loss is its squared TD error."""
    agent = new_agent(critic_updates=1)
    state, slow = started(agent), started(agent, 7).critic
    batch = one_step(hit, ends, failed)
    steps = steps_of(batch, GAMMA)
    (learnt, moved), metrics = agent.fit_action_critic((state, slow), batch, steps, KEY)
    goal = jnp.array([[0.5]])
    after = jnp.concatenate([jnp.array([[-0.7]]), goal], axis=1)
    mean = jnp.split(agent.distribution(state.policy, after), 2, axis=-1)[0]
    unit = (2.0 - 1.0) / 3.0
    apply = agent._action_values.apply
    value = apply(state.critic, jnp.array([[0.3, 0.5, unit]]))[0, 0]
    later = apply(slow, jnp.concatenate([after, jnp.clip(mean, -1.0, 1.0)], axis=1))[0, 0]
    target = np.clip(reward + follows * later, -1.0, 0.0)
    assert float(metrics["critic_loss"]) == pytest.approx(float((target - value) ** 2), rel=1e-4)
    tau = agent.config.critic_tau
    expected = jax.tree.map(lambda a, b: (1.0 - tau) * a + tau * b, slow, learnt.critic)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-6), moved, expected)


def test_the_policy_learns_what_it_says() -> None:
    """With a Q that is larger the larger the action, actions become larger."""
    agent = new_agent(critic_updates=1, policy_updates=20, normalize_advantages=True)
    state, batch = started(agent), one_step(False, False)
    steps = steps_of(batch, GAMMA)
    inputs = jnp.array([[0.3, 0.5]])
    before = float(agent.distribution(state.policy, inputs)[0, 0])
    for _ in range(20):
        rows, _ = agent.rows_drawn_anew(state, batch, steps, KEY)
        larger = agent.shapes.actions.to_unit(rows.action)[:, 0]
        state, _ = agent.improve(state, batch, rows._replace(advantage=larger), KEY)
    assert float(agent.distribution(state.policy, inputs)[0, 0]) > before + 0.01


def updated(method: str, discrete: bool, ratio: float = 0.0, **settings: Any) -> tuple[Any, Any]:
    """A state after a batch, and the metrics. `ratio` changes how likely actions were when they
    were chosen."""
    small = ACTION | {"goals": 6, "rows": 64, "net_arch": [16], "critic_updates": 6} | settings
    config = OnPolicyConfig(
        "x",
        num_envs=5,
        episodes_per_cycle=5,
        agent=config_class(method)(),  # type: ignore[arg-type]
    )
    config = with_settings(config, {"agent": small})
    spec = inspect(LineEnv(discrete))
    agent = make_on_policy_agent(config.agent, spec)
    episodes: Episodes = random_episodes(np.random.default_rng(0), 5, spec.horizon, spec)
    log_prob = np.full(episodes.reward.shape, ratio, np.float32)
    batch, _ = GoalChoice(config, Relay(spec, config))(replace(episodes, log_prob=log_prob), 1)
    state = agent.scheduled(agent.init(KEY), PLAIN, 0.0)
    return jax.jit(agent.update)(state, batch, KEY)


@pytest.mark.parametrize(
    ("method", "discrete"), [("a2c", True), ("a2c", False), ("ppo", False), ("trpo", False)]
)
def test_every_learner_can_have_it_and_what_was_pursued_does_not_matter(
    method: str, discrete: bool
) -> None:
    state, metrics = updated(method, discrete, policy_updates=2)
    assert int(state.critic_optimizer.count) == 6  # three in each of two turns
    assert all(np.isfinite(float(value)) for value in metrics.values())
    assert set(metrics) >= {"critic_loss", "hits", "value", "entropy", "closeness", "kl"}
    unlikely, _ = updated(method, discrete, ratio=-5.0, policy_updates=2)
    jax.tree.map(np.testing.assert_array_equal, state, unlikely)


def test_what_does_not_go_with_it_is_named() -> None:
    for settings, message in (
        ({"critic": "action"}, "agent.gamma below 1"),
        ({"critic": "action", "gamma": 0.9, "gae_lambda": 0.5}, "gae_lambda changes nothing"),
        ({"critic": "action", "gamma": 0.9, "estimator": "step"}, "estimator changes nothing"),
        ({"policy_updates": 2}, "policy_updates changes nothing, with agent.critic state"),
        ({"critic": "action", "gamma": 0.9, "spread": True}, "spread changes nothing"),
        ({"rows": 3, "minibatches": 4}, "minibatches 4 are more than the 3 rows"),
    ):
        with pytest.raises(HindsightError, match=message):
            OnPolicyConfig("x", agent=PPOConfig(**settings))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "least"), [("a2c", 0.9), ("a3c", 0.7), ("ppo", 0.9), ("trpo", 0.9)]
)
def test_on_policy_learners_learn_to_push(method: str, least: float, tmp_path: Path) -> None:
    """The presets of point push."""
    settings: dict[str, Any] = {"seed": 10, "quiet": True, "run_dir": tmp_path / "run"}
    settings |= {"agent.deterministic": True} if method == "a3c" else {}
    run = hindsight.train("hindsight/PointPush-v0", method=method, **settings)
    assert hindsight.evaluate(run.path, episodes=100).success_rate >= least
