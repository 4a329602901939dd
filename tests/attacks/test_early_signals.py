"""Signals in the first seconds, hang-ups, and the death of whoever started us: none is lost,
nothing is left behind."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from hindsight.training.run import Run
from hindsight.training.signals import StopSignals

pytestmark = pytest.mark.usefixtures("compiles_alone")

BITS = [
    "train",
    "hindsight/BitFlip-v0",
    "--steps",
    "100000000",
    "--agent.net_arch",
    "8",
    "--eval-episodes",
    "2",
]
# A background shell ignores SIGINT, and so do its children.
PROGRAM = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
print(flush=True)
from hindsight.cli import main
main()
"""


def start(*arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", PROGRAM, *arguments]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    process.stdout.readline()
    return process


@pytest.mark.parametrize("tries", [2, pytest.param(20, marks=pytest.mark.slow)])
def test_no_interrupt_is_lost(tries: int, tmp_path: Path) -> None:
    """Whether JAX is being imported, compiles, or trains."""
    for i in range(tries):
        process = start(*BITS, "--run-dir", str(tmp_path / str(i)))
        time.sleep(1 + 6 * i / tries)
        process.send_signal(signal.SIGINT)
        _, error = process.communicate(timeout=60)
        assert process.returncode in (130, -signal.SIGINT), error
        if process.returncode == 130:
            assert "Traceback" not in error


def test_an_interrupt_within_a_callback_of_the_collector_is_noted() -> None:
    """Python ignores exceptions there, which is how JAX's callback lost them."""

    def callback(phase: str, info: object) -> None:
        if phase == "start":
            os.kill(os.getpid(), signal.SIGINT)

    with StopSignals() as stop:
        gc.callbacks.append(callback)
        try:
            gc.collect()
        finally:
            gc.callbacks.remove(callback)
        assert stop.received == signal.SIGINT
        with StopSignals() as inner:
            assert inner is stop
        assert signal.getsignal(signal.SIGINT) == signal.SIG_DFL  # a second one ends it
        with pytest.raises(KeyboardInterrupt):
            stop.check()


def test_nohup_is_respected() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with StopSignals() as stop:
            os.kill(os.getpid(), signal.SIGHUP)
            assert stop.received is None
        assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


def test_a_closed_terminal(tmp_path: Path) -> None:
    """SIGHUP, and nobody reads what we say any more."""
    process = start(*BITS, "--run-dir", str(tmp_path / "run"))
    while not (tmp_path / "run" / "policy.safetensors").exists():
        time.sleep(0.05)
    assert process.stdout is not None
    assert process.stderr is not None
    process.stderr.close()
    process.send_signal(signal.SIGHUP)
    assert process.wait(timeout=60) == 129
    process.stdout.close()
    run = Run.open(tmp_path / "run")
    assert run.summary["status"] == "interrupted"
    assert run.checkpoints.newest()[0].cycle == len(run.metrics)


def test_trainings_of_a_killed_sweep_save_themselves_and_end(tmp_path: Path) -> None:
    command = [
        "sweep",
        *BITS[1:],
        "--seeds",
        "0",
        "1",
        "--jobs",
        "2",
        "--dir",
        str(tmp_path),
        "--no-video",
    ]
    process = start(*command)
    runs = tmp_path / "runs"
    while len(list(runs.glob("*/policy.safetensors"))) < 2:
        time.sleep(0.05)
        assert process.poll() is None
    process.kill()
    process.communicate()
    deadline = time.monotonic() + 60
    while len(list(runs.glob("*/summary.json"))) < 2 and time.monotonic() < deadline:
        time.sleep(0.05)
    found = [Run.open(path) for path in runs.iterdir()]
    assert [run.summary["status"] for run in found] == ["interrupted"] * 2
    while any(run.is_locked for run in found):
        time.sleep(0.05)
        assert time.monotonic() < deadline
