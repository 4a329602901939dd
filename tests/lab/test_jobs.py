"""Jobs that run in this process."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from hindsight.lab.jobs import Here


@dataclass(frozen=True)
class Job:
    name: str = "job"


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_memory_of_a_job_goes_back_to_the_system() -> None:
    kept = []

    def run(job: Job, left: object) -> None:
        blocks = [np.ones(12_000) for _ in range(2_000)]  # 192 MB, in pieces that are not mapped
        kept.append(bytearray(100_000))  # above them: the heap cannot shrink from its end
        del blocks

    before = resident()
    Here(run).start(Job(), lambda: 1.0)
    assert resident() - before < 50e6


def resident() -> int:
    """Bytes."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
