"""Signals, divergence, disks and directories that fail: the run stops cleanly or goes on, and
what was saved stays."""

from __future__ import annotations

import errno
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file

import hindsight
from conftest import LineEnv
from hindsight.cli import main
from hindsight.errors import HindsightError
from hindsight.saving import checkpoints as checkpoints_module
from hindsight.training.progress import Progress
from hindsight.training.run import Run
from hindsight.training.verify import verify
from hindsight.training.writer import RunWriter

pytestmark = pytest.mark.usefixtures("compiles_alone")

QUICK: dict[str, Any] = {
    "quiet": True,
    "steps": 60,
    "num_envs": 2,
    "episodes_per_cycle": 2,
    "gradient_steps": 2,
    "batch_size": 16,
    "eval_episodes": 2,
    "eval_every": 1,
    "agent.net_arch": (8,),
    "checkpoint.minutes": 0.0,
}


def saved_now(path: Path, cycle: int) -> None:
    """Wait until the checkpoint of a cycle is there, and what it makes superfluous is gone."""
    directory = path / "checkpoints"
    while not (directory / f"{cycle:08d}").exists() or any(p.suffix for p in directory.iterdir()):
        time.sleep(0.01)
    time.sleep(0.1)


# ----------------------------------------------------------------------------------------- signals

BITS = [
    "train",
    "hindsight/BitFlip-v0",
    "--batch-size",
    "16",
    "--agent.net-arch",
    "16",
    "--eval-episodes",
    "2",
    "--quiet",
]


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
)
def test_a_signal_saves_everything_and_says_how_to_resume(
    number: signal.Signals,
    code: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    inner = RunWriter.write

    def write(self: RunWriter, progress: Progress) -> None:
        inner(self, progress)
        if progress.cycle == 3:
            os.kill(os.getpid(), number)

    monkeypatch.setattr(RunWriter, "write", write)
    before = signal.getsignal(number)
    with pytest.raises(SystemExit) as stop:
        main([*BITS, "--run-dir", str(tmp_path / "run")])
    assert stop.value.code == code
    error = capfd.readouterr().err
    assert f"hindsight resume {tmp_path / 'run'}" in error
    assert "Traceback" not in error
    assert signal.getsignal(number) is before
    run = Run.open(tmp_path / "run")
    assert run.summary["status"] == "interrupted"
    assert run.checkpoints.newest()[0].cycle == len(run.metrics) == 3
    assert all(finding.state != "BROKEN" for finding in verify(run.path))
    hindsight.load(run.path)


ENDLESS = """
import signal, time
signal.signal(signal.SIGINT, signal.default_int_handler)  # a background shell ignores it, and so do its children
from hindsight.training.writer import RunWriter
def write(self, progress, inner=RunWriter.write):
    if progress.cycle == 2:
        print("in the second cycle", flush=True)
        time.sleep(1000)
    inner(self, progress)
RunWriter.write = write
from hindsight.cli import main
main()
"""


def test_a_second_interrupt_stops_at_once(tmp_path: Path) -> None:
    command = [sys.executable, "-c", ENDLESS, *BITS, "--run-dir", str(tmp_path / "run")]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    process.stdout.readline()
    saved_now(tmp_path / "run", 1)
    os.kill(process.pid, signal.SIGINT)
    time.sleep(0.5)
    assert process.poll() is None
    os.kill(process.pid, signal.SIGINT)
    _, error = process.communicate(timeout=5)
    assert process.returncode == -signal.SIGINT  # a shell shows 130
    assert "once more stops at once" in error
    assert Run.open(tmp_path / "run").checkpoints.newest()[0].cycle == 1


def test_an_interrupt_in_a_callback_is_saved_too(tmp_path: Path) -> None:
    def interrupt(progress: Progress) -> None:
        if progress.cycle == 2:
            raise KeyboardInterrupt

    settings = QUICK | {"checkpoint.minutes": 60.0}
    with pytest.raises(KeyboardInterrupt):
        hindsight.train(LineEnv, run_dir=tmp_path / "run", callbacks=[interrupt], **settings)
    assert Run.open(tmp_path / "run").checkpoints.newest()[0].cycle == 2


# -------------------------------------------------------------------------------------- divergence


def files(path: Path) -> dict[str, bytes]:
    return {str(p.relative_to(path)): p.read_bytes() for p in path.rglob("*") if p.is_file()}


def test_divergence_stops_before_anything_is_overwritten(tmp_path: Path) -> None:
    schedule, saved = "step(0.001, 1e30, 0.5)", {}

    def watch(progress: Progress) -> None:
        saved_now(tmp_path / "run", progress.cycle)
        saved.clear()
        saved.update(files(tmp_path / "run"))

    settings = QUICK | {"steps": 200, "agent.critic_learning_rate": schedule}
    with pytest.raises(HindsightError, match=r"at step \d+") as error:
        hindsight.train(LineEnv, run_dir=tmp_path / "run", callbacks=[watch], **settings)
    assert "diverged.safetensors" in str(error.value)
    batch = load_file(tmp_path / "run" / "diverged.safetensors")
    assert batch["observation"].shape == (2, 16, 1)
    after = files(tmp_path / "run")
    changed = {name for name, content in saved.items() if after.get(name) != content}
    assert {name for name in changed if not name.startswith(("tensorboard", "metrics"))} == set()
    checkpoint = Run.open(tmp_path / "run").checkpoints.newest()[0]
    assert all(
        np.isfinite(tensor).all()
        for tensor in load_file(checkpoint.path / "learner.safetensors").values()
    )


def test_parameters_are_looked_at_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from hindsight.agents.ddpg import DDPG

    def learn(self: DDPG, state: Any, *arguments: Any, inner: Any = DDPG.learn) -> Any:
        state, td, metrics = inner(self, state, *arguments)
        actor = {
            "params": {**state.actor["params"], "Dense_1": {"kernel": np.full((8, 1), np.inf)}}
        }
        return state._replace(actor=actor), td, metrics

    monkeypatch.setattr(DDPG, "learn", learn)
    with pytest.raises(
        HindsightError, match=r"actor/params/Dense_1/kernel are not finite at step \d+"
    ):
        hindsight.train(LineEnv, run_dir=tmp_path / "run", **QUICK)
    assert not (tmp_path / "run" / "policy.safetensors").exists()


class Huge(LineEnv):
    """Its observations are finite, but not in float32."""

    def _observe(self) -> dict[str, Any]:
        observation = super()._observe()
        observation["observation"] = observation["observation"] * (1e300 if self.steps > 4 else 1.0)
        return observation


@pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")
def test_observations_are_looked_at_before_they_are_stored(tmp_path: Path) -> None:
    with pytest.raises(
        HindsightError, match=r"observation of the episodes collected after step 0 is not finite"
    ):
        hindsight.train(Huge, run_dir=tmp_path / "run", **QUICK)
    assert not np.isfinite(
        load_file(tmp_path / "run" / "diverged.safetensors")["observation"]
    ).all()


# ------------------------------------------------------------------------------------------- disks


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EROFS])
def test_a_full_or_read_only_disk_is_told_and_the_run_goes_on(
    code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    inner, full = checkpoints_module.write_synced, False

    def write(path: Path, parts: Any) -> Any:
        if full and path.name == "state.json":
            raise OSError(code, os.strerror(code))
        return inner(path, parts)

    def fill(progress: Progress) -> None:
        nonlocal full
        full = 2 <= progress.cycle < 4

    monkeypatch.setattr(checkpoints_module, "write_synced", write)
    run = hindsight.train(
        LineEnv, run_dir=tmp_path / "run", callbacks=[fill], **(QUICK | {"steps": 150})
    )
    error = capfd.readouterr().err
    assert f"{os.strerror(code)}; the last good checkpoint is" in error
    assert error.count("\n") <= 2
    assert run.summary["status"] == "finished"
    assert run.checkpoints.newest()[0].cycle == len(run.metrics)
    assert all(finding.state != "BROKEN" for finding in verify(run.path))


def test_a_full_disk_stops_the_run_if_asked_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inner = checkpoints_module.write_synced

    def write(path: Path, parts: Any) -> Any:
        if path.parent.name >= "00000003":
            raise OSError(errno.ENOSPC, "No space left on device")
        return inner(path, parts)

    monkeypatch.setattr(checkpoints_module, "write_synced", write)
    settings = QUICK | {"checkpoint.when_failed": "stop", "steps": 500}
    with pytest.raises(
        HindsightError, match=r"No space left on device; the last good checkpoint is .*00000002"
    ):
        hindsight.train(LineEnv, run_dir=tmp_path / "run", **settings)
    run = Run.open(tmp_path / "run")
    assert len(run.metrics) < 6
    assert run.checkpoints.newest()[0].cycle == 2
    monkeypatch.undo()
    hindsight.resume(run.path, env=LineEnv, quiet=True)


LIMITED = """
import resource, sys, json, hindsight
from conftest import LineEnv
from test_survival import Path, saved_now
def limit(progress):
    if progress.cycle == 2:
        saved_now(Path(sys.argv[1]), 2)
        resource.setrlimit(resource.RLIMIT_FSIZE, (2500, resource.RLIM_INFINITY))
hindsight.train(LineEnv, run_dir=sys.argv[1], callbacks=[limit], **json.loads(sys.argv[2]))
"""


def test_files_that_cannot_grow(tmp_path: Path) -> None:
    """Writes fail half-way, in every file, as they do on a full disk."""
    command = [sys.executable, "-c", LIMITED, str(tmp_path / "run"), json.dumps(QUICK)]
    tests = Path(__file__).parent
    env = os.environ | {"PYTHONPATH": os.pathsep.join([str(tests), str(tests.parent), *sys.path])}
    result = subprocess.run(command, capture_output=True, text=True, env=env)
    assert result.returncode == 1
    assert "File too large; the last good checkpoint is" in result.stderr
    run = Run.open(tmp_path / "run")
    assert run.checkpoints.newest()[0].cycle == 2
    assert {f.file for f in verify(run.path) if f.state == "BROKEN"} == set()
    assert hindsight.resume(run.path, env=LineEnv, quiet=True).summary["status"] == "finished"


@pytest.mark.parametrize("when_failed", ["continue", "stop"])
def test_a_deleted_run_directory(
    when_failed: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    cycles = []

    def delete(progress: Progress) -> None:
        cycles.append(progress.cycle)
        time.sleep(0.2)
        if progress.cycle == 2:
            shutil.rmtree(tmp_path / "run")

    settings = QUICK | {"checkpoint.when_failed": when_failed, "steps": 150}
    with pytest.raises(
        HindsightError, match="No such file or directory"
    ):  # at the end there is no going on
        hindsight.train(LineEnv, run_dir=tmp_path / "run", callbacks=[delete], **settings)
    assert (cycles[-1] > 3) == (when_failed == "continue")
    assert ("going on" in capfd.readouterr().err) == (when_failed == "continue")
