"""Images: networks read them by convolutions, replay stores them as they are, and every learner,
export and way to act takes them."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hindsight
import hindsight.deploy
from hindsight.acting import forward
from hindsight.agents.registry import AGENTS, agent_class, config_class, make_agent
from hindsight.config import config_of
from hindsight.distributed.actor import CollectorActor, Part, Work
from hindsight.envs.contract import inspect
from hindsight.envs.pixel_room import PixelRoomEnv
from hindsight.envs.spaces import Features
from hindsight.errors import HindsightError
from hindsight.integrations.onnx import export
from hindsight.networks import MLP
from hindsight.normalizer import network_inputs
from hindsight.pixels import encoded_size, images_of, layer_sizes, patches
from hindsight.settings import with_settings
from hindsight.training.memory import transition_bytes
from hindsight.training.run import Run
from pixel_env import PixelPointEnv

ROOM = "hindsight/PixelRoom-v0"
SMALL: dict[str, Any] = {"env_kwargs": {"layout": "small"}, "max_episode_steps": 10}
QUICK: dict[str, Any] = {
    "num_envs": 2,
    "episodes_per_cycle": 2,
    "eval_every": 1,
    "eval_episodes": 2,
    "quiet": True,
    "agent.net_arch": (8,),
}
REPLAY: dict[str, Any] = {"batch_size": 8, "gradient_steps": 2, "replay.buffer_size": 200}
gym.register("test/PixelPoint-v0", PixelPointEnv)
IMAGE, GRAY, LARGE = (Features(shape, pixels=True) for shape in ((8, 6, 3), (8, 6), (13, 9, 1)))
NUMBERS = Features((4,))


# ------------------------------------------------------------------------------------- the encoder


@settings(deadline=None, max_examples=30)
@given(height=st.integers(1, 9), width=st.integers(1, 9), channels=st.integers(1, 3))
def test_patches_make_a_convolution(height: int, width: int, channels: int) -> None:
    rng = np.random.default_rng(0)
    image = rng.normal(size=(2, height, width, channels)).astype(np.float32)
    kernel = rng.normal(size=(3, 3, channels, 4)).astype(np.float32)
    found = patches(image) @ kernel.reshape(-1, 4)
    expected = jax.lax.conv_general_dilated(
        image, kernel, (2, 2), [(1, 1), (1, 1)], dimension_numbers=("NHWC", "HWIO", "NHWC")
    )
    assert found.shape == expected.shape
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_a_patch_by_hand() -> None:
    image = np.arange(1.0, 10.0).reshape(3, 3, 1)
    assert patches(image)[0, 0].tolist() == [0, 0, 0, 0, 1, 2, 0, 4, 5]
    assert patches(image)[1, 1].tolist() == [5, 6, 0, 8, 9, 0, 0, 0, 0]


@pytest.mark.parametrize(
    ("side", "sides"), [(3, [3, 2]), (8, [8, 4]), (11, [11, 6]), (84, [84, 42, 21, 11, 6])]
)
def test_layers_follow_the_size(side: int, sides: list[int]) -> None:
    image = Features((side, side, 3), pixels=True)
    [(group, sizes)] = layer_sizes(images_of(image, image))
    assert group == (0, 1)
    assert [size[0] for size in sizes] == sides
    assert sizes[0][2] == 6  # the channels of both


PAIRS = [(IMAGE, GRAY), (IMAGE, LARGE), (NUMBERS, IMAGE), (LARGE, NUMBERS)]


@pytest.mark.parametrize(("observation", "goal"), PAIRS)
def test_acting_computes_what_learning_does(observation: Features, goal: Features) -> None:
    images, more = images_of(observation, goal), 2
    network = MLP((8, 5), 3, layer_norm=True, images=images)
    rng = np.random.default_rng(0)
    rows = rng.random((4, observation.dim + goal.dim + more), np.float32)
    params = network.init(jax.random.key(0), jnp.asarray(rows))
    described, parameters = encoded_size(images)
    layers = params["params"]
    numbers = sum(features.dim for features in images if not features.pixels)
    assert len(layers["Dense_0"]["kernel"]) == described + numbers + more
    convolutions = {name: layers[name] for name in layers if name.startswith("Conv")}
    assert sum(x.size for x in jax.tree.leaves(convolutions)) == parameters
    expected = network.apply(params, jnp.asarray(rows))
    found = forward(jax.tree.map(np.asarray, params), rows, images=images)
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_pixels_are_divided_by_255_and_numbers_are_normalised() -> None:
    spec = inspect(PixelRoomEnv(image_goals=False), max_episode_steps=5)
    agent = make_agent(config_class("dqn")(), spec)
    scale = agent.shapes.no_scale()
    assert (scale.observation_mean.tolist(), scale.observation_deviation.tolist()) == ([0], [255])
    scale = scale._replace(goal_mean=np.full(2, 5.0, np.float32))
    observation = np.zeros((1, 121), np.uint8)
    observation[0, :3] = 0, 51, 255
    goal = np.array([[7.0, 5.0]], np.float32)
    found = network_inputs(scale, observation, goal, 200.0, 5.0)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found[0, [0, 1, 2, -2, -1]], [0.0, 0.2, 1.0, 2.0, 0.0])
    same = network_inputs(scale, jnp.asarray(observation), jnp.asarray(goal), 200.0, 5.0)
    np.testing.assert_allclose(found, same, rtol=1e-6)


# --------------------------------------------------------------------------------------- trainings


def test_a_small_room_is_learnt_from_pixels(tmp_path: Path) -> None:
    run = hindsight.train(
        ROOM, steps=3000, eval_every=1000, run_dir=tmp_path / "run", quiet=True, **SMALL
    )
    assert hindsight.evaluate(run.path).success_rate >= 0.95


@pytest.mark.slow
def test_a_room_is_learnt_from_pixels(tmp_path: Path) -> None:
    run = hindsight.train(ROOM, run_dir=tmp_path / "run", quiet=True)
    assert hindsight.evaluate(run.path).success_rate >= 0.95


@pytest.mark.slow
def test_a_point_is_moved_by_what_is_seen(tmp_path: Path) -> None:
    changes = {"steps": 20_000, "episodes_per_cycle": 16, "num_envs": 16, "eval_every": 200}
    run = hindsight.train(
        "test/PixelPoint-v0",
        method="sac",
        env_kwargs={"image_goals": True},
        run_dir=tmp_path / "run",
        quiet=True,
        agent={"net_arch": (64, 64)},
        **changes,
    )
    assert hindsight.evaluate(run.path).success_rate >= 0.9


FAST = ["sac"]


@pytest.mark.parametrize(
    "method", [m if m in FAST else pytest.param(m, marks=pytest.mark.slow) for m in AGENTS]
)
def test_every_learner_learns_exports_and_acts(method: str, tmp_path: Path) -> None:
    env = ROOM if agent_class(method).acts == "discrete" else "test/PixelPoint-v0"
    kind: dict[str, Any] = SMALL if env == ROOM else {}
    replays = hasattr(config_of(method, env), "replay")
    run = hindsight.train(
        env, method=method, steps=40, run_dir=tmp_path / "run", **kind, **QUICK,
        **(REPLAY if replays else {"agent.goals": 4, "agent.rows": 32}),
    )  # fmt: skip
    policy, other = run.policy, hindsight.deploy.load(run.path)
    exported = export(policy, tmp_path / "policy.onnx")
    onnx = hindsight.deploy.load(exported.path)
    made = gym.make(env, **kind.get("env_kwargs", {}))
    observation, _ = made.reset(seed=1)
    assert observation["observation"].dtype == np.uint8
    np.testing.assert_array_equal(policy(observation), other(observation))
    np.testing.assert_allclose(policy(observation), onnx(observation), atol=1e-5)
    assert made.action_space.contains(policy(observation))
    for acting in (policy, onnx):
        with pytest.raises(HindsightError, match="must be uint8"):
            acting({**observation, "observation": observation["observation"] / 255})


HPER: dict[str, Any] = {
    "priority.sampling": "rank",
    "priority.queues": "two_queues",
    "priority.initial": "predicted",
    "replay.goals_chosen": "stored",
}


def test_same_seed_same_policy_and_resumed_is_the_same(tmp_path: Path) -> None:
    """Prioritised, with episodes begun ahead: all of that is saved."""

    def cut(progress: Any) -> None:
        while progress.cycle == 3 and not (tmp_path / "cut" / "metrics.jsonl").exists():
            try:
                shutil.copytree(tmp_path / "whole", tmp_path / "cut")
            except shutil.Error:  # something was renamed meanwhile
                shutil.rmtree(tmp_path / "cut")

    asked = (
        SMALL | QUICK | REPLAY | HPER | {"steps": 100, "overlap": True, "checkpoint.minutes": 0.0}
    )
    whole = hindsight.train(ROOM, seed=3, run_dir=tmp_path / "whole", callbacks=[cut], **asked)
    resumed = hindsight.resume(tmp_path / "cut", quiet=True)
    again = hindsight.train(ROOM, seed=3, run_dir=tmp_path / "again", **asked)
    policies = [(run.path / "policy.safetensors").read_bytes() for run in (whole, resumed, again)]
    assert policies[0] == policies[1] == policies[2]
    assert rows(whole) == rows(resumed) == rows(again)


def rows(run: Run) -> list[dict[str, float]]:
    return [{k: v for k, v in row.items() if not k.startswith("time/")} for row in run.metrics]


# --------------------------------------------------------------------------- memory and collectors


def test_replay_and_the_memory_check_count_bytes() -> None:
    from hindsight.replay.priorities import PriorityConfig
    from hindsight.replay.replay import ReplayConfig, make_replay

    spec = inspect(PixelRoomEnv(cell=4), max_episode_steps=10)
    storage = make_replay(spec, ReplayConfig(buffer_size=100), PriorityConfig()).storage
    for images in (storage.observation, storage.achieved_goal, storage.desired_goal):
        assert images.dtype == np.uint8
    assert storage.observation.nbytes == 10 * 11 * 44 * 44
    assert transition_bytes(spec) == 44 * 44 * 2 + 8 + 2


def test_collectors_on_ray_play_the_same_rows() -> None:
    spec = replace(inspect(PixelRoomEnv(), max_episode_steps=5), id=ROOM)
    config = with_settings(config_of("dqn", ROOM), {"agent.net_arch": (8,), "max_episode_steps": 5})
    agent = make_agent(config.agent, spec)
    player = agent.actor(agent.init(jax.random.key(0)))

    def collected(part: Part) -> Any:
        actor = CollectorActor(Work.of(config, spec, PixelRoomEnv).packed(), "0.0", 3, None)
        act = agent.explorer(player, 0.0, np.random.default_rng(1))
        return actor.play(0, 0, act, part).episodes

    whole = collected(Part([5, 6, 7], 0, 3, []))
    part = collected(Part([7], 2, 3, []))
    assert whole.observation.dtype == np.uint8
    np.testing.assert_array_equal(part.observation[0], whole.observation[2])
    np.testing.assert_array_equal(part.action[0], whole.action[2])


# ----------------------------------------------------------------------------------- the env itself


@pytest.mark.parametrize("cell", [1, 3])
def test_the_room_is_drawn_and_reaching_is_equality(cell: int) -> None:
    env = PixelRoomEnv("four_rooms", cell=cell)
    observation, _ = env.reset(seed=0)
    assert env.observation_space.contains(observation)
    image = observation["observation"]
    assert (image == 255).sum() == cell**2
    assert (image[:cell, :cell] == 255).all()  # the corner where it starts
    assert (image == 100).sum() == (~env.free).sum() * cell**2
    images = np.stack([env.image(place) for place in env.cells])
    rewards = env.compute_reward(images, np.broadcast_to(images[3], images.shape), {})
    assert rewards.tolist() == [0.0 if i == 3 else -1.0 for i in range(len(images))]
    after, reward, *_ = env.step(1)
    assert (after["observation"][cell : 2 * cell, :cell] == 255).all()
    assert reward == -1.0
    with pytest.raises(HindsightError, match="at least 1 pixel"):
        PixelRoomEnv(cell=0)


def with_space(**spaces: gym.Space[Any]) -> PixelRoomEnv:
    env = PixelRoomEnv(image_goals=False)
    env.observation_space = gym.spaces.Dict({**env.observation_space.spaces, **spaces})
    return env


def pixels(*shape: int) -> gym.spaces.Box:
    return gym.spaces.Box(0, 255, shape, np.uint8)


@pytest.mark.parametrize(
    ("spaces", "message"),
    [
        ({"observation": pixels(3, 8, 8)}, "channels first: put them last"),
        ({"observation": pixels(2, 8, 8, 3)}, "stack frames as channels"),
        ({"observation": pixels(1024, 1025, 1)}, "shrink it"),
        ({"desired_goal": pixels(2, 2), "achieved_goal": gym.spaces.Box(0, 1, (2, 2))}, "agree"),
    ],
)
def test_images_that_are_refused_say_what_to_do(spaces: Any, message: str) -> None:
    with pytest.raises(HindsightError, match=message):
        inspect(with_space(**spaces))


def test_what_does_not_go_with_images_is_refused(tmp_path: Path) -> None:
    for asked, message in (({"agent.fourier_features": 2}, "fourier"), ({"relay": True}, "relay")):
        with pytest.raises(HindsightError, match=message):
            hindsight.train(ROOM, run_dir=tmp_path / "run", quiet=True, **asked)


def test_bytes_that_are_no_pixels_are_numbers() -> None:
    assert not Features.of(gym.spaces.Box(0, 10, (7, 7, 3), np.uint8), "x").pixels
    assert not Features.of(gym.spaces.Box(0, 255, (128,), np.uint8), "x").pixels
