"""Files that are there whole or not at all, and reading that never runs code, follows a link, or
waits for a pipe.

Tensors are written in the safetensors format, straight from the arrays' memory, and hashed on
the way.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import stat
import struct
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from safetensors import SafetensorError, safe_open

from hindsight.errors import HindsightError
from hindsight.types import Array

CHUNK = 1 << 22
JSON_LIMIT = 64 << 20
FILE_LIMIT = 4 << 30
_DTYPES = {"float": "F", "int": "I", "uint": "U"}


class FileSum(NamedTuple):
    """What a manifest says of a file."""

    bytes: int
    sha256: str


def write_aside(path: Path, content: bytes) -> None:
    """Write a file so that it is there whole or not at all."""
    aside = path.with_name(path.name + ".part")
    write_synced(aside, [content])
    os.replace(aside, path)
    sync_directory(path.parent)


def write_synced(path: Path, parts: Iterable[bytes | memoryview]) -> FileSum:
    """Write the parts one after the other, wait until they are on the disk, and return what was
    written.

    The file is always a new one: what had the name, be it a link to somewhere else, is removed
    first and not written through.
    """
    digest, size = hashlib.sha256(), 0
    path.unlink(missing_ok=True)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with os.fdopen(os.open(path, flags, 0o666), "wb", buffering=0) as file:
        for part in parts:
            for start in range(0, len(part), CHUNK):
                chunk = memoryview(part)[start : start + CHUNK]
                digest.update(chunk)
                size += len(chunk)
                while len(chunk):
                    chunk = chunk[file.write(chunk) :]
        os.fsync(file.fileno())
    return FileSum(size, digest.hexdigest())


def sync_directory(path: Path) -> None:
    """Wait until the names in a directory are on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def tensor_parts(
    tensors: dict[str, Array], metadata: dict[str, str] | None = None
) -> Iterable[bytes | memoryview]:
    """The parts of a safetensors file: header length, header, then every array as it lies in
    memory."""
    header: dict[str, Any] = {"__metadata__": metadata} if metadata else {}
    arrays, offset = [], 0
    for name in sorted(tensors):
        array = np.asarray(tensors[name], order="C")
        kind = "BOOL" if array.dtype == np.bool_ else _DTYPES[array.dtype.name.rstrip("0123456789")]
        dtype = kind if kind == "BOOL" else f"{kind}{8 * array.dtype.itemsize}"
        header[name] = {
            "dtype": dtype,
            "shape": list(array.shape),
            "data_offsets": [offset, offset + array.nbytes],
        }
        arrays.append(array)
        offset += array.nbytes
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    yield struct.pack("<Q", len(text)) + text
    for array in arrays:
        yield memoryview(array.reshape(-1).view(np.uint8))  # type: ignore[arg-type]


def read_file(path: Path, limit: int = FILE_LIMIT) -> bytes:
    """The content of a plain file: no link, no pipe, no device, and not more than `limit` bytes."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise HindsightError(f"{path} is a link: nothing in a run may be one") from None
        raise
    with os.fdopen(descriptor, "rb") as file:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise HindsightError(f"{path} is not a plain file")
        if found.st_size > limit:
            raise HindsightError(f"{path} is too large: more than {limit >> 20} MiB")
        return file.read(limit)


def is_plain(path: Path) -> bool:
    """Whether there is a plain file of that name: no link, no pipe, no device."""
    try:
        return stat.S_ISREG(os.lstat(path).st_mode)
    except OSError:
        return False


def refuse_links(directory: Path) -> None:
    """Raise HindsightError if anything in a directory is neither a file nor a directory of its
    own."""
    for where, directories, files in os.walk(directory):
        for path in (Path(where, name) for name in (*directories, *files)):
            if path.is_symlink():
                raise HindsightError(
                    f"{path} is a link: nothing in a run may be one; remove it, if it is yours"
                )
        for path in (Path(where, name) for name in files):
            if not is_plain(path):
                raise HindsightError(
                    f"{path} is neither a file nor a directory; remove it, if it is yours"
                )


def read_tensors(path: Path) -> dict[str, Array]:
    """The arrays of a safetensors file."""
    if not is_plain(path):
        raise HindsightError(f"{path} is not a plain file")
    try:
        with safe_open(path, framework="np") as file:
            return {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118  (it is no dict)
    except (
        SafetensorError,
        ValueError,
        TypeError,
        AttributeError,
        KeyError,
        MemoryError,
        OverflowError,
    ) as error:
        raise HindsightError(
            f"{path} is no safetensors file: {' '.join(str(error).split())}"
        ) from None


def read_json(path: Path, limit: int = JSON_LIMIT) -> dict[str, Any]:
    """The JSON object in a file."""
    try:
        data = json.loads(read_file(path, limit))
    except HindsightError:
        raise
    except (ValueError, RecursionError) as error:
        raise HindsightError(f"{path} is not JSON: {' '.join(str(error).split())}") from None
    if not isinstance(data, dict):
        raise HindsightError(f"{path} is not a JSON object")
    return data


def sum_of(path: Path) -> FileSum:
    """Size and SHA-256 of a file."""
    with open(path, "rb") as file:
        digest = hashlib.file_digest(file, "sha256")
        return FileSum(file.tell(), digest.hexdigest())


def sealed(data: dict[str, Any]) -> bytes:
    """A JSON object as text that ends with its own SHA-256, so that a change anywhere in it
    shows."""
    return json.dumps({**data, "sha256": _seal(data)}, indent=2).encode() + b"\n"


def is_sealed(data: dict[str, Any]) -> bool:
    """Whether a JSON object is what `sealed` wrote."""
    return data.get("sha256") == _seal({k: v for k, v in data.items() if k != "sha256"})


def _seal(data: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(data, indent=2).encode()).hexdigest()
