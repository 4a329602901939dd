"""`hindsight reproduce`: every experiment runs, none twice, and interrupted ones go on."""

from __future__ import annotations

import io
import json
from itertools import combinations
from pathlib import Path

import pytest
from rich.console import Console

from hindsight import api, cli
from hindsight.commands.study import Reproduce
from hindsight.lab.jobs import Here, Runner
from hindsight.lab.reproduce import folder
from hindsight.lab.reproduce.budget import Request, seed_runs
from hindsight.lab.reproduce.configs import changed, config_of
from hindsight.lab.reproduce.experiment import Training
from hindsight.lab.reproduce.seed_run import run_here
from hindsight.options import parse
from hindsight.training.run import Run

# One configuration of each experiment, in sizes that share compiled code where they can.
ONE = {
    "table": "reach-single-4-512-paper",
    "push": "selected",
    "half_hour": "slide",
    "hand": "reach",
    "cheaper": "push-relay",
    "ablation": "met",
    "ablation_bits": "unprioritised",
    "ratio": "reach-long",
    "baselines": "push",
    "paper_reach": "base",
    "rooms": "none",
    "equations": "bit-flip-product",
    "choices": "push-sac-base",
    "priorities_elsewhere": "slide-rank",
    "fetch_learners": "reach-sac",
    "sac_priorities": "point-rank",
    "rank_speed": "replay",
    "policy_gradients": "bits-8",
    "learners": "bits-a2c-none",
    "robot_gradients": "reach-a2c",
    "bound": "trpo",
    "estimators": "four-rooms",
    "push_gradient": "grid",
    "point_push_gradients": "hpg-none",
    "point_push": "uniform",
    "other_envs": "umaze",
    "collectors": "push-2",
}

TINY = """
from hindsight.lab.reproduce.experiment import Experiment, Training

SETTINGS = {"steps": 64, "num_envs": 2, "episodes_per_cycle": 4, "gradient_steps": 2,
            "batch_size": 8, "eval_every": 2, "eval_episodes": 4, "agent.net_arch": (8,)}
EXPERIMENT = Experiment("Tiny", "nowhere", (
    Training("four", "hindsight/BitFlip-v0", settings=SETTINGS, env_kwargs={"bits": 4},
             seeds=(0, 1), label="4 bits"),
))
"""


def reproduce(arguments: list[str]) -> int:
    options, unknown = parse(Reproduce, arguments, "hindsight reproduce")
    assert not unknown
    code: int = options.run([])
    return code


def test_all_experiments_are_tried_here() -> None:
    assert set(ONE) == set(folder.find().experiments)


@pytest.mark.parametrize("name", ONE)
def test_every_experiment_runs(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    measured = folder.find().results / name / f"{ONE[name]}-seed0.json"
    before = measured.read_bytes() if measured.is_file() else None
    options = ["--only", ONE[name], "--steps", "1", "--seeds", "0", "--budget", "5", "--quiet"]
    assert reproduce([name, *options]) == 0
    assert (measured.read_bytes() if measured.is_file() else None) == before
    assert not list(tmp_path.rglob("row.json")), "a trial makes no row"
    if name not in ("rank_speed", "bound", "estimators", "push_gradient"):
        assert Run.open(
            tmp_path / "runs" / "reproduce" / name / "trial-1" / f"{ONE[name]}-seed0"
        ).metrics


def test_an_experiment_without_a_figure_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert reproduce(["estimators", "--draw"]) == 0
    assert "estimators has no figure" in capsys.readouterr().out


@pytest.fixture
def tiny(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "experiments" / "results").mkdir(parents=True)
    (tmp_path / "experiments" / "tiny.py").write_text(TINY)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def _entry() -> Training:
    (entry,) = folder.find().entries("tiny")
    assert isinstance(entry, Training)
    return entry


def _learnt(path: Path) -> list[dict[str, float]]:
    return [
        {k: v for k, v in row.items() if not k.startswith("time/")}
        for row in Run.open(path).metrics
    ]


def test_an_interrupted_experiment_goes_on_and_a_finished_one_is_not_repeated(
    tiny: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = tiny / "runs" / "reproduce" / "tiny"
    api.train(_entry().env, config=config_of(_entry(), 0), run_dir=tiny / "whole", quiet=True)
    half = [lambda progress: progress.step >= 32]
    api.train(
        _entry().env,
        config=config_of(_entry(), 0),
        run_dir=runs / "four-seed0",
        quiet=True,
        callbacks=half,
    )
    assert reproduce(["tiny", "--quiet", "--seeds", "0"]) == 0
    assert _learnt(runs / "four-seed0") == _learnt(tiny / "whole")
    row = json.loads((runs / "four-seed0" / "row.json").read_text())
    assert row["final"]["episodes"] == 100
    assert "stopped_at" not in row
    assert "| 4 bits |" in capsys.readouterr().out

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("trained again")

    monkeypatch.setattr(api, "train", refuse)
    monkeypatch.setattr(api, "resume", refuse)
    assert reproduce(["tiny", "--quiet", "--seeds", "0"]) == 0
    assert "1 run: 1 finished, none to run" in capsys.readouterr().out

    assert reproduce(["tiny", "--import-runs", str(runs / "four-seed0"), "--shared-machine"]) == 0
    row = json.loads((tiny / "experiments" / "results" / "tiny" / "four-seed0.json").read_text())
    assert row["shared_machine"] is True
    assert reproduce(["tiny", "--draw"]) == 0
    assert (tiny / "docs" / "figures" / "tiny.png").stat().st_size > 1000
    (tiny / "README.md").write_text("Here:\n<!-- table: tiny -->\nold\n<!-- /table -->\nand on.\n")
    assert reproduce(["--tables"]) == 0
    text = (tiny / "README.md").read_text()
    assert f"| 4 bits | {row['final']['success_rate']:.2f} (seed 0) |" in text
    assert text.endswith("<!-- /table -->\nand on.\n")
    assert "old" not in text


def test_ctrl_c_is_named_and_leaves_the_rest_for_next_time(
    tiny: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt("stopped at step 8; to resume: hindsight resume x")

    monkeypatch.setattr(api, "train", interrupted)
    with pytest.raises(
        KeyboardInterrupt, match="tiny four, seed 0; to continue: the same command again"
    ):
        reproduce(["tiny", "--quiet"])


def test_a_run_that_takes_longer_than_the_budget_stops_saved(tiny: Path) -> None:
    times = iter([0.0, 0.0, *range(0, 100_000, 100)])
    first, second = seed_runs(folder.find(), Request(["tiny"]))
    printed = io.StringIO()
    runner = Runner(
        [first, second], Here(run_here), 3.0, Console(file=printed), lambda: next(times)
    )
    runner.run()
    assert runner.left_out() == [first, second]
    assert "used up" in printed.getvalue().splitlines()[-1]
    steps = Run.open(first.run_dir).metrics[-1]["step"]
    assert 0 < steps < 64
    assert [job.state() for job in seed_runs(folder.find(), Request(["tiny"]))] == [
        "interrupted",
        "pending",
    ]


def test_jobs_side_by_side_are_processes_and_share_the_machine(
    tiny: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The first was interrupted and goes on; the third, with broken checkpoints, fails alone."""
    runs = tiny / "runs" / "reproduce" / "tiny"
    half = [lambda progress: progress.step >= 32]
    api.train(
        _entry().env,
        config=config_of(_entry(), 0),
        run_dir=runs / "four-seed0",
        quiet=True,
        callbacks=half,
    )
    api.train(
        _entry().env,
        config=config_of(_entry(), 2),
        run_dir=runs / "four-seed2",
        quiet=True,
        callbacks=half,
    )
    for file in (runs / "four-seed2" / "checkpoints").rglob("*.safetensors"):
        file.write_bytes(b"broken")
    assert reproduce(["tiny", "--seeds", "0", "1", "2", "--jobs", "2"]) == 1
    out = capsys.readouterr().out
    assert "tiny four, seed 2 FAILED: " in out
    assert "(log: runs/reproduce/tiny/logs/four-seed2.log)" in out
    for seed in (0, 1):
        assert f"tiny four, seed {seed}: success" in out
        assert (
            json.loads((runs / f"four-seed{seed}" / "row.json").read_text())["shared_machine"]
            is True
        )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nothing"], "no experiment 'nothing'"),
        ([], "which experiment"),
        (["tiny", "--only", "five"], "no 'five' in tiny: there are four"),
        (["tiny", "--budget", "0"], "--budget must be more than 0"),
        (["tiny", "--steps", "0"], "--steps must be 1 or more"),
        (["tiny", "--jobs", "0"], "--jobs must be 1 or more"),
        (["tiny", "--seeds", "-1"], "--seeds"),
        (["tiny", "--draw"], "nothing to draw"),
        (["tiny", "--import-runs", "nowhere"], "nowhere"),
    ],
)
def test_mistakes_are_one_line(
    tiny: Path, arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stop:
        cli.main(["reproduce", *arguments])
    error = capsys.readouterr().err.strip()
    assert stop.value.code == 2
    assert message in error
    assert len(error.splitlines()) == 1


def test_without_the_folder_it_says_where_to_find_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hindsight.__file__", str(tmp_path / "site" / "a" / "b" / "__init__.py"))
    with pytest.raises(ValueError, match="clone the Hindsight repository"):
        folder.find(tmp_path)


def test_learners_are_compared_with_equal_settings() -> None:
    """All that two of them have is equal, but how much of exploration is random."""
    entries = folder.find().experiments["fetch_learners"].entries
    trainings = [entry for entry in entries if isinstance(entry, Training)]
    assert len(trainings) == 16
    for one, other in combinations(trainings, 2):
        if one.env == other.env:
            differing = changed(config_of(one, 0), config_of(other, 0))
            both = {name for name, values in differing.items() if None not in values}
            assert both - {"agent.random_actions"} == {"agent.method"}
