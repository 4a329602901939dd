"""A disk that is full: nothing that logs ever stops or hangs a training, and records stay whole."""

from __future__ import annotations

import contextlib
import errno
import io
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tensorboardX.proto.event_pb2 import Event
from tensorboardX.record_writer import masked_crc32c

import hindsight
from conftest import LineEnv
from hindsight.saving import appended
from hindsight.saving.appended import Events, Rows, checksum
from hindsight.training.off_policy import Progress
from hindsight.training.verify import verify

QUICK: dict[str, Any] = {
    "quiet": True,
    "num_envs": 2,
    "episodes_per_cycle": 2,
    "gradient_steps": 1,
    "batch_size": 8,
    "eval_episodes": 2,
    "eval_every": 1,
    "agent.net_arch": (8,),
}


def events(path: Path) -> list[Event]:
    """What TensorBoard reads in a file, checked."""
    content, found = io.BytesIO(path.read_bytes()), []
    while head := content.read(12):
        assert masked_crc32c(head[:8]) == int.from_bytes(head[8:], "little")
        body = content.read(int.from_bytes(head[:8], "little"))
        assert masked_crc32c(body) == int.from_bytes(content.read(4), "little")
        found.append(Event.FromString(body))
    return found


def test_event_files_are_tensorboards(tmp_path: Path) -> None:
    board = Events(tmp_path / "board", purge_step=300)
    board.add({"eval/success_rate": 0.25, "learn/loss": -1e-3}, 70_000)
    board.add({"learn/loss": float("inf")}, 2**40)
    board.close()
    (path,) = (tmp_path / "board").iterdir()
    assert "tfevents" in path.name
    head, start, first, second = events(path)
    assert head.file_version == "brain.Event:2"
    assert (start.step, start.session_log.status) == (300, 1)
    assert first.step == 70_000
    assert {v.tag: v.simple_value for v in first.summary.value} == {
        "eval/success_rate": 0.25,
        "learn/loss": pytest.approx(-1e-3),
    }
    assert (second.step, second.summary.value[0].simple_value) == (2**40, float("inf"))
    assert checksum(b"123456789") == masked_crc32c(b"123456789")


def test_records_that_wait_for_space_are_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inner, room = os.write, 0

    def write(descriptor: int, data: bytes) -> int:
        nonlocal room
        if not room:
            raise OSError(errno.ENOSPC, "No space left on device")
        data, room = data[:room], max(room - len(data), 0)
        return inner(descriptor, data)

    monkeypatch.setattr(appended.os, "write", write)
    rows, board = Rows(tmp_path / "rows"), Events(tmp_path / "board")
    for step in range(50):
        room = step % 7 * 11 if step < 49 else 10**6
        for add in (lambda s=step: rows.add({"step": s}), lambda s=step: board.add({"x": 1.0}, s)):
            with contextlib.suppress(OSError):
                add()
    assert [
        json.loads(line)["step"] for line in (tmp_path / "rows").read_text().splitlines()
    ] == list(range(50))
    assert [event.step for event in events(next((tmp_path / "board").iterdir()))[1:]] == list(
        range(50)
    )


def test_a_log_that_cannot_be_written_does_not_stop_a_training(tmp_path: Path) -> None:
    """Its own output goes to a full device, too, and the board can never be written, even with
    `stop`."""
    program = f"""
import errno, sys, hindsight
from conftest import LineEnv
from hindsight.saving.appended import Events
def add(*_):
    raise OSError(errno.ENOSPC, "No space left on device")
Events.add = add
settings = {QUICK | {"quiet": False, "checkpoint.when_failed": "stop"}!r}
hindsight.train(LineEnv, run_dir=sys.argv[1], steps=100, **settings)
"""
    tests = Path(__file__).parents[1]
    env = os.environ | {"PYTHONPATH": os.pathsep.join([str(tests), *sys.path])}
    with open("/dev/full", "w") as full:
        command = [sys.executable, "-c", program, str(tmp_path / "run")]
        assert subprocess.run(
            command, env=env, stdout=full, stderr=full, timeout=120
        ).returncode in (0, 120)
    assert json.loads((tmp_path / "run" / "summary.json").read_bytes())["status"] == "finished"


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 1 MB."""
    path = tmp_path / "disk"
    path.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(path)]
    if os.getuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("needs the right to mount a file system")
    yield path
    subprocess.run(["umount", str(path)], check=True)


def test_a_full_disk_and_then_room_again(
    small_disk: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    filler, cycles = small_disk / "filler", []

    def fill(progress: Progress) -> None:
        cycles.append(progress.cycle)
        if progress.cycle == 2:
            with contextlib.suppress(OSError), open(filler, "wb", buffering=0) as file:
                while True:
                    file.write(bytes(512))
        if progress.cycle == 60:
            filler.unlink()

    run = hindsight.train(
        LineEnv,
        run_dir=small_disk / "run",
        steps=1500,
        callbacks=[fill],
        **{**QUICK, "checkpoint.minutes": 0.0},
    )
    assert cycles[-1] > 62
    assert run.summary["status"] == "finished"
    assert [row["cycle"] for row in run.metrics] == cycles
    assert all(finding.state != "BROKEN" for finding in verify(run.path))
    (file,) = (run.path / "tensorboard").iterdir()
    assert len(events(file)) == 1 + len(cycles)
    assert capfd.readouterr().err.count("\n") < 10


def test_training_does_not_import_pytorch(tmp_path: Path) -> None:
    """Where it is installed it costs seconds and hundreds of megabytes: tensorboardX used to do
    that."""
    (tmp_path / "torch.py").write_text("raise SystemExit('PyTorch was imported')")
    program = "import sys; sys.path.insert(0, sys.argv[1]); import hindsight.api, hindsight.training.verify"
    subprocess.run([sys.executable, "-c", program, str(tmp_path)], check=True)
