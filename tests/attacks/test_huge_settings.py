"""Settings that are far too large are refused with the memory that they would take, at once, and
nothing is left."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest

import hindsight
from hindsight import presets
from hindsight.api import default_config, describe
from hindsight.cli import main
from hindsight.config import OffPolicyConfig
from hindsight.envs.make import factory
from hindsight.errors import HindsightError
from hindsight.settings import with_settings
from hindsight.training import memory
from hindsight.training.memory import check_memory, envs_made, needed

BITS = "hindsight/BitFlip-v0"
HUGE: list[tuple[dict[str, Any], str]] = [
    ({"num_envs": 10**7, "episodes_per_cycle": 10**7}, "num_envs 10000000 would take about 504 GB"),
    ({"batch_size": 10**9}, "batch_size 1000000000 would take about 12.3 TB"),
    ({"gradient_steps": 10**9}, "gradient_steps 1000000000 would take"),
    ({"replay.buffer_size": 10**12}, "replay.buffer_size 1000000000000 would take about 50 TB"),
    ({"episodes_per_cycle": 10**9}, "episodes_per_cycle 1000000000 would take about 800 GB"),
    ({"eval_episodes": 10**9}, "eval_episodes 1000000000 would take about 800 GB"),
    ({"agent.net_arch": (10**6, 10**6)}, r"agent.net_arch \[1000000, 1000000\] .* 48 TB"),
    ({"priority.fresh": 10**9, "priority.sampling": "rank"}, "priority.fresh 1000000000 would"),
    ({"preset": "hper", "replay.replay_k": 1e9}, r"replay.replay_k 1000000000.0 would take about"),
    ({"method": "hpg", "episodes_per_cycle": 10**9}, "episodes_per_cycle 1000000000 would take"),
    ({"method": "hpg", "agent.goals": 10**9}, "agent.goals 1000000000 would take about"),
    ({"method": "a3c", "agent.workers": 10**5}, "agent.workers must be between 1 and 1024"),
    ({"method": "a3c", "agent.workers": 1024, "episodes_per_cycle": 256}, "agent.workers 1024 wo"),
    ({"method": "a3c", "episodes_per_cycle": 10**5}, "episodes_per_cycle 100000 would take"),
    (
        {"method": "a2c", "agent.critic": "action", "agent.rows": 10**9},
        "agent.rows 1000000000 would take about 1.13 TB",
    ),
    (
        {"priority.sampling": "proportional", "priority.alpha": 1e4},
        "alpha must be between 0 and 10",
    ),
]


@pytest.mark.parametrize(("settings", "message"), HUGE)
def test_refused_at_once(settings: dict[str, Any], message: str, tmp_path: Path) -> None:
    start = time.monotonic()
    with pytest.raises(HindsightError, match=message) as error:
        hindsight.train(BITS, run_dir=tmp_path / "run", quiet=True, **settings)
    assert "\n" not in str(error.value)
    assert not (tmp_path / "run").exists()
    assert time.monotonic() - start < 10


@pytest.mark.parametrize("simulator", ["processes", "inline"])
@pytest.mark.parametrize(
    ("env", "size"),
    [("FetchPush-v4", "863 GB"), ("HandReach-v3", "74[0-9] GB"), ("PointMaze_UMaze-v3", "1.1. TB")],
)
def test_each_robot_of_its_own_loads_its_model(
    env: str, size: str, simulator: str, tmp_path: Path
) -> None:
    pytest.importorskip("gymnasium_robotics")
    settings: dict[str, Any] = {"num_envs": 10**5, "episodes_per_cycle": 10**5}
    with pytest.raises(HindsightError, match=f"num_envs 100000 would take about {size}"):
        hindsight.train(env, run_dir=tmp_path / "run", simulator=simulator, quiet=True, **settings)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("env", [BITS, "FetchPush-v4"])
def test_a_hundred_thousand_envs_are_refused_where_they_do_not_fit(
    env: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Arrays of our own, and robots on threads, are small."""
    if env != BITS:
        pytest.importorskip("gymnasium_robotics")
    monkeypatch.setattr(memory, "free_memory", lambda: 4e9)
    settings: dict[str, Any] = {"num_envs": 10**5, "episodes_per_cycle": 10**5}
    with pytest.raises(HindsightError, match=r"num_envs 100000 would take about 5.* GB"):
        hindsight.train(env, run_dir=tmp_path / "run", quiet=True, **settings)
    assert not (tmp_path / "run").exists()


def test_one_line_and_exit_code_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["train", BITS, "--batch-size", "1000000000", "--run-dir", str(tmp_path / "run")]
    with pytest.raises(SystemExit) as stop:
        main(command)
    assert stop.value.code == 2
    assert len(capsys.readouterr().err.splitlines()) == 1
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("method", ["dqn", "hpg"])
def test_more_envs_than_episodes_and_rare_evaluations_cost_nothing(
    method: str, tmp_path: Path
) -> None:
    settings: dict[str, Any] = {
        "num_envs": 10**5,
        "eval_every": 10**9,
        "eval_episodes": 4,
        "episodes_per_cycle": 4,
    }
    settings |= {"steps": 100, "agent.net_arch": (8,), "quiet": True}
    run = hindsight.train(BITS, method=method, run_dir=tmp_path / "run", **settings)
    assert run.summary["status"] == "finished"


def test_what_is_kept_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """By hand, for bit flip: 8 bits, 8 steps; a step is 8 * 4 + 8 + 8 + 2 = 50 bytes."""
    spec = describe(BITS, factory(BITS))
    config = default_config("dqn", spec)
    assert isinstance(config, OffPolicyConfig)
    assert memory.transition_bytes(spec) == 50
    settings = {"steps": 1000, "episodes_per_cycle": 5, "eval_episodes": 7, "num_envs": 100}
    settings["replay.buffer_size"] = 1200
    config = with_settings(config, settings)
    found = needed(config, spec)
    assert found["replay.buffer_size"] == (1000 + 5 * 8) * 50  # pages that are never used
    assert found["eval_episodes"] == 2 * 7 * 8 * 50
    assert envs_made(config) == 7
    monkeypatch.setattr(memory, "free_memory", lambda: 0.9 * sum(found.values()))
    with pytest.raises(HindsightError, match="would take about"):
        check_memory(config, spec)
    monkeypatch.setattr(memory, "free_memory", lambda: 1.1 * sum(found.values()))
    check_memory(config, spec)


def test_what_a_policy_gradient_builds_is_counted() -> None:
    """By hand, for bit flip: a row is 16 inputs, 256 numbers of a hidden layer and 40 bytes."""
    spec = describe(BITS, factory(BITS))

    def of(method: str, critic: str | None = None, **settings: Any) -> dict[str, float]:
        config = default_config(method, spec, critic=critic)
        sizes = {"episodes_per_cycle": 500, "num_envs": 1, "eval_episodes": 7}
        return needed(with_settings(config, sizes | settings), spec)

    row, collected = 4 * 16 + 4 * 256 + 40, 2 * 500 * 8 * 50
    without = of("ppo", **{"agent.hindsight": False})
    assert without["episodes_per_cycle"] == collected + row * 500 * 8  # one goal each
    few = {"agent.goals": 20}
    own, pursued = 20, 500  # each applied to every episode
    states = of("ppo", **few)
    assert states["episodes_per_cycle"] == collected + row * (own + pursued) * 500 * 8
    by_actions = of(
        "ppo", "action", **few, **{"agent.rows": 300}
    )  # 8 that it achieved, and its own
    assert by_actions["episodes_per_cycle"] == collected + (2 * 32 + 20) * 9 * 500 * 8
    assert by_actions["agent.critic_batch_size"] == row * 512
    one, three = (of("a3c", **{"agent.workers": n}) for n in (1, 3))
    assert one["agent.workers"] == 0
    assert three["agent.workers"] == 2 * (sum(one.values()) - one["eval_episodes"])


def test_the_goals_of_every_stage_are_counted() -> None:
    """By hand, for point push: 50 steps of 6 numbers; with relay goals, 4 numbers of a goal, which
    are two and a stage's number of two."""
    point = "hindsight/PointPush-v0"
    spec = describe(point, factory(point))

    def of(**settings: Any) -> float:
        config = default_config("ppo", spec, critic=settings.pop("critic"))
        sizes = {"episodes_per_cycle": 40, "num_envs": 1, "eval_episodes": 7, "relay": True}
        wide = {"agent.net_arch": (64,), "agent.goals": 20}
        found = needed(with_settings(config, sizes | wide | settings), spec)
        return found["episodes_per_cycle"] - 2 * 40 * 50 * memory.transition_bytes(spec)

    steps, row = 40 * 50, 4 * (6 + 4) + 4 * 64 + 40
    assert of(critic="state") == row * (10 + 40 + 10 + 40) * steps  # and those that were pursued
    assert of(critic="state", **{"agent.hindsight": False}) == row * 2 * steps
    assert of(critic="action") == (2 * 4 * 4 + 20) * (3 + 1 + 20 + 1) * steps


@pytest.mark.parametrize("env", [BITS, "hindsight/FourRooms-v0", "hindsight/PointPush-v0"])
def test_presets_fit_a_small_machine(env: str, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = describe(env, factory(env))
    monkeypatch.setattr(memory, "free_memory", lambda: 2e9)
    methods = ("dqn", "hpg", "trpo") if spec.actions.discrete else ("ddpg", "tqc", "ppo")
    for method in methods:
        for preset in presets.OURS if method in presets.OFF_POLICY else ("default",):
            check_memory(default_config(method, spec, preset), spec, in_jax=spec.actions.discrete)


@pytest.mark.skipif(not Path("/proc/meminfo").exists(), reason="only Linux tells")
def test_what_others_hold_is_not_free() -> None:
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    assert 0 < memory.free_memory() < total
