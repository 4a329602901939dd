"""Files that grow while a run trains: rows of metrics, and the same numbers for TensorBoard.

They are written at once, on the thread that asks. What cannot be written (a full disk) is kept, and
goes first the next time, so a record is never torn and nobody ever waits for space.

TensorBoard's format is written here and not by tensorboardX: that one has a queue and a thread
of its own, which dies of a full disk and then blocks whoever logs, for ever; and it imports
PyTorch wherever that is installed.
"""

from __future__ import annotations

import json
import os
import socket
import struct
import time
from collections.abc import Mapping
from pathlib import Path

from hindsight.errors import HindsightError


class Appended:
    """A file that records are appended to, whole, whatever the disk does in between. Links are
    not followed."""

    def __init__(self, path: Path, first: bytes = b"") -> None:
        self.path = path
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        self._descriptor = os.open(path, flags, 0o666)
        self.size = os.fstat(self._descriptor).st_size
        self._waiting = first  # goes with the first record

    def append(self, record: bytes) -> None:
        """Write a record after those that wait. Raises OSError, and then they wait on."""
        self._waiting += record
        while self._waiting:
            written = os.write(self._descriptor, self._waiting)
            self.size += written
            self._waiting = self._waiting[written:]

    def close(self) -> None:
        os.close(self._descriptor)


class Rows(Appended):
    """Rows of numbers, a line of JSON each."""

    def add(self, row: Mapping[str, float]) -> None:
        self.append(json.dumps(row).encode() + b"\n")


class Events:
    """Numbers by step, for TensorBoard: a file in a directory, made when the first are there to
    be written."""

    def __init__(self, directory: Path, purge_step: int | None = None) -> None:
        self.directory = directory
        self.purge_step = purge_step
        """TensorBoard forgets what older files say of this step and later ones: the run was
        taken back to there."""
        self._file: Appended | None = None

    def add(self, values: Mapping[str, float], step: int) -> None:
        """Append them as one record."""
        if self._file is None:
            self._file = self._begin()
        numbers = b"".join(
            _text(1, _text(1, tag.encode()) + _float(2, x)) for tag, x in values.items()
        )
        self._file.append(record(_now() + _int(2, step) + _text(5, numbers)))

    def _begin(self) -> Appended:
        if self.directory.is_symlink():
            raise HindsightError(f"{self.directory} is a link: nothing in a run may be one")
        self.directory.mkdir(exist_ok=True)
        name = f"events.out.tfevents.{time.time_ns()}.{socket.gethostname()}.{os.getpid()}"
        start = record(_now() + _text(3, b"brain.Event:2"))
        if self.purge_step is not None:
            start += record(
                _now() + _int(2, self.purge_step) + _text(7, _int(1, 1))
            )  # a session starts
        return Appended(self.directory / name, start)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()


# ------------------------------------------------------- TensorBoard's records, in protobuf's form


def record(event: bytes) -> bytes:
    """Length, its checksum, the event, its checksum."""
    size = struct.pack("<Q", len(event))
    return size + struct.pack("<I", checksum(size)) + event + struct.pack("<I", checksum(event))


def checksum(data: bytes) -> int:
    """CRC-32C, rotated and shifted, as TensorBoard's records have it."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = _TABLE[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    crc ^= 0xFFFFFFFF
    return (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF


def _row_of_table(byte: int) -> int:
    for _ in range(8):
        byte = (byte >> 1) ^ (0x82F63B78 if byte & 1 else 0)
    return byte


_TABLE = [_row_of_table(byte) for byte in range(256)]


def _now() -> bytes:
    return b"\x09" + struct.pack("<d", time.time())  # field 1, a double


def _int(field: int, value: int) -> bytes:
    return bytes([field << 3]) + _varint(value)


def _float(field: int, value: float) -> bytes:
    return bytes([field << 3 | 5]) + struct.pack("<f", value)


def _text(field: int, value: bytes) -> bytes:
    return bytes([field << 3 | 2]) + _varint(len(value)) + value


def _varint(value: int) -> bytes:
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*found, value])
