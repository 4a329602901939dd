"""Policy-gradient trainings: run directories, the command line, loops that agree, and the same
seed, same bytes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hindsight
from conftest import LineEnv, written
from hindsight.agents.ppo import PPOConfig
from hindsight.cli import main
from hindsight.config import OnPolicyConfig
from hindsight.errors import HindsightError
from hindsight.training.run import Run

SMALL: dict[str, Any] = {"goals": 8, "rows": 64, "net_arch": [16]}
QUICK: dict[str, Any] = {
    "quiet": True,
    "eval_episodes": 8,
    "eval_every": 2,
    "episodes_per_cycle": 4,
    "agent": SMALL,
}


def test_runs_in_jax_can_be_opened_evaluated_and_repeated(tmp_path: Path) -> None:
    method = "hpg"
    settings = QUICK | {"env_kwargs": {"bits": 4}, "steps": 100}
    run = hindsight.train(
        "hindsight/BitFlip-v0", method=method, seed=3, run_dir=tmp_path / "run", **settings
    )
    assert run.summary["status"] == "finished"
    assert run.summary["method"] == method
    assert Run.open(run.path).config == run.config
    assert run.metrics[-1]["step"] >= 100
    for name in (
        "learn/effective_sample_size",
        "learn/largest_ratio",
        "learn/goals_with_signal",
        "eval/score",
    ):
        assert name in run.metrics[-1]
    action = hindsight.load(run.path)({"observation": np.zeros(4), "desired_goal": np.ones(4)})
    assert action in range(4)
    assert hindsight.evaluate(run.path, episodes=5).episodes == 5
    assert isinstance(run.config, OnPolicyConfig)
    again = hindsight.train(
        "hindsight/BitFlip-v0", config=run.config, env_kwargs={"bits": 4}, run_dir=tmp_path / "b"
    )
    assert written(run.path) == written(again.path)


def test_an_env_object_with_discrete_actions(tmp_path: Path) -> None:
    settings = QUICK | {"steps": 200, "num_envs": 1}
    run = hindsight.train(
        LineEnv(discrete=True), method="ppo", run_dir=tmp_path / "run", **settings
    )
    assert run.summary["status"] == "finished"
    assert hindsight.load(run.path)(
        {"observation": np.zeros(1), "desired_goal": np.ones(1)}
    ) in range(3)


def test_what_does_not_fit_is_refused(tmp_path: Path) -> None:
    for settings, message in (
        ({"method": "sarsa"}, "choose from"),
        ({"method": "ppo", "replay": {"replay_k": 3}}, "unknown setting 'replay"),
        ({"method": "a2c", "config": OnPolicyConfig("x", agent=PPOConfig())}, "does not fit"),
        ({"method": "a3c", "simulator": "jax"}, "threads of their own"),
        ({"method": "ppo", "simulator": "jax", "agent": {"skip_achieved": True}}, "outside of JAX"),
        ({"method": "ppo", "simulator": "jax", "agent": {"spread": True}}, "outside of JAX"),
    ):
        with pytest.raises(HindsightError, match=message):
            hindsight.train(
                "hindsight/BitFlip-v0", run_dir=tmp_path / "run", quiet=True, **settings
            )
    with pytest.raises(HindsightError, match="not written in JAX"):
        hindsight.train(
            LineEnv, method="hpg", simulator="jax", run_dir=tmp_path / "run", quiet=True
        )


def test_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(tmp_path / "run")
    options = "--method hpg --env.bits 4 --steps 200 --agent.goals 8 --agent.net-arch 16 --eval-episodes 8 --quiet"
    assert exit_code(["train", "hindsight/BitFlip-v0", *options.split(), "--run-dir", path]) == 0
    assert Run.open(path).config.agent.method == "hpg"
    assert exit_code(["eval", path, "--episodes", "5", "--json"]) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["episodes"] == 5
    assert exit_code(["train", "hindsight/BitFlip-v0", "--method", "sarsa"]) == 2
    assert exit_code(["train", "hindsight/BitFlip-v0", "--method"]) == 2
    assert exit_code(["train", "--method", "trpo", "--help-all"]) == 0
    assert "--agent.max-kl" in capsys.readouterr().out


def exit_code(arguments: list[str]) -> int:
    with pytest.raises(SystemExit) as stop:
        main(arguments)
    return int(stop.value.code or 0)


SCRIPT = """
import sys, hindsight
sys.path.insert(0, sys.argv[2])
from conftest import LineEnv
small = {"goals": 8, "rows": 64, "net_arch": [16]}
quick = dict(quiet=True, seed=5, num_envs=4, episodes_per_cycle=4, eval_every=2, eval_episodes=4)
bits = "hindsight/BitFlip-v0"
for env, method in ((bits, "hpg"), (LineEnv, "a2c"), (LineEnv, "ppo"), (bits, "trpo")):
    hindsight.train(env, method=method, run_dir=f"{sys.argv[1]}/{method}", steps=150, agent=small, **quick)
for name, env in (("line", LineEnv), ("bits", bits)):
    hindsight.train(env, method="replayed-ac", run_dir=f"{sys.argv[1]}/replayed-{name}", steps=150,
                    gradient_steps=8, batch_size=64, **quick,
                    agent={"rows": 64, "net_arch": [16], "gamma": 0.9, "random_actions": 0.3})
hindsight.train(LineEnv, method="a3c", run_dir=f"{sys.argv[1]}/a3c", steps=300,
                agent=small | {"deterministic": True, "workers": 3}, **quick)
"""


def test_same_seed_same_bytes_in_two_processes(tmp_path: Path) -> None:
    for i in range(2):
        command = [
            sys.executable,
            "-c",
            SCRIPT,
            str(tmp_path / str(i)),
            str(Path(__file__).parents[1]),
        ]
        subprocess.run(command, check=True, capture_output=True)
    names = sorted(path.name for path in (tmp_path / "0").iterdir())
    assert len(names) == 7
    for name in names:
        assert written(tmp_path / "0" / name) == written(tmp_path / "1" / name), name


def test_a3c_workers_share_their_steps_and_errors(tmp_path: Path) -> None:
    run = hindsight.train(
        LineEnv, method="a3c", run_dir=tmp_path / "run", steps=400, num_envs=4, **QUICK
    )
    assert run.summary["status"] == "finished"
    assert run.metrics[-1]["step"] >= 400

    class Failing(LineEnv):
        def step(self, action: Any) -> Any:
            if self.steps > 6:
                raise RuntimeError("broken motor")
            return super().step(action)

    with pytest.raises(HindsightError, match="RuntimeError: broken motor"):
        hindsight.train(
            Failing, method="a3c", run_dir=tmp_path / "b", num_envs=2, simulator="inline", **QUICK
        )


@pytest.mark.slow
def test_a_robot_arm_is_moved_by_hpg(tmp_path: Path) -> None:
    """The paper's own method, on-policy, with the preset of FetchReach."""
    run = hindsight.train("FetchReach-v4", method="hpg", run_dir=tmp_path / "run", quiet=True)
    assert hindsight.evaluate(run.path, episodes=100).success_rate >= 0.9


@pytest.mark.slow
@pytest.mark.parametrize("bits", [8, 16])
def test_bit_flip_is_solved_by_hpg(bits: int, tmp_path: Path) -> None:
    settings: dict[str, Any] = {"method": "hpg", "env_kwargs": {"bits": bits}, "quiet": True}
    run = hindsight.train("hindsight/BitFlip-v0", run_dir=tmp_path / "with", **settings)
    assert hindsight.evaluate(run.path, episodes=500).success_rate >= 0.98
    if bits == 16:
        without = hindsight.train(
            "hindsight/BitFlip-v0",
            run_dir=tmp_path / "without",
            agent={"hindsight": False},
            **settings,
        )
        assert hindsight.evaluate(without.path, episodes=500).success_rate < 0.05
