"""What the bytes of a training depend on, besides its settings: versions, the kind of CPU, and how
JAX computes.

XLA divides its work among as many threads as it sees cores, and sums come out in another order
for another number. So the command line gives it a fixed number, whatever the machine has. In a
process of the user's own it is the user's.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

THREADS = 2
"""More hardly help networks of this size, and leave fewer cores to simulations."""
_NAMES = ("PJRT_NPROC", "NPROC")
"""What XLA reads once, when it starts; the first counts more."""


def fix_threads() -> None:
    """Let XLA use a fixed number of threads, if nobody has said another and JAX has not been
    imported."""
    if "jax" not in sys.modules and not any(name in os.environ for name in _NAMES):
        os.environ[_NAMES[0]] = str(THREADS)


def jax_threads() -> int:
    """How many threads XLA has, as far as can be told from outside."""
    for name in _NAMES:
        if os.environ.get(name, "").isdigit():
            return int(os.environ[name])
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def conditions() -> Mapping[str, str]:
    """All of it, by name: saved with every checkpoint, and compared when a run goes on."""
    import jax

    from hindsight.training.run import machine, versions

    bits = "64" if getattr(jax.config, "jax_enable_x64", False) else "32"
    return {
        **versions(),
        "JAX threads": str(jax_threads()),
        "JAX bits": bits,
        "CPU": machine()["cpu"],
    }


def changed(before: Mapping[str, str]) -> list[str]:
    """What is no longer as it was, in words."""
    now = conditions()
    return [
        f"{name} {was} (now {now.get(name)})"
        for name, was in before.items()
        if now.get(name) != was
    ]
