"""Jobs on a Ray cluster: each has an actor with its cores, which runs it in a process of its own.

Where the nodes see our files (a shared file system, or one machine), a job writes into its run
directory as it would here. Where they do not, it works in a directory of its node, and what
changes there is gathered into the run directory again and again. So a job whose node is lost goes
on elsewhere from the last checkpoint that was seen here.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hindsight.distributed.cluster import connected
from hindsight.errors import HindsightError
from hindsight.lab.jobs import LOST, Job, Minutes, Running, last_line
from hindsight.saving.files import write_aside
from hindsight.saving.lock import LOCK
from hindsight.training.signals import LIFELINE

Stamps = dict[str, tuple[int, int]]
"""Size and time of change of files, by their path in a directory."""
INTERRUPTED = 130
RUN, LOG = "run", "log"


class Cluster:
    """The nodes of a Ray cluster. `limit` trainings at a time; 0: as many as it has cores for
    now."""

    pause = 0.5

    def __init__(
        self,
        address: str,
        limit: int = 0,
        cores: float = 2,
        shared: bool | None = None,
        gather_every: float = 10.0,
    ) -> None:
        self._stack = contextlib.ExitStack()
        self.ray = self._stack.enter_context(connected(address))
        self.limit, self.cores = limit, cores
        self.shared = shared
        """Whether the nodes see our files; None: each is asked."""
        self.gather_every = gather_every
        self._tokens: dict[Path, Path] = {}
        most = max(self._cores_of_nodes(), default=0)
        if not limit and most < cores:
            raise HindsightError(
                f"no node of the cluster has {cores:g} cores, the largest has {most:g}: give "
                f"--cores {most:g}"
            )

    def _cores_of_nodes(self) -> list[float]:
        nodes = (node for node in self.ray.nodes() if node["Alive"])
        return [node["Resources"].get("CPU", 0.0) for node in nodes]

    def has_room(self, running: int) -> bool:
        room = sum(int(cores / self.cores) for cores in self._cores_of_nodes())
        return running < (self.limit or room)

    def start(self, job: Job, left: Minutes) -> Running:
        job.run_dir.parent.mkdir(parents=True, exist_ok=True)
        job.log.parent.mkdir(parents=True, exist_ok=True)
        options = {"num_cpus": self.cores, "max_restarts": 0, "max_concurrency": 3}
        actor = self.ray.remote(_Worker).options(**options).remote()
        return _OnNode(self, job, left, actor)

    def token(self, directory: Path) -> str:
        """A file in a directory by which a node knows whether it sees it."""
        if directory not in self._tokens:
            self._tokens[directory] = directory / f".seen-{uuid.uuid4().hex}"
            self._tokens[directory].touch()
        return str(self._tokens[directory])

    def close(self) -> None:
        for token in self._tokens.values():
            token.unlink(missing_ok=True)
        self._tokens.clear()
        self._stack.close()


class _OnNode:
    """A job on a node, as the driver sees it."""

    def __init__(self, cluster: Cluster, job: Job, left: Minutes, actor: Any) -> None:
        self._cluster, self._ray, self._job, self._left = cluster, cluster.ray, job, left
        self._actor = actor
        self._shared = cluster.shared
        self._placed = actor.sees.remote(cluster.token(job.run_dir.parent.resolve()))
        self._ended: Any = None
        self._code: int | None = None
        self._reason = ""
        self._known: Stamps = {}
        self._gathered = time.monotonic()

    def poll(self) -> int | None:
        if self._code is None:
            try:
                self._advance()
            except self._ray.exceptions.RayTaskError as error:  # ours, in the actor
                self._code, self._reason = 1, str(error.cause)
            except self._ray.exceptions.RayError:
                self._code, self._reason = LOST, "its node was lost"
            if self._code is not None:
                self._ray.kill(self._actor)
        return self._code

    def _advance(self) -> None:
        if self._ended is None:
            if self._is_ready(self._placed):
                sees = self._ray.get(self._placed)
                self._shared = sees if self._shared is None else self._shared
                self._ended = self._launch()
            return
        ended = self._is_ready(self._ended)
        if not self._shared and (
            ended or time.monotonic() - self._gathered >= self._cluster.gather_every
        ):
            self._gather()
        if ended:
            self._code, self._reason = self._ray.get(self._ended)

    def _is_ready(self, what: Any) -> bool:
        return bool(self._ray.wait([what], timeout=0)[0])

    def _launch(self) -> Any:
        """Send the job to the actor; what comes back is there when it has ended."""
        job, left = self._job, self._left()
        if self._shared:
            command = job.command(left, lambda path: path.resolve())
            return self._actor.run.remote(command, os.getcwd(), str(job.log.resolve()), {})
        command = job.command(left, lambda path: Path(RUN if path == job.run_dir else path.name))
        files = {path.name: path.read_bytes() for path in job.files}
        if job.run_dir.is_dir():
            files |= {f"{RUN}/{name}": content for name, content in _read(job.run_dir, {}).items()}
        return self._actor.run.remote(command, None, None, files)

    def _gather(self) -> None:
        """Take over what has changed on the node."""
        changed, stamps = self._ray.get(self._actor.changed.remote(self._known))
        self._gathered, self._known = time.monotonic(), stamps
        log = changed.pop(LOG, None)
        if log is not None:
            self._job.log.write_bytes(log)
        run = {name.removeprefix(f"{RUN}/"): content for name, content in changed.items()}
        _write(self._job.run_dir, run)
        for name in _stamps(self._job.run_dir):
            if name.startswith("checkpoints/") and f"{RUN}/{name}" not in stamps:
                (self._job.run_dir / name).unlink()
                with contextlib.suppress(OSError):
                    (self._job.run_dir / name).parent.rmdir()

    def reason(self) -> str:
        return self._reason

    def stop(self) -> None:
        if self._ended is None:  # it waits for a node
            self._code = INTERRUPTED
            self._ray.kill(self._actor)
        elif self._code is None:
            self._actor.stop.remote()

    def wait(self) -> None:
        while self.poll() is None:
            time.sleep(0.1)


class _Worker:
    """The actor: runs one job in a process, on its node."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._scratch: Path | None = None
        self._stop = False

    def sees(self, token: str) -> bool:
        return os.path.isfile(token)

    def run(
        self,
        arguments: list[str],
        directory: str | None,
        log: str | None,
        files: Mapping[str, bytes],
    ) -> tuple[int, str]:
        """Until it has ended: its exit code, and the last line that it wrote. Without a log it is
        given a directory of its own, with these files."""
        if log is None:
            self._scratch = Path(tempfile.mkdtemp(prefix="hindsight-"))
            _write(self._scratch, files)
            log = str(self._scratch / LOG)
        here = self._scratch or directory
        # If this process ends, however it does, the second end closes, and the training saves
        # itself and stops.
        lifeline, alive = os.pipe()
        with open(log, "ab") as file:
            self._process = subprocess.Popen(
                [sys.executable, *arguments],
                cwd=here if here is not None and os.path.isdir(here) else None,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                start_new_session=True,
                pass_fds=[lifeline],
                env={**os.environ, LIFELINE: str(lifeline)},
            )
        if self._stop:
            self.stop()
        code = self._process.wait()
        os.close(lifeline)
        os.close(alive)
        return code, last_line(Path(log)) or f"exit code {code}"

    def stop(self) -> None:
        self._stop = True
        if self._process is not None:
            self._process.send_signal(signal.SIGTERM)  # Ray blocks SIGINT in its processes

    def changed(self, known: Stamps) -> tuple[dict[str, bytes], Stamps]:
        """Files of its own directory that are not as known, and what is known now."""
        assert self._scratch is not None
        stamps = {
            name: stamp
            for name, stamp in _stamps(self._scratch).items()
            if name == LOG or name.startswith(f"{RUN}/")
        }
        found = _read(self._scratch, {n: s for n, s in known.items() if stamps.get(n) == s})
        return {n: c for n, c in found.items() if n in stamps}, stamps

    def __ray_shutdown__(self) -> None:
        if self._scratch is not None:
            shutil.rmtree(self._scratch, ignore_errors=True)


def _stamps(directory: Path) -> Stamps:
    """The files that are there under their own names: not what is being written."""
    found: Stamps = {}
    for path in sorted(directory.rglob("*")):
        name = path.relative_to(directory)
        unfinished = any(part.endswith((".part", ".gone")) for part in name.parts)
        with contextlib.suppress(FileNotFoundError):  # removed meanwhile
            if path.is_file() and not path.is_symlink() and not unfinished and path.name != LOCK:
                about = path.stat()
                found[str(name)] = (about.st_size, about.st_mtime_ns)
    return found


def _read(directory: Path, known: Stamps) -> dict[str, bytes]:
    """The files of a directory that are not known."""
    found: dict[str, bytes] = {}
    for name in _stamps(directory):
        if name not in known:
            with contextlib.suppress(FileNotFoundError):
                found[name] = (directory / name).read_bytes()
    return found


def _write(directory: Path, files: Mapping[str, bytes]) -> None:
    """Manifests last, so that a checkpoint is whole when it has one."""
    for name in sorted(files, key=lambda name: name.endswith("manifest.json")):
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        write_aside(path, files[name])
