"""Episodes that someone else's loop played become `Episodes` like those of the collector."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import norm

from conftest import LineEnv
from hindsight.agents.ppo import PPOConfig
from hindsight.agents.registry import make_on_policy_agent
from hindsight.collect import Collector, record
from hindsight.envs.batch import LocalEnvs
from hindsight.envs.contract import inspect
from hindsight.errors import HindsightError
from hindsight.replay.replay import failure_rewards
from hindsight.types import Array, Floats


def forward(observation: Floats, goal: Floats) -> Array:
    return np.full((len(observation), 1), 0.7, np.float32)


@pytest.mark.parametrize("ends", [True, False])
def test_a_recorded_episode_is_what_the_collector_makes_of_it(ends: bool) -> None:
    spec = inspect(LineEnv(ends=ends))
    for seed in range(8):
        expected = Collector(LocalEnvs(lambda: LineEnv(ends=ends), 1, spec.horizon), spec).collect(
            forward, [seed]
        )
        env = LineEnv(ends=ends)
        observation, _ = env.reset(seed=seed)
        observations, actions, over = [observation], [], False
        while not over:
            actions.append(np.array([0.7], np.float32))
            observation, _, terminated, truncated, _ = env.step(actions[-1])
            observations.append(observation)
            over = terminated or truncated
        recorded = record(spec, observations, actions, terminated)
        assert recorded.length.tolist() == expected.length.tolist()
        n = int(expected.length[0])
        for name in ("observation", "achieved_goal", "desired_goal"):
            np.testing.assert_array_equal(
                getattr(recorded, name)[0, : n + 1],
                getattr(expected, name)[0, : n + 1],
                err_msg=name,
            )
        for name in ("action", "reward", "terminated", "success"):
            np.testing.assert_array_equal(
                getattr(recorded, name)[0, :n], getattr(expected, name)[0, :n], err_msg=name
            )


def test_gaussian_actions_are_stored_as_drawn_with_their_log_probabilities() -> None:
    """Nearly half of these lie outside of the box. The env gets them clipped; their probabilities
    are those of what was drawn."""
    spec, mean, deviation = inspect(LineEnv(ends=False)), 0.95, 0.5
    agent = make_on_policy_agent(PPOConfig(net_arch=(4,), init_std=deviation), spec)
    state = agent.init(jax.random.key(0))
    layers = jax.tree.map(jnp.zeros_like, state.policy["network"]["params"])
    layers["Dense_1"]["bias"] += mean
    state = state._replace(policy=state.policy | {"network": {"params": layers}})
    act = agent.explorer(agent.actor(state), 0.0, np.random.default_rng(5))
    envs = LocalEnvs(lambda: LineEnv(ends=False), 8, spec.horizon)
    episodes = Collector(envs, spec).collect(act, range(8))
    noise = np.random.default_rng(5).standard_normal((12, 8, 1)).swapaxes(0, 1)
    drawn = 1.0 + 3.0 * (mean + deviation * noise)  # the box is from -2 to 4
    assert 0.3 < (drawn > 4.0).mean() < 0.6
    np.testing.assert_allclose(episodes.action, drawn, rtol=1e-5)
    log_prob = norm.logpdf(noise[..., 0]) - np.log(deviation)
    assert episodes.log_prob is not None
    np.testing.assert_allclose(episodes.log_prob, log_prob, atol=1e-5)
    place = episodes.achieved_goal
    got = np.clip(place[:, :-1] + drawn.clip(-2.0, 4.0), -10.0, 10.0)
    np.testing.assert_allclose(place[:, 1:], got, atol=1e-4)


def test_a_recorded_episode_keeps_its_rewards() -> None:
    """A penalty for failing is not what `compute_reward` gives."""
    spec = inspect(LineEnv())
    observations = [LineEnv().reset(seed=0)[0]] * 3
    actions = [np.zeros(1, np.float32)] * 2
    recorded = record(spec, observations, actions, True, [False, False], [-1.0, -6.0])
    assert recorded.reward[0, :2].tolist() == [-1.0, -6.0]
    assert failure_rewards(recorded, spec).tolist() == [-5.0]
    assert failure_rewards(record(spec, observations, actions, True, [False] * 2), spec) == [0.0]


def test_a_recorded_episode_has_one_observation_more_than_actions() -> None:
    spec = inspect(LineEnv())
    with pytest.raises(HindsightError, match="one observation more"):
        record(spec, [], [], False)
