"""Training from Python: runs, callbacks, loggers, env objects; and the same seed gives the same
bytes."""

from __future__ import annotations

import inspect
import subprocess
import sys
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.envs.registration import EnvSpec
from threadpoolctl import threadpool_info, threadpool_limits

import hindsight
from conftest import LineEnv, SingleGoalEnv, written
from hindsight import api
from hindsight.config import TrainConfig, config_of
from hindsight.envs.contract import GoalEnvSpec
from hindsight.errors import HindsightError
from hindsight.training.policy import Policy
from hindsight.training.progress import Progress
from hindsight.training.run import Run

QUICK: dict[str, Any] = {
    "quiet": True,
    "gradient_steps": 4,
    "batch_size": 32,
    "eval_episodes": 4,
    "eval_every": 2,
}


def test_run_directory_holds_what_it_promises(tmp_path: Path) -> None:
    run = hindsight.train(
        "hindsight/BitFlip-v0", seed=3, steps=600, run_dir=tmp_path / "run", **QUICK
    )
    for name in (
        "config.json",
        "metrics.jsonl",
        "summary.json",
        "policy.json",
        "policy.safetensors",
    ):
        assert (run.path / name).stat().st_size > 0
    assert list((run.path / "tensorboard").iterdir())
    assert not list(run.path.glob("*.part"))
    rows = run.metrics
    assert rows[-1]["step"] >= 600
    assert "eval/success_rate" in rows[-1]
    assert Run.open(run.path).config == run.config
    summary = run.summary
    assert (summary["status"], summary["seed"], summary["steps"]) == (
        "finished",
        3,
        rows[-1]["step"],
    )
    assert summary["versions"]["hindsight-rl"] == hindsight.__version__


def test_evaluations_round_as_training_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With two BLAS threads sums are others, and success was, too."""
    run = hindsight.train("test/Line-v0", steps=200, run_dir=tmp_path / "run", **QUICK)
    seen: set[int] = set()
    act = Policy.act

    def threads() -> set[int]:
        return {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"}

    def watched(policy: Policy, observation: Any, goal: Any) -> Any:
        seen.update(threads())
        return act(policy, observation, goal)

    monkeypatch.setattr(Policy, "act", watched)
    with threadpool_limits(2, user_api="blas"):
        hindsight.evaluate(run.path, episodes=2)
        assert (seen, threads()) == ({1}, {2})


def test_callbacks_stop_and_loggers_see_every_cycle(tmp_path: Path) -> None:
    seen: list[int] = []
    logged: list[tuple[dict[str, float], int]] = []

    def stop_at_third(progress: Progress) -> bool:
        seen.append(progress.cycle)
        assert progress.policy({"observation": np.zeros(8), "desired_goal": np.zeros(8)}) in range(
            8
        )
        return progress.cycle == 3

    run = hindsight.train(
        "hindsight/BitFlip-v0",
        run_dir=tmp_path / "run",
        callbacks=[stop_at_third, lambda progress: None],
        logger=lambda metrics, step: logged.append((metrics, step)),
        **QUICK,
    )
    assert seen == [1, 2, 3]
    assert [step for _, step in logged] == [row["step"] for row in run.metrics]
    assert run.summary["status"] == "stopped"
    hindsight.load(run.path)


@pytest.mark.parametrize("discrete", [False, True])
def test_an_env_object_and_a_function_that_makes_one(tmp_path: Path, discrete: bool) -> None:
    settings = QUICK | {"steps": 100, "episodes_per_cycle": 4}
    as_object = hindsight.train(LineEnv(discrete), run_dir=tmp_path / "object", **settings)
    as_function = hindsight.train(
        lambda: LineEnv(discrete), run_dir=tmp_path / "function", num_envs=1, **settings
    )
    assert as_object.config.num_envs == 1
    first, second = ((r.path / "policy.safetensors").read_bytes() for r in (as_object, as_function))
    assert first == second


def test_an_env_object_cannot_be_several(tmp_path: Path) -> None:
    with pytest.raises(HindsightError, match="function that makes the env"):
        hindsight.train(LineEnv(), num_envs=4, run_dir=tmp_path / "run")


def test_single_goal_rewards_train_with_a_warning(tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match="slow"):
        hindsight.train(
            SingleGoalEnv, steps=50, run_dir=tmp_path / "run", episodes_per_cycle=4, **QUICK
        )


def test_learner_must_fit_the_actions(tmp_path: Path) -> None:
    from hindsight.agents.ddpg import DDPGConfig
    from hindsight.config import OffPolicyConfig

    config = OffPolicyConfig("hindsight/BitFlip-v0", agent=DDPGConfig())
    with pytest.raises(HindsightError, match="use dqn"):
        hindsight.train("hindsight/BitFlip-v0", config=config, run_dir=tmp_path / "run", quiet=True)


def test_interrupt_leaves_a_usable_run(tmp_path: Path) -> None:
    def interrupt(progress: Progress) -> None:
        if progress.cycle == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        hindsight.train(
            "hindsight/BitFlip-v0", run_dir=tmp_path / "run", callbacks=[interrupt], **QUICK
        )
    assert Run.open(tmp_path / "run").summary["status"] == "interrupted"
    assert len(Run.open(tmp_path / "run").metrics) == 3
    hindsight.load(tmp_path / "run")


def test_a_cut_last_line_of_metrics_is_left_out(tmp_path: Path) -> None:
    run = hindsight.train("hindsight/BitFlip-v0", steps=300, run_dir=tmp_path / "run", **QUICK)
    rows = run.metrics
    with open(run.path / "metrics.jsonl", "a") as file:
        file.write('{"step": 12')
    assert run.metrics == rows


def test_divergence_is_named(tmp_path: Path) -> None:
    with pytest.raises(HindsightError, match="diverged"):
        hindsight.train(
            LineEnv,
            run_dir=tmp_path / "run",
            steps=5000,
            agent={"critic_learning_rate": 1e30},
            **QUICK,
        )


SCRIPT = """
import sys, hindsight
env, path, simulator = sys.argv[1:]
hindsight.train(env, run_dir=path, seed=5, steps=800, num_envs=4, episodes_per_cycle=4, gradient_steps=5,
                batch_size=64, eval_every=2, eval_episodes=3, final_episodes=3, quiet=True, simulator=simulator,
                overlap=True)
"""


@pytest.mark.parametrize(
    "env",
    [
        "hindsight/BitFlip-v0",
        "hindsight/FourRooms-v0",
        "FetchPush-v4",
        "HandManipulateBlockRotateZ-v1",
    ],
)
def test_same_seed_same_bytes_in_two_processes(env: str, tmp_path: Path) -> None:
    for i, simulator in enumerate(("auto", "processes")):
        command = [sys.executable, "-c", SCRIPT, env, str(tmp_path / str(i)), simulator]
        subprocess.run(command, check=True, capture_output=True)
    assert written(tmp_path / "0") == written(tmp_path / "1")


def test_a_time_limit_of_the_preset_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """From Python, AntMaze had 700 steps per episode, and 200 in its config."""
    seen: list[int | None] = []

    class Ant(LineEnv):
        max_episode_steps = 700

    def instead(config: TrainConfig, spec: GoalEnvSpec, *_: Any, **__: Any) -> None:
        seen.extend((config.max_episode_steps, spec.horizon))

    monkeypatch.setattr(api, "train_config", instead)
    ant = EnvSpec("AntMaze_Line-v0", entry_point=Ant, max_episode_steps=700)
    monkeypatch.setitem(gym.registry, ant.id, ant)
    hindsight.train("AntMaze_Line-v0")
    assert seen == [200, 200]


def test_a_preset_beside_a_config_is_refused() -> None:
    config = config_of("dqn", "hindsight/BitFlip-v0")
    with pytest.raises(HindsightError, match="'her' changes nothing, because the config has all"):
        hindsight.train("hindsight/BitFlip-v0", config=config, preset="her")


def test_the_config_says_what_was_trained(tmp_path: Path) -> None:
    from hindsight.agents.dqn import DQNConfig
    from hindsight.config import OffPolicyConfig

    config = OffPolicyConfig("Other-v0", agent=DQNConfig(), steps=50)
    run = hindsight.train(
        "hindsight/BitFlip-v0",
        config=config,
        env_kwargs={"bits": 3},
        run_dir=tmp_path / "run",
        **QUICK,
    )
    assert (run.config.env, run.config.env_kwargs) == ("hindsight/BitFlip-v0", {"bits": 3})
    assert run.policy.observation.dim == 3


def test_a_refused_training_leaves_no_directory(tmp_path: Path) -> None:
    from hindsight.agents.ddpg import DDPGConfig
    from hindsight.config import OffPolicyConfig

    config = OffPolicyConfig("x", agent=DDPGConfig())
    for settings in ({"config": config}, {"replay": {"buffer_size": 3}}):
        with pytest.raises(HindsightError):
            hindsight.train(
                "hindsight/BitFlip-v0", run_dir=tmp_path / "run", quiet=True, **settings
            )
        assert not (tmp_path / "run").exists()


def test_an_error_while_collecting_ahead_is_the_one_that_is_shown(tmp_path: Path) -> None:
    from conftest import NaNEnv

    settings = {
        "run_dir": tmp_path / "run",
        "overlap": True,
        "simulator": "processes",
        "num_envs": 2,
    }
    with pytest.raises(HindsightError, match="NaN"):
        hindsight.train(NaNEnv, **(QUICK | settings | {"eval_every": 1}))


def test_the_env_object_stays_open(tmp_path: Path) -> None:
    class Closing(LineEnv):
        closed = False

        def close(self) -> None:
            self.closed = True

    env = Closing()
    hindsight.train(env, steps=30, run_dir=tmp_path / "run", episodes_per_cycle=2, **QUICK)
    assert not env.closed


def test_evaluation_is_as_patient_with_envs_as_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It used to wait and try as by default, whatever the config said."""
    from hindsight import api

    given: dict[str, Any] = {"num_envs": 2, "workers": 3, "env_timeout": 7.5, "env_failures": 4}
    given |= {"simulator": "inline"}
    run = hindsight.train(
        "hindsight/BitFlip-v0", steps=30, run_dir=tmp_path / "run", **QUICK, **given
    )
    seen: list[dict[str, Any]] = []

    def make_batch(*arguments: Any, inner: Any = api.make_batch, **named: Any) -> Any:
        seen.append(inspect.signature(inner).bind(*arguments, **named).arguments)
        return inner(*arguments, **named)

    monkeypatch.setattr(api, "make_batch", make_batch)
    assert hindsight.evaluate(run.path, episodes=4).episodes == 4
    assert len(seen) == 1
    names = {"env_timeout": "timeout", "env_failures": "max_failures"}
    assert {name: seen[0][names.get(name, name)] for name in given} == given
