"""Copies of a run's checkpoints at an fsspec address: s3://…, gs://…, file://…, memory://….

A store need not be able to rename. So the manifest, which names every file with its SHA-256, is
copied last and removed first: a checkpoint without one is not there. What is fetched is checked
against it, as on a disk.
"""

from __future__ import annotations

import contextlib
import os
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from hindsight.errors import HindsightError
from hindsight.saving.checkpoints import (
    MANIFEST,
    BrokenCheckpoint,
    Checkpoint,
    Checkpoints,
    is_name,
    read_manifest,
)


class Mirror:
    """The checkpoints of one run at an address. What the store cannot do is an OSError."""

    def __init__(self, address: str) -> None:
        self.address = address.rstrip("/")
        try:
            import fsspec
        except ImportError:
            raise HindsightError(
                "fsspec is not installed: pip install 'hindsight-rl[store]'"
            ) from None
        try:
            self._store, self._root = fsspec.core.url_to_fs(address)
        except ImportError as error:  # names the package that knows the protocol
            raise HindsightError(f"cannot use {address}: {_line(error)}") from None
        except Exception as error:
            raise HindsightError(f"cannot use {address} for checkpoints: {_line(error)}") from None

    def names(self) -> list[str]:
        """Those that have a manifest, newest first."""
        with self._failures():
            self._store.invalidate_cache()
            if not self._store.isdir(self._root):
                return []
            found = self._store.glob(f"{self._root}/*/{MANIFEST}")
        names = [str(path).split("/")[-2] for path in found]
        return sorted(filter(is_name, names), key=int, reverse=True)

    def require_empty(self) -> None:
        """Raise HindsightError if there are checkpoints: a new run must not mix with another."""
        try:
            taken = bool(self.names())
        except OSError as error:
            raise HindsightError(f"cannot use {self.address} for checkpoints: {error}") from None
        if taken:
            raise HindsightError(
                f"{self.address} holds the checkpoints of a run: choose another address, or go on "
                f"with it: hindsight resume RUN --checkpoint-to {self.address}"
            )

    def copy(self, checkpoint: Checkpoint, kept: list[str]) -> None:
        """Copy a checkpoint there, and remove those that are not kept here."""
        name = checkpoint.path.name
        with self._failures():
            self._remove(name)  # of a future that was given up
            self._store.makedirs(self._at(name), exist_ok=True)
            for file in (*checkpoint.files, MANIFEST):
                self._store.put_file(str(checkpoint.path / file), self._at(name, file))
        for other in self.names():
            if other not in kept:
                with self._failures():
                    self._remove(other)

    def copy_files(self, paths: Sequence[Path]) -> None:
        """Copy files there that are no checkpoint, such as the policy."""
        with self._failures():
            for path in paths:
                if path.is_file():
                    self._store.put_file(str(path), self._at(path.name))

    def fetch_files(self, paths: Sequence[Path]) -> None:
        """Bring the files here, as far as they are there."""
        for path in paths:
            aside = path.with_name(f"{path.name}.part")
            with self._failures():
                if not self._store.exists(self._at(path.name)):
                    continue
                self._store.get_file(self._at(path.name), str(aside))
            os.replace(aside, path)

    def fetch(self, checkpoints: Checkpoints) -> bool:
        """Bring the newest intact checkpoint here, unless one that is as new is here already.
        Broken ones are named, and skipped."""
        here = checkpoints.names()
        for name in self.names():
            if here and int(here[0]) >= int(name):
                break
            try:
                self._fetch(name, checkpoints)
                return True
            except BrokenCheckpoint as error:
                warnings.warn(f"{self.address}: {error}; skipped", stacklevel=4)
        return False

    def _fetch(self, name: str, checkpoints: Checkpoints) -> None:
        aside = checkpoints.aside(name)
        with self._failures():
            self._store.get_file(self._at(name, MANIFEST), str(aside / MANIFEST))
        files = read_manifest(aside)["files"]
        for file in files:
            with self._failures(), contextlib.suppress(FileNotFoundError):
                self._store.get_file(self._at(name, file), str(aside / file))
        checkpoints.check(aside.name)
        checkpoints.take_in(aside, name)

    def _remove(self, name: str) -> None:
        """The manifest first, so that it is never there in part."""
        if self._store.exists(self._at(name, MANIFEST)):
            self._store.rm_file(self._at(name, MANIFEST))
        if self._store.exists(self._at(name)):
            self._store.rm(self._at(name), recursive=True)

    def _at(self, *parts: str) -> str:
        return "/".join((self._root.rstrip("/"), *parts))

    @contextlib.contextmanager
    def _failures(self) -> Iterator[None]:
        """Stores raise errors of many kinds: all of them become an OSError, in one line."""
        try:
            yield
        except FileNotFoundError:
            raise
        except Exception as error:
            raise OSError(_line(error)) from error


def _line(error: Any) -> str:
    return " ".join(str(error).split()) or type(error).__name__
