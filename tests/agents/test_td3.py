"""TD3: its target and losses against numbers worked out by hand, its delay, and every kind of
replay with it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hindsight
from hindsight.agents.shapes import Shapes
from hindsight.agents.td3 import TD3, TD3Config
from hindsight.envs.contract import Actions
from hindsight.replay.batch import Batch

SHAPES = Shapes(3, 2, Actions(0, (-1.0, -2.0), (1.0, 2.0)), 0.98, (-50.0, 0.0), 0.0)
AGENT = TD3(TD3Config(net_arch=(4,), target_update_interval=1, tau=0.5), SHAPES)
KEY = jax.random.key(0)


def batch(n: int = 4) -> Batch:
    rng = np.random.default_rng(0)
    parts = (rng.standard_normal((n, size), np.float32) for size in (3, 3, 2, 2))
    return Batch(
        *parts, np.full(n, -1.0, np.float32), np.zeros(n, np.float32), np.ones(n, np.float32)
    )


def constant(values: tuple[float, float]) -> Any:
    """Critics that say -3 and -5, whatever they see."""
    params = jax.tree.map(jnp.zeros_like, AGENT.init(KEY).critic)
    params["params"]["Dense_1"]["bias"] = jnp.array(values)[:, None]
    return params


def state(**changes: Any) -> Any:
    return AGENT.scheduled(AGENT.init(KEY)._replace(**changes), SHAPES.no_scale(), 0.0)


def test_the_target_is_the_smaller_value() -> None:
    now = state(critic=constant((-3.0, -5.0)), target_critic=constant((-3.0, -5.0)))
    # -1 + 0.98 * min(-3, -5) = -5.9; minus -3 and -5: -2.9 and -0.9.
    td = AGENT.td_errors(now, batch())
    np.testing.assert_allclose(td.error, np.full(4, -1.9), rtol=1e-6)
    np.testing.assert_allclose(td.value, np.full(4, -4.0), rtol=1e-6)
    _, learnt, metrics = AGENT.update(now, batch(), KEY)
    assert float(metrics["critic_loss"]) == pytest.approx(2.9**2 + 0.9**2, rel=1e-5)
    np.testing.assert_allclose(learnt.error, np.full(4, -1.9), rtol=1e-6)


def test_the_target_is_clipped_to_possible_returns() -> None:
    now = state(target_critic=constant((-80.0, -90.0)))
    np.testing.assert_allclose(AGENT.target(now, batch(), 0.0), np.full(4, -50.0))


def test_the_critics_differ_at_the_start() -> None:
    kernel = AGENT.init(KEY).critic["params"]["Dense_0"]["kernel"]
    assert not np.allclose(kernel[0], kernel[1])


def test_the_actor_learns_at_every_second_update() -> None:
    before = state()
    first, _, metrics = AGENT.update(before, batch(), KEY)
    assert jax.tree.all(jax.tree.map(lambda a, b: (a == b).all(), before.actor, first.actor))
    assert float(metrics["actor_loss"]) == 0.0
    second, _, metrics = AGENT.update(first, batch(), KEY)
    assert not jax.tree.all(jax.tree.map(lambda a, b: (a == b).all(), before.actor, second.actor))
    assert float(metrics["actor_loss"]) != 0.0
    assert int(second.updates) == 2


def test_the_actors_loss_by_hand_and_it_climbs_the_first_critic() -> None:
    actor = jax.tree.map(jnp.zeros_like, AGENT.init(KEY).actor)
    actor["params"]["Dense_1"]["bias"] = jnp.arctanh(jnp.array([0.5, -0.25]))
    critic = constant((-3.0, -5.0))
    # relu(a) - 3 and relu(-a) - 5 of the first action.
    critic["params"]["Dense_0"]["kernel"] = (
        jnp.zeros((2, 7, 4)).at[:, 5, 0].set(jnp.array([1.0, -1.0]))
    )
    critic["params"]["Dense_1"]["kernel"] = jnp.ones((2, 4, 1))
    now = state(actor=actor, critic=critic)
    gradient, size = jax.grad(AGENT.actor_loss, has_aux=True)(now.actor, now, batch())
    loss, _ = AGENT.actor_loss(now.actor, now, batch())
    # -(0.5 - 3), and 1.0 * (0.5^2 + 0.25^2) / 2.
    assert float(loss) == pytest.approx(2.5 + 0.15625, rel=1e-6)
    assert float(size) == pytest.approx(0.375, rel=1e-6)
    # (-1 + 0.5) (1 - 0.5^2), and -0.25 (1 - 0.25^2), by the slope of tanh.
    np.testing.assert_allclose(
        gradient["params"]["Dense_1"]["bias"], [-0.375, -0.234375], rtol=1e-5
    )
    weighted = batch()._replace(
        importance=np.array([1.0, 2.0, 4.0, 4.0], np.float32), actor_beta=np.float32(1)
    )
    loss, _ = AGENT.actor_loss(now.actor, now, weighted)
    assert float(loss) == pytest.approx((0.25 + 0.5 + 1 + 1) / 4 * 2.65625, rel=1e-6)


def test_the_noise_of_the_target_is_clipped_and_stays_in_the_box() -> None:
    seen: list[Any] = []

    class Watched(TD3):
        def values(self, critic: Any, inputs: Any, action: Any) -> Any:
            seen.append(action)
            return super().values(critic, inputs, action)

    config = TD3Config(net_arch=(4,), target_noise=100.0, target_noise_clip=0.25)
    agent = Watched(config, SHAPES)
    now = agent.scheduled(agent.init(KEY), SHAPES.no_scale(), 0.0)
    agent.update(now, batch(), KEY)
    inputs = agent.inputs(now.scale, batch().next_observation, batch().goal)
    noise = np.asarray(seen[0] - agent.policy(now.target_actor, inputs))
    assert np.abs(noise).max() == pytest.approx(0.25, abs=1e-6)
    assert np.abs(seen[0]).max() <= 1.0


SMALL: dict[str, Any] = {
    "num_envs": 4,
    "episodes_per_cycle": 4,
    "gradient_steps": 8,
    "batch_size": 32,
    "steps": 600,
    "eval_episodes": 4,
    "agent.net_arch": (16, 16),
    "quiet": True,
}
REPLAYS: dict[str, dict[str, Any]] = {
    "her": {},
    "proportional": {"priority.sampling": "proportional"},
    "hper": {"preset": "hper"},
    "hper-single": {"preset": "hper-single", "priority.initial": "predicted"},
    "heap": {"preset": "hper", "priority.sampling": "rank_heap", "priority.initial": "largest"},
    "fresh": {"preset": "hper", "priority.fresh": 3},
}


@pytest.mark.parametrize("name", REPLAYS)
def test_it_works_with_every_replay(name: str, tmp_path: Path) -> None:
    settings = SMALL | REPLAYS[name]
    runs = [
        hindsight.train("FetchReach-v4", method="td3", run_dir=tmp_path / str(i), **settings)
        for i in range(2)
    ]
    one, two = ((run.path / "policy.safetensors").read_bytes() for run in runs)
    assert one == two


def test_a_stopped_run_is_resumed_to_the_same_policy(tmp_path: Path) -> None:
    settings = SMALL | {"preset": "hper", "method": "td3"}
    whole = hindsight.train("FetchReach-v4", run_dir=tmp_path / "whole", **settings)
    half = hindsight.train(
        "FetchReach-v4",
        run_dir=tmp_path / "half",
        callbacks=[lambda progress: progress.step >= 300],
        **settings,
    )
    hindsight.resume(half.path, quiet=True)
    for name in ("policy.safetensors", "policy.json"):
        assert (half.path / name).read_bytes() == (whole.path / name).read_bytes()
    action, _ = hindsight.load(half.path).predict(
        {"observation": np.zeros(10), "achieved_goal": np.zeros(3), "desired_goal": np.zeros(3)}
    )
    assert action.shape == (4,)
