"""The simulation on threads gives the numbers of Gymnasium-Robotics, bit for bit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode

import hindsight.envs
from hindsight.collect import Collector, episode_seeds
from hindsight.envs.batch import LocalEnvs, ThreadedEnvs, make_batch, robot
from hindsight.envs.contract import inspect
from hindsight.envs.make import factory, make, register_robotics
from hindsight.envs.processes import WorkerEnvs
from hindsight.envs.simulations import Simulations
from hindsight.envs.vector import RobotVectorEnv
from hindsight.errors import HindsightError
from hindsight.types import Array, Floats

FETCH = [
    f"Fetch{task}{dense}-v4"
    for task in ("Reach", "Push", "Slide", "PickAndPlace")
    for dense in ("", "Dense")
]
BLOCK = ["", "RotateZ", "RotateParallel", "RotateXYZ", "Full"]
HAND = [
    "HandReach-v3",
    "HandReachDense-v3",
    *(f"HandManipulateBlock{kind}-v1" for kind in BLOCK),
    *(
        f"HandManipulate{thing}{kind}-v1"
        for thing in ("Egg", "Pen")
        for kind in ("", "Rotate", "Full")
    ),
    "HandManipulateBlockDense-v1",
    "HandManipulatePenRotateDense-v1",
]
FAST = [
    "FetchPush-v4",
    "FetchPickAndPlace-v4",
    "FetchReachDense-v4",
    "HandReach-v3",
    "HandManipulatePen-v1",
]


def same_as_gymnasium_robotics(env_id: str, episodes: int, num_envs: int = 2) -> None:
    """Random actions (beyond the limits, too) in the fast envs and in as many of
    Gymnasium-Robotics."""
    fast = hindsight.envs.make_vec(env_id, num_envs=num_envs, autoreset_mode=AutoresetMode.DISABLED)
    slow = [make(env_id) for _ in range(num_envs)]
    rng = np.random.default_rng(0)
    for _ in range(episodes // num_envs):
        seeds = [int(seed) for seed in rng.integers(2**31, size=num_envs)]
        shown, _ = fast.reset(seed=seeds)
        expected = [env.reset(seed=seed)[0] for env, seed in zip(slow, seeds, strict=True)]
        truncated = np.zeros(num_envs, np.bool_)
        while not truncated.any():
            for key, value in shown.items():
                np.testing.assert_array_equal(
                    value, np.stack([e[key] for e in expected]), strict=True
                )
            actions = rng.uniform(-1.2, 1.2, fast.action_space.shape).astype(np.float32)  # type: ignore[arg-type]
            shown, reward, terminated, truncated, info = fast.step(actions)
            results = [env.step(action) for env, action in zip(slow, actions, strict=True)]
            expected = [result[0] for result in results]
            assert reward.tolist() == [result[1] for result in results]
            assert terminated.tolist() == [result[2] for result in results]
            assert truncated.tolist() == [result[3] for result in results]
            assert info["is_success"].tolist() == [result[4]["is_success"] for result in results]


@pytest.mark.parametrize("env_id", FAST)
def test_bit_for_bit(env_id: str) -> None:
    same_as_gymnasium_robotics(env_id, 4)


@pytest.mark.slow
@pytest.mark.parametrize("env_id", FETCH + HAND)
def test_bit_for_bit_over_20_episodes(env_id: str) -> None:
    same_as_gymnasium_robotics(env_id, 20)


def test_every_id_is_there() -> None:
    register_robotics()
    assert set(FETCH + HAND) <= set(gym.registry)
    for env_id in ("HandManipulateBlock_ContinuousTouchSensors-v1", "hindsight/BitFlip-v0"):
        assert robot(make(env_id)) is None
    assert robot(gym.wrappers.TransformReward(make("FetchReach-v4"), float)) is None, (
        "a wrapper must not be bypassed"
    )
    assert isinstance(hindsight.envs.make_vec("HandReach-v3"), RobotVectorEnv)
    assert not isinstance(hindsight.envs.make_vec("hindsight/BitFlip-v0"), RobotVectorEnv)
    with pytest.raises(HindsightError, match="no fast simulation"):
        RobotVectorEnv("HandManipulateBlock_ContinuousTouchSensors-v1")


def reach(observation: Floats, goal: Floats) -> Array:
    return np.concatenate([5 * (goal - observation[:, :3]), observation[:, :1]], axis=1).clip(-1, 1)


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_the_collector_gets_the_same_episodes_whatever_the_threads_do(threads: int) -> None:
    spec = inspect(make("FetchReach-v4"), "FetchReach-v4")
    seeds = episode_seeds(0, 0, 0, 5)
    slow = Collector(LocalEnvs(lambda: make("FetchReach-v4"), 2, 50), spec).collect(reach, seeds)
    envs = make_batch(lambda: make("FetchReach-v4"), spec, 4, "threads", threads)
    assert isinstance(envs, ThreadedEnvs)
    fast = Collector(envs, spec).collect(reach, seeds)
    for name in (
        "observation",
        "achieved_goal",
        "desired_goal",
        "action",
        "reward",
        "success",
        "length",
    ):
        np.testing.assert_array_equal(getattr(fast, name), getattr(slow, name))


@pytest.mark.parametrize(
    "env_id", ["FetchPickAndPlace-v4", "FetchPush-v4", "HandManipulateBlock-v1"]
)
def test_exported_state_goes_on_exactly_in_another_process_of_the_same_kind(env_id: str) -> None:
    env, other = (hindsight.envs.make_vec(env_id, num_envs=2) for _ in range(2))
    rng = np.random.default_rng(0)
    horizon = env.max_episode_steps  # type: ignore[attr-defined]
    actions = rng.uniform(-1, 1, (horizon + 20, *env.action_space.shape)).astype(np.float32)  # type: ignore[misc]
    env.reset(seed=1)
    other.reset(seed=7)
    for action in actions[:13]:
        shown = env.step(action)[0]
        other.step(-action)
    restored = other.restore_state(env.export_state())  # type: ignore[attr-defined]
    for key, value in shown.items():
        np.testing.assert_array_equal(restored[key], value)
    for action in actions[13:]:  # beyond the episode's end: generators and goals count, too
        a, b = env.step(action), other.step(action)
        for key in a[0]:
            np.testing.assert_array_equal(a[0][key], b[0][key])
        assert a[1].tolist() == b[1].tolist()
        assert a[3].tolist() == b[3].tolist()


def test_autoreset_modes() -> None:
    zeros = np.zeros((2, 4), np.float32)
    env = hindsight.envs.make_vec("FetchReach-v4", num_envs=2)
    assert env.metadata["autoreset_mode"] == AutoresetMode.NEXT_STEP
    first, _ = env.reset(seed=3)
    for t in range(50):
        shown, _, _, truncated, _ = env.step(zeros)
        assert truncated.all() == (t == 49)
    new, reward, _, truncated, _ = env.step(zeros)
    assert (new["desired_goal"] != shown["desired_goal"]).any()
    assert reward.tolist() == [0, 0]
    assert not truncated.any()

    env = hindsight.envs.make_vec(
        "FetchReach-v4", num_envs=2, autoreset_mode=AutoresetMode.SAME_STEP
    )
    env.reset(seed=3)
    for _ in range(50):
        new, _, _, truncated, info = env.step(zeros)
    assert truncated.all()
    np.testing.assert_array_equal(info["final_obs"]["observation"], shown["observation"])
    assert (new["desired_goal"] != info["final_obs"]["desired_goal"]).any()

    env = hindsight.envs.make_vec(
        "FetchReach-v4", num_envs=2, autoreset_mode=AutoresetMode.DISABLED
    )
    env.reset(seed=3)
    for _ in range(50):
        env.step(zeros)
    with pytest.raises(HindsightError, match="reset_mask"):
        env.step(zeros)
    again, _ = env.reset(seed=3)
    np.testing.assert_array_equal(again["desired_goal"], first["desired_goal"])


def test_reset_mask_leaves_the_others_alone() -> None:
    env = hindsight.envs.make_vec("FetchPush-v4", num_envs=3)
    env.reset(seed=0)
    shown = env.step(np.ones((3, 4), np.float32))[0]
    new, _ = env.reset(seed=[8, 9, 10], options={"reset_mask": np.array([False, True, False])})
    same = (new["observation"] == shown["observation"]).all(axis=1)
    assert same.tolist() == [True, False, True]


def broken(simulations: Simulations) -> None:
    simulations.physics.qvel[1, 0] = 1e11  # MuJoCo finds this bad, warns and resets


def test_a_diverged_simulation_is_reset_and_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # MuJoCo logs its warnings there
    env: Any = hindsight.envs.make_vec("FetchPush-v4", num_envs=3)
    env.reset(seed=0)
    broken(env.simulations)
    shown, reward, _, truncated, info = env.step(np.zeros((3, 4), np.float32))
    assert truncated.tolist() == info["diverged"].tolist() == [False, True, False]
    assert env.diverged == 1
    assert np.isfinite(shown["observation"]).all()
    assert reward[1] == 0
    for _ in range(3):
        _, _, _, truncated, info = env.step(np.zeros((3, 4), np.float32))
        assert not truncated.any()
        assert "diverged" not in info


def test_a_diverged_episode_never_leaves_the_collector(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    spec = inspect(make("FetchReach-v4"), "FetchReach-v4")
    envs = ThreadedEnvs(make("FetchReach-v4"), 3, 50, 2)
    collector = Collector(envs, spec)
    calls = 0

    def act(observation: Floats, goal: Floats) -> Array:
        nonlocal calls
        calls += 1
        if calls == 20:
            broken(envs.simulations)
        return reach(observation, goal)

    episodes = collector.collect(act, [1, 2, 3])
    assert len(episodes) == 2
    assert np.isfinite(episodes.observation).all()
    assert np.abs(episodes.observation).max() < 1e3
    assert len(collector.collect(reach, [1, 2, 3])) == 3


def test_pictures() -> None:
    env = hindsight.envs.make_vec("FetchReach-v4", num_envs=2, render_mode="rgb_array")
    env.reset(seed=0)
    env.step(np.ones((2, 4), np.float32))
    pictures: Any = env.render()
    assert len(pictures) == 2
    assert pictures[0].shape == (480, 480, 3)
    assert (pictures[0] != pictures[1]).any()


def test_bad_arguments() -> None:
    with pytest.raises(HindsightError, match="at least 1"):
        hindsight.envs.make_vec("FetchReach-v4", num_envs=0)
    with pytest.raises(HindsightError, match="2 seeds for 3"):
        hindsight.envs.make_vec("FetchReach-v4", num_envs=3).reset(seed=[1, 2])
    with pytest.raises(HindsightError, match="only Fetch and Hand"):
        make_batch(
            lambda: make("hindsight/BitFlip-v0"),
            inspect(make("hindsight/BitFlip-v0")),
            2,
            "threads",
        )


@pytest.mark.parametrize("env_id", ["FetchReach-v4", "PointMaze_UMaze-v3"])
def test_worker_processes_say_nothing(env_id: str, capfd: pytest.CaptureFixture[str]) -> None:
    """Gymnasium-Robotics prints a notice when it is imported, and warns of ids that exist."""
    envs = WorkerEnvs(factory(env_id), 1, 50, 1)
    envs.reset([0])
    envs.close()
    assert capfd.readouterr() == ("", "")
