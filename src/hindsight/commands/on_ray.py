"""The options of a training on Ray."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from tyro.conf import FlagCreatePairsOff, arg

from hindsight.distributed.cluster import default_address
from hindsight.errors import HindsightError


@dataclass(kw_only=True)
class RayOption:
    """Where episodes are played."""

    ray: Annotated[tuple[str, ...] | None, arg(metavar="[ADDRESS]", help_behavior_hint="")] = None
    """Play episodes in many processes: on this machine, or on the Ray cluster at HOST:PORT (auto:
    the one that this machine is part of). Further, --collectors INT: so many processes (default:
    one per CPU but one). --asynchronous: play on while learning; two runs of a seed then
    differ."""


@dataclass(kw_only=True)
class CollectorOptions:
    """By how many processes, and how."""

    collectors: Annotated[int | None, arg(metavar="INT", help_behavior_hint="")] = None
    """With --ray: how many processes (default: one per CPU but one)."""
    asynchronous: Annotated[bool, FlagCreatePairsOff, arg(help_behavior_hint="")] = False
    """With --ray: play on while learning. Two runs of a seed then differ."""


def on_ray(where: RayOption, how: CollectorOptions) -> dict[str, Any]:
    """As the functions in `api.py` take them."""
    if where.ray is not None and len(where.ray) > 1:
        raise HindsightError(f"--ray takes one address, got {' '.join(where.ray)}")
    address = None if where.ray is None else where.ray[0] if where.ray else default_address()
    return {"ray": address, "collectors": how.collectors, "asynchronous": how.asynchronous}
