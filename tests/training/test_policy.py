from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

import hindsight
from conftest import LineEnv
from hindsight.agents.ddpg import DDPGConfig
from hindsight.agents.dqn import DQNConfig
from hindsight.agents.registry import make_agent
from hindsight.envs.contract import inspect
from hindsight.envs.make import make
from hindsight.errors import HindsightError
from hindsight.normalizer import Normalizer
from hindsight.training.policy import Policy


def new_policy(env: Any, config: Any) -> Policy:
    spec = inspect(env)
    agent = make_agent(config, spec)
    scale = Normalizer(spec.observation, spec.goal, 0.01, 200.0).scale()
    state = agent.scheduled(agent.init(jax.random.key(0)), scale, 0.0)
    return Policy.of(spec, agent.actor(state), config)


def test_one_observation_and_a_batch_of_them(tmp_path: Path) -> None:
    env = make("FetchReach-v4")
    policy = new_policy(env, DDPGConfig(net_arch=(16, 16)))
    policy.save(tmp_path)
    loaded = hindsight.load(tmp_path)
    observations = [env.reset(seed=i)[0] for i in range(3)]
    batch = {key: np.stack([o[key] for o in observations]) for key in observations[0]}
    actions = loaded(batch)
    assert actions.shape == (3, 4)
    for observation, action in zip(observations, actions, strict=True):
        single = loaded(observation)
        assert single in env.action_space
        np.testing.assert_allclose(single, action, atol=1e-6)
        np.testing.assert_array_equal(single, policy(observation))


def test_discrete_action_is_an_int(tmp_path: Path) -> None:
    env = make("hindsight/BitFlip-v0", bits=4)
    new_policy(env, DQNConfig(net_arch=(8,))).save(tmp_path)
    observation, _ = env.reset(seed=0)
    action = hindsight.load(tmp_path)(observation)
    assert isinstance(action, int)
    assert action in env.action_space


def test_wrong_observations_are_named() -> None:
    policy = new_policy(LineEnv(), DDPGConfig(net_arch=(4,)))
    with pytest.raises(HindsightError, match="desired_goal"):
        policy({"observation": np.zeros(1)})
    with pytest.raises(HindsightError, match="shape"):
        policy({"observation": np.zeros((1, 3)), "desired_goal": np.zeros((1, 1))})


def break_json(directory: Path) -> None:
    (directory / "policy.json").write_text("{")


def empty_json(directory: Path) -> None:
    (directory / "policy.json").write_text("{}")


def newer(directory: Path) -> None:
    data = json.loads((directory / "policy.json").read_text())
    (directory / "policy.json").write_text(json.dumps(data | {"format": 99}))


def truncate(directory: Path) -> None:
    content = (directory / "policy.safetensors").read_bytes()
    (directory / "policy.safetensors").write_bytes(content[:-10])


def pickled(directory: Path) -> None:
    (directory / "policy.safetensors").write_bytes(pickle.dumps({"a": 1}))


def other_network(directory: Path) -> None:
    new_policy(LineEnv(), DDPGConfig(net_arch=(5,))).save(directory.parent)
    (directory / "policy.safetensors").write_bytes((directory.parent / "policy.safetensors").read_bytes())


def missing(directory: Path) -> None:
    (directory / "policy.safetensors").unlink()


@pytest.mark.parametrize("damage", [break_json, empty_json, newer, truncate, pickled, other_network, missing])
def test_broken_or_foreign_files_are_refused_in_one_line(tmp_path: Path, damage: Any) -> None:
    directory = tmp_path / "run"
    directory.mkdir()
    new_policy(LineEnv(), DDPGConfig(net_arch=(4,))).save(directory)
    damage(directory)
    with pytest.raises(HindsightError) as error:
        hindsight.load(directory)
    assert "\n" not in str(error.value)
    assert str(directory) in str(error.value)
