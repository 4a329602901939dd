"""Policies, draws of rows, and the pieces of PPO and TRPO against numbers worked out by hand;
every learner updates."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from conftest import LineEnv
from hindsight.agents.goal_batch import choose_goals, farthest, hindsight_goals, newly_achieved
from hindsight.agents.hindsight_weights import chosen_rows, systematic
from hindsight.agents.hpg import HPGConfig
from hindsight.agents.ppo import PPO, PPOConfig, surrogate
from hindsight.agents.registry import config_class, make_on_policy_agent
from hindsight.agents.shapes import Shapes
from hindsight.agents.trpo import TRPOConfig, conjugate_gradient, line_search
from hindsight.collect import Collector
from hindsight.config import OnPolicyConfig
from hindsight.envs.batch import LocalEnvs
from hindsight.envs.contract import Actions, GoalEnvSpec, inspect
from hindsight.episodes import Episodes
from hindsight.errors import HindsightError
from hindsight.normalizer import Scale
from hindsight.settings import with_settings
from hindsight.training.on_policy import GoalChoice
from hindsight.training.relay import Relay
from hindsight.training.rollouts import Rollouts

LINE = Scale(*(np.full(1, x, np.float32) for x in (0, 1, 0, 1)))


def new_agent(discrete: bool) -> PPO:
    actions = Actions(choices=3) if discrete else Actions(low=(-2.0, 0.0), high=(4.0, 1.0))
    return PPO(PPOConfig(net_arch=(8,)), Shapes(2, 1, actions, 1.0))


def test_gaussian_by_hand() -> None:
    ours = new_agent(discrete=False)
    distribution = np.array(
        [0.5, -0.5, np.log(0.2), np.log(2.0)], np.float32
    )  # means, log deviations
    # The action (2.5, 0.25) is (0.5, -0.5) in units of half the range: exactly the means.
    expected = stats.norm(0.5, 0.2).logpdf(0.5) + stats.norm(-0.5, 2.0).logpdf(-0.5)
    assert float(ours.log_prob(distribution, np.float32([2.5, 0.25]))) == pytest.approx(
        expected, rel=1e-5
    )
    expected = stats.norm(0.5, 0.2).entropy() + stats.norm(-0.5, 2.0).entropy()
    assert float(ours.entropy(distribution)) == pytest.approx(expected, rel=1e-5)
    other = np.array([0.5, 0.5, np.log(0.4), np.log(2.0)], np.float32)
    # log(0.4/0.2) + 0.04/0.32 - 1/2, and (1)^2 / (2 * 4).
    assert float(ours.kl(distribution, other)) == pytest.approx(
        np.log(2) + 0.125 - 0.5 + 0.125, rel=1e-4
    )


def test_categorical_by_hand() -> None:
    ours = new_agent(discrete=True)
    old, new = np.log([0.5, 0.25, 0.25]), np.log([0.25, 0.25, 0.5])
    assert float(ours.log_prob(old, np.array(1))) == pytest.approx(np.log(0.25), rel=1e-5)
    assert float(ours.entropy(old)) == pytest.approx(1.5 * np.log(2), rel=1e-5)
    assert float(ours.kl(old, new)) == pytest.approx(0.5 * np.log(2) - 0.25 * np.log(2), rel=1e-4)


@pytest.mark.parametrize("discrete", [True, False])
def test_sampling_in_numpy_and_jax_agree(discrete: bool) -> None:
    ours = new_agent(discrete)
    state = ours.init(jax.random.key(0))
    actor = ours.actor(state)
    observation, goal = np.full((2000, 2), 0.3, np.float32), np.full((2000, 1), -1.0, np.float32)
    action, log_prob = actor.sample(observation, goal, np.random.default_rng(0))
    distribution = ours.distribution(state.policy, ours.inputs(state.scale, observation, goal))
    np.testing.assert_allclose(log_prob, ours.log_prob(distribution, action), atol=1e-4)
    theirs = ours.drawn(distribution, jax.random.key(1))
    np.testing.assert_allclose(action.mean(axis=0), np.asarray(theirs).mean(axis=0), atol=0.1)
    greedy = actor(observation[:1], goal[:1])
    likeliest = ours.log_prob(distribution[:1], greedy)
    assert (log_prob <= likeliest + 1e-5).all()


def test_draws_in_proportion() -> None:
    mass = jnp.array([0.0, 1.0, 2.5, 0.5])
    counts = np.bincount(np.asarray(systematic(mass, 8, jax.random.key(0))), minlength=4)
    assert counts.tolist() == [0, 2, 5, 1]  # 8 * mass / 4 is whole: no chance left
    chosen, coefficient = chosen_rows(jnp.array([0.0, -1.0, 3.0]), 4, jax.random.key(0))
    assert len(chosen) == 3  # not more than there are
    chosen, coefficient = chosen_rows(jnp.array([0.0, -1.0, 3.0, 0.0, 0.0]), 4, jax.random.key(0))
    assert np.asarray(chosen).tolist() == [1, 2, 2, 2]
    assert np.asarray(coefficient).tolist() == [-1, 1, 1, 1]


def test_ppo_surrogate_by_hand() -> None:
    ratio = np.array([1.5, 1.5, 0.5, 0.5, 1.1])
    advantage = np.array([1.0, -1.0, 1.0, -1.0, 2.0])
    np.testing.assert_allclose(
        surrogate(np.log(ratio), advantage, 0.2), [1.2, -1.5, 0.5, -0.8, 2.2], rtol=1e-5
    )


def test_conjugate_gradient_and_line_search() -> None:
    matrix = jnp.array([[4.0, 1.0], [1.0, 3.0]])
    np.testing.assert_allclose(
        conjugate_gradient(lambda x: matrix @ x, jnp.array([1.0, 2.0]), 2),
        [1 / 11, 7 / 11],
        rtol=1e-4,
    )
    assert [float(x) for x in line_search(lambda size: size <= 0.3, 10)] == [0.25, 3]
    assert [float(x) for x in line_search(lambda size: size < 0, 4)] == [0.0, 4]


def test_a_critic_may_have_a_lambda_of_its_own() -> None:
    with jax.disable_jit():  # compiled as a whole, each would round in its own way
        same, its_own, both = (
            batch_of("a2c", True, gae_lambda=policy, critic_lambda=critic)[1]
            for policy, critic in ((0.0, None), (0.0, 1.0), (1.0, None))
        )
    jax.tree.map(np.testing.assert_array_equal, same.policy, its_own.policy)
    differs = jax.tree.map(lambda a, b: float(jnp.abs(a - b).max()), same.critic, its_own.critic)
    assert max(jax.tree.leaves(differs)) > 1e-5
    differs = jax.tree.map(lambda a, b: float(jnp.abs(a - b).max()), same.policy, both.policy)
    assert max(jax.tree.leaves(differs)) > 1e-5


def test_how_goals_are_chosen_and_counted() -> None:
    spec = inspect(LineEnv())
    cases: list[dict[str, Any]] = [
        {},
        {"until_reached": True},
        {"spread": True, "goals": 2},
        {"skip_achieved": True, "hindsight": False},
    ]
    for settings in cases:
        agent = TRPOConfig(**({"net_arch": (8,), "actual_goals": False} | settings))
        config = OnPolicyConfig("x", num_envs=5, episodes_per_cycle=5, agent=agent)
        _, _, episodes = played(config, spec)
        relabel = GoalChoice(config, Relay(spec, config))
        batch, _ = relabel(episodes, 1)
        assert bool(batch.ends) == ("until_reached" in settings)  # the env itself continues
        assert not relabel.ends
        if "spread" in settings:  # the second is the farthest of all from the first
            first, second = batch.goal[:, 0, 0]
            achieved = spec.goal(episodes.achieved_goal[:, 1:][episodes.real])
            assert abs(second - first) == np.abs(achieved - first).max()
        if "skip_achieved" in settings:
            met = spec.reached(episodes.achieved_goal[:, 0], episodes.desired_goal)
            np.testing.assert_array_equal(batch.counts[0], ~met)


def test_hpg_may_learn_from_a_batch_several_times() -> None:
    """Each time with the importance weights of the policy as it then is."""
    settings = {"baseline": "td", "actual_goals": True}
    _, together, _ = batch_of("hpg", True, updates=3, **settings)
    _, in_turn, _ = batch_of("hpg", True, repeat=3, **settings)
    _, once, _ = batch_of("hpg", True, **settings)
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6), together, in_turn
    )
    differs = jax.tree.map(lambda a, b: float(jnp.abs(a - b).max()), together.policy, once.policy)
    assert max(jax.tree.leaves(differs)) > 1e-3


def batch_of(method: str, discrete: bool, repeat: int = 1, **settings: Any) -> tuple[Any, Any, Any]:
    small = {"goals": 6, "rows": 64, "net_arch": [16]} | settings
    agent_config: Any = config_class(method)()
    config = OnPolicyConfig("x", num_envs=5, episodes_per_cycle=5, agent=agent_config)
    config = with_settings(config, {"agent": small})
    spec = inspect(LineEnv(discrete))
    agent, state, episodes = played(config, spec, discrete)
    batch, _ = GoalChoice(config, Relay(spec, config))(episodes, 1)
    update = jax.jit(agent.update)
    keys = [jax.random.key(1)] if repeat == 1 else jax.random.split(jax.random.key(1), repeat)
    after = state
    for key in keys:
        after, metrics = update(after, batch, key)
    return state, after, metrics


def played(
    config: OnPolicyConfig, spec: GoalEnvSpec, discrete: bool = False
) -> tuple[Any, Any, Episodes]:
    """An agent, its first state, and the first episodes that it plays."""
    agent = make_on_policy_agent(config.agent, spec)
    state = agent.scheduled(agent.init(jax.random.key(0)), LINE, 0.0)
    envs = LocalEnvs(lambda: LineEnv(discrete), config.num_envs, spec.horizon)
    rollouts = Rollouts(config, spec, agent, Collector(envs, spec))
    return agent, state, rollouts.play(1, agent.actor(state), 0.0)


@pytest.mark.parametrize(
    ("method", "discrete", "hindsight"),
    [
        ("hpg", False, True),
        ("hpg", True, False),
        ("a2c", True, True),
        ("ppo", False, True),
        ("trpo", False, False),
    ],
)
def test_every_learner_updates(method: str, discrete: bool, hindsight: bool) -> None:
    before, after, metrics = batch_of(method, discrete, hindsight=hindsight)
    assert all(np.isfinite(float(value)) for value in metrics.values())
    for name in ("effective_sample_size", "largest_ratio", "goals_with_signal", "entropy"):
        assert name in metrics
    if hindsight:
        signal = float(
            metrics["goals_with_signal"]
        )  # of achieved goals all have one, of pursued ones some
        assert signal == 1.0 if method == "hpg" else 0.5 < signal <= 1.0
        moved = jax.tree.map(lambda a, b: float(jnp.abs(a - b).max()), before.policy, after.policy)
        assert max(jax.tree.leaves(moved)) > 0


@pytest.mark.parametrize("baseline", ["value", "td", "paper"])
def test_hpg_with_a_baseline_trains_its_critic(baseline: str) -> None:
    before, after, metrics = batch_of("hpg", True, baseline=baseline)
    moved = jax.tree.map(lambda a, b: float(jnp.abs(a - b).max()), before.critic, after.critic)
    assert min(jax.tree.leaves(moved)) > 0
    assert float(metrics["critic_loss"]) > 0


@pytest.mark.parametrize(
    ("method", "settings"), [("hpg", {"baseline": "td"}), ("a2c", {}), ("ppo", {}), ("trpo", {})]
)
def test_every_critic_takes_as_many_steps_as_it_is_told(
    method: str, settings: dict[str, Any]
) -> None:
    """PPO used to ignore `critic_updates`."""
    with jax.disable_jit():  # compiled as a whole, each would round in its own way
        few, many = (
            batch_of(method, True, critic_updates=count, **settings)[1] for count in (1, 4)
        )
    jax.tree.map(np.testing.assert_array_equal, few.policy, many.policy)
    assert int(few.critic_optimizer.count) == 1
    assert int(many.critic_optimizer.count) == 4


def test_ppo_stops_where_it_has_moved_far_enough() -> None:
    """One step of Adam may pass the target; the next is left out."""
    far, near = (
        float(batch_of("ppo", False, learning_rate=1e-3, epochs=16, **kl)[2]["kl"])
        for kl in ({}, {"target_kl": 0.001})
    )
    assert near < 0.3 * far
    same, still = (
        batch_of("ppo", False, learning_rate=1e-3, epochs=16, **kl)[1]
        for kl in ({}, {"target_kl": 1e6})
    )
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5), same.policy, still.policy
    )


def test_ppo_scales_long_gradients_down() -> None:
    """Adam remembers the first gradient as a tenth of it, and its square as a thousandth."""
    one: dict[str, Any] = {"epochs": 1, "minibatches": 1}
    free, loose, short = (
        batch_of("ppo", False, **one, **limit)[1].policy_optimizer
        for limit in ({}, {"max_grad_norm": 1e6}, {"max_grad_norm": 1e-3})
    )
    jax.tree.map(np.testing.assert_array_equal, free.mu, loose.mu)
    norm = np.sqrt(sum(np.sum((10.0 * np.asarray(x)) ** 2) for x in jax.tree.leaves(free.mu)))
    assert norm > 1e-2
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a * 1e-3 / norm, b, rtol=1e-3, atol=1e-9),
        free.mu,
        short.mu,
    )


@pytest.mark.parametrize(("kl", "discrete"), [("exact", True), ("sampled", False)])
def test_trpo_keeps_to_its_bound(kl: str, discrete: bool) -> None:
    _, _, metrics = batch_of("trpo", discrete, kl_estimate=kl, max_kl=1e-3)
    measured = float(metrics["kl" if kl == "exact" else "kl_sampled"])
    assert 1e-5 < measured <= 1e-3
    assert 1 <= float(metrics["line_search_steps"]) <= 10


def test_goals_are_filtered_by_the_box_of_the_desired_ones() -> None:
    spec = inspect(LineEnv())
    agent = make_on_policy_agent(TRPOConfig(net_arch=(8,)), spec)
    actor = agent.actor(agent.init(jax.random.key(0)))
    collector = Collector(LocalEnvs(LineEnv, 4, spec.horizon), spec)
    rng = np.random.default_rng(0)
    episodes = collector.collect(lambda o, g: actor.sample(o, g, rng), [1, 2, 3, 4])
    assert episodes.log_prob is not None
    low, high = episodes.desired_goal.min(), episodes.desired_goal.max()
    goals, used, inside = choose_goals(episodes, 0, episodes.real, spec, rng)
    assert spec.reached(goals, goals.clip(low, high)).all()
    assert len(goals).bit_count() == 1  # so that few sizes are compiled
    goals = goals[used]
    assert 0 < inside < 1
    everything, used, _ = choose_goals(episodes, 0, episodes.real, None, rng)
    everything = everything[used]
    assert len(goals) == round(inside * len(everything))
    few, used, _ = choose_goals(episodes, 500, episodes.real, None, rng)
    assert (len(few), used.sum()) == (500, len(everything))
    new = newly_achieved(episodes, spec)
    goals, used, _ = choose_goals(episodes, 0, new, None, rng)
    goals = goals[used]
    left = episodes.achieved_goal[:, 1:][new & episodes.real]
    assert (np.sort(goals, axis=0) == np.unique(left, axis=0)).all()
    starts = np.repeat(episodes.achieved_goal[:, :1], new.shape[1], axis=1)[new & episodes.real]
    assert not spec.reached(left, starts).any()
    assert len(goals) < len(everything)
    nothing, used, share = choose_goals(episodes, 5, np.zeros_like(new), None, rng)
    assert (len(nothing), used.any(), share) == (5, False, 0.0)

    # An episode does not count for a goal that it met when it began.
    used = np.ones(len(everything), np.bool_)
    batch = hindsight_goals(episodes, everything, used, spec, True, skip_achieved=True)
    n, g = len(episodes), len(everything)
    starts = np.broadcast_to(episodes.achieved_goal[:, 0], (g, n, 1)).reshape(-1, 1)
    met = spec.reached(starts, np.repeat(everything, n, axis=0)).reshape(g, n)
    assert met.any()
    np.testing.assert_array_equal(batch.counts, ~met)
    assert not batch.hit[met].any()
    assert hindsight_goals(episodes, everything, np.ones(g, np.bool_), spec, True).counts.all()


def test_goals_that_are_spread_lie_far_apart() -> None:
    points = np.array([[0.0], [0.1], [0.2], [1.0], [0.6]])
    first = [farthest(points, 3, np.random.default_rng(seed)).tolist() for seed in range(20)]
    # From 0, the farthest is 1, then 0.6; from 0.6 it is 0, then 1; from 1 it is 0, then 0.6.
    assert all(order in first for order in ([0, 3, 4], [4, 0, 3], [3, 0, 4]))
    assert sorted(farthest(points, 9, np.random.default_rng(0)).tolist()) == [0, 1, 2, 3, 4]


def test_bad_settings_are_named() -> None:
    config = OnPolicyConfig("x", agent=PPOConfig())
    for settings, message in (
        ({"agent": {"clip": 0.0}}, "agent.clip"),
        ({"agent": {"goal": 3}}, "Did you mean 'agent.goals'"),
        ({"agent": {"estimator": "best"}}, "one of weighted"),
        ({"steps": 2.5}, "must be a int"),
        ({"agent": {"gae_lambda": 2}}, "between 0 and 1"),
    ):
        with pytest.raises(HindsightError, match=message):
            with_settings(config, settings)
    with pytest.raises(HindsightError, match="importance weights"):
        OnPolicyConfig("x", agent=HPGConfig(updates=2, hindsight=False))
