"""Tuning: where it looks, what it tries, what it gives up, and going on where it was stopped."""

from __future__ import annotations

import csv
import io
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from hindsight import api
from hindsight.agents.registry import AGENTS
from hindsight.cli import main
from hindsight.config import TrainConfig, config_of
from hindsight.errors import HindsightError
from hindsight.lab.jobs import Here
from hindsight.lab.space import default_space, distributions, read_space, settings_of
from hindsight.lab.statistics import area
from hindsight.lab.tune import TrialRun, TuneConfig, Tuner, show
from hindsight.settings import Search, with_settings
from hindsight.training.run import Run, read_config

BITS = "hindsight/BitFlip-v0"
QUICK = {
    "env_kwargs": {"bits": 3},
    "steps": 150,
    "num_envs": 4,
    "episodes_per_cycle": 4,
    "gradient_steps": 2,
    "batch_size": 16,
    "eval_every": 1,
    "eval_episodes": 8,
    "agent.net_arch": (8,),
}
SPACE = {"agent.learning_rate": Search(1e-4, 1e-1, log=True), "replay.replay_k": Search(1.0, 8.0)}


def base() -> TrainConfig:
    return with_settings(config_of("dqn", BITS), QUICK)


def train(job: TrialRun, left: Callable[[], float]) -> None:
    """A real training, in this process."""
    if job.state() == "interrupted":
        api.resume(job.run_dir, quiet=True)
    else:
        api.train(job.config.env, config=job.config, run_dir=job.run_dir, quiet=True)


def tuned(directory: Path, trials: int = 7, run: Any = train, **more: Any) -> tuple[Tuner, str]:
    config = TuneConfig(base(), SPACE, (10, 11), trials, **more)
    printed = io.StringIO()
    tuner = Tuner(config, directory)
    tuner.run(Here(run), None, Console(file=printed, width=200))
    return tuner, printed.getvalue()


def outcome(tuner: Tuner) -> list[Any]:
    return [(t.params, t.state.name, t.intermediate_values, t.values) for t in tuner.study.trials]


# -------------------------------------------------------------------------------------- the space


@pytest.mark.parametrize("method", AGENTS)
def test_every_method_has_a_space_of_its_own_whose_ends_are_allowed(method: str) -> None:
    config = config_of(method, BITS)
    space = default_space(config)
    assert len(space) >= 2
    assert "priority.alpha" not in space  # nothing would read it
    for end in ("low", "high"):
        values = {n: s.choices[0] if s.choices else getattr(s, end) for n, s in space.items()}
        with_settings(config, values)
    assert set(distributions(space, config)) == set(space)


def test_what_is_read_depends_on_the_settings() -> None:
    hper = {"priority.sampling": "rank", "replay.goals_chosen": "stored"}
    assert "priority.alpha" in default_space(with_settings(config_of("ddpg", BITS), hper))
    assert "agent.critic_learning_rate" not in default_space(config_of("hpg", BITS))
    baseline = with_settings(config_of("hpg", BITS), {"agent.baseline": "value"})
    assert "agent.critic_learning_rate" in default_space(baseline)


def test_a_space_in_a_file(tmp_path: Path) -> None:
    path = tmp_path / "space.json"
    content = {
        "agent.learning_rate": {"low": 1e-4, "high": 0.01, "log": True},
        "gradient_steps": {"low": 10, "high": 80},
        "agent.net_arch": [[64, 64], [256]],
        "replay.replay_k": [4, "linear(8, 1)"],
        "agent.double": [True, False],
    }
    path.write_text(json.dumps(content))
    space = read_space(path, config_of("dqn", BITS))
    found = distributions(space, config_of("dqn", BITS))
    assert type(found["gradient_steps"]).__name__ == "IntDistribution"
    settings = settings_of({name: d.choices[-1] for name, d in list(found.items())[2:]})  # type: ignore[attr-defined]
    changed = with_settings(config_of("dqn", BITS), settings)
    assert changed.agent.net_arch == (256,)
    assert str(changed.replay.replay_k) == "linear(8.0, 1.0)"  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"agent.gama": [0.9, 0.95]}, "Did you mean 'agent.gamma'"),
        ({"agent.gamma": {"low": 0.9, "high": 1.5}}, "agent.gamma must be"),
        ({"agent.gamma": {"low": 0.9, "high": 0.8}}, "low must be below high"),
        ({"agent.tau": {"low": 0, "high": 0.8, "log": True}}, "above 0"),
        ({"agent.gamma": 0.9}, "write [V1, V2]"),
        ({"agent.gamma": [0.9]}, "write [V1, V2]"),
        ({"gradient_steps": {"low": 1.5, "high": 3}}, "gradient_steps must be a int"),
        ({"priority.alpha": {"low": 0.1, "high": 0.9}}, "changes nothing"),
        ({"seed": [1, 2]}, "--seeds"),
        ({}, "names no setting"),
    ],
)
def test_mistakes_in_a_space_are_one_line_before_anything_starts(
    content: Any, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "space.json"
    path.write_text(json.dumps(content))
    with pytest.raises(SystemExit) as stop:
        main(["tune", BITS, "--space", str(path), "--dir", str(tmp_path / "tune")])
    err = capsys.readouterr().err
    assert stop.value.code == 2
    assert err.count("\n") == 1
    assert message in err
    assert not (tmp_path / "tune").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--trials", "0"], "--trials must be 1 or more"),
        (["--seeds", "1", "1"], "different numbers"),
        (["--seed", "1"], "use --seeds"),
        (["--budget", "0"], "--budget must be more than 0"),
        (["--space", "nowhere.json"], "nowhere.json does not exist"),
        (["--ray", "a:1", "b:2"], "--ray takes one address"),
        (["--cores", "0"], "--cores must be more than 0"),
        (["--agent.gama", "0.9"], "Did you mean --agent.gamma"),
    ],
)
def test_mistakes_are_one_line(
    arguments: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stop:
        main(["tune", BITS, "--dir", str(tmp_path / "tune"), *arguments])
    err = capsys.readouterr().err
    assert stop.value.code == 2
    assert err.count("\n") == 1
    assert message in err


def test_without_optuna_it_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(SystemExit):
        main(["tune", BITS])
    err = capsys.readouterr().err
    assert err == "hindsight: optuna is not installed: pip install 'hindsight-rl[tune]'\n"


# ------------------------------------------------------------------------------------- the search


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Tuner, str]:
    return tuned(tmp_path_factory.mktemp("tune") / "whole")


def test_a_search_ends_with_the_best_settings_and_what_mattered(whole: tuple[Tuner, str]) -> None:
    tuner, printed = whole
    done = tuner.complete()
    assert len(tuner.study.trials) == 7
    assert len(done) >= 5
    assert printed.startswith("preset begins\npreset: ")
    assert tuner.baseline is not None

    # the value is the mean over seeds of the area under the curve
    first = tuner.study.trials[0]
    curves = [
        [
            (row["step"], row["eval/success_rate"])
            for row in Run.open(path).metrics
            if "eval/success_rate" in row
        ]
        for path in sorted((tuner.directory / "runs").glob("trial-0000-seed*"))
    ]
    areas = [area(*zip(*curve, strict=True)) for curve in curves]
    assert first.value == pytest.approx(sum(areas) / 2)
    assert first.user_attrs["by_seed"] == pytest.approx(areas)

    written = tuner.write()
    assert [path.name for path in written] == ["best.json", "trials.csv", "importance.png"]
    best = read_config(tuner.directory / "best.json")
    assert best == tuner.best()
    assert tuner.importance().keys() == SPACE.keys()
    assert sum(tuner.importance().values()) == pytest.approx(1.0)
    rows = list(csv.DictReader((tuner.directory / "trials.csv").read_text().splitlines()))
    assert [row["trial"] for row in rows] == [str(i) for i in range(7)]
    assert float(rows[0]["value"]) == pytest.approx(first.value)

    shown = io.StringIO()
    show(tuner, written, Console(file=shown, width=200))
    assert "what mattered: " in shown.getvalue()
    assert f"hindsight sweep {BITS} --config {tuner.directory / 'best.json'}" in shown.getvalue()


def test_stopped_and_continued_is_the_same_search(whole: tuple[Tuner, str], tmp_path: Path) -> None:
    """It is stopped in its second trial, between its evaluations, and once more later."""
    left = [4, 5, 100]

    def stopped(job: TrialRun, minutes: Callable[[], float]) -> None:
        left[0] -= 1
        if left[0] > 0:
            return train(job, minutes)
        api.train(
            job.config.env,
            config=job.config,
            run_dir=job.run_dir,
            quiet=True,
            callbacks=[lambda progress: progress.cycle == 2],
        )
        raise KeyboardInterrupt

    for _ in range(2):
        with pytest.raises(KeyboardInterrupt, match="the same command again"):
            tuned(tmp_path / "cut", run=stopped)
        del left[0]
    tuner, _ = tuned(tmp_path / "cut", run=stopped)
    found = outcome(tuner)
    assert found == outcome(whole[0])
    assert tuner.baseline == whole[0].baseline

    with pytest.raises(HindsightError, match="choose another --dir"):
        Tuner(TuneConfig(base(), SPACE, (10, 12)), tmp_path / "cut")
    more, _ = tuned(tmp_path / "cut", trials=8, run=stopped)
    assert outcome(more)[:7] == found
    assert len(more.study.trials) == 8


def test_what_falls_behind_is_given_up(whole: tuple[Tuner, str]) -> None:
    """Its best is below the median of the others at the same look, and it costs no more seeds."""
    tuner, printed = whole
    pruned = [t for t in tuner.study.trials if t.state.name == "PRUNED"]
    assert pruned
    for trial in pruned:
        assert f"trial {trial.number} is given up, behind others in seed 10" in printed
        assert trial.number >= 5
        look = max(trial.intermediate_values)
        assert 5 <= look < 20
        others = [t.intermediate_values[look] for t in tuner.complete() if t.number < trial.number]
        assert max(trial.intermediate_values.values()) < np.median(others)
        runs = sorted(path.name for path in (tuner.directory / "runs").iterdir())
        assert f"trial-{trial.number:04d}-seed10" in runs
        assert f"trial-{trial.number:04d}-seed11" not in runs


def test_a_trial_that_fails_is_told_and_the_others_go_on(tmp_path: Path) -> None:
    def failing(job: TrialRun, minutes: Callable[[], float]) -> None:
        if job.name == "trial-0000-seed11":
            raise HindsightError("the disk is full")
        train(job, minutes)

    tuner, printed = tuned(tmp_path / "tune", 2, failing, baseline=False)
    assert [t.state.name for t in tuner.study.trials] == ["FAIL", "COMPLETE"]
    assert "trial-0000-seed11 FAILED: the disk is full" in printed
    assert tuner.write() == [tmp_path / "tune" / "best.json", tmp_path / "tune" / "trials.csv"]


def test_the_command_with_trainings_in_processes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    space = tmp_path / "space.json"
    space.write_text('{"agent.tau": {"low": 0.01, "high": 0.1, "log": true}}')
    quick = "--env.bits 3 --steps 100 --gradient-steps 1 --batch-size 16 --eval-episodes 4"
    command = ["tune", BITS, *quick.split(), "--space", str(space), "--dir", str(tmp_path / "tune")]
    command += ["--trials", "1", "--seeds", "10", "--no-baseline"]
    with pytest.raises(SystemExit) as stop:
        main(command)
    out = capsys.readouterr().out
    assert stop.value.code == 0
    assert "trial 0 begins: agent.tau 0.0" in out
    assert "1 trials: 1 finished" in out
    best = read_config(tmp_path / "tune" / "best.json")
    assert 0.01 <= best.agent.tau <= 0.1  # type: ignore[attr-defined]
    assert (best.steps, best.seed, best.env_kwargs) == (100, 0, {"bits": 3})
