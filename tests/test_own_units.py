"""Envs of one's own, whose rewards, ends, units and goals are not those of Fetch: they learn the
same, or are refused."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import hindsight
from conftest import LineEnv
from hindsight.agents.shapes import Shapes
from hindsight.api import default_config
from hindsight.cli import main
from hindsight.collect import Collector, record
from hindsight.envs.batch import LocalEnvs
from hindsight.envs.contract import inspect
from hindsight.envs.spaces import Features
from hindsight.errors import HindsightError
from hindsight.normalizer import Normalizer
from hindsight.replay.batch import RewardScale
from hindsight.replay.replay import make_replay
from hindsight.training.run import Run
from hindsight.types import Array, Floats
from point_env import PointEnv

# ----------------------------------------------------------------------------------------- rewards


def test_values_are_shifted_and_scaled_exactly() -> None:
    """Two steps to the goal, by hand, with gamma 1/2: rewards 0 and 1, the episode ends there."""
    scale = Shapes.of(inspect(PointEnv(rewards=(0.0, 1.0))), 0.5).reward_scales[1]
    assert scale == RewardScale(offset=1.0, unit=0.5, gamma=0.5)
    # Values 1/2 and 1 become (1/2 - 1) / (1/2) = -1 and 0, those of the rewards -1 and 0.
    rewards = scale(np.float32([0.0, 1.0]), np.float32([0, 1]))
    assert rewards.tolist() == [-1.0, 0.0]
    # An end in failure, worth 0, is worth as little as never to get there: -1 / (1 - gamma).
    assert scale(np.float32([0.0]), np.float32([1])).tolist() == [-2.0]


@pytest.mark.parametrize("gamma", [0.5, 0.9])
@pytest.mark.parametrize("rewards", [(0.0, 1.0), (-1e-3, 0.0), (-1.0, 1.0), (0.0, 250.0)])
@pytest.mark.parametrize("ends", [False, True])
def test_sparse_rewards_are_learnt_from_as_minus_one_and_zero(
    ends: bool, rewards: tuple[float, float], gamma: float
) -> None:
    """The values of any chain of steps are shifted and scaled, all of them alike."""
    shapes = Shapes.of(inspect(PointEnv(rewards=rewards)), gamma)
    scale = shapes.reward_scales[int(ends)]
    hit = np.array([False] * 6 + [True])
    terminated = (hit & ends).astype(np.float32)
    own = np.where(hit, rewards[1], rewards[0]).astype(np.float32)
    scaled = scale(own, terminated)
    np.testing.assert_allclose(scaled, np.where(hit, 0.0, -1.0), atol=1e-5)

    def values(reward: Floats, last: float) -> list[float]:
        found = [last]
        for r, over in zip(reward[::-1], terminated[::-1], strict=True):
            found.append(float(r) + gamma * (1.0 - float(over)) * found[-1])
        return found[1:]

    at_goal = 0.0 if ends else rewards[1] / (1 - gamma)  # it stays there
    expected = (np.array(values(own, at_goal)) - scale.offset) / scale.unit
    np.testing.assert_allclose(values(scaled, 0.0), expected, atol=1e-4)
    assert shapes.returns is not None
    assert shapes.returns[0] <= min(expected)
    assert shapes.returns[1] == 0.0


def test_which_rewards_are_left_alone() -> None:
    spec = inspect(PointEnv())
    assert all(scale.is_identity for scale in Shapes.of(spec, 0.98).reward_scales)
    assert Shapes.of(spec, None).returns == (pytest.approx(-30.0), 0.0)
    assert all(s.is_identity for s in Shapes.of(inspect(PointEnv(dense=1.0)), 0.98).reward_scales)
    small = Shapes.of(inspect(PointEnv(dense=1e-3)), 0.98).reward_scales[0]
    assert (small.offset, small.unit) == (0.0, pytest.approx(1.5e-3, rel=0.5))
    # Who misses is paid so well that nobody should ever reach the goal: as the env says.
    absurd = Shapes.of(inspect(PointEnv(rewards=(0.5, 1.0))), 0.9)
    assert absurd.reward_scales[1].is_identity
    assert absurd.returns is not None
    assert absurd.returns[1] == pytest.approx(10.0)


def test_replay_scales_once_it_has_seen_an_end_at_the_goal() -> None:
    spec = inspect(PointEnv(rewards=(0.0, 1.0), ends=True))
    replay, shapes = make_replay(spec), Shapes.of(spec, 0.9)
    collector = Collector(LocalEnvs(lambda: PointEnv((0.0, 1.0), ends=True), 4, 30), spec)
    rng = np.random.default_rng(0)
    towards = lambda o, g: np.clip(5 * (g - o), -1, 1)  # noqa: E731
    replay.store(collector.collect(lambda o, g: np.zeros((len(o), 2), np.float32), [1, 2]))
    assert not replay.ends_at_goal
    replay.store(collector.collect(towards, [1, 2]))
    assert replay.ends_at_goal
    raw = replay.sample(2, 64, 0.0, rng).batch
    assert set(np.unique(raw.reward)) == {0.0, 1.0}  # as a library: the env's own
    replay.reward_scale = shapes.reward_scales[1]
    batch = replay.sample(2, 64, 0.0, rng).batch
    np.testing.assert_allclose(batch.reward, np.where(batch.terminated > 0, 0.0, -1.0), atol=1e-6)


QUICK: dict[str, Any] = {"quiet": True, "num_envs": 4, "episodes_per_cycle": 4, "steps": 600}
QUICK |= {"gradient_steps": 20, "batch_size": 64, "eval_episodes": 4, "agent.net_arch": (16,)}


def policy_of(path: Path, env: Any, **settings: Any) -> Array:
    run = hindsight.train(env, run_dir=path, **(QUICK | settings))
    kernel: Array = run.policy.actor.params["params"]["Dense_0"]["kernel"]
    return kernel


@pytest.mark.parametrize("ends", [False, True])
def test_the_same_policy_whatever_the_rewards_are(ends: bool, tmp_path: Path) -> None:
    """Powers of two, so that nothing is rounded: the very same weights."""
    plain = policy_of(tmp_path / "plain", lambda: PointEnv(ends=ends))
    small = policy_of(tmp_path / "small", lambda: PointEnv((-(2.0**-10), 0.0), ends=ends))
    np.testing.assert_array_equal(small, plain)


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind",
    [
        {"rewards": (0.0, 1.0), "ends": True},
        {"rewards": (-1e-3, 0.0)},
        {"dense": 1e-3},
        {"unit": 300.0, "offset": 1.0},
        {"offset": 1000.0},
        {"unit": 1e-4},
        {"goal": "again"},
        {"goal": "again later"},
        {"pillar": True, "rewards": (0.0, 1.0), "ends": True},
        {"hidden": True},
    ],
)
@pytest.mark.filterwarnings("ignore:PointEnv. desired_goal changes when it is reached:UserWarning")
def test_it_is_learnt(kind: dict[str, Any], tmp_path: Path) -> None:
    """Most of these ended below 0.5 where the plain env was learnt, before units were minded."""
    run = hindsight.train(
        lambda: PointEnv(**kind),
        run_dir=tmp_path / "run",
        steps=40_000,
        eval_episodes=100,
        quiet=True,
        stop_at_success=0.9,
    )
    assert run.summary["success_rate"] >= 0.85


# ------------------------------------------------------------------------------------------- units


def test_settings_follow_the_units_of_the_env() -> None:
    plain = default_config(None, inspect(PointEnv())).agent
    assert (plain.clip_observation, plain.normalizer_epsilon) == (200.0, 0.01)
    far = default_config(None, inspect(PointEnv(unit=300.0, offset=1.0))).agent
    assert far.clip_observation > 600
    tiny = default_config(None, inspect(PointEnv(unit=1e-4))).agent
    assert tiny.normalizer_epsilon < 1e-5


def test_clipped_observations_are_told_once(line_spec: Any) -> None:
    from conftest import random_episodes

    episodes = random_episodes(np.random.default_rng(0), 3, 12, line_spec, mark=500.0)
    normalizer = Normalizer(line_spec.observation, line_spec.goal, 0.01, 200.0)
    with pytest.warns(UserWarning, match="observations of up to 502 are clipped to 200"):
        normalizer.add(episodes)
    normalizer.add(episodes)


# ------------------------------------------------------------------------------------------- goals


@pytest.mark.parametrize("tells", [True, False])
@pytest.mark.parametrize("kind", ["again", "again later"])
def test_an_episode_ends_where_its_goal_is_replaced(kind: Any, tells: bool) -> None:
    make = lambda: PointEnv(goal=kind, tells=tells)  # noqa: E731
    spec = inspect(make())
    collector = Collector(LocalEnvs(make, 4, 30), spec)
    towards = lambda o, g: np.clip(5 * (g - o), -1, 1)  # noqa: E731
    with pytest.warns(UserWarning, match="changes when it is reached; an episode ends there"):
        episodes = collector.collect(towards, range(8))
    assert episodes.final_success().all()
    assert (episodes.length < 30).all()
    assert not episodes.terminated.any()
    last = episodes.achieved_goal[np.arange(8), episodes.length]
    assert spec.reached(last, episodes.desired_goal).all()
    steps = np.arange(30) < episodes.length[:, None] - 1
    assert not tells or not episodes.success[steps].any()  # the first time that it is reached


def test_a_goal_that_moves_is_refused(tmp_path: Path) -> None:
    with pytest.raises(HindsightError, match=r"desired_goal changes .* \(at step 5, and") as error:
        hindsight.train(lambda: PointEnv(goal="moves"), run_dir=tmp_path / "run", **QUICK)
    assert "\n" not in str(error.value)


def test_a_policy_sees_the_achieved_goal_where_observations_do_not_tell_it(tmp_path: Path) -> None:
    """As in AntMaze, whose observations lack the place of the ant."""
    hidden = inspect(PointEnv(hidden=True, offset=300.0))
    assert inspect(PointEnv()).observation == Features((2,))
    assert hidden.observation == Features((2,), achieved_dim=2)
    assert default_config(None, hidden).agent.clip_observation > 3000

    run = hindsight.train(lambda: PointEnv(hidden=True), run_dir=tmp_path / "run", **QUICK)
    shown = {"observation": np.zeros(2), "achieved_goal": np.ones(2), "desired_goal": np.zeros(2)}
    policy = hindsight.load(run.path)
    assert policy.observation.dim == 4
    described = json.loads((run.path / "policy.json").read_text())["observation"]
    assert described == {"shape": [2], "categories": 0, "pixels": False, "achieved": 2}
    there = policy(shown)
    assert not np.array_equal(there, policy(shown | {"achieved_goal": -np.ones(2)}))
    features = np.float32([[0, 0, 1, 1]]), np.float32([[0, 0]])
    np.testing.assert_array_equal(there, policy.act(*features)[0])
    batch = {key: np.stack([value] * 3) for key, value in shown.items()}
    np.testing.assert_allclose(policy(batch), [there] * 3, atol=1e-6)
    del shown["achieved_goal"]
    with pytest.raises(HindsightError, match="the observation lacks achieved_goal"):
        policy(shown)


def test_what_was_recorded_has_what_the_policy_sees() -> None:
    env = PointEnv(hidden=True)
    spec = inspect(env)
    observations = [env.reset(seed=0)[0], env.step(np.ones(2))[0]]
    places = np.stack([shown["achieved_goal"] for shown in observations]).astype(np.float32)
    episodes = record(spec, observations, [np.ones(2)], terminated=False)
    assert episodes.observation.shape == (1, 31, 4)
    np.testing.assert_array_equal(episodes.observation[0, :2, 2:], places)


# -------------------------------------------------------------------------------------- failures


def test_failures_stay_failures_for_every_goal() -> None:
    make = lambda: PointEnv((0.0, 1.0), ends=True, pillar=True)  # noqa: E731
    spec = inspect(make())
    episodes = Collector(LocalEnvs(make, 8, 30), spec).collect(
        lambda o, g: np.clip(-5 * o, -1, 1),
        range(8),  # to the middle, where it ends
    )
    assert episodes.failed().all()
    replay = make_replay(spec)
    replay.store(episodes)
    replay.reward_scale = Shapes.of(spec, 0.9).reward_scales[0]
    batch = replay.sample(4, 64, 0.0, np.random.default_rng(0)).batch
    over = np.asarray(batch.terminated) > 0
    assert 0 < over.mean() < 1
    # Worth as never to arrive, or, for goals that were reached by failing, as one step there.
    np.testing.assert_allclose(np.unique(batch.reward[over].round(3)), [-10.0, -9.0])


# ---------------------------------------------------------------------------------- envs that raise


class Raising(LineEnv):
    """Raises at its twentieth step, or in compute_reward once it is asked for batches."""

    def __init__(self, where: str) -> None:
        super().__init__(ends=False)
        self.where, self.count = where, 0

    def step(self, action: Any) -> Any:
        self.count += 1
        if self.where == "step" and self.count > 20:
            raise RuntimeError("the motor\nis hot")
        return super().step(action)

    def reset(self, **options: Any) -> Any:
        if self.where == "reset" and self.count > 20:
            raise KeyError("no floor")
        return super().reset(**options)

    def compute_reward(self, achieved: Any, desired: Any, info: Any) -> Any:
        if self.where == "compute_reward":
            assert np.ndim(achieved) < 2 or len(achieved) < 60, "one at a time"
        return super().compute_reward(achieved, desired, info)


gym.register("test/Raising-v0", Raising, kwargs={"where": "step"})


@pytest.mark.parametrize("where", ["step", "reset", "compute_reward"])
def test_an_env_that_raises_is_one_line_and_a_traceback_in_a_file(
    where: str, tmp_path: Path
) -> None:
    path = tmp_path / "run"
    settings = QUICK | {"simulator": "inline", "checkpoint.minutes": 0.0, "eval_every": 1}
    if where == "compute_reward":
        settings["gradient_steps"] = 1
    with pytest.raises(HindsightError, match=rf"Raising: {where}\(\) raised ") as error:
        hindsight.train(lambda: Raising(where), run_dir=path, **settings)
    assert "\n" not in str(error.value)
    assert str(error.value).endswith(f"Its traceback is in {path / 'traceback.txt'}")
    assert "Traceback" in (path / "traceback.txt").read_text()
    assert f"in {where}" in (path / "traceback.txt").read_text()
    assert Run.open(path).summary["status"] == "failed"
    assert isinstance(error.value.__cause__, RuntimeError | KeyError | AssertionError)


def test_an_env_that_raises_is_exit_code_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--num-envs", "2", "--episodes-per-cycle", "2", "--simulator", "inline", "--quiet"]
    command = ["train", "test/Raising-v0", "--run-dir", str(tmp_path / "run"), *options]
    with pytest.raises(SystemExit) as stop:
        main([*command, "--eval-episodes", "2", "--agent.net-arch", "8"])
    assert stop.value.code == 2
    out, error = capsys.readouterr()
    assert error.startswith("hindsight: test/Raising-v0: step() raised RuntimeError: the motor")
    assert error.count("\n") == 1
    assert "Traceback" not in out + error
    assert "is hot" in (tmp_path / "run" / "traceback.txt").read_text()


def test_a_reward_of_the_wrong_shape_is_named(line_spec: Any) -> None:
    class Shapeless(LineEnv):
        def compute_reward(self, achieved: Any, desired: Any, info: Any) -> Any:
            found = super().compute_reward(achieved, desired, info)
            return found[:1] if np.ndim(found) and len(found) == 3 else found

    spec = inspect(Shapeless())
    with pytest.raises(HindsightError, match="one number per pair of goals, got shape"):
        spec.goal_reward(np.zeros((3, 1)), np.zeros((3, 1)))
    assert replace(spec, id="other") != spec
