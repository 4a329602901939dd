"""Metrics go to W&B and MLflow, by the real libraries, offline; callbacks and loggers of one's
own."""

from __future__ import annotations

import json
import os
import re
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import hindsight
from hindsight.errors import HindsightError
from hindsight.integrations.loggers import open_logger
from hindsight.training.run import TRACKED, Run
from hindsight.training.verify import verify

BITS = "hindsight/BitFlip-v0"
QUICK: dict[str, Any] = {
    "env_kwargs": {"bits": 3},
    "steps": 100,
    "eval_every": 2,
    "eval_episodes": 4,
    "gradient_steps": 2,
    "batch_size": 16,
    "agent": {"net_arch": (8,)},
    "quiet": True,
}
OPTIONS = "--env.bits 3 --steps 100 --eval-every 2 --eval-episodes 4 --gradient-steps 2"
OPTIONS += " --batch-size 16 --net-arch 8 --quiet"


def command(*arguments: object, **environment: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "hindsight.cli", *map(str, arguments)],
        env=os.environ | {name: str(value) for name, value in environment.items()},
        capture_output=True,
        text=True,
    )


# --------------------------------------------------------------------------------------- one's own


def test_a_logger_sees_what_a_callback_adds(tmp_path: Path) -> None:
    logged: list[tuple[dict[str, float], int]] = []

    def evaluate(progress: hindsight.Progress) -> None:
        progress.metrics["mine/step"] = 2.0 * progress.step

    run = hindsight.train(
        BITS,
        run_dir=tmp_path / "run",
        callbacks=[evaluate],
        logger=lambda metrics, step: logged.append((metrics, step)),
        **QUICK,
    )
    assert [step for _, step in logged] == [row["step"] for row in run.metrics]
    assert all(metrics["mine/step"] == 2 * step for metrics, step in logged)
    assert not (run.path / TRACKED).exists()


def test_tensorboard_is_told_where_its_files_are(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = hindsight.train(BITS, run_dir=tmp_path / "run", logger="tensorboard", **QUICK)
    where = run.path / "tensorboard"
    assert (
        capsys.readouterr().err == f"hindsight: to see its curves: tensorboard --logdir {where}\n"
    )
    assert list(where.glob("events.out.tfevents.*"))


def test_the_callbacks_of_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = (Path(__file__).parents[2] / "docs" / "tracking.md").read_text()
    program = re.findall(r"```python\n(.*?)```", page, re.S)[-1]
    program = program.replace('BitFlip-v0",', 'BitFlip-v0", **quick,')
    program = program.replace('make("hindsight/BitFlip-v0"', 'make("hindsight/BitFlip-v0", bits=3')
    monkeypatch.chdir(tmp_path)
    played: list[float] = []

    def log(metrics: dict[str, float], step: int) -> None:
        played.append(metrics["mine/success"])

    names: dict[str, Any] = {
        "quick": QUICK | {"steps": 1500, "gradient_steps": 20, "eval_episodes": 20, "logger": log}
    }
    exec(compile(program, "docs/tracking.md", "exec"), names)
    assert set(played) <= {0.0, 1.0}
    assert played
    assert 0.0 < names["best"] <= 1.0
    assert hindsight.load(tmp_path / "best").env == BITS


@pytest.mark.parametrize("name", ["wandb", "mlflow"])
def test_what_is_not_installed_is_said_before_anything_is_written(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(HindsightError, match=rf"{name} is not installed: pip install .*\[{name}\]"):
        hindsight.train(BITS, run_dir=tmp_path / "run", logger=name, **QUICK)  # type: ignore[arg-type]
    assert not (tmp_path / "run").exists()


def test_an_unknown_logger_is_named(tmp_path: Path) -> None:
    with pytest.raises(HindsightError, match=r"unknown logger 'wandbb'\. Did you mean 'wandb'"):
        hindsight.train(BITS, run_dir=tmp_path / "run", logger="wandbb", **QUICK)  # type: ignore[arg-type]
    result = command("train", BITS, "--track", "neptune")
    assert result.returncode == 2
    assert "--track" in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_a_tracker_that_fails_does_not_stop_a_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ends: list[str] = []

    def start(run: Run) -> Any:
        def log(metrics: dict[str, float], step: int) -> None:
            raise ConnectionError("no network")

        return log, ends.append

    monkeypatch.setitem(sys.modules, "wandb", sys)  # is installed
    monkeypatch.setattr("hindsight.integrations.loggers._start_wandb", start)
    with pytest.warns(UserWarning, match="no network.*metrics.jsonl has them") as warned:
        run = hindsight.train(BITS, run_dir=tmp_path / "run", logger="wandb", **QUICK)
    assert len(warned) == 1
    assert run.summary["status"] == "finished"
    assert ends == ["FINISHED"]


def test_a_tracker_that_does_not_start_leaves_a_run_that_can_be_resumed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def start(run: Run) -> Any:
        raise ValueError("no API key\nset one")

    monkeypatch.setitem(sys.modules, "wandb", sys)
    monkeypatch.setattr("hindsight.integrations.loggers._start_wandb", start)
    path = tmp_path / "run"
    with pytest.raises(
        HindsightError, match=r"\(no API key set one\); without it: hindsight resume"
    ):
        hindsight.train(BITS, run_dir=path, logger="wandb", **QUICK)
    assert hindsight.resume(path, quiet=True).summary["status"] == "finished"


@pytest.mark.parametrize(
    ("error", "status"), [(KeyboardInterrupt(), "KILLED"), (RuntimeError("x"), "FAILED")]
)
def test_a_tracker_is_told_how_a_training_ends(
    error: BaseException, status: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ends: list[str] = []
    started = lambda run: (lambda metrics, step: None, ends.append)  # noqa: E731
    monkeypatch.setattr("hindsight.integrations.loggers._start_mlflow", started)
    run = Run.create(hindsight.OffPolicyConfig(env=BITS), tmp_path / "run")
    with pytest.raises(type(error)), open_logger("mlflow", run):
        raise error
    assert ends == [status]


# --------------------------------------------------------------------------- the real libraries


def records(path: Path) -> Iterator[Any]:
    """What an offline file of W&B holds: protocol buffers in LevelDB's log format."""
    from wandb.proto import wandb_internal_pb2

    content, at, part = path.read_bytes(), 7, b""
    assert content[:4] == b":W&B"
    while at + 7 <= len(content):
        left = 32768 - at % 32768
        if left < 7:
            at += left
            continue
        size, kind = struct.unpack_from("<HB", content, at + 4)
        part += content[at + 7 : at + 7 + size]
        at += 7 + size
        if kind in (1, 4):  # whole, or the last of several
            record = wandb_internal_pb2.Record()
            record.ParseFromString(part)
            yield record
            part = b""


def test_wandb(tmp_path: Path) -> None:
    pytest.importorskip("wandb")
    where = {"WANDB_MODE": "offline", "WANDB_DIR": tmp_path, "WANDB_PROJECT": "arms"}
    path = tmp_path / "run"
    arguments = ["train", BITS, *OPTIONS.split(), "--run-dir", path, "--track", "wandb"]
    result = command(*arguments, **where)
    assert result.returncode == 0, result.stderr
    run = Run.open(path)
    assert {finding.state for finding in verify(path)} == {"ok", "note"}
    (file,) = tmp_path.glob("wandb/offline-run-*/*.wandb")
    found = list(records(file))
    (started,) = [r.run for r in found if r.WhichOneof("record_type") == "run"]
    assert (started.project, started.display_name) == ("arms", "run")
    settings = {item.key: json.loads(item.value_json) for item in started.config.update}
    assert settings["agent.net_arch"] == [8]
    assert settings["env_kwargs"] == {"bits": 3}
    history = [
        {
            item.key or ".".join(item.nested_key): json.loads(item.value_json)
            for item in r.history.item
        }
        | {"step": r.history.step.num}
        for r in found
        if r.WhichOneof("record_type") == "history"
    ]
    rows = run.metrics
    assert [row["step"] for row in history] == [row["step"] for row in rows]
    for name in ("learn/critic_loss", "train/success_rate"):
        assert [row[name] for row in history] == pytest.approx([row[name] for row in rows])
    assert [r.exit.exit_code for r in found if r.WhichOneof("record_type") == "exit"] == [0]

    result = command("resume", path, "--steps", 50, "--quiet", "--track", "wandb", **where)
    assert result.returncode == 0, result.stderr
    files = list(tmp_path.glob("wandb/offline-run-*/*.wandb"))
    assert len(files) == 2
    assert {file.name for file in files} == {f"run-{started.run_id}.wandb"}  # the same run goes on


def test_mlflow(tmp_path: Path) -> None:
    mlflow = pytest.importorskip("mlflow")
    where = f"sqlite:///{tmp_path}/mlflow.db"
    path = tmp_path / "run"
    arguments = ["train", BITS, *OPTIONS.split(), "--run-dir", path, "--track", "mlflow"]
    result = command(*arguments, MLFLOW_TRACKING_URI=where, MLFLOW_EXPERIMENT_NAME="arms")
    assert result.returncode == 0, result.stderr
    arguments = ["resume", path, "--steps", "50", "--quiet", "--track", "mlflow"]
    result = command(*arguments, MLFLOW_TRACKING_URI=where)
    assert result.returncode == 0, result.stderr
    assert {finding.state for finding in verify(path)} == {"ok", "note"}
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # its own
        client = mlflow.MlflowClient(where)
        (experiment,) = client.search_experiments(filter_string="name = 'arms'")
        (run,) = client.search_runs([experiment.experiment_id])  # the resumed one is the same
        assert run.info.status == "FINISHED"
        assert run.info.run_name == "run"
        assert run.data.params["agent.net_arch"] == "[8]"
        assert run.data.params["steps"] == "100"
        history = client.get_metric_history(run.info.run_id, "learn/critic_loss")
    rows = Run.open(path).metrics
    assert [point.step for point in history] == [row["step"] for row in rows]
    values = [row["learn/critic_loss"] for row in rows]
    assert [point.value for point in history] == pytest.approx(values)
