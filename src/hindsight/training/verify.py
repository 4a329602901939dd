"""Checks every file of a run: whether it is what was written, as far as can be told."""

from __future__ import annotations

import struct
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Literal, NamedTuple

from hindsight.errors import HindsightError
from hindsight.saving.appended import checksum as checksum_of
from hindsight.saving.checkpoints import CONFIG, MANIFEST, Checkpoint, Checkpoints
from hindsight.saving.files import is_plain, is_sealed, read_file, read_json
from hindsight.saving.lock import LOCK
from hindsight.saving.metrics import METRICS, read_metrics
from hindsight.training.policy import DESCRIPTION, TENSORS, Policy, bears_sums
from hindsight.training.run import SUMMARY, TRACKED, read_config
from hindsight.training.trust import MARK


class Finding(NamedTuple):
    """What is known of a file."""

    file: str
    state: Literal["ok", "note", "BROKEN"]
    text: str = ""


def verify(run: Path | str) -> list[Finding]:
    """A finding for every file of a run directory. A run that was killed has no broken file, but
    may have notes."""
    path = Path(run)
    if not path.is_dir():
        raise HindsightError(f"{path} does not exist")
    checkpoints = Checkpoints(path / "checkpoints")
    findings, newest = _checkpoints(path, checkpoints)
    checks: dict[str, Callable[[Path, Checkpoint | None], str]] = {
        CONFIG: _config,
        METRICS: _metrics,
        SUMMARY: _sealed,
        TRACKED: _sealed,
        DESCRIPTION: _policy,
        TENSORS: _policy,
        LOCK: lambda path, newest: "",
        MARK: lambda path, newest: "",
    }
    known = {finding.file for finding in findings}
    for file in sorted(p for p in path.rglob("*") if p.is_symlink() or not p.is_dir()):
        name = str(file.relative_to(path))
        if name in known:
            continue
        if not is_plain(file):
            findings.append(
                Finding(name, "BROKEN", "is a link, or no file: nothing in a run may be one")
            )
            continue
        check = _events if name.startswith("tensorboard") else checks.get(name)
        kind = file.parent.suffix.partition("-")[0]
        if file.suffix == ".part" or kind in (".part", ".gone"):
            findings.append(
                Finding(name, "note", "left by a process that was killed while it saved")
            )
        elif kind == ".broken":
            findings.append(
                Finding(name, "note", "of a checkpoint that was broken, and was set aside")
            )
        elif check is None:
            findings.append(Finding(name, "note", "not checked: nothing is read back from it"))
        else:
            findings.append(_finding(name, lambda file=file, check=check: check(file, newest)))  # type: ignore[misc]
    required = [CONFIG, METRICS]
    findings += [
        Finding(name, "BROKEN", "missing") for name in required if not (path / name).is_file()
    ]
    return findings


def _finding(name: str, check: Callable[[], str]) -> Finding:
    try:
        note = check()
    except (HindsightError, OSError, ValueError, KeyError, TypeError) as error:
        return Finding(name, "BROKEN", " ".join(str(error).split()))
    return Finding(name, "note" if note else "ok", note)


def _checkpoints(path: Path, checkpoints: Checkpoints) -> tuple[list[Finding], Checkpoint | None]:
    """Findings for the files of all checkpoints, and the newest intact one."""
    findings, newest = [], None
    for name in checkpoints.names():
        relative = f"checkpoints/{name}"
        try:
            checkpoint = checkpoints.check(name)
        except HindsightError as error:
            findings.append(Finding(relative, "BROKEN", str(error)))
            findings += [
                Finding(str(p.relative_to(path)), "note") for p in (path / relative).glob("*")
            ]
            continue
        newest = newest or checkpoint
        findings += [
            Finding(f"{relative}/{file}", "ok") for file in sorted([MANIFEST, *checkpoint.files])
        ]
    return findings, newest


def _config(path: Path, newest: Checkpoint | None) -> str:
    if newest is None:
        read_config(path)
    elif read_file(path) != read_file(newest.config):  # whose SHA-256 is known
        raise HindsightError(f"differs from the one in the checkpoint {newest.path}")
    return ""


def _metrics(path: Path, newest: Checkpoint | None) -> str:
    content = read_file(path)
    if newest is not None and not content.startswith(newest.metrics):
        raise HindsightError(f"does not begin with the rows in the checkpoint {newest.path}")
    cycles = [row["cycle"] for row in read_metrics(path.parent)]
    steps = [after - before for before, after in pairwise([0, *cycles])]
    for i, step in enumerate(steps, 1):
        # Trainings in JAX write a row for every `eval_every` cycles, and towards their end for
        # every one.
        if step not in (1, steps[0]) or step < 1:
            raise HindsightError(f"a row before line {i} is missing")
    return "" if content.endswith(b"\n") or not content else "the last row is cut"


def _sealed(path: Path, newest: Checkpoint | None) -> str:
    if not is_sealed(read_json(path)):
        raise HindsightError("its SHA-256 differs")
    return ""


def _policy(path: Path, newest: Checkpoint | None) -> str:
    """Both files of the policy: the tensors' file bears the SHA-256 of both."""
    Policy.load(path.parent)
    return (
        "" if bears_sums(read_file(path.parent / TENSORS)) else "not checked: it bears no SHA-256"
    )


def _events(path: Path, newest: Checkpoint | None) -> str:
    """TensorBoard's records: length, checksum of the length, content, checksum of the content."""
    content, at = read_file(path), 0
    while at < len(content):
        if at + 12 > len(content):
            return "the last record is cut"
        size, checksum = struct.unpack_from("<QI", content, at)
        if checksum_of(content[at : at + 8]) != checksum:
            raise HindsightError(f"the record at byte {at} has a wrong checksum")
        if at + size + 16 > len(content):
            return "the last record is cut"
        body = content[at + 12 : at + 12 + size]
        if checksum_of(body) != struct.unpack_from("<I", content, at + 12 + size)[0]:
            raise HindsightError(f"the record at byte {at} has a wrong checksum")
        at += size + 16
    return ""
