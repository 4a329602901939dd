"""Sweeps: what is planned and refused, and trainings that are interrupted and continued."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hindsight.cli import main
from hindsight.commands.train import TrainOptions, read
from hindsight.config import TrainConfig
from hindsight.errors import HindsightError
from hindsight.lab.grid import grid, read_varied
from hindsight.lab.jobs import default_limit
from hindsight.options import parse

BITS = "hindsight/BitFlip-v0"
QUICK = [
    "--env.bits",
    "4",
    "--gradient-steps",
    "1",
    "--batch-size",
    "16",
    "--eval-episodes",
    "4",
    "--eval-every",
    "9",
]


def call(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as stop:
        main([str(a) for a in arguments])
    captured = capsys.readouterr()
    return int(stop.value.code or 0), captured.out, captured.err


def configure(*more: str) -> Callable[[list[str], dict[str, Any]], TrainConfig]:
    """As `hindsight sweep` makes configs."""

    def made(extra: list[str], settings: dict[str, Any]) -> TrainConfig:
        options, rest = parse(TrainOptions, [BITS, *more, *extra], "hindsight sweep")
        return read(options, rest, "hindsight sweep", settings).config

    return made


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("replay.replay_k=4,8", ("replay.replay_k", ["4", "8"])),
        ("replay.replay-k=linear(8, 1),4", ("replay.replay_k", ["linear(8, 1)", "4"])),
        ("agent.net_arch=(64, 64),[256, 256]", ("agent.net_arch", ["(64, 64)", "[256, 256]"])),
        ("preset=her", ("preset", ["her"])),
    ],
)
def test_values_are_split_on_commas_outside_of_brackets(
    text: str, expected: tuple[str, list[str]]
) -> None:
    assert read_varied(text) == expected


@pytest.mark.parametrize(
    "text", ["replay_k", "=4", "replay.replay_k=", "replay.replay_k=4,,8", "a=linear(1,2"]
)
def test_what_cannot_be_read_is_refused(text: str) -> None:
    with pytest.raises(HindsightError, match="cannot read --vary"):
        read_varied(text)


def test_plan_is_settings_times_seeds(tmp_path: Path) -> None:
    vary = [
        "replay.replay_k=0,linear(8, 1)",
        "agent.double=true,false",
        "agent.net_arch=(8,8),[16]",
    ]
    planned = grid(tmp_path, vary, [3, 4], configure("--steps", "500"))
    assert len(planned) == 16
    assert len({one.name for one in planned}) == 16
    assert [one.config.seed for one in planned] == [3] * 8 + [4] * 8
    assert {str(one.config.replay.replay_k) for one in planned} == {"0.0", "linear(8.0, 1.0)"}  # type: ignore[union-attr]
    assert {one.config.agent.net_arch for one in planned} == {(8, 8), (16,)}
    assert {one.config.agent.double for one in planned} == {True, False}  # type: ignore[union-attr]
    assert all(one.config.steps == 500 for one in planned)
    assert not list(tmp_path.iterdir())  # a plan writes nothing


def test_methods_and_env_arguments_can_vary(tmp_path: Path) -> None:
    planned = grid(tmp_path, ["method=dqn,hpg", "env.bits=3,5"], [0], configure())
    assert [(one.config.agent.method, one.config.env_kwargs["bits"]) for one in planned] == [
        ("dqn", 3),
        ("dqn", 5),
        ("hpg", 3),
        ("hpg", 5),
    ]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--vary", "replay.repla_k=4,8"], "Did you mean 'replay.replay_k'"),
        (["--vary", "replay.replay_k=linea(8, 1)"], "Did you mean 'linear'"),
        (["--vary", "priority.queues=three"], "priority.queues must be one of"),
        (["--vary", "steps=1e5"], "steps must be a int"),
        (["--vary", "preset=hper,her2"], "her2"),
        (["--vary", "replay.replay_k=4,4.0"], "the same settings twice"),
        (["--vary", "seed=1,2"], "--seeds"),
        (["--seed", "1"], "use --seeds"),
        (["--seeds", "1", "1"], "different numbers"),
        (["--seeds", "x"], "--seeds"),
        (["--jobs", "-1"], "--jobs"),
        (["--agent.gama", "0.9"], "Did you mean --agent.gamma"),
        (["--vary"], "--vary needs a value"),
    ],
)
def test_mistakes_are_one_line_before_anything_starts(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, arguments: list[str], message: str
) -> None:
    code, _, err = call(capsys, "sweep", BITS, "--dir", tmp_path / "sweep", *arguments)
    assert code == 2
    assert err.count("\n") == 1, err
    assert message in err
    assert not (tmp_path / "sweep").exists()


def test_help_tells_how_many_jobs(capsys: pytest.CaptureFixture[str]) -> None:
    assert "two threads" in " ".join(call(capsys, "sweep", "--help")[1].replace("│", " ").split())
    assert default_limit() == max(1, len(os.sched_getaffinity(0)) // 2)


def test_interrupted_and_continued(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first training is stopped half way and goes on; both end; a third call starts nothing."""
    directory = tmp_path / "sweep"
    command = [
        "sweep",
        BITS,
        "--vary",
        "steps=9000,100",
        "--seeds",
        "0",
        "--jobs",
        "1",
        "--dir",
        directory,
    ]
    command += [*QUICK, "--no-video"]
    metrics = directory / "runs" / "steps-9000-seed0" / "metrics.jsonl"

    def interrupt() -> None:
        deadline = time.time() + 90
        while time.time() < deadline and not (metrics.is_file() and metrics.stat().st_size):
            time.sleep(0.02)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    code, _, err = call(capsys, *command)
    thread.join()
    assert code == 130
    assert "the same command again" in err
    stopped = metrics.read_text()
    summary = json.loads((metrics.parent / "summary.json").read_text())
    assert summary["status"] == "interrupted"
    assert summary["steps"] < 9000
    assert not (directory / "runs" / "steps-100-seed0").exists()

    code, out, err = call(capsys, *command)
    assert (code, err) == (0, "")
    assert "steps-9000-seed0 continues" in out
    assert "steps-100-seed0 starts" in out
    assert metrics.read_text().startswith(stopped)
    assert json.loads((metrics.parent / "summary.json").read_text())["status"] == "finished"
    assert "steps-9000" in (directory / "report.html").read_text()

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a finished training was started again")

    monkeypatch.setattr(subprocess, "Popen", refuse)
    (directory / "report.html").unlink()
    code, out, _ = call(capsys, *command)
    assert code == 0
    assert out.count("was finished") == 2
    assert (directory / "report.html").is_file()

    code, _, err = call(capsys, *command, "--agent.gamma", "0.5")
    assert code == 2
    assert "other settings" in err


def test_a_failed_training_is_reported_and_tried_again(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its process is one that ends at once, with a line on stderr; every call starts it again."""
    calls = tmp_path / "calls"
    program = (
        f"import sys; open({str(calls)!r}, 'a').write('x'); sys.exit('hindsight: the disk is full')"
    )
    original = subprocess.Popen

    def fail(command: list[str], **options: object) -> object:
        return original([sys.executable, "-c", program], **options)  # type: ignore[call-overload]

    monkeypatch.setattr(subprocess, "Popen", fail)
    command = ["sweep", BITS, "--seeds", "0", "--dir", tmp_path / "sweep", "--no-video"]
    for attempt in (1, 2):
        code, out, err = call(capsys, *command)
        assert code == 2  # there is no run for the page
        assert "run-seed0 FAILED: the disk is full" in out
        assert "does not exist" in err
        assert calls.read_text() == "x" * attempt
    (planned,) = grid(tmp_path / "sweep", [], [0], configure())
    assert planned.state() == "pending"
