"""SAC: its distribution, targets and losses against numbers worked out by hand; how it acts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import integrate, stats

from hindsight.acting import mean_and_log_std, squashed_log_prob
from hindsight.agents.sac import SAC, SACConfig
from hindsight.agents.shapes import Shapes
from hindsight.agents.tqc import TQC, TQCConfig
from hindsight.envs.contract import Actions
from hindsight.errors import HindsightError
from hindsight.replay.batch import Batch
from hindsight.schedules import Schedule

SHAPES = Shapes(3, 2, Actions(0, (-1.0, -2.0), (1.0, 2.0)), 0.98, (-50.0, 0.0), 0.0)
CONFIG = SACConfig(net_arch=(4,), target_update_interval=1, tau=0.5)
KEY = jax.random.key(0)
MEAN, LOG_STD = np.array([0.3, -0.5]), np.log([0.5, 0.1])


def batch(n: int = 4) -> Batch:
    rng = np.random.default_rng(0)
    parts = (rng.standard_normal((n, size), np.float32) for size in (3, 3, 2, 2))
    return Batch(
        *parts, np.full(n, -1.0, np.float32), np.zeros(n, np.float32), np.ones(n, np.float32)
    )


def sac(critics: tuple[float, ...] = (-3.0, -5.0), **settings: Any) -> tuple[SAC, Any]:
    """An agent whose policy has the mean and deviation above before tanh, and whose critics are
    constant."""
    agent = SAC(replace(CONFIG, num_critics=len(critics), **settings), SHAPES)
    state = agent.init(KEY)
    actor, critic = (jax.tree.map(jnp.zeros_like, part) for part in (state.actor, state.critic))
    actor["params"]["Dense_1"]["bias"] = jnp.concatenate([jnp.array(MEAN), jnp.array(LOG_STD)])
    critic["params"]["Dense_1"]["bias"] = jnp.array(critics)[:, None]
    state = state._replace(actor=actor, critic=critic, target_critic=jax.tree.map(jnp.copy, critic))
    return agent, agent.scheduled(state, SHAPES.no_scale(), 0.0)


def entropy() -> float:
    """Of the policy above, by numeric integration: that of the Gaussian plus the mean log slope
    of tanh."""
    total = 0.0
    for mean, std in zip(MEAN, np.exp(LOG_STD), strict=True):
        gaussian = stats.norm(mean, std)

        def slope(x: float, density: Any = gaussian.pdf) -> float:
            return float(density(x) * np.log(1.0 - np.tanh(x) ** 2))

        total += gaussian.entropy() + integrate.quad(slope, mean - 8 * std, mean + 8 * std)[0]
    return total


# -------------------------------------------------------------------------------- the distribution


@pytest.mark.parametrize(("mean", "std"), [(0.0, 1.0), (0.7, 0.3), (-2.0, 1.5)])
def test_the_squashed_density_is_that_of_the_cumulative_distribution_and_sums_to_one(
    mean: float, std: float
) -> None:
    def density(action: Any) -> Any:
        before = np.arctanh(np.atleast_1d(action))[:, None]
        return np.exp(squashed_log_prob(np, (before - mean) / std, np.log([std]), before))

    action = np.linspace(-0.95, 0.95, 39)
    step = 1e-5
    below, above = (stats.norm.cdf(np.arctanh(action + d), mean, std) for d in (-step, step))
    np.testing.assert_allclose(density(action), (above - below) / (2 * step), rtol=1e-4, atol=1e-8)
    assert integrate.quad(lambda a: float(density(a)[0]), -1 + 1e-12, 1 - 1e-12, limit=500)[
        0
    ] == pytest.approx(1, rel=1e-3)


def test_the_log_probability_stays_finite_far_out_and_for_tiny_deviations() -> None:
    before = jnp.array([[40.0], [-40.0], [0.5]])
    log_prob = squashed_log_prob(jnp, jnp.zeros((3, 1)), jnp.array([[0.0], [0.0], [-20.0]]), before)
    normal = -0.5 * np.log(2 * np.pi)
    # log(1 - tanh^2) is 2 ln 2 - 2 |x| far out.
    far = normal - 2 * np.log(2) + 80
    near = normal + 20 - np.log(1 - np.tanh(0.5) ** 2)
    np.testing.assert_allclose(log_prob, [far, far, near], rtol=1e-6)


def test_the_log_deviation_is_held_within_its_range() -> None:
    mean, log_std = mean_and_log_std(np, np.array([[1.0, 2.0, 3.0, -30.0]]))
    assert mean.tolist() == [[1.0, 2.0]]
    assert log_std.tolist() == [[2.0, -20.0]]


def test_drawn_actions_have_the_stated_entropy() -> None:
    agent, state = sac()
    action, log_prob = agent.drawn(state.actor, jnp.zeros((200_000, 5)), KEY)
    assert float(-log_prob.mean()) == pytest.approx(entropy(), abs=0.01)
    np.testing.assert_allclose(
        np.arctanh(np.asarray(action, np.float64)).mean(axis=0), MEAN, atol=0.01
    )


# ------------------------------------------------------------------------------------------ losses


def test_the_target_is_the_smallest_value_plus_entropy() -> None:
    agent, state = sac(temperature=0.5)
    _, log_prob = agent.drawn(state.actor, jnp.zeros((4, 5)), KEY)
    # The policy is the same in every state: -1 + 0.98 (min(-3, -5) - 0.5 log pi).
    np.testing.assert_allclose(
        agent.target(state, batch(), KEY)[:, 0], -5.9 - 0.49 * log_prob, rtol=1e-5
    )
    many = batch(100_000)
    assert float(agent.target(state, many, KEY).mean()) == pytest.approx(
        -5.9 + 0.49 * entropy(), abs=0.01
    )
    plain, state = sac(temperature=0.5, entropy_in_target=False)
    np.testing.assert_allclose(plain.target(state, batch(), KEY), np.full((4, 1), -5.9), rtol=1e-6)


def test_nothing_follows_a_terminated_step() -> None:
    agent, state = sac(temperature=0.5)
    ended = batch()._replace(terminated=np.ones(4, np.float32))
    np.testing.assert_allclose(agent.target(state, ended, KEY), np.full((4, 1), -1.0))


def test_targets_are_clipped_to_returns_with_entropy() -> None:
    agent, low = sac((-900.0,), temperature=0.1)
    _, high = sac((900.0,), temperature=0.1)
    # 0.98 / 0.02 = 49 further steps, each with an entropy of -2 to 2 ln 2, times 0.1.
    np.testing.assert_allclose(
        agent.target(low, batch(), KEY), np.full((4, 1), -50.0 - 49 * 0.1 * 2), rtol=1e-5
    )
    np.testing.assert_allclose(
        agent.target(high, batch(), KEY), np.full((4, 1), 4.9 * 2 * np.log(2)), rtol=1e-5
    )
    agent, low = sac((-900.0,), temperature=0.1, target_entropy=-1.0)
    np.testing.assert_allclose(agent.target(low, batch(), KEY), np.full((4, 1), -54.9), rtol=1e-5)
    agent, low = sac((-900.0,), temperature=0.1, entropy_in_target=False)
    np.testing.assert_allclose(agent.target(low, batch(), KEY), np.full((4, 1), -50.0), rtol=1e-5)
    agent, low = sac((-900.0,), temperature=0.1, learn_temperature=False)
    assert float(agent.target(low, batch(), KEY).max()) < -850  # no entropy is held
    agent, low = sac((-900.0,), clip_target=False)
    assert float(agent.target(low, batch(), KEY).max()) < -850


def test_no_return_with_entropy_is_beyond_the_bounds() -> None:
    agent, state = sac(temperature=0.3)
    low, high = agent.bounds(state.log_temperature) or (0.0, 0.0)
    per_step = 0.3 * entropy()  # that of a policy between -2 and 2 ln 2
    assert -2 < entropy() < 2 * np.log(2)
    discounts = 0.98 ** np.arange(5000)
    for reward in (-1.0, 0.0):
        soft = (discounts * reward).sum() + per_step * discounts[1:].sum()
        assert low <= soft <= high


def test_td_errors_and_the_critics_loss_by_hand() -> None:
    agent, state = sac(entropy_in_target=False)
    td = agent.td_errors(state, batch())  # -5.9 minus -3 and -5: -2.9 and -0.9
    np.testing.assert_allclose(td.error, np.full(4, -1.9), rtol=1e-5)
    np.testing.assert_allclose(td.value, np.full(4, -4.0), rtol=1e-6)
    _, learnt, metrics = agent.update(state, batch(), KEY)
    assert float(metrics["critic_loss"]) == pytest.approx(2.9**2 + 0.9**2, rel=1e-5)
    np.testing.assert_allclose(learnt.error, np.full(4, -1.9), rtol=1e-5)
    largest, state = sac(entropy_in_target=False, td_error="largest")
    np.testing.assert_allclose(largest.td_errors(state, batch()).error, np.full(4, -2.9), rtol=1e-5)


def test_importance_weights_go_into_the_critics_loss() -> None:
    agent, _ = sac()
    outputs, target = jnp.array([[[0.0], [0.0]], [[1.0], [1.0]]]), jnp.array([[2.0], [4.0]])
    # Squared errors 4 and 16 of the first critic, 1 and 9 of the second; weights 1 and 1/2.
    assert (
        float(agent.critic_loss(outputs, target, jnp.array([1.0, 0.5])))
        == (4 + 8) / 2 + (1 + 4.5) / 2
    )


def test_the_actors_loss_by_hand() -> None:
    agent, state = sac(temperature=0.25)
    loss, (found, _) = agent.actor_loss(state.actor, state, batch(100_000), KEY)
    assert float(found) == pytest.approx(entropy(), abs=0.01)
    assert float(loss) == pytest.approx(-0.25 * float(found) + 5.0, rel=1e-5)


def test_importance_weights_go_into_the_actors_loss_if_asked_for() -> None:
    agent, state = sac(temperature=0.25)
    weighted = batch()._replace(importance=np.array([1.0, 2.0, 4.0, 4.0], np.float32))
    _, log_prob = agent.drawn(state.actor, jnp.zeros((4, 5)), KEY)
    losses = 0.25 * np.asarray(log_prob) + 5.0  # the smallest value is -5 everywhere
    for beta, weights in ((0.0, np.ones(4)), (1.0, np.array([0.25, 0.5, 1.0, 1.0]))):
        loss, _ = agent.actor_loss(
            state.actor, state, weighted._replace(actor_beta=np.float32(beta)), KEY
        )
        assert float(loss) == pytest.approx(float((weights * losses).mean()), rel=1e-5)


def test_the_actor_climbs_the_smallest_value() -> None:
    agent, state = sac(temperature=1e-6)
    state.critic["params"]["Dense_0"]["kernel"] = (
        jnp.zeros((2, 7, 4)).at[:, 5, 0].set(jnp.array([1.0, -1.0]))
    )
    state.critic["params"]["Dense_1"]["kernel"] = jnp.ones(
        (2, 4, 1)
    )  # relu(a) - 3 and relu(-a) - 5
    gradient = jax.grad(lambda a: agent.actor_loss(a, state, batch(), KEY)[0])(state.actor)
    bias = gradient["params"]["Dense_1"]["bias"]
    action, _ = agent.drawn(state.actor, jnp.zeros((4, 5)), KEY)
    falling = np.where(
        action[:, 0] < 0, 1 - action[:, 0] ** 2, 0.0
    )  # only the second critic counts
    assert float(bias[0]) == pytest.approx(float(falling.mean()), abs=1e-4)
    assert float(bias[1]) == pytest.approx(0.0, abs=1e-5)


@pytest.mark.parametrize(("found", "direction"), [(1.5, -1.0), (-3.0, 1.0)])
def test_the_temperature_falls_while_there_is_too_much_entropy(
    found: float, direction: float
) -> None:
    agent, state = sac()
    slope = jax.grad(agent.temperature_loss)(state.log_temperature, found)
    assert float(slope) == pytest.approx(found + 2.0)  # the target is -2
    assert np.sign(float(slope)) == -direction


def test_the_temperature_takes_steps_of_its_rate_or_none() -> None:
    agent, state = sac(temperature_learning_rate=Schedule.parse(0.1))
    moved, _, metrics = agent.update(
        state, batch(), KEY
    )  # entropy is above -2: one step of Adam down
    assert float(moved.log_temperature) == pytest.approx(np.log(0.1) - 0.1, abs=1e-5)
    assert float(metrics["temperature"]) == pytest.approx(0.1 * np.exp(-0.1), rel=1e-4)
    agent, state = sac(learn_temperature=False)
    assert agent.update(state, batch(), KEY)[0].log_temperature == state.log_temperature


def test_targets_move_as_often_as_stated() -> None:
    agent, state = sac(target_update_interval=2)
    first, *_ = agent.update(state, batch(), KEY)
    jax.tree.map(np.testing.assert_array_equal, first.target_critic, state.target_critic)
    second, *_ = agent.update(first, batch(), KEY)
    jax.tree.map(
        lambda t, o, f: np.testing.assert_allclose(t, 0.5 * o + 0.5 * f, atol=1e-6),
        second.target_critic,
        second.critic,
        state.target_critic,
    )


def test_the_critics_differ_at_the_start() -> None:
    kernel = SAC(CONFIG, SHAPES).init(KEY).critic["params"]["Dense_0"]["kernel"]
    assert not np.allclose(kernel[0], kernel[1])


# ----------------------------------------------------------------------- dropout and normalisation


def test_dropout_off_means_that_no_key_counts() -> None:
    agent = SAC(CONFIG, SHAPES)
    critic, inputs, action = agent.init(KEY).critic, jnp.ones((4, 5)), jnp.ones((4, 2))
    with_keys = [agent.critics(critic, inputs, action, jax.random.key(i)) for i in range(2)]
    np.testing.assert_array_equal(with_keys[0], with_keys[1])
    np.testing.assert_array_equal(with_keys[0], agent.critics(critic, inputs, action))


def test_dropout_on_drops_by_its_key_and_keeps_the_mean() -> None:
    agent = SAC(replace(CONFIG, net_arch=(512,), dropout=0.25, layer_norm=False), SHAPES)
    state = agent.init(KEY)
    params = jax.tree.map(jnp.ones_like, state.critic)
    inputs, action = jnp.ones((300, 5)), jnp.ones((300, 2))
    one, two = (agent.critics(params, inputs, action, jax.random.key(i)) for i in range(2))
    assert not np.allclose(one, two)
    assert not np.allclose(one[0], one[1])  # each critic drops for itself
    np.testing.assert_array_equal(one, agent.critics(params, inputs, action, jax.random.key(0)))
    whole = agent.critics(params, inputs, action)  # 512 units of 7 + 1 each, and 1
    assert float(whole[0, 0, 0]) == 512 * 8 + 1
    assert float(one.mean()) == pytest.approx(512 * 8 + 1, rel=0.01)
    # TD errors of new pairs are those of the whole network: as if there were no dropout.
    state = agent.scheduled(state, SHAPES.no_scale(), 0.0)
    _, dropped, _ = agent.update(state, batch(), KEY)
    whole_agent = SAC(replace(agent.config, dropout=0.0), SHAPES)
    np.testing.assert_array_equal(
        agent.td_errors(state, batch()).error, whole_agent.td_errors(state, batch()).error
    )
    assert not np.allclose(dropped.error, whole_agent.update(state, batch(), KEY)[1].error)


def test_layer_norm_is_in_the_critics_only() -> None:
    state = SAC(replace(CONFIG, layer_norm=True), SHAPES).init(KEY)
    assert "LayerNorm_0" in state.critic["params"]
    assert "LayerNorm_0" not in state.actor["params"]


# ------------------------------------------------------------------------------------------ acting


def test_acting_in_numpy_is_what_learning_in_jax_believes() -> None:
    agent = SAC(replace(CONFIG, net_arch=(16, 16)), SHAPES)
    state, rng = agent.init(KEY), np.random.default_rng(0)
    observation, goal = (
        rng.normal(size=(50, 3)).astype(np.float32),
        rng.normal(size=(50, 2)).astype(np.float32),
    )
    actor = agent.actor(state)
    inputs = agent.inputs(state.scale, jnp.asarray(observation), jnp.asarray(goal))
    mean, log_std = mean_and_log_std(jnp, agent._actor.apply(state.actor, inputs))
    np.testing.assert_allclose(
        actor(observation, goal), jnp.tanh(mean) * np.array([1.0, 2.0]), atol=1e-5
    )
    noise = np.random.default_rng(1).standard_normal((50, 2), np.float32)
    before = mean + jnp.exp(log_std) * noise
    action, log_prob = actor.sample(observation, goal, np.random.default_rng(1))
    np.testing.assert_allclose(action, jnp.tanh(before) * np.array([1.0, 2.0]), atol=1e-5)
    np.testing.assert_allclose(
        log_prob, squashed_log_prob(jnp, noise, log_std, before), rtol=1e-4, atol=1e-4
    )
    assert action.dtype == np.float32


def test_it_explores_as_stated() -> None:
    agent, state = sac(random_actions=Schedule.parse("linear(0, 0.5)"))
    rows = np.zeros((40_000, 3), np.float32), np.zeros((40_000, 2), np.float32)
    actor, rng = agent.actor(state), np.random.default_rng(0)
    own = np.arctanh(agent.explorer(actor, 0.0, rng)(*rows).astype(np.float64) / [1.0, 2.0])
    np.testing.assert_allclose(own.mean(axis=0), MEAN, atol=0.01)
    np.testing.assert_allclose(own.std(axis=0), np.exp(LOG_STD), rtol=0.02)
    mixed = agent.explorer(actor, 1.0, rng)(*rows)[:, 1] / 2.0
    assert (mixed > 0.2).mean() == pytest.approx(
        0.5 * 0.4, abs=0.01
    )  # the policy's own hardly ever are


def test_settings_that_change_nothing_are_refused() -> None:
    for settings in (
        {"learn_temperature": False, "temperature_learning_rate": Schedule.parse(0.1)},
        {"learn_temperature": False, "target_entropy": -1.0},
        {"num_critics": 1, "td_error": "largest"},
    ):
        with pytest.raises(HindsightError, match="changes nothing"):
            replace(CONFIG, **settings).check()


def test_who_sets_what_nothing_reads_is_told_and_presets_are_not() -> None:
    held = replace(CONFIG, random_hold=3.0)
    held.check()  # as a preset may have it
    assert held.unread() == {"random_hold": "while agent.random_actions is 0"}
    never = replace(held, random_actions=Schedule.parse("linear(0, 0)"))
    assert "random_hold" in never.unread()
    assert replace(held, random_actions=Schedule.parse("linear(0, 0.1)")).unread() == {}
    assert set(replace(CONFIG, normalize=False).unread()) == {
        "random_hold",
        "clip_normalized",
        "normalizer_epsilon",
    }


@pytest.mark.parametrize("agent", [SAC(CONFIG, SHAPES), TQC(TQCConfig(net_arch=(4,)), SHAPES)])
def test_all_metrics_and_td_errors_are_finite(agent: SAC) -> None:
    state = agent.scheduled(agent.init(KEY), SHAPES.no_scale(), 0.0)
    batches = jax.tree.map(lambda x: np.stack([np.asarray(x)] * 5), batch())
    _, td, metrics = agent.learn(state, batches, KEY)
    assert td.error.shape == td.value.shape == (5, 4)
    assert all(np.isfinite(value) for value in metrics.values())
