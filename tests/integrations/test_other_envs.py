"""Other people's envs: found by their ids, inspected, and trained on with no settings at all."""

from __future__ import annotations

import importlib
import json
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import cloudpickle
import pytest

import hindsight
from hindsight.api import default_config, describe
from hindsight.config import OffPolicyConfig
from hindsight.doctor import _contract
from hindsight.envs.contract import GoalEnvSpec, inspect
from hindsight.envs.make import OTHERS, factory, make
from hindsight.errors import HindsightError
from hindsight.presets import Task, reaches

RESULTS = Path(__file__).parents[2] / "experiments" / "results" / "other_envs"
ENVS = ("parking-v0", "PointMaze_UMaze-v3", "PointMaze_Medium-v3", "PandaPush-v3", "PandaReach-v3")


def require(env: str) -> None:
    """Skip what needs the extra, where that is not installed."""
    module = next((m for start, m in OTHERS.items() if env.startswith(start)), "gymnasium_robotics")
    pytest.importorskip(module)


def spec_of(env: str) -> GoalEnvSpec:
    require(env)
    return inspect(make(env), env)


def test_what_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> Any:
        raise ImportError(name)

    monkeypatch.setattr(importlib, "import_module", missing)
    with pytest.raises(HindsightError, match=r"of panda_gym: pip install 'hindsight-rl\[envs\]'"):
        make("PandaNone-v3")


@pytest.mark.parametrize("closed", ["", ">&-", "2>&-"])
def test_making_one_prints_nothing(closed: str) -> None:
    """pybullet greets in C when it is imported, and at every connection; a closed stream is no
    reason to fail."""
    require("PandaReach-v3")
    program = (
        "import sys; from hindsight.envs.make import make; make('PandaReach-v3').reset(); "
        "print('made', file=sys.stderr); print('made', flush=True)"
    )
    if closed:
        program = program.replace("print('made'", "sys.stdout and sys.stderr and print('made'")
    command = ["sh", "-c", f'exec "$0" -c "$1" {closed}', sys.executable, program]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    said = "" if closed else "made\n"
    assert (result.returncode, result.stdout, result.stderr) == (0, said, said)


@pytest.mark.parametrize("env", ENVS)
def test_doctor_says_what_is_chosen_and_why(env: str) -> None:
    require(env)
    lines = _contract(env, {}, None)
    assert all(ok for ok, _ in lines)
    texts = [text for _, text in lines]
    assert any(text.startswith(f"hindsight train {env}: ") for text in texts)
    assert any(text.startswith("because: ") for text in texts)


def test_what_the_inspection_tells() -> None:
    parking = spec_of("parking-v0")
    assert (parking.horizon, parking.success_reward, parking.moves_by_itself) == (500, None, True)
    config = default_config(None, parking)
    assert (config.agent.method, config.agent.gamma) == ("sac", 0.95)


def test_what_must_be_touched_is_seen() -> None:
    for env, moves in (("PandaPush-v3", False), ("PandaReach-v3", True)):
        assert spec_of(env).moves_by_itself == moves
    for env, moves in (("FetchPush-v4", False), ("AntMaze_UMaze-v5", True)):
        assert inspect(make(env), env).moves_by_itself == moves


def test_the_policy_of_an_ant_sees_where_it_is() -> None:
    """Its observations do not tell, only the achieved goal does. Those of others tell."""
    ant = inspect(make("AntMaze_UMaze-v5"), "AntMaze_UMaze-v5").observation
    assert (ant.own_dim, ant.achieved_dim, ant.dim) == (105, 2, 107)
    for env in ("PointMaze_UMaze-v3", "FetchPush-v4", "HandManipulateBlock-v1"):
        assert inspect(make(env), env).observation.achieved_dim == 0


def test_mazes_get_as_many_updates_per_step_as_others() -> None:
    for env in ("PointMaze_UMaze-v3", "PointMaze_Medium-v3"):
        config = default_config(None, describe(env, factory(env)))
        assert isinstance(config, OffPolicyConfig)
        assert config.updates_per_step == 0.25
        assert config.episodes_per_cycle in (2, 3)


@pytest.mark.parametrize(
    ("slug", "env"),
    [
        ("umaze", "PointMaze_UMaze-v3"),
        ("medium", "PointMaze_Medium-v3"),
        ("panda-push", "PandaPush-v3"),
        ("panda-reach", "PandaReach-v3"),
        ("parking", "parking-v0"),
        ("ant", "AntMaze_UMaze-v5"),
    ],
)
def test_what_presets_say_they_reach_is_in_the_rows(slug: str, env: str) -> None:
    """And so does `hindsight envs`."""
    rows = [json.loads(path.read_text()) for path in RESULTS.glob(f"{slug}-seed*.json")]
    success = sorted({f"{row['final']['success_rate']:.2f}" for row in rows})
    found = "-".join((success[0], success[-1])[: len(success)])
    seeds = f"({len(rows)} seed{'s' if len(rows) > 1 else ''})"
    minutes = math.ceil(min(row["minutes"] for row in rows))  # beside other work
    text = f"success {found} in less than {minutes} minutes {seeds}"
    assert reaches(Task(env), "ddpg") == text


@pytest.mark.parametrize("env", ["parking-v0", "PandaPush-v3"])
def test_a_few_steps_of_training(env: str, tmp_path: Path) -> None:
    require(env)
    run = hindsight.train(
        env,
        run_dir=tmp_path / "run",
        steps=60,
        max_episode_steps=20,
        num_envs=2,
        episodes_per_cycle=2,
        batch_size=16,
        eval_episodes=2,
        simulator="inline",
        agent={"net_arch": (8,)},
        quiet=True,
    )
    assert run.summary["status"] == "finished"


def test_worker_processes_register_without_a_warning(tmp_path: Path) -> None:
    require("parking-v0")
    make("parking-v0")  # so that its spec is sent along
    code = "import cloudpickle, sys; cloudpickle.load(sys.stdin.buffer)().reset(seed=0)"
    told = subprocess.run(
        [sys.executable, "-W", "error::UserWarning", "-c", code],
        input=cloudpickle.dumps(factory("parking-v0")),
        capture_output=True,
        check=False,
    )
    assert (told.returncode, told.stderr) == (0, b"")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("env", "least"),
    [
        ("parking-v0", 0.9),
        ("PointMaze_UMaze-v3", 0.9),
        ("PointMaze_Medium-v3", 0.8),
        ("PandaPush-v3", 0.9),
    ],
)
def test_a_newcomers_first_training_learns(env: str, least: float, tmp_path: Path) -> None:
    require(env)
    run = hindsight.train(env, seed=10, run_dir=tmp_path / "run", quiet=True)
    assert hindsight.evaluate(run.path, episodes=100).success_rate >= least
