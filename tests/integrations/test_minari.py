"""Minari datasets: written by a run's policy, read back exactly, and learnt from. No network."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.envs.registration import EnvSpec

import hindsight
from conftest import LineEnv, fingerprint, random_episodes
from hindsight.cli import main
from hindsight.config import OffPolicyConfig
from hindsight.envs.contract import inspect
from hindsight.envs.make import make
from hindsight.episodes import Episodes
from hindsight.errors import HindsightError
from hindsight.replay.replay import failure_rewards
from hindsight.training.rollouts import FromDataset
from hindsight.training.run import Run
from point_env import PointEnv

LINE = "test/Line-v0"
BITS = "hindsight/BitFlip-v0"
QUICK: dict[str, Any] = {
    "steps": 300,
    "eval_every": 2,
    "eval_episodes": 4,
    "gradient_steps": 2,
    "batch_size": 16,
    "agent": {"net_arch": (8,)},
    "quiet": True,
}


def call(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as stop:
        main([str(a) for a in arguments])
    captured = capsys.readouterr()
    return int(stop.value.code or 0), captured.out, captured.err


# ------------------------------------------------------------------------------ without the library


def test_a_dataset_is_passed_over_again_and_again() -> None:
    episodes = random_episodes(np.random.default_rng(0), 5, 4, inspect(LineEnv()))
    config, parts = OffPolicyConfig(env=LINE, episodes_per_cycle=3), [None, None, None]
    source = FromDataset(config, *parts, episodes)  # type: ignore[arg-type]
    actor: Any = None
    taken = [source.play(cycle, actor, 0.0).observation[:, 0, 0] for cycle in (1, 2, 3)]
    assert [rows.tolist() for rows in taken] == [[0, 1, 2], [3, 4, 0], [1, 2, 3]]
    source.close()


def test_nothing_to_learn_from_is_refused() -> None:
    with pytest.raises(HindsightError, match="give a dataset"):
        OffPolicyConfig(env=LINE, collect=False)


def test_what_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(__import__("sys").modules, "minari", None)
    with pytest.raises(HindsightError, match=r"minari is not installed: pip install .*\[minari\]"):
        hindsight.train(LINE, dataset="minari:a-v0", run_dir=tmp_path / "run", **QUICK)
    assert not (tmp_path / "run").exists()


# --------------------------------------------------------------------------------- the real library


@pytest.fixture
def minari(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    pytest.importorskip("h5py")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # its own
        library = pytest.importorskip("minari")
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "datasets"))
    return library


def write(minari: Any, env: Any, name: str, episodes: int, goals: int = 1) -> list[dict[str, Any]]:
    """A dataset of random episodes; what was seen. With `goals`, the goal changes so often within
    an episode."""
    from minari.data_collector import EpisodeBuffer

    seen, buffers = [], []
    rng = np.random.default_rng(0)
    for seed in range(episodes):
        observation, _ = env.reset(seed=seed)
        rows: dict[str, Any] = {"observations": [observation], "actions": [], "ended": False}
        ends: list[tuple[bool, bool]] = []
        rewards: list[float] = []
        while not ends or not any(ends[-1]):
            if len(rows["actions"]) in [4 * k for k in range(1, goals)]:
                env.unwrapped.goal = rng.uniform(-5, 5, 1)
            action = (
                rng.integers(env.action_space.n)
                if hasattr(env.action_space, "n")
                else rng.uniform(-2, 4, 1).astype(np.float32)
            )
            observation, reward, terminated, truncated, _ = env.step(action)
            rewards.append(float(reward))
            rows["observations"].append(observation)
            rows["actions"].append(action)
            rows["ended"] = terminated
            ends.append((bool(terminated), bool(truncated)))
        seen.append(rows)
        columns = {key: [o[key] for o in rows["observations"]] for key in observation}
        terminations, truncations = (list(column) for column in zip(*ends, strict=True))
        buffers.append(
            EpisodeBuffer(
                seed, seed, None, columns, rows["actions"], rewards, terminations, truncations
            )
        )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        spaces = {"observation_space": env.observation_space, "action_space": env.action_space}
        minari.create_dataset_from_buffers(name, buffers, algorithm_name="random", **spaces)
    return seen


def read(name: str, env: Any, size: int = 100_000) -> Episodes:
    from hindsight.integrations.minari import read_episodes

    return read_episodes(name, inspect(env), size)


@pytest.mark.parametrize("discrete", [False, True])
def test_episodes_are_read_as_they_were(minari: Any, discrete: bool) -> None:
    seen = write(minari, LineEnv(discrete), "line/random-v0", 6)
    episodes = read("minari:line/random-v0", LineEnv(discrete))
    assert episodes.length.tolist() == [len(rows["actions"]) for rows in seen]
    for i, rows in enumerate(seen):
        n = len(rows["actions"])
        for name, column in (
            ("observation", episodes.observation[i]),
            ("achieved_goal", episodes.achieved_goal[i]),
        ):
            expected = np.stack([o[name] for o in rows["observations"]])
            np.testing.assert_array_equal(column[: n + 1], expected.astype(column.dtype))
        np.testing.assert_array_equal(
            episodes.desired_goal[i], rows["observations"][0]["desired_goal"]
        )
        np.testing.assert_array_equal(episodes.action[i, :n], np.stack(rows["actions"]))
        assert episodes.terminated[i, n - 1] == rows["ended"]
        assert not episodes.terminated[i, : n - 1].any()
        reached = (
            np.abs(episodes.achieved_goal[i, 1 : n + 1] - episodes.desired_goal[i])[:, 0] < 0.5
        )
        np.testing.assert_array_equal(episodes.reward[i, :n], reached - 1.0)


def test_an_episode_is_cut_where_its_goal_changes(minari: Any) -> None:
    seen = write(minari, LineEnv(ends=False), "line/goals-v0", 3, goals=3)
    episodes = read("minari:line/goals-v0", LineEnv(ends=False))
    assert episodes.transitions == sum(len(rows["actions"]) for rows in seen) == 36
    assert episodes.length.tolist() == [5, 4, 3] * 3  # the change shows one observation later
    first = seen[0]["observations"]
    for i, start in enumerate((0, 5, 9)):
        np.testing.assert_array_equal(episodes.desired_goal[i], first[start]["desired_goal"])
        np.testing.assert_array_equal(
            episodes.observation[i, 0], first[start]["observation"].astype(np.float32)
        )


def test_an_episode_is_cut_at_the_time_limit(minari: Any) -> None:
    write(minari, LineEnv(ends=False), "line/long-v0", 2)
    from hindsight.integrations.minari import read_episodes

    spec = inspect(LineEnv(ends=False), max_episode_steps=5)
    assert read_episodes("minari:line/long-v0", spec, 100).length.tolist() == [5, 5, 2] * 2


def test_mistakes_are_named(minari: Any, tmp_path: Path) -> None:
    write(minari, LineEnv(), "line/random-v0", 3)
    for name, env, message in (
        ("line/random-v0", LineEnv(), "given as minari:NAME"),
        (
            "minari:line/other-v0",
            LineEnv(),
            "no Minari dataset 'line/other-v0' here: minari download",
        ),
        ("minari:line/random-v0", make(BITS, bits=3), "is not of .*BitFlip.*observation has shape"),
        ("minari:line/random-v0", LineEnv(discrete=True), "its action has shape"),
    ):
        with pytest.raises(HindsightError, match=message):
            read(name, env)
    with pytest.raises(HindsightError, match=r"replay\.buffer_size to 36 or more"):
        read("minari:line/random-v0", LineEnv(), 24)
    assert not (tmp_path / "run").exists()


def test_training_from_a_dataset_alone_is_the_same_every_time_and_when_resumed(
    minari: Any, tmp_path: Path
) -> None:
    write(minari, make(LINE), "line/random-v0", 40)
    settings = QUICK | {"dataset": "minari:line/random-v0", "collect": False, "seed": 3}
    whole = hindsight.train(LINE, run_dir=tmp_path / "whole", **settings)
    again = hindsight.train(LINE, run_dir=tmp_path / "again", **settings)
    assert fingerprint(whole) == fingerprint(again)
    checkpoint, _ = whole.checkpoints.newest()
    assert checkpoint.load()["replay"]["storage"]["size"] == 40  # nothing was collected
    assert whole.summary["steps"] >= 300
    cut = hindsight.train(
        LINE, run_dir=tmp_path / "cut", callbacks=[lambda p: p.cycle == 2], **settings
    )
    assert fingerprint(hindsight.resume(cut.path, quiet=True)) == fingerprint(whole)


@pytest.mark.parametrize("preset", ["her", "hper"])
def test_a_dataset_first_and_then_episodes_of_its_own(
    minari: Any, tmp_path: Path, preset: str
) -> None:
    write(minari, make(LINE), "line/random-v0", 40)
    settings = QUICK | {"dataset": "minari:line/random-v0", "preset": preset}
    run = hindsight.train(LINE, run_dir=tmp_path / "run", **settings)
    checkpoint, _ = run.checkpoints.newest()
    played = sum(1 for _ in run.metrics) * run.config.episodes_per_cycle
    assert checkpoint.load()["replay"]["storage"]["size"] == 40 + played
    assert Run.open(run.path).config.dataset == "minari:line/random-v0"  # type: ignore[attr-defined]


def test_a_policy_learns_from_random_episodes_alone(minari: Any, tmp_path: Path) -> None:
    """Of bit flip with five bits: of random episodes hardly one is a success."""
    write(minari, make(BITS, bits=5), "bits/random-v0", 400)
    settings: dict[str, Any] = {
        "env_kwargs": {"bits": 5},
        "dataset": "minari:bits/random-v0",
        "collect": False,
        "steps": 8000,
        "eval_episodes": 50,
        "quiet": True,
    }
    run = hindsight.train(BITS, run_dir=tmp_path / "run", **settings)
    assert hindsight.evaluate(run.path).success_rate > 0.9


@pytest.mark.parametrize("explore", [False, True])
def test_export_writes_a_dataset_that_can_be_trained_from(
    minari: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str], explore: bool
) -> None:
    settings = QUICK | {"env_kwargs": {"bits": 3}}
    run = hindsight.train(BITS, run_dir=tmp_path / "run", **settings)
    more = ["--explore"] if explore else []
    name = "bits/three-v0"
    code, out, err = call(capsys, "export", run.path, "--minari", name, "--episodes", 7, *more)
    assert (code, err) == (0, "")
    assert f"dataset: {name}, 7 episodes" in out
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        dataset = minari.load_dataset(name)
    assert dataset.total_episodes == 7
    assert dataset.env_spec.id == BITS
    assert dataset.storage.metadata["algorithm_name"] == (
        "dqn, exploring" if explore else "dqn, greedy"
    )
    policy = run.policy
    for episode in dataset.iterate_episodes():
        observations = {key: values[:-1] for key, values in episode.observations.items()}
        if not explore:
            np.testing.assert_array_equal(policy(observations), episode.actions)
    code, _, err = call(capsys, "export", run.path, "--minari", name)
    assert code == 2
    assert "exists" in err
    train = f"train {BITS} --env.bits 3 --dataset minari:{name} --no-collect --steps 50 --quiet"
    code, _, err = call(capsys, *train.split(), "--run-dir", tmp_path / "second")
    assert (code, err) == (0, "")


def test_fetch_and_back(minari: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name = "fetch/reach-v0"
    export = f"export FetchReach-v4 --pretrained --minari {name} --episodes 3"
    code, out, err = call(capsys, *export.split())
    assert (code, err) == (0, "")
    assert "3 episodes" in out
    env = make("FetchReach-v4")
    episodes = read(f"minari:{name}", env)
    assert episodes.length.tolist() == [50] * 3
    assert episodes.final_success().all()  # as it states: 1.00
    policy = hindsight.load("FetchReach-v4")
    actions = policy.act(episodes.observation[:, 0], episodes.desired_goal.astype(np.float32))
    np.testing.assert_allclose(episodes.action[:, 0], actions, atol=1e-5)

    settings = QUICK | {"steps": 100, "episodes_per_cycle": 2, "max_episode_steps": 50}
    assert learns_from(name, "FetchReach-v4", tmp_path / "run", settings) == 3


def test_a_hand_and_back(minari: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    settings = QUICK | {"steps": 10, "max_episode_steps": 5, "episodes_per_cycle": 2}
    run = hindsight.train("HandReach-v3", run_dir=tmp_path / "run", **settings)
    name = "hand/reach-v0"
    code, out, err = call(
        capsys, "export", run.path, "--minari", name, "--episodes", 2, "--explore"
    )
    assert (code, err) == (0, "")
    assert "2 episodes" in out
    assert learns_from(name, "HandReach-v3", tmp_path / "more", settings) == 2


def learns_from(dataset: str, env: str, run_dir: Path, settings: dict[str, Any]) -> int:
    """Train on nothing but a dataset, and how many of its episodes are in the replay."""
    offline = {"dataset": f"minari:{dataset}", "collect": False}
    run = hindsight.train(env, run_dir=run_dir, **settings, **offline)
    assert len(run.metrics) == 1
    assert run.summary["status"] == "finished"
    checkpoint, _ = run.checkpoints.newest()
    return int(checkpoint.load()["replay"]["storage"]["size"])


class Breaking(LineEnv):
    """Each episode fails at its third step, which no inspection reaches."""

    broken = False

    def step(self, action: Any) -> Any:
        if self.broken and self.steps >= 2:
            raise RuntimeError("a motor\nis broken")
        return super().step(action)


def test_an_env_that_raises_while_it_is_exported(
    minari: Any,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    spec = EnvSpec("test/Breaking-v0", Breaking)
    monkeypatch.setitem(gym.registry, spec.id, spec)
    run = hindsight.train("test/Breaking-v0", run_dir=tmp_path / "run", **QUICK | {"steps": 50})
    monkeypatch.setattr(Breaking, "broken", True)
    code, _, error = call(capsys, "export", run.path, "--minari", "line/broken-v0")
    assert (code, error.count("\n")) == (2, 1)
    assert "test/Breaking-v0: step() raised RuntimeError: a motor is broken" in error
    assert not minari.list_local_datasets()


def test_a_policy_of_another_env_writes_nothing(
    minari: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = hindsight.train(BITS, run_dir=tmp_path / "run", **QUICK | {"env_kwargs": {"bits": 3}})
    config = run.path / "config.json"
    config.write_text(config.read_text().replace('"bits": 3', '"bits": 4'))
    code, _, err = call(capsys, "export", run.path, "--minari", "bits/three-v0")
    assert code == 2
    assert "trained on other observations or goals" in err
    assert err.count("\n") == 1
    assert not minari.list_local_datasets()


def test_arrivals_that_end_a_dense_episode_are_no_failures(minari: Any) -> None:
    """And a failure is one, with the penalty that it had. Only the env knows which is which."""
    from hindsight.integrations.minari import _play, read_episodes

    class Crashing(PointEnv):
        def step(self, action: Any) -> Any:
            shown, reward, ended, late, info = super().step(action)
            return shown, reward - 7.0 * (ended and not info["is_success"]), ended, late, info

    env = Crashing(dense=1.0, ends=True, pillar=True)
    spec = inspect(env)

    def towards(place: str) -> Any:
        def act(observation: Any) -> Any:
            to = observation["desired_goal"] if place == "goal" else np.zeros(2)
            away = to - observation["achieved_goal"]
            return (away / max(np.abs(away).max(), 0.2)).astype(np.float32)

        return act

    played = [_play(env, spec, towards("goal"), i, i) for i in range(8)]
    played += [_play(env, spec, towards("middle"), 8, 8)]
    success = [each for _, each in played]
    assert any(success)
    assert not success[-1]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        spaces = {"observation_space": env.observation_space, "action_space": env.action_space}
        buffers = [buffer for buffer, _ in played]
        minari.create_dataset_from_buffers("point/dense-v0", buffers, **spaces)
    episodes = read_episodes("minari:point/dense-v0", spec, 10_000)
    assert episodes.final_success().tolist() == success
    assert episodes.failed().tolist() == [not each for each in success]
    penalties = failure_rewards(episodes, spec)
    np.testing.assert_allclose(penalties, np.where(success, 0.0, -7.0), atol=1e-4)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--minari", "a b-v0"], "not the name of a Minari dataset: Malformed"),
        (["--minari", "name"], "ends in a version: name-v0"),
        (["--minari", "a-v0", "-o", "x.onnx"], "-o is for ONNX files"),
        (["--minari", "a-v0", "--episodes", "0"], "at least 1"),
    ],
)
def test_mistakes_of_export_are_one_line(
    minari: Any, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    code, _, error = call(capsys, "export", "FetchReach-v4", "--pretrained", *arguments)
    assert code == 2
    assert error.count("\n") == 1
    assert message in error
