from __future__ import annotations

import json
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from safetensors.numpy import load as load_tensors

import hindsight
from conftest import LineEnv
from hindsight.agents.ddpg import DDPGConfig
from hindsight.agents.dqn import DQNConfig
from hindsight.agents.hpg import HPGConfig
from hindsight.agents.registry import AGENTS, agent_class, config_class, make_agent
from hindsight.envs.contract import inspect
from hindsight.envs.make import make
from hindsight.errors import HindsightError
from hindsight.normalizer import Normalizer
from hindsight.training.policy import Policy, tensors_file


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


def older(directory: Path) -> None:
    data = json.loads((directory / "policy.json").read_text())
    (directory / "policy.json").write_text(json.dumps(data | {"format": 1}))


def truncate(directory: Path) -> None:
    content = (directory / "policy.safetensors").read_bytes()
    (directory / "policy.safetensors").write_bytes(content[:-10])


def pickled(directory: Path) -> None:
    (directory / "policy.safetensors").write_bytes(pickle.dumps({"a": 1}))


def other_network(directory: Path) -> None:
    new_policy(LineEnv(), DDPGConfig(net_arch=(5,))).save(directory.parent)
    (directory / "policy.safetensors").write_bytes(
        (directory.parent / "policy.safetensors").read_bytes()
    )


def inputs_beyond_all_memory(directory: Path) -> None:
    data = json.loads((directory / "policy.json").read_text())
    data["actor"]["fourier_features"] = 2**31
    text = json.dumps(data).encode()
    (directory / "policy.json").write_bytes(text)
    tensors = load_tensors((directory / "policy.safetensors").read_bytes())
    (directory / "policy.safetensors").write_bytes(tensors_file(tensors, text))


def missing(directory: Path) -> None:
    (directory / "policy.safetensors").unlink()


@pytest.mark.parametrize(
    "damage",
    [
        break_json,
        empty_json,
        newer,
        older,
        truncate,
        pickled,
        other_network,
        inputs_beyond_all_memory,
        missing,
    ],
)
def test_broken_or_foreign_files_are_refused_in_one_line(tmp_path: Path, damage: Any) -> None:
    directory = tmp_path / "run"
    directory.mkdir()
    new_policy(LineEnv(), DDPGConfig(net_arch=(4,))).save(directory)
    damage(directory)
    with pytest.raises(HindsightError) as error:
        hindsight.load(directory)
    assert "\n" not in str(error.value)
    assert str(directory) in str(error.value)


# ------------------------------------------------------------------------------------------ predict


def line_batch(count: int) -> dict[str, Any]:
    places = np.linspace(-3, 3, count)[:, None]
    return {"observation": places, "achieved_goal": places, "desired_goal": -places}


@pytest.mark.parametrize("config", [DDPGConfig(net_arch=(8,)), HPGConfig(net_arch=(8,))])
def test_predict_is_the_best_action_and_no_state(config: Any) -> None:
    policy, batch = new_policy(LineEnv(), config), line_batch(20)
    actions, state = policy.predict(batch)
    assert state is None
    np.testing.assert_array_equal(actions, policy(batch))
    single = {name: value[3] for name, value in batch.items()}
    action, _ = policy.predict(single)
    assert action.shape == (1,)
    np.testing.assert_allclose(action, actions[3], atol=1e-6)


def test_predict_draws_if_asked_to_and_the_policy_can() -> None:
    batch = line_batch(200)
    drawing = new_policy(LineEnv(), HPGConfig(net_arch=(8,), init_std=0.1))
    first, second = (drawing.predict(batch, deterministic=False)[0] for _ in range(2))
    assert first.shape == (200, 1)
    assert (first != second).all()
    assert (first != drawing(batch)).all()
    greedy = new_policy(LineEnv(), DDPGConfig(net_arch=(8,)))
    np.testing.assert_array_equal(greedy.predict(batch, deterministic=False)[0], greedy(batch))


def test_drawn_choices_are_ints_for_one_observation() -> None:
    policy = new_policy(LineEnv(discrete=True), HPGConfig(net_arch=(8,)))
    single = {name: value[0] for name, value in line_batch(2).items()}
    drawn = {policy.predict(single, deterministic=False)[0] for _ in range(100)}
    assert drawn == {0, 1, 2}
    assert all(type(action) is int for action in drawn)


def test_drawn_actions_are_inside_the_box() -> None:
    policy = new_policy(LineEnv(), HPGConfig(net_arch=(8,), init_std=5.0))
    actions = policy.predict(line_batch(500), deterministic=False)[0]
    assert (actions.min(), actions.max()) == (-2.0, 4.0)


# ----------------------------------------------------------------------------------- save and load


@pytest.mark.parametrize("method", AGENTS)
def test_a_saved_policy_acts_as_before(method: str, tmp_path: Path) -> None:
    discrete = agent_class(method).acts == "discrete"
    policy = new_policy(LineEnv(discrete), config_class(method)(net_arch=(8, 8)))
    policy.save(tmp_path)
    loaded = Policy.load(tmp_path)
    np.testing.assert_array_equal(loaded(line_batch(50)), policy(line_batch(50)))
    assert loaded.actor.shape == policy.actor.shape
    assert (loaded.env, loaded.settings) == (policy.env, policy.settings)
    assert repr(loaded) == repr(policy)
    (tmp_path / "again").mkdir()
    loaded.save(tmp_path / "again")
    for name in ("policy.json", "policy.safetensors"):
        assert (tmp_path / "again" / name).read_bytes() == (tmp_path / name).read_bytes()


ACT = """
import json, sys
from pathlib import Path
import numpy as np
from hindsight.training.policy import Policy, tensors_file

policy = Policy.load(Path(sys.argv[1]))
places = np.linspace(-3, 3, 10)[:, None]
actions = policy({"observation": places, "desired_goal": -places})
policy.predict({"observation": places, "desired_goal": -places}, deterministic=False)
import hindsight

assert repr(hindsight.load(sys.argv[1])) == repr(policy)
assert not {"jax", "flax", "optax", "numba"} & set(sys.modules)
print(json.dumps(actions.tolist()))
"""


@pytest.mark.parametrize("discrete", [True, False])
@pytest.mark.parametrize("method", ["hpg", "default"])
def test_a_policy_is_loaded_and_acts_without_jax(
    method: str, discrete: bool, tmp_path: Path
) -> None:
    """Nor with anything else that learning needs."""
    name = method if method != "default" else "dqn" if discrete else "ddpg"
    policy = new_policy(LineEnv(discrete), config_class(name)(net_arch=(8, 8)))
    policy.save(tmp_path)
    command = [sys.executable, "-c", ACT, str(tmp_path)]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    np.testing.assert_allclose(json.loads(result.stdout), policy(line_batch(10)), atol=1e-6)
