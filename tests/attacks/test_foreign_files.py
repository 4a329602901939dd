"""A run that was received from somebody: its links are not followed, its pipes not waited for,
nothing foreign is deleted, and damage shows."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hindsight
from hindsight.cli import main
from hindsight.errors import HindsightError
from hindsight.saving.checkpoints import Checkpoints, Snapshot
from hindsight.saving.files import read_json, write_aside
from hindsight.training.run import Run
from hindsight.training.verify import verify

SETTINGS: dict[str, Any] = {
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


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("runs") / "run"
    hindsight.train(
        "hindsight/BitFlip-v0", run_dir=path, callbacks=[lambda p: p.cycle == 2], **SETTINGS
    )
    return path


@pytest.fixture
def run(stopped: Path, tmp_path: Path) -> Path:
    shutil.copytree(stopped, tmp_path / "run")
    return tmp_path / "run"


@pytest.fixture
def treasure(tmp_path: Path) -> Path:
    """A directory of the victim's."""
    path = tmp_path / "treasure"
    (path / "20240101").mkdir(parents=True)
    (path / "20240101" / "photo.json").write_text("irreplaceable")
    (path / "file").write_text("irreplaceable")
    return path


def unharmed(treasure: Path) -> bool:
    files = {
        str(p.relative_to(treasure)): p.read_text() for p in treasure.rglob("*") if p.is_file()
    }
    return files == {"file": "irreplaceable", "20240101/photo.json": "irreplaceable"}


PARTS = ["metrics.jsonl", "config.json", "summary.json", "policy.json", "policy.safetensors"]
FILES = [
    *(f"{name}.part" for name in PARTS),
    *PARTS,
    "learning_curve.png",
    "video.mp4",
    "diverged.safetensors",
]


def link(path: Path, to: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    path.unlink(missing_ok=True)
    path.symlink_to(to)


@pytest.mark.parametrize("name", FILES)
def test_links_to_files_are_refused(name: str, run: Path, treasure: Path) -> None:
    link(run / name, treasure / "file")
    with pytest.raises(HindsightError, match=f"{name} is a link") as error:
        hindsight.resume(run, quiet=True)
    assert "\n" not in str(error.value)
    with pytest.raises(SystemExit) as stop:
        main(["watch", str(run), "--episodes", "1"])
    assert stop.value.code == 2
    assert unharmed(treasure)
    assert [f.state for f in verify(run) if f.file == name] == ["BROKEN"]


@pytest.mark.parametrize("name", ["tensorboard", "checkpoints"])
def test_links_to_directories_are_refused(name: str, run: Path, treasure: Path) -> None:
    if name == "checkpoints":
        shutil.copytree(run / "checkpoints", treasure, dirs_exist_ok=True)
    link(run / name, treasure)
    with pytest.raises(HindsightError):
        hindsight.resume(run, quiet=True)
    assert (treasure / "20240101" / "photo.json").read_text() == "irreplaceable"
    for inner in (lambda: Checkpoints(run / "checkpoints").write(snapshot(run, 9)),):
        if name == "checkpoints":
            with pytest.raises(OSError, match="link"):
                inner()
    assert (treasure / "20240101" / "photo.json").read_text() == "irreplaceable"


def snapshot(run: Path, cycle: int) -> Snapshot:
    return Snapshot(cycle, cycle, None, {"x": {"y": np.zeros(1)}}, b"{}", run / "metrics.jsonl", 3)


def test_what_is_written_is_never_written_through(run: Path, treasure: Path) -> None:
    """Even without the look at the whole directory that a training begins with."""
    link(run / "summary.json.part", treasure / "file")
    link(run / "summary.json", treasure / "file")
    write_aside(run / "summary.json", b"{}")
    assert unharmed(treasure)
    os.link(treasure / "file", run / "config.json.part")  # a hard link, too
    write_aside(run / "config.json", b"{}")
    assert unharmed(treasure)


def test_only_what_a_manifest_names_is_deleted(run: Path) -> None:
    """Numbers as names are not enough, and neither is lying in a checkpoint's directory."""
    directory = run / "checkpoints"
    for name in ("20240101", "20240102.part", "20240103.gone"):
        (directory / name / "photos").mkdir(parents=True)
        (directory / name / "photos" / "a.json").write_text("irreplaceable")
    (directory / "00000001" / "notes.txt").write_text("irreplaceable")
    checkpoints = Checkpoints(directory, keep=1)
    for cycle in (3, 4, 5):
        checkpoints.write(snapshot(run, cycle))
    assert checkpoints.names() == ["00000005", "00000002"]  # the newest and the best
    photos = sorted(str(p.relative_to(directory).parts[0]) for p in directory.rglob("a.json"))
    assert photos == ["20240101.broken", "20240102.part", "20240103.gone"]
    assert [p.read_text() for p in directory.rglob("notes.txt")] == ["irreplaceable"]
    assert not list(directory.rglob("00000001*/*.safetensors"))


# ------------------------------------------------------------------------------- pipes and devices


def fifo(path: Path) -> None:
    path.unlink(missing_ok=True)
    os.mkfifo(path)


def zeros(path: Path) -> None:
    path.unlink(missing_ok=True)
    path.symlink_to("/dev/zero")


def sparse(path: Path) -> None:
    path.unlink(missing_ok=True)
    with open(path, "wb") as file:
        file.truncate(1 << 40)


@pytest.mark.parametrize("name", PARTS)
@pytest.mark.parametrize("kind", [fifo, zeros, sparse])
def test_what_is_no_file_is_refused(
    kind: Callable[[Path], None], name: str, run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kind(run / name)
    for command in ("compare", "verify", "eval"):
        with pytest.raises(SystemExit) as stop:
            main([command, str(run), *(["--episodes", "1"] if command == "eval" else [])])
        if command == "verify":
            assert stop.value.code == 1
        shown = capsys.readouterr()
        assert "Traceback" not in shown.err
        assert len(shown.err.splitlines()) <= 2
    if kind is not sparse:
        with pytest.raises(HindsightError):
            hindsight.resume(run, quiet=True)
    if not name.startswith(("config", "metrics")):
        return
    with pytest.raises(HindsightError):
        _ = Run.open(run).metrics


def test_a_pipe_as_summary(run: Path) -> None:
    fifo(run / "summary.json")
    with pytest.raises(HindsightError, match="not a plain file"):
        read_json(run / "summary.json")
    with pytest.raises(HindsightError, match="no readable summary"):
        _ = Run.open(run).summary


# ------------------------------------------------------------------------------------------ damage


@pytest.mark.parametrize("name", ["policy.json", "policy.safetensors"])
def test_a_changed_policy_is_not_loaded(name: str, run: Path) -> None:
    content = bytearray((run / name).read_bytes())
    if name == "policy.json":
        content = content.replace(b"BitFlip", b"BitFlop", 1)
    else:
        content[-2] ^= 1
    (run / name).write_bytes(content)
    with pytest.raises(HindsightError, match="SHA-256 differs"):
        hindsight.load(run)
    with pytest.raises(HindsightError, match="SHA-256 differs"):
        hindsight.evaluate(run, 1)
