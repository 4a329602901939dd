"""Checkpoints: directories with everything a training is made of, each with a manifest of its
files' SHA-256.

checkpoints/00000120/    named by the training cycle after which it was made manifest.json
format, cycle, step, success rate, size and SHA-256 of every other file, and of itself state.json
the plain values of the state agent.safetensors …  its arrays, a file for each part of the state
that has any config.json          the settings · metrics.jsonl: all rows up to here

A checkpoint is written into a directory whose name ends in .part, synced, and renamed: under its
own name it is whole.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from hindsight.errors import HindsightError
from hindsight.saving.files import (
    FileSum,
    is_plain,
    is_sealed,
    read_file,
    read_json,
    read_tensors,
    sealed,
    sum_of,
    sync_directory,
    tensor_parts,
    write_synced,
)
from hindsight.saving.metrics import METRICS
from hindsight.saving.tree import Learning, State, join, split

FORMAT = 1
MANIFEST, STATE, CONFIG = "manifest.json", "state.json", "config.json"
_NAME = re.compile(r"\d{8,12}")
_LEFT = re.compile(r"\d{8,12}\.(part|gone)(-\d+)?")
_FILE = re.compile(r"[a-z_]{1,40}\.(json|jsonl|safetensors)")


class BrokenCheckpoint(HindsightError):
    """A checkpoint whose files are not what its manifest says."""


@dataclass(frozen=True)
class Snapshot:
    """What a checkpoint is made from. Nothing in it changes any more, but for rows after the
    first `metrics_size`."""

    cycle: int
    step: int
    success_rate: float | None  # of this very policy; None if it was not evaluated
    state: State
    config: bytes
    metrics: Path
    metrics_size: int
    versions: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Checkpoint:
    """An intact checkpoint."""

    path: Path
    cycle: int
    step: int
    success_rate: float | None
    files: dict[str, FileSum]
    versions: dict[str, str]
    """Of the libraries that the bytes of a training depend on."""

    @property
    def config(self) -> Path:
        return self.path / CONFIG

    @property
    def metrics(self) -> bytes:
        return read_file(self.path / METRICS)

    def load(self) -> State:
        """The state that was saved."""
        values = read_json(self.path / STATE)
        tensors: dict[str, Any] = {}
        for name in self.files:
            if name.endswith(".safetensors"):
                tensors |= read_tensors(self.path / name)
        return join(tensors, values)


class Checkpoints:
    """The checkpoints of a run: the newest `keep` of them, and the one with the highest success
    rate."""

    def __init__(self, directory: Path, keep: int = 2) -> None:
        self.directory = directory
        self.keep = keep

    def names(self) -> list[str]:
        """All of them, newest first."""
        if not _is(self.directory, "dir"):
            return []
        found = [
            p.name for p in self.directory.iterdir() if _NAME.fullmatch(p.name) and _is(p, "dir")
        ]
        return sorted(found, key=int, reverse=True)

    def write(self, snapshot: Snapshot) -> Checkpoint:
        """Write a checkpoint, and remove those that are not kept. Raises OSError, and then
        nothing has changed."""
        name = f"{snapshot.cycle:08d}"
        aside = self.aside(name)
        files = {}
        tensors, values = split(snapshot.state)
        for group in sorted({path.partition("/")[0] for path in tensors}):
            part = {
                path: tensor for path, tensor in tensors.items() if path.partition("/")[0] == group
            }
            files[f"{group}.safetensors"] = write_synced(
                aside / f"{group}.safetensors", tensor_parts(part)
            )
        files[STATE] = write_synced(aside / STATE, [json.dumps(values).encode()])
        files[CONFIG] = write_synced(aside / CONFIG, [snapshot.config])
        with open(snapshot.metrics, "rb") as file:
            files[METRICS] = write_synced(aside / METRICS, [file.read(snapshot.metrics_size)])
        if files[METRICS].bytes != snapshot.metrics_size:
            raise OSError(f"{snapshot.metrics} has lost rows")
        about: dict[str, Any] = {"format": FORMAT, "cycle": snapshot.cycle, "step": snapshot.step}
        about |= {"success_rate": snapshot.success_rate, "versions": dict(snapshot.versions)}
        sums = {name: file._asdict() for name, file in files.items()}
        write_synced(aside / MANIFEST, [sealed({**about, "files": sums})])
        self.take_in(aside, name)
        self._prune(snapshot.cycle)
        rate, versions = snapshot.success_rate, dict(snapshot.versions)
        return Checkpoint(
            self.directory / name, snapshot.cycle, snapshot.step, rate, files, versions
        )

    def aside(self, name: str) -> Path:
        """A new directory in which a checkpoint can be put together."""
        if self.directory.is_symlink():
            raise OSError(errno.ELOOP, "it is a link")
        self.directory.mkdir(exist_ok=True)
        self._sweep()
        path = self.directory / f"{name}.part"
        path.mkdir()
        return path

    def take_in(self, aside: Path, name: str) -> None:
        """Give a checkpoint that is whole its name."""
        sync_directory(aside)
        self._discard(
            name
        )  # one of this name was broken, else the training would have gone on from it
        os.rename(aside, self.directory / name)
        sync_directory(self.directory)

    def newest(self) -> tuple[Checkpoint, list[str]]:
        """The newest intact checkpoint, and what is wrong with those that were skipped."""
        skipped: list[str] = []
        for name in self.names():
            try:
                return self.check(name), skipped
            except BrokenCheckpoint as error:
                skipped.append(str(error))
        reason = f": {skipped[0]}" if skipped else ""
        raise HindsightError(f"no intact checkpoint in {self.directory}{reason}")

    def check(self, name: str) -> Checkpoint:
        """Check the manifest of a checkpoint, and every file against it."""
        path = self.directory / name
        about = read_manifest(path)
        files = about["files"]
        for file, expected in files.items():
            if not _is(path / file, "file"):
                raise BrokenCheckpoint(f"checkpoint {path} is broken: {file} is missing")
            if (path / file).stat().st_size != expected.bytes:
                size = (path / file).stat().st_size
                raise BrokenCheckpoint(
                    f"checkpoint {path} is broken: {file} has {size} bytes instead of "
                    f"{expected.bytes}"
                )
            if sum_of(path / file) != expected:
                raise BrokenCheckpoint(
                    f"checkpoint {path} is broken: the SHA-256 of {file} differs"
                )
        return Checkpoint(
            path, about["cycle"], about["step"], about["success_rate"], files, about["versions"]
        )

    def _prune(self, newest: int) -> None:
        """Keep the newest ones and the best. Those with a higher number are of a future that was
        given up as broken."""
        names = self.names()
        past = [name for name in names if int(name) <= newest]
        best = max(past, key=lambda name: (self._success_rate(name), int(name)))
        for name in names:
            if name not in past[: self.keep] and name != best:
                self._discard(name)

    def _success_rate(self, name: str) -> float:
        try:
            rate = read_manifest(self.directory / name)["success_rate"]
        except HindsightError:
            return -2.0
        return -1.0 if rate is None else float(rate)

    def _discard(self, name: str) -> None:
        """Remove a checkpoint: renamed first, so that it is never there in part under its own name.

        Removed are the files that its manifest names. Without a manifest that can be believed
        nobody knows whose it is: it is set aside.
        """
        if name not in self.names():
            return
        try:
            files = read_manifest(self.directory / name)["files"]
        except HindsightError:
            os.rename(self.directory / name, self._free(f"{name}.broken"))
            return
        gone = self._free(f"{name}.gone")
        os.rename(self.directory / name, gone)
        _remove(gone, [*files, MANIFEST])

    def _free(self, name: str) -> Path:
        """A path that is not taken: `name`, or with a number after it."""
        names = (name if i == 1 else f"{name}-{i}" for i in range(1, 10**6))
        return next(path for n in names if not os.path.lexists(path := self.directory / n))

    def _sweep(self) -> None:
        """Remove what a killed process left behind: directories with nothing in them but files
        as a checkpoint has."""
        for path in self.directory.iterdir():
            if _LEFT.fullmatch(path.name) and _is(path, "dir"):
                names = os.listdir(path)
                if all(_FILE.fullmatch(name) and _is(path / name, "file") for name in names):
                    _remove(path, names)


def _remove(directory: Path, files: Iterable[str]) -> None:
    """Remove these files, and the directory if nothing else is in it."""
    for name in files:
        (directory / name).unlink(missing_ok=True)
    with contextlib.suppress(OSError):
        directory.rmdir()


def restore(learning: Learning, checkpoint: Checkpoint) -> None:
    """Take the state of a new training back to a checkpoint."""
    try:
        learning.restore_state(checkpoint.load())
    except (
        HindsightError,
        KeyError,
        ValueError,
        TypeError,
        AttributeError,
        IndexError,
        OverflowError,
    ) as error:
        reason = (
            f"{type(error).__name__}: {error}"
            if isinstance(error, KeyError | AttributeError)
            else str(error)
        )
        raise HindsightError(
            f"cannot go on from {checkpoint.path}: {' '.join(reason.split())}"
        ) from None


def is_name(name: str) -> bool:
    """Whether a checkpoint may be called so."""
    return _NAME.fullmatch(name) is not None


def read_manifest(path: Path) -> dict[str, Any]:
    """The manifest of a checkpoint, checked; its `files` are FileSums by name."""
    if not _is(path / MANIFEST, "file"):
        raise BrokenCheckpoint(f"checkpoint {path} is broken: {MANIFEST} is missing")
    with _broken(path):
        data = read_json(path / MANIFEST, 1 << 20)
        if not is_sealed(data):
            raise HindsightError(f"the SHA-256 of {MANIFEST} differs")
        if type(data.get("format")) is int and data["format"] > FORMAT:
            raise NewerFormat(
                f"checkpoint {path} is of a newer Hindsight (format {data['format']}): update "
                "to read it"
            )
        if sealed({k: v for k, v in data.items() if k != "sha256"}) != read_file(path / MANIFEST):
            raise HindsightError(f"{MANIFEST} has been changed")
        files = {
            name: FileSum(int(sums["bytes"]), str(sums["sha256"]))
            for name, sums in data["files"].items()
        }
        wrong = [name for name in files if not _FILE.fullmatch(name) or name == MANIFEST]
        if wrong:
            raise HindsightError(f"{MANIFEST} names the file {wrong[0]!r}")
        missing = {STATE, CONFIG, METRICS} - set(files)
        if missing:
            raise HindsightError(f"{MANIFEST} does not name {min(missing)}")
        rate = data["success_rate"]
        data["success_rate"] = None if rate is None else float(rate)
        data["versions"] = {str(name): str(version) for name, version in data["versions"].items()}
        return {**data, "files": files, "cycle": int(data["cycle"]), "step": int(data["step"])}


def _is(path: Path, kind: Literal["file", "dir"]) -> bool:
    """Whether there is a file or a directory of that name, and not a link to one that may be
    anywhere."""
    return is_plain(path) if kind == "file" else not path.is_symlink() and path.is_dir()


class NewerFormat(HindsightError):
    """A checkpoint written by a newer version of the library."""


@contextlib.contextmanager
def _broken(path: Path) -> Iterator[None]:
    """Whatever is wrong with a manifest makes the checkpoint a broken one, but a newer format is
    refused."""
    try:
        yield
    except NewerFormat:
        raise
    except (
        HindsightError,
        KeyError,
        ValueError,
        TypeError,
        AttributeError,
        OverflowError,
    ) as error:
        raise BrokenCheckpoint(
            f"checkpoint {path} is broken: {' '.join(str(error).split())}"
        ) from None
