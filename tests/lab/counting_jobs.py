"""A program that runs jobs on a real Ray cluster of three nodes on this machine, and kills one.

python counting_jobs.py DIRECTORY. It prints a JSON object. A job counts to its end, saving every
number, as a training saves checkpoints.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hindsight.lab.jobs import At, Runner, State, same
from hindsight.lab.ray_jobs import Cluster
from hindsight.saving.lock import is_held

COUNT = """
import os, sys, time
from pathlib import Path
from hindsight.saving.files import write_aside
from hindsight.saving.lock import RunLock
from hindsight.training.signals import StopSignals
path, end = Path(sys.argv[1]), int(Path(sys.argv[2]).read_text())
path.mkdir(exist_ok=True)
with StopSignals() as stop, RunLock(path):
    count = int((path / "count").read_text()) if (path / "count").exists() else 0
    with open(path / "begun", "a") as file:
        print(count, file=file)
    while count < end:
        time.sleep(0.1)
        count += 1
        write_aside(path / "count", str(count).encode())
        stop.check()
print("counted")
"""
NODE = {"node_ip_address": "127.0.0.1", "object_store_memory": 80_000_000}


@dataclass(frozen=True)
class Count:
    directory: Path
    number: int
    steps: int
    minutes: float = 0.0

    @property
    def name(self) -> str:
        return f"count{self.number}"

    @property
    def run_dir(self) -> Path:
        return self.directory / "runs" / self.name

    @property
    def log(self) -> Path:
        return self.directory / "logs" / f"{self.name}.log"

    @property
    def files(self) -> Sequence[Path]:
        return [self.directory / "end"]

    def counted(self) -> int:
        path = self.run_dir / "count"
        return int(path.read_text()) if path.exists() else 0

    def state(self) -> State:
        if is_held(self.run_dir):
            return "running"
        counted = self.counted()
        return "done" if counted == self.steps else "interrupted" if counted else "pending"

    def command(self, left: float, at: At = same) -> list[str]:
        return ["-c", COUNT, str(at(self.run_dir)), str(at(self.files[0]))]

    def start_line(self, state: State) -> str:
        return f"{self.name} {state}"

    def done_line(self) -> str:
        return f"{self.name} done"


def cluster_of_three() -> Any:
    from ray.cluster_utils import Cluster as Nodes

    nodes = Nodes(
        initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False, **NODE}
    )
    for _ in range(2):
        nodes.add_node(num_cpus=1, **NODE)
    return nodes


def run(directory: Path, nodes: Any, what: str) -> dict[str, Any]:
    """Four jobs on three nodes. When three of them are half done, a node is killed, or Ctrl-C is
    pressed."""
    end = 24 if what != "stopped" else 10_000
    directory.mkdir()
    (directory / "end").write_text(str(end))
    jobs = [Count(directory, number, end) for number in range(4)]
    shared = None if what == "shared" else False
    runner = Runner(jobs, Cluster(nodes.address, cores=1, shared=shared, gather_every=0.5))

    def when_half_done() -> None:
        while sum(job.counted() >= 12 for job in jobs) < 3:
            time.sleep(0.1)
        if what == "stopped":
            os.kill(os.getpid(), signal.SIGINT)
        else:
            nodes.remove_node(next(iter(nodes.worker_nodes)), allow_graceful=False)

    threading.Thread(target=when_half_done, daemon=True).start()
    stopped = False
    try:
        runner.run()
    except KeyboardInterrupt:
        stopped = True
    return {
        "stopped": stopped,
        "states": runner.states,
        "lost": sum(runner._losses.values()),
        "counted": [job.counted() for job in jobs],
        "begun": [(job.run_dir / "begun").read_text().split() for job in jobs if job.counted()],
        "logs": [job.log.read_text().count("counted") for job in jobs if job.log.exists()],
        "files": sorted(path.name for path in (directory / "runs").rglob("*")),
    }


def main(directory: Path) -> None:
    from hindsight.distributed.cluster import imported

    imported()  # binds Ray to 127.0.0.1
    nodes = cluster_of_three()
    found = {}
    for what in ("shared", "gathered", "stopped"):
        found[what] = run(directory / what, nodes, what)
        if what != "stopped" and len(nodes.worker_nodes) < 2:
            nodes.add_node(num_cpus=1, **NODE)
    nodes.shutdown()
    print(json.dumps(found))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
