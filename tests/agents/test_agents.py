"""Losses against numbers worked out by hand; exploration and targets as stated."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hindsight.acting import RandomActions
from hindsight.agents.ddpg import DDPG, DDPGConfig
from hindsight.agents.dqn import DQN, DQNConfig
from hindsight.agents.losses import adam_step, td_loss, td_target
from hindsight.agents.shapes import Shapes
from hindsight.agents.td_model import TDModel
from hindsight.envs.contract import Actions
from hindsight.networks import MLP
from hindsight.normalizer import Scale
from hindsight.replay.batch import Batch, Fresh, TDErrors
from hindsight.replay.fresh import resample
from hindsight.schedules import Schedule

SCALE = Scale(*(np.full(1, x, np.float32) for x in (0, 1, 0, 1)))
KEY = jax.random.key(0)


def linear(weights: list[list[float]], bias: list[float]) -> Any:
    """Parameters of an MLP with six hidden units that computes x @ weights + bias: ReLUs of +x
    and -x."""
    n = len(weights)
    first, second = np.zeros((n, 6)), np.zeros((6, len(bias)))
    first[:, : 2 * n] = np.concatenate([np.eye(n), -np.eye(n)], axis=1)
    second[: 2 * n] = np.concatenate([weights, -np.asarray(weights)], axis=0)
    return {
        "params": {
            "Dense_0": {"kernel": jnp.asarray(first, jnp.float32), "bias": jnp.zeros(6)},
            "Dense_1": {
                "kernel": jnp.asarray(second, jnp.float32),
                "bias": jnp.asarray(bias, jnp.float32),
            },
        }
    }


def batch(**changes: Any) -> Batch:
    values: dict[str, Any] = {
        "observation": [[1.0], [2.0]],
        "next_observation": [[3.0], [4.0]],
        "goal": [[1.0], [1.0]],
        "action": [[0.5], [-0.5]],
        "reward": [-1.0, 0.0],
        "terminated": [0.0, 1.0],
        "importance": [1.0, 1.0],
    }
    return Batch(**{k: jnp.asarray(v) for k, v in (values | changes).items()})


def test_td_target_bootstraps_unless_terminated_and_clips() -> None:
    reward, terminated, value = (
        jnp.array([-1.0, -1.0, -1.0]),
        jnp.array([0.0, 1.0, 0.0]),
        jnp.array([-4.0, -4.0, -100.0]),
    )
    assert td_target(reward, terminated, value, 0.5, None).tolist() == [-3.0, -1.0, -51.0]
    assert td_target(reward, terminated, value, 0.5, (-2.0, 0.0)).tolist() == [-2.0, -1.0, -2.0]


def ddpg(**settings: Any) -> tuple[DDPG, Any]:
    """pi(s, g) = tanh(0.1 s), Q(s, g, a) = -s + g + 2 a, the same as targets."""
    config = DDPGConfig(net_arch=(6,), clip_target=False, **settings)
    agent = DDPG(config, Shapes(1, 1, Actions(0, (-1.0,), (1.0,)), 0.9))
    state = DDPG(DDPGConfig(net_arch=(6,)), agent.shapes).init(jax.random.key(0))
    actor = linear([[0.1], [0.0]], [0.0])
    critic = linear([[-1.0], [1.0], [2.0]], [0.0])
    return agent, state._replace(
        actor=actor, critic=critic, target_actor=actor, target_critic=critic
    )


def test_ddpg_critic_loss_by_hand() -> None:
    agent, state = ddpg()
    loss, (td_error, value) = agent.critic_loss(state.critic, state, batch())
    # Q(1, 1, .5) = 1, Q(2, 1, -.5) = -2; Q'(3, 1, tanh .3) = -2 + 2 tanh(.3); the second transition
    # terminated.
    first = -1.0 + 0.9 * (-2.0 + 2.0 * np.tanh(0.3)) - 1.0
    assert value.tolist() == pytest.approx([1.0, -2.0])
    assert td_error.tolist() == pytest.approx([first, 2.0], abs=1e-5)
    assert float(loss) == pytest.approx((first**2 + 4.0) / 2, abs=1e-4)


def test_ddpg_actor_loss_by_hand() -> None:
    agent, state = ddpg(action_l2=0.5)
    loss, size = agent.actor_loss(state.actor, state, batch())
    a = np.tanh([0.1, 0.2])
    q = np.array([0.0, -1.0]) + 2 * a
    assert float(loss) == pytest.approx(-q.mean() + 0.5 * (a**2).mean(), abs=1e-5)
    assert float(size) == pytest.approx(a.mean(), abs=1e-5)


def test_ddpg_actions_are_scaled_to_the_env_range_and_back() -> None:
    agent = DDPG(DDPGConfig(net_arch=(4,)), Shapes(1, 1, Actions(0, (-2.0,), (4.0,)), 0.9))
    actions = agent.shapes.actions
    assert actions.from_unit(np.array([[-1.0], [0.0], [1.0]])).ravel().tolist() == [-2.0, 1.0, 4.0]
    assert actions.to_unit(jnp.array([[-2.0], [1.0], [4.0]])).ravel().tolist() == [-1.0, 0.0, 1.0]


def test_dqn_loss_by_hand_double_and_plain() -> None:
    # online: Q(s) = [s, -s]; target: Q'(s) = [-s, 3 s]
    shapes = Shapes(1, 1, Actions(choices=2), 0.9)
    online, target = (
        linear([[1.0, -1.0], [0.0, 0.0]], [0.0, 0.0]),
        linear([[-1.0, 3.0], [0.0, 0.0]], [0.0, 0.0]),
    )
    one = batch(action=[0, 1])
    for double, next_value in (
        (True, -3.0),
        (False, 9.0),
    ):  # at s' = 3: the online argmax is 0, the target's is 1
        agent = DQN(DQNConfig(net_arch=(6,), double=double, clip_target=False), shapes)
        state = agent.init(jax.random.key(0))._replace(network=online, target=target)
        loss, (td_error, value) = agent.critic_loss(online, state, one)
        first = -1.0 + 0.9 * next_value - 1.0
        assert value.tolist() == [1.0, -2.0]
        assert td_error.tolist() == pytest.approx([first, 2.0], abs=1e-5)
        huber = (abs(first) - 0.5 + 1.5) / 2
        assert float(loss) == pytest.approx(huber, abs=1e-5)


def test_adam_first_step_is_the_learning_rate_times_the_sign() -> None:
    import optax

    params, gradient = jnp.array([1.0, 2.0]), jnp.array([0.3, -7.0])
    moved, _ = adam_step(params, gradient, optax.scale_by_adam().init(params), 0.1)
    assert moved.tolist() == pytest.approx([0.9, 2.1], abs=1e-5)


@pytest.mark.parametrize("kind", ["ddpg", "dqn"])
def test_targets_move_only_every_so_many_updates(kind: str) -> None:
    agent: Any
    rate = Schedule.parse(1e-2)
    settings: dict[str, Any] = {"net_arch": (8,), "target_update_interval": 3, "tau": 0.5}
    if kind == "ddpg":
        settings |= {"actor_learning_rate": rate, "critic_learning_rate": rate}
        agent = DDPG(DDPGConfig(**settings), Shapes(1, 1, Actions(0, (-1.0,), (1.0,)), 0.9))
        one, pick = batch(), lambda s: (s.critic, s.target_critic)
    else:
        agent = DQN(
            DQNConfig(learning_rate=rate, **settings), Shapes(1, 1, Actions(choices=2), 0.9)
        )
        one, pick = batch(action=[0, 1]), lambda s: (s.network, s.target)
    stack = lambda n: jax.tree.map(lambda x: np.stack([np.asarray(x)] * n), one)  # noqa: E731
    state = agent.scheduled(agent.init(jax.random.key(1)), SCALE, 0.0)
    first = jax.tree.map(np.asarray, pick(state)[1])
    state, td, metrics = agent.learn(state, stack(2), KEY)
    assert td.error.shape == td.value.shape == (2, 2)
    jax.tree.map(np.testing.assert_array_equal, pick(state)[1], first)
    state, _, _ = agent.learn(state, stack(1), KEY)
    online, target = pick(state)
    jax.tree.map(
        lambda t, o, f: np.testing.assert_allclose(t, 0.5 * o + 0.5 * f, atol=1e-6),
        target,
        online,
        first,
    )
    assert set(metrics) >= {"critic_loss", "q_mean", "td_error"}


def test_several_updates_in_one_call_equal_one_by_one() -> None:
    shapes = Shapes(1, 1, Actions(0, (-1.0,), (1.0,)), 0.9, (-10.0, 0.0))
    agent = DDPG(DDPGConfig(net_arch=(8,), target_update_interval=2), shapes)
    rng = np.random.default_rng(0)
    batches = jax.tree.map(
        lambda x: rng.standard_normal((5, *np.shape(x))).astype(np.float32), batch()
    )
    batches = batches._replace(beta=np.zeros(5), actor_beta=np.zeros(5))
    start = lambda: agent.scheduled(agent.init(jax.random.key(0)), SCALE, 0.0)  # noqa: E731
    together, *_ = agent.learn(start(), batches, KEY)
    alone = start()
    for i in range(5):
        alone, *_ = agent.learn(alone, jax.tree.map(lambda x, i=i: x[i : i + 1], batches), KEY)
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6), together, alone
    )


def test_ddpg_explores_as_stated() -> None:
    agent, state = ddpg(
        exploration_noise=Schedule.parse("linear(0, 0.1)"),
        random_actions=Schedule.parse("linear(0.4, 0)"),
    )
    actor, rng = agent.actor(state), np.random.default_rng(3)
    rows = (np.zeros((20_000, 1), np.float32), np.ones((20_000, 1), np.float32))
    noisy = agent.explorer(actor, 1.0, rng)(*rows)
    assert noisy.mean() == pytest.approx(0.0, abs=0.005)
    assert noisy.std() == pytest.approx(0.1, rel=0.03)
    mixed = agent.explorer(actor, 0.0, rng)(*rows)
    assert (mixed != 0).mean() == pytest.approx(0.4, abs=0.02)


@pytest.mark.parametrize(
    ("share", "hold"), [(0.3, 1.0), (0.3, 4.0), (0.5, 10.0), (1.0, 2.0), (0.0, 3.0)]
)
def test_random_actions_are_held_and_their_share_stays(share: float, hold: float) -> None:
    actions = Actions(0, (-2.0,), (4.0,))
    rng, random = np.random.default_rng(0), RandomActions(actions, share, hold)
    steps = np.stack([random(np.zeros((5_000, 1), np.float32), rng)[:, 0] for _ in range(60)])
    on = steps != 0
    np.testing.assert_allclose(on.mean(axis=1), share, atol=0.03)  # from the first step on
    begins = on[1:-1] & (steps[1:-1] != steps[:-2])
    if share > 0:
        assert on[1:-1].sum() / begins.sum() == pytest.approx(hold, rel=0.05)
    assert random(np.zeros((7, 1), np.float32), rng).shape == (
        7,
        1,
    )  # another number of envs starts anew


def test_dqn_explores_as_stated() -> None:
    agent = DQN(
        DQNConfig(net_arch=(6,), random_actions=Schedule.parse(0.5)),
        Shapes(1, 1, Actions(choices=2), 0.9),
    )
    network = linear([[0.0, 0.0], [0.0, 0.0]], [1.0, 0.0])
    actor = agent.actor(agent.init(KEY)._replace(network=network))
    rows = (np.zeros((20_000, 1), np.float32), np.ones((20_000, 1), np.float32))
    assert not actor(*rows).any()
    chosen = agent.explorer(actor, 0.0, np.random.default_rng(0))(*rows)
    assert chosen.mean() == pytest.approx(0.25, abs=0.015)


@pytest.mark.parametrize("layer_norm", [False, True])
def test_acting_in_numpy_is_what_learning_in_jax_believes(layer_norm: bool) -> None:
    agent = DDPG(
        DDPGConfig(net_arch=(32, 32), layer_norm=layer_norm),
        Shapes(5, 2, Actions(0, (-1.0,), (1.0,)), 0.9),
    )
    rng = np.random.default_rng(0)
    observation, goal = (
        rng.normal(size=(50, 5)).astype(np.float32),
        rng.normal(size=(50, 2)).astype(np.float32),
    )
    scale = Scale(*(rng.uniform(0.5, 2, n).astype(np.float32) for n in (5, 5, 2, 2)))
    state = agent.scheduled(agent.init(jax.random.key(0)), scale, 0.0)
    inputs = agent.inputs(scale, jnp.asarray(observation), jnp.asarray(goal))
    believed = agent.policy(state.actor, inputs)
    np.testing.assert_allclose(agent.actor(state)(observation, goal), believed, atol=1e-5)


def test_gamma_and_returns_follow_the_env() -> None:
    from conftest import LineEnv
    from hindsight.envs.contract import inspect

    shapes = Shapes.of(inspect(LineEnv()), None)
    assert shapes.gamma == pytest.approx(11 / 12)
    assert shapes.returns == pytest.approx((-12.0, 0.0))
    assert Shapes.of(inspect(LineEnv()), 0.5).returns == (-2.0, 0.0)


def test_layer_norm_adds_parameters() -> None:
    plain, normed = (
        MLP((4,), 1, layer_norm=x).init(jax.random.key(0), jnp.zeros((1, 2))) for x in (False, True)
    )
    assert len(jax.tree.leaves(normed)) == len(jax.tree.leaves(plain)) + 2


def test_importance_weights_go_into_the_critics_loss_and_the_actors_only_if_asked() -> None:
    agent, state = ddpg(action_l2=0.0)
    one = batch(importance=[1.0, 4.0])  # weights at beta 0.5: 0.5 and 1
    first = -1.0 + 0.9 * (-2.0 + 2.0 * np.tanh(0.3)) - 1.0
    loss, _ = agent.critic_loss(state.critic, state, one._replace(beta=0.5))
    assert float(loss) == pytest.approx((0.5 * first**2 + 4.0) / 2, abs=1e-4)
    q = np.array([0.0, -1.0]) + 2 * np.tanh([0.1, 0.2])
    for beta, weights in ((0.0, [1.0, 1.0]), (0.5, [0.5, 1.0])):
        actor_loss, _ = agent.actor_loss(state.actor, state, one._replace(actor_beta=beta))
        assert float(actor_loss) == pytest.approx(-(q * weights).mean(), abs=1e-5)


def test_huber_loss_by_hand() -> None:
    assert float(td_loss(jnp.array([0.5, -3.0]), jnp.array([1.0, 0.5]), "huber")) == pytest.approx(
        (0.125 + 1.25) / 2
    )
    assert float(
        td_loss(jnp.array([0.5, -3.0]), jnp.array([1.0, 0.5]), "squared")
    ) == pytest.approx((0.25 + 4.5) / 2)


def test_fresh_priorities_choose_among_candidates_as_stated() -> None:
    rng, n = np.random.default_rng(0), 40_000
    errors, importance = np.array([1.0, -2.0, 5.0, 0.0]), np.array([1.0, 0.5, 2.0, 4.0])
    fresh = Fresh(jnp.asarray(rng.random(n)), jnp.asarray(1.0), jnp.asarray(0.0), jnp.zeros(2))
    which, weight = resample(jnp.abs(jnp.asarray(errors)), jnp.asarray(importance), fresh)
    mass = np.abs(errors) * importance  # 1, 1, 10, 0: candidates count 1 / (N P) times
    share = np.bincount(np.asarray(which), minlength=4) / n
    assert share == pytest.approx(mass / mass.sum(), abs=1e-3)
    by_candidate = {int(c): float(w) for c, w in zip(which, weight, strict=True)}
    # The mean mass 3 over |TD error|.
    assert by_candidate == pytest.approx({0: 3.0, 1: 1.5, 2: 0.6}, rel=1e-4)


def test_a_model_learns_to_predict_td_errors() -> None:
    shapes = Shapes(1, 1, Actions(choices=2), 0.9)
    model = TDModel(shapes, 200.0, 5.0, learning_rate=1e-2)
    state, rng = model.init(jax.random.key(0)), np.random.default_rng(0)
    for _ in range(40):
        rows = [rng.standard_normal((5, 64, 1)).astype(np.float32) for _ in range(3)]
        action = rng.integers(0, 2, (5, 64))
        batches = Batch(*rows, action, *(np.zeros((5, 64), np.float32),) * 3, *(np.zeros(5),) * 2)
        td = TDErrors(np.exp(rows[0][..., 0] + 2.0 * action), rows[2][..., 0])
        state, loss = model.fit(state, SCALE, batches, td)
    assert float(loss) < 0.02
    seen = jax.tree.map(lambda x: x[0], batches)
    predicted = model.evaluate(state, SCALE, seen)
    assert np.corrcoef(np.log(predicted.error), np.log(td.error[0]))[0, 1] > 0.98


def test_fourier_features_are_inputs_of_the_network_and_of_who_acts() -> None:
    shapes = Shapes(2, 2, Actions(choices=3), 0.9)
    agent = DQN(DQNConfig(net_arch=(8,), fourier_features=2), shapes)
    state = agent.init(KEY)
    kernel = state.network["params"]["Dense_0"]["kernel"]
    assert kernel.shape == (4 * (1 + 2 * 2), 8)
    rng = np.random.default_rng(0)
    observation, goal = (rng.standard_normal((64, 2)).astype(np.float32) for _ in range(2))
    values = agent.values(state.network, state.scale, observation, goal)
    acted = agent.actor(state)(observation, goal)
    np.testing.assert_array_equal(acted, np.argmax(values, axis=-1))
