"""The options of commands that run many trainings: on this machine, or on a Ray cluster."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from tyro.conf import arg

from hindsight.errors import HindsightError

if TYPE_CHECKING:
    from hindsight.lab.ray_jobs import Cluster


@dataclass(kw_only=True)
class OnRay:
    """Where trainings are run."""

    ray: Annotated[tuple[str, ...] | None, arg(metavar="[ADDRESS]", help_behavior_hint="")] = None
    """Run the trainings by Ray: started on this machine, or on a running cluster's HOST:PORT
    (`auto`: the one that this machine is part of). See docs/cluster.md."""
    cores: float = 2.0
    """With --ray: cores of a training."""

    def check(self) -> None:
        if self.ray is not None and len(self.ray) > 1:
            raise HindsightError(f"--ray takes one address, got {' '.join(self.ray)}")
        if not self.cores > 0:
            raise HindsightError(f"--cores must be more than 0, got {self.cores:g}")

    def cluster(self, limit: int) -> Cluster | None:
        """The cluster that was asked for. `limit` trainings at a time; 0: what it has cores for."""
        if self.ray is None:
            return None
        from hindsight.distributed.cluster import default_address
        from hindsight.lab.ray_jobs import Cluster

        return Cluster(self.ray[0] if self.ray else default_address(), limit, self.cores)
