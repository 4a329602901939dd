"""Order, budget and costs of experiments."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from hindsight.commands.train import Train, read
from hindsight.errors import HindsightError
from hindsight.lab.jobs import Here, Runner
from hindsight.lab.reproduce import folder
from hindsight.lab.reproduce.budget import Request, choose, cost, estimated_minutes, seed_runs
from hindsight.lab.reproduce.configs import (
    EVALUATION,
    changed,
    command,
    config_of,
    differences,
    is_installed,
)
from hindsight.lab.reproduce.experiment import Training
from hindsight.lab.reproduce.seed_run import SeedRun
from hindsight.options import parse

MIXED = """
from hindsight.lab.reproduce.experiment import Experiment, Training, Use

BITS = "hindsight/BitFlip-v0"
EXPERIMENT = Experiment("Mixed", "nowhere", (
    Training("side", BITS, env_kwargs={"bits": 3}, main=False, seeds=(0, 1)),
    Training("main", BITS, env_kwargs={"bits": 2}, seeds=(0, 1)),
    Use("mixed", "main", label="again"),
))
"""


@pytest.fixture
def mixed(tmp_path: Path) -> folder.Folder:
    (tmp_path / "experiments" / "results").mkdir(parents=True)
    (tmp_path / "experiments" / "mixed.py").write_text(MIXED)
    return folder.find(tmp_path)


def _job(name: str, minutes: float) -> SeedRun:
    return SeedRun(
        Training(name, "hindsight/BitFlip-v0", home="x"), 0, Path(name), 1, minutes=minutes
    )


def test_first_seeds_come_first_and_main_rows_before_others(
    mixed: folder.Folder, tmp_path: Path
) -> None:
    order = [
        (job.entry.slug, job.seed)
        for job in seed_runs(mixed, Request(["mixed"], runs_dir=tmp_path))
    ]
    assert order == [("main", 0), ("side", 0), ("main", 1), ("side", 1)]


def test_budget_takes_in_order_what_fits() -> None:
    pending = [_job("a", 5), _job("b", 10), _job("c", 3), _job("d", 4), _job("e", 2)]
    # 10 minutes: a leaves 5, b does not fit, c leaves 2, d does not fit, e leaves 0.
    taken, left = choose(pending, 10)
    assert [str(job.run_dir) for job in taken] == ["a", "c", "e"]
    assert [str(job.run_dir) for job in left] == ["b", "d"]
    assert choose(pending, None) == (pending, [])


def test_what_runs_really_took_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    ran = []

    def take(job: SeedRun, left: object) -> None:
        ran.append(str(job.run_dir))
        now[0] += 60 * {"a": 8, "b": 1, "c": 1}[str(job.run_dir)]

    monkeypatch.setattr(SeedRun, "done_line", lambda job: "done")
    pending = [_job("a", 5), _job("b", 3), _job("c", 2)]
    # Both others were to fit into the 5 minutes left of 10; a took 8, and 2 minutes are enough for
    # c only.
    runner = Runner(pending, Here(take), 10, clock=lambda: now[0])
    runner.run()
    assert ran == ["a", "c"]
    assert [str(job.run_dir) for job in runner.left_out()] == ["b"]


def test_costs_are_measured_or_estimated() -> None:
    here = folder.find()
    push = {entry.slug: entry for entry in here.entries("push")}
    minutes, measured = cost(here, push["selected"], 0)
    assert measured
    assert 6 < minutes < 8
    # 1.3M steps: 81,000 updates of 512 at 28 us each are 19 minutes; simulation overlaps;
    # evaluations come on top.
    slide = Training("slide-her", "FetchSlide-v4", preset="her", method="ddpg")
    assert 19 < estimated_minutes(config_of(slide, 0), slide) < 22


def test_commands_repeat_the_settings() -> None:
    here = folder.find()
    table = {entry.slug: entry for entry in here.entries("table")}
    assert command(table["reach-two-8-512-ours"], 1) == (
        "hindsight train FetchReach-v4 --preset hper --priority.queues two_queues "
        "--replay.replay-k 8 --gradient-steps 40 --batch-size 512 --steps 12000 --seed 1"
    )
    on_ray = {entry.slug: entry for entry in here.entries("collectors")}
    assert command(on_ray["push-2"], 0) == (
        "hindsight train FetchPush-v4 --preset hper --agent.precision float32 --ray --collectors 2 "
        "--asynchronous --seed 0"
    )


def _one_of_each_setting() -> list[Training]:
    """Entries of all experiments that together have every setting that any of them has."""
    here, seen, found = folder.find(), set[str](), []
    for name in here.experiments:
        for entry in here.entries(name):
            if isinstance(entry, Training) and entry.stop_at is None and is_installed(entry):
                kinds = {f"{key} {type(value)}" for key, value in entry.settings.items()}
                kinds |= {entry.preset, str(entry.method), *entry.env_kwargs}
                if kinds - seen and entry.collectors is None:
                    seen |= kinds
                    found.append(entry)
    return found


def test_commands_can_be_typed() -> None:
    """Widths were written as (64, 64), which the command line does not read."""
    for entry in _one_of_each_setting():
        arguments = shlex.split(command(entry, 3))
        assert arguments[:2] == ["hindsight", "train"]
        options, more = parse(Train, arguments[2:], "hindsight train")
        wanted = read(options, more, "hindsight train", {"seed": options.seed}).config
        assert set(changed(wanted, config_of(entry, 3))) <= set(EVALUATION), arguments


def test_the_paper_table_is_whole() -> None:
    """As printed: 12 rows, each with the paper's settings, and ours."""
    entries = [entry for entry in folder.find().entries("table") if isinstance(entry, Training)]
    lines = dict.fromkeys(entry.line for entry in entries)
    assert len(lines) == 12
    for line in lines:
        columns = {entry.column for entry in entries if entry.line == line}
        assert {"the paper's settings", "our settings"} <= columns
        _, k, batch, updates, queues = line.split(" | ")
        for entry in entries:  # every cell has the numbers of its own line
            if entry.line == line:
                config, workers = config_of(entry, 0), 1 if entry.column == "our settings" else 12
                assert config.replay.replay_k(0.0) == int(k)
                assert config.batch_size == workers * int(batch)
                assert config.gradient_steps == int(updates)
                assert config.priority.queues == queues
    literal = next(entry for entry in entries if entry.slug == "push-two-6-256-paper")
    config = config_of(literal, 0)
    assert (str(literal.paper), config.batch_size, config.agent.normalize) == (
        "0.1125 (epoch 45)",
        12 * 256,  # the averaged gradients of its workers
        False,
    )


def test_every_config_of_every_experiment_can_be_made() -> None:
    here = folder.find()
    for name in here.experiments:
        for entry in here.entries(name):
            if isinstance(entry, Training) and is_installed(entry):
                assert not differences(config_of(entry, 0), config_of(entry, 0))
                assert config_of(entry, 0, trial_steps=1).steps == 1


def test_broken_experiment_files_are_one_line(tmp_path: Path) -> None:
    (tmp_path / "experiments" / "results").mkdir(parents=True)
    file = tmp_path / "experiments" / "bad.py"
    file.write_text("x = 1")
    with pytest.raises(HindsightError, match=r"bad\.py defines no EXPERIMENT"):
        folder.find(tmp_path)
    file.write_text("1/0")
    with pytest.raises(HindsightError, match=r"bad\.py: ZeroDivisionError"):
        folder.find(tmp_path)
