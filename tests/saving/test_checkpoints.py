"""Checkpoints under kill -9, damage and malice: an intact one is there, what is broken is named,
nothing runs."""

from __future__ import annotations

import json
import os
import pickle
import shutil
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file

import hindsight
from hindsight.errors import HindsightError
from hindsight.saving.checkpoints import BrokenCheckpoint, Checkpoints, Snapshot
from hindsight.saving.files import read_tensors, sealed, sum_of, tensor_parts, write_synced
from hindsight.saving.tree import join, split
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
    "priority.sampling": "rank_heap",
    "replay.goals_chosen": "stored",
    "overlap": True,
    "checkpoint.minutes": 0.0,
    "checkpoint.keep": 3,
}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that was stopped by a callback, with at least three checkpoints."""
    path = tmp_path_factory.mktemp("runs") / "run"
    hindsight.train(
        "hindsight/BitFlip-v0", run_dir=path, callbacks=[lambda p: p.cycle == 3], **SETTINGS
    )
    return path


@pytest.fixture
def run(whole: Path, tmp_path: Path) -> Path:
    shutil.copytree(whole, tmp_path / "run")
    return tmp_path / "run"


# -------------------------------------------------------------------------------------- the format


@pytest.mark.parametrize(
    "dtype", ["bool", "int8", "uint8", "int16", "uint16", "int32", "int64", "float32", "float64"]
)
def test_tensor_files_are_safetensors(dtype: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    tensors = {
        "a/b": (rng.random((3, 4)) * 100).astype(dtype),
        "scalar": np.array(7).astype(dtype),
        "none": np.zeros((0, 5), dtype),
        "strided": (rng.random((6, 6)) * 100).astype(dtype)[::2, ::3],
    }
    written = write_synced(tmp_path / "x.safetensors", tensor_parts(tensors))
    assert written == sum_of(tmp_path / "x.safetensors")
    for loaded in (load_file(tmp_path / "x.safetensors"), read_tensors(tmp_path / "x.safetensors")):
        assert set(loaded) == set(tensors)
        for name, tensor in tensors.items():
            assert loaded[name].dtype == tensor.dtype
            np.testing.assert_array_equal(loaded[name], tensor)


def test_states_are_taken_apart_and_put_together() -> None:
    state = {
        "a": {"b": np.arange(3), "c": 1, "d": {"e": np.zeros(2), "f": [1, {"g": 2**100}]}},
        "h": None,
    }
    tensors, values = split(state)
    assert set(tensors) == {"a/b", "a/d/e"}
    assert join(tensors, json.loads(json.dumps(values))) == state


# ----------------------------------------------------------------------------------------- kill -9

KILLER = """
import os, random, signal, sys, time
from pathlib import Path
import numpy as np
from hindsight.saving.checkpoints import Checkpoints, Snapshot

directory, kills = Path(sys.argv[1]), int(sys.argv[2])
metrics = directory / "metrics.jsonl"
metrics.write_bytes(b"x" * 1000)
checkpoints = Checkpoints(directory / "checkpoints", keep=2)

def save_forever(first, pipe):
    for cycle in range(first, 10**6):
        state = {name: {"x": np.full(200_000, cycle)} for name in ("agent", "replay")} | {"cycle": cycle}
        checkpoints.write(Snapshot(cycle, cycle, (cycle * 7 % 10) / 10, state, b"{}", metrics, 1000))
        os.write(pipe, cycle.to_bytes(4, "little"))

known, within = 0, 0
for kill in range(kills):
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        save_forever(known + 1, writing)
    os.close(writing)
    told = os.read(reading, 4)  # one is saved, so that the kill hits a later one
    time.sleep(random.Random(kill).uniform(0.0, 0.08))
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    while more := os.read(reading, 4):
        told = more
    os.close(reading)
    within += any(p.suffix for p in (directory / "checkpoints").iterdir())
    checkpoint, skipped = checkpoints.newest()
    assert not skipped, skipped
    assert checkpoint.cycle >= int.from_bytes(told, "little"), (checkpoint, told)
    state = checkpoint.load()
    assert (state["agent"]["x"] == checkpoint.cycle).all() and (state["replay"]["x"] == checkpoint.cycle).all()
    known = checkpoint.cycle
print(within)
"""


@pytest.mark.parametrize("kills", [20, pytest.param(200, marks=pytest.mark.slow)])
def test_killed_while_saving(kills: int, tmp_path: Path) -> None:
    command = [sys.executable, "-c", KILLER, str(tmp_path), str(kills)]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    assert int(result.stdout) > kills // 4  # of the kills hit a save that was under way


# ------------------------------------------------------------------------------------------ damage


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


DAMAGE: dict[str, Callable[[Path], None]] = {
    "flipped": flip,
    "truncated": truncate,
    "missing": Path.unlink,
}
FILES = ["manifest.json", "state.json", "config.json", "metrics.jsonl", "learner.safetensors"]
FILES += [
    "averaged.safetensors",
    "normalizer.safetensors",
    "replay.safetensors",
    "rollouts.safetensors",
]


@pytest.mark.parametrize("damage", DAMAGE)
@pytest.mark.parametrize("file", FILES)
def test_a_damaged_checkpoint_is_named_and_the_older_one_used(
    file: str, damage: str, run: Path
) -> None:
    checkpoints = Checkpoints(run / "checkpoints")
    newest, older = checkpoints.names()[:2]
    assert {p.name for p in (run / "checkpoints" / newest).iterdir()} == set(FILES)
    DAMAGE[damage](run / "checkpoints" / newest / file)
    found, skipped = checkpoints.newest()
    assert found.path.name == older
    assert len(skipped) == 1
    assert newest in skipped[0]
    assert file in skipped[0]
    broken = [finding for finding in verify(run) if finding.state == "BROKEN"]
    assert any(newest in finding.file and file in finding.text for finding in broken)


def test_resume_goes_on_from_the_older_one(run: Path) -> None:
    newest = Checkpoints(run / "checkpoints").names()[0]
    flip(run / "checkpoints" / newest / "replay.safetensors")
    with pytest.warns(
        UserWarning, match=rf"{newest} is broken: the SHA-256 of replay.safetensors differs"
    ):
        resumed = hindsight.resume(run, quiet=True)
    assert resumed.summary["status"] == "finished"
    assert all(finding.state != "BROKEN" for finding in verify(run))


@pytest.mark.parametrize("damage", ["flipped", "missing"])
@pytest.mark.parametrize(
    "file", ["config.json", "metrics.jsonl", "summary.json", "policy.json", "policy.safetensors"]
)
def test_verify_names_other_files_that_are_damaged(file: str, damage: str, run: Path) -> None:
    assert all(finding.state == "ok" for finding in verify(run))
    DAMAGE[damage](run / file)
    broken = {finding.file for finding in verify(run) if finding.state == "BROKEN"}
    expected = {file, "policy.json", "policy.safetensors"} if file.startswith("policy") else {file}
    if damage == "missing":
        expected -= {file} if file not in ("config.json", "metrics.jsonl") else set()
    assert broken == expected


def test_verify_reads_the_event_files(run: Path) -> None:
    events = next((run / "tensorboard").iterdir())
    flip(events)
    assert [f.file for f in verify(run) if f.state == "BROKEN"] == [f"tensorboard/{events.name}"]


def test_a_damaged_config_and_lost_metrics_are_restored_from_the_checkpoint(run: Path) -> None:
    (run / "config.json").write_text("{")
    (run / "metrics.jsonl").unlink()
    resumed = hindsight.resume(run, quiet=True)
    assert [row["cycle"] for row in resumed.metrics][:3] == [1, 2, 3]
    assert all(finding.state != "BROKEN" for finding in verify(run))


# ------------------------------------------------------------------------------------------ malice


def forge(run: Path, file: str, content: bytes) -> None:
    """Replace a file of every checkpoint, and mend the manifests."""
    for path in (run / "checkpoints").iterdir():
        (path / file).write_bytes(content)
        mend(path)


def mend(path: Path, **changes: Any) -> None:
    manifest = json.loads((path / "manifest.json").read_bytes())
    del manifest["sha256"]
    manifest["files"] = {
        p.name: sum_of(p)._asdict() for p in path.iterdir() if p.name != "manifest.json"
    }
    (path / "manifest.json").write_bytes(sealed({**manifest, **changes}))


class Exploit:
    def __reduce__(self) -> Any:
        return os.system, ("touch exploited",)


def header(**tensors: Any) -> bytes:
    text = json.dumps(tensors).encode()
    return struct.pack("<Q", len(text)) + text


def values(run: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(
        (run / "checkpoints" / "00000003" / "state.json").read_bytes()
    )
    return found


def with_tensors(run: Path, file: str, **changes: Any) -> bytes:
    tensors = load_file(run / "checkpoints" / "00000003" / file)
    return b"".join(
        tensor_parts(tensors | {name.replace("__", "/"): value for name, value in changes.items()})
    )


HUGE = {"dtype": "F32", "shape": [2**40], "data_offsets": [0, 2**42]}
QUEUE = "replay__priorities__queues__queue_0__"
CONTENTS: dict[str, tuple[str, Callable[[Path], bytes]]] = {
    "pickle as tensors": ("learner.safetensors", lambda run: pickle.dumps(Exploit())),
    "pickle as state": ("state.json", lambda run: pickle.dumps(Exploit())),
    "huge header": ("learner.safetensors", lambda run: struct.pack("<Q", 2**60) + b"{}"),
    "huge tensor": ("learner.safetensors", lambda run: header(x=HUGE)),
    "tensor beyond the file": (
        "learner.safetensors",
        lambda run: header(x={**HUGE, "shape": [4], "data_offsets": [0, 16]}),
    ),
    "negative offsets": (
        "learner.safetensors",
        lambda run: header(x={**HUGE, "data_offsets": [-8, 8]}),
    ),
    "deep JSON": ("state.json", lambda run: b"[" * 200_000),
    "deep object": ("state.json", lambda run: b'{"a":' * 200_000),
    "huge number": ("state.json", lambda run: b'{"counts": ' + b"9" * 10_000 + b"}"),
    "not an object": ("state.json", lambda run: b"[]"),
    "nothing in it": ("state.json", lambda run: b"{}"),
    "wrong kinds": (
        "state.json",
        lambda run: json.dumps(values(run) | {"rng": "x", "counts": {}}).encode(),
    ),
    "bad generator": (
        "state.json",
        lambda run: json.dumps(values(run) | {"rng": {"bit_generator": "PCG64"}}).encode(),
    ),
    "negative counts": (
        "state.json",
        lambda run: json.dumps(
            values(run) | {"counts": {"cycle": -1, "step": 0, "dropped": 0}}
        ).encode(),
    ),
    "config that is none": ("config.json", lambda run: b'{"env": 3}'),
    "config of another env": (
        "config.json",
        lambda run: (run / "config.json").read_bytes().replace(b"BitFlip-v0", b"EmptyRoom-v0"),
    ),
    "tensors for values": (
        "replay.safetensors",
        lambda run: with_tensors(run, "replay.safetensors", rng=np.zeros(1)),
    ),
    "wrong shape": (
        "learner.safetensors",
        lambda run: with_tensors(run, "learner.safetensors", learner__updates=np.zeros(3)),
    ),
    "one tensor more": (
        "learner.safetensors",
        lambda run: with_tensors(run, "learner.safetensors", learner__x=np.zeros(3)),
    ),
    "entries out of range": (
        "replay.safetensors",
        lambda run: with_tensors(
            run,
            "replay.safetensors",
            **{
                QUEUE + "entries": np.array([2**30], np.int32),
                QUEUE + "priority": np.ones(1, np.float32),
            },
        ),
    ),
    "lengths out of range": (
        "replay.safetensors",
        lambda run: with_tensors(
            run, "replay.safetensors", replay__storage__length=np.full(6, 2**40)
        ),
    ),
}


@pytest.mark.parametrize("content", CONTENTS)
def test_nothing_runs_and_the_error_is_one_line(
    content: str, run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(run.parent)
    before = {
        p: p.read_bytes()
        for p in run.rglob("*.*")
        if p.is_file() and p.parent.parent.name != "checkpoints"
    }
    file, make = CONTENTS[content]
    forge(run, file, make(run))
    with pytest.raises(HindsightError) as error:
        hindsight.resume(run, quiet=True)
    assert "\n" not in str(error.value)
    assert os.listdir() == ["run"]
    assert before == {p: p.read_bytes() for p in before}


@pytest.mark.parametrize(
    "name", ["../../../escape.json", "/tmp/escape.json", "..", "a/b.json", "manifest.json", "x.py"]
)
def test_names_that_escape(name: str, run: Path) -> None:
    for path in (run / "checkpoints").iterdir():
        sums = json.loads((path / "manifest.json").read_bytes())["files"]
        mend(path, files=sums | {name: {"bytes": 1, "sha256": "0" * 64}})
    with pytest.raises(HindsightError, match="no intact checkpoint"):
        hindsight.resume(run)
    with pytest.raises(BrokenCheckpoint, match="names the file"):
        Checkpoints(run / "checkpoints").check("00000003")


def test_links_are_not_followed(run: Path, tmp_path: Path) -> None:
    newest = run / "checkpoints" / "00000003"
    (newest / "state.json").rename(tmp_path / "outside.json")
    (newest / "state.json").symlink_to(tmp_path / "outside.json")
    outside = tmp_path / "outside"
    shutil.copytree(run / "checkpoints" / "00000002", outside)
    (run / "checkpoints" / "00000009").symlink_to(outside)
    found, skipped = Checkpoints(run / "checkpoints").newest()
    assert found.path.name == "00000002"
    assert len(skipped) == 1
    assert "state.json is missing" in skipped[0]
    with pytest.raises(HindsightError, match="is a link"):  # before any checkpoint is looked at
        hindsight.resume(run, quiet=True)
    assert len(list(outside.iterdir())) == len(FILES)


@pytest.mark.parametrize(
    "manifest", [b"", b"[" * 100_000, b"\x80\x04.", b"[]", b'{"format": 1}', b"null", b" " * 2**21]
)
def test_manifests_that_are_none(manifest: bytes, run: Path) -> None:
    (run / "checkpoints" / "00000003" / "manifest.json").write_bytes(manifest)
    found, skipped = Checkpoints(run / "checkpoints").newest()
    assert found.path.name == "00000002"
    assert "\n" not in skipped[0]


def test_a_newer_format_is_refused(run: Path) -> None:
    mend(run / "checkpoints" / "00000003", format=2)
    with pytest.raises(HindsightError, match="newer Hindsight"):
        hindsight.resume(run)


def test_what_a_killed_process_left_is_swept(run: Path) -> None:
    checkpoints = Checkpoints(run / "checkpoints")
    for name in ("00000007.part", "00000001.gone"):
        (run / "checkpoints" / name).mkdir()
        (run / "checkpoints" / name / "learner.safetensors").write_bytes(b"half")
    assert {f.state for f in verify(run)} == {"ok", "note"}
    checkpoints.write(
        Snapshot(8, 8, None, {"x": {"y": np.zeros(1)}}, b"{}", run / "metrics.jsonl", 3)
    )
    assert all(p.suffix == "" for p in (run / "checkpoints").iterdir())
