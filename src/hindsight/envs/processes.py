"""Envs divided among worker processes. One that fails is restarted, and the run goes on."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import Any

import cloudpickle
import numpy as np

from hindsight.envs.batch import Frame
from hindsight.envs.make import EnvFactory
from hindsight.envs.worker import PATIENCE
from hindsight.errors import HindsightError, say
from hindsight.saving.tree import State
from hindsight.types import Array

START_SECONDS = 180.0
"""What a fresh interpreter may take to import the env and make it."""
BACKOFF, LONGEST_BACKOFF = 0.1, 30.0
"""Seconds before the first restart, doubled with every failure."""


class EnvsFail(HindsightError):
    """Envs have failed as often as the settings allow."""


class WorkerFailed(Exception):
    """A worker raised, hung or died; the text says which, with the traceback if there is one."""


@dataclass
class Worker:
    """A process and the pipe to it."""

    process: subprocess.Popen[bytes]
    pipe: Connection
    number: int = 0
    """Of the last request. Answers to earlier ones, which came too late, are passed over."""

    def send(self, message: tuple[str, Any]) -> None:
        self.number += 1
        with contextlib.suppress(OSError):  # it has died, as its silence will tell
            self.pipe.send((self.number, *message))

    def receive(self, seconds: float) -> Any:
        """Its answer; or WorkerFailed."""
        deadline = time.monotonic() + seconds
        try:
            while True:
                if not self.pipe.poll(max(deadline - time.monotonic(), 0)):
                    raise WorkerFailed(f"has not answered for {seconds:g} seconds")
                number, kind, value = self.pipe.recv()
                if number == self.number or kind not in ("answer", "ready"):
                    break
        except (EOFError, OSError):
            raise WorkerFailed(f"ended unexpectedly with exit code {self.process.wait()}") from None
        if kind == "error":
            raise HindsightError(value)
        if kind == "crash":
            raise WorkerFailed(f"raised an error:\n{value}")
        return value

    def stop(self, patience: float = 0.0) -> None:
        self.pipe.close()
        try:
            self.process.wait(timeout=patience)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.process.pid, signal.SIGKILL)  # and whatever its envs have started
            self.process.kill()
            self.process.wait()


class WorkerEnvs:
    """Envs divided among worker processes, each of which steps its share in turn. Env r is worker r
    % workers'.

    Workers are fresh interpreters (`python -m hindsight.envs.worker`), so scripts need no
    `__main__` guard, and no thread of JAX is forked. One that fails is restarted; those of its
    episodes that had not ended are marked as diverged, so that nobody uses them. After
    `max_failures` without a whole round in between, EnvsFail is raised.
    """

    def __init__(
        self,
        make_env: EnvFactory,
        num_envs: int,
        max_episode_steps: int,
        workers: int,
        timeout: float = 60.0,
        max_failures: int = 5,
    ) -> None:
        self.num_envs = num_envs
        self.timeout = timeout
        self.max_failures = max_failures
        self._failures = 0  # since the last round without one
        self._lost: set[int] = set()  # workers whose episodes of this round are gone
        sizes = [len(part) for part in np.array_split(np.arange(num_envs), min(workers, num_envs))]
        limits = (max_episode_steps, timeout, START_SECONDS)
        self._work = [cloudpickle.dumps((make_env, size, *limits)) for size in sizes]
        self._frames: list[Frame] = []
        self._workers: list[Worker] = []
        try:
            for work in self._work:
                self._workers.append(_start(work))
            for i in range(len(self._workers)):
                self._until_it_works(i, None)
        except BaseException:
            self.close()
            raise

    def reset(self, seeds: Sequence[int]) -> Frame:
        if not self._lost:
            self._failures = 0
        self._lost = set()
        shares = self._shares(np.asarray(seeds))
        for worker, share in zip(self._workers, shares, strict=False):
            worker.send(("reset", (share,)))
        self._frames = [
            self._until_it_works(i, ("reset", (share,))) for i, share in enumerate(shares)
        ]
        return self._together()

    def step(self, actions: Array) -> Frame:
        shares = self._shares(actions)
        for i, share in enumerate(shares):
            if i not in self._lost:
                self._workers[i].send(("step", (share,)))
        for i in range(len(shares)):
            if i in self._lost:
                continue
            try:
                self._frames[i] = self._workers[i].receive(self.timeout)
            except WorkerFailed as failure:
                self._lost.add(i)
                running = ~(self._frames[i].terminated | self._frames[i].truncated)
                self._restart(i, failure, int(running.sum()))
                self._frames[i] = replace(
                    self._frames[i],
                    truncated=self._frames[i].truncated | running,
                    diverged=self._frames[i].diverged | running,
                )
        return self._together()

    def export_state(self) -> State:
        """What the envs keep from one episode to the next, by env."""
        state: State = {}
        for i, worker in enumerate(self._workers):
            worker.send(("export_state", ()))
            try:
                exported = worker.receive(self.timeout)
            except WorkerFailed as failure:  # a new process begins anew
                reason = str(failure).strip().splitlines()[-1]
                say(
                    f"env worker process {i} has not told the state of its envs, which is not "
                    f"saved: it {reason}"
                )
                continue
            state |= {
                f"env_{i + int(name[4:]) * len(self._workers)}": value
                for name, value in exported.items()
            }
        return state

    def restore_state(self, state: State) -> None:
        count = len(self._workers)
        for i in range(count):
            rows = range(i, self.num_envs, count)
            mine = {
                f"env_{j}": state[f"env_{row}"]
                for j, row in enumerate(rows)
                if f"env_{row}" in state
            }
            self._workers[i].send(("restore_state", (mine,)))
            self._until_it_works(i, ("restore_state", (mine,)))

    def _shares(self, rows: Array) -> list[Array]:
        """The rows of each worker that has any."""
        count = len(self._workers)
        return [rows[i::count] for i in range(min(count, len(rows)))]

    def _together(self) -> Frame:
        """The workers' frames as one, in the order of the envs."""
        count = len(self._workers)
        rows = [i + count * np.arange(len(frame.reward)) for i, frame in enumerate(self._frames)]
        order = np.argsort(np.concatenate(rows))
        columns = ([getattr(frame, f.name) for frame in self._frames] for f in fields(Frame))
        return Frame(*(np.concatenate(column)[order] for column in columns))

    def _until_it_works(self, i: int, message: Any) -> Any:
        """The answer of a worker to a message, sent again after every restart; None: to its
        start."""
        while True:
            try:
                return self._workers[i].receive(START_SECONDS if message is None else self.timeout)
            except WorkerFailed as failure:
                self._restart(i, failure, 0, wait=message is not None)
            if message is not None:
                self._workers[i].send(message)

    def _restart(self, i: int, failure: WorkerFailed, episodes: int, wait: bool = True) -> None:
        """A new process in place of one that failed; after too many failures, EnvsFail."""
        self._failures += 1
        dropped = f" ({episodes} unfinished episodes are dropped)" if episodes else ""
        print(f"hindsight: env worker process {i}{dropped} {failure}", file=sys.stderr, flush=True)
        self._workers[i].stop()
        if self._failures >= self.max_failures:
            reason = " ".join(str(failure).split("\n")[0].split())
            last = str(failure).strip().splitlines()[-1]
            detail = "" if last == reason else f" ({last.strip()})"
            raise EnvsFail(
                f"envs failed {self._failures} times in a row; the last worker process "
                f"{reason}{detail}"
            )
        time.sleep(min(BACKOFF * 2 ** (self._failures - 1), LONGEST_BACKOFF))
        self._workers[i] = _start(self._work[i])
        if wait:
            self._until_it_works(i, None)

    def close(self) -> None:
        for worker in self._workers:
            worker.pipe.close()  # all of them first, so that they end together
        for worker in self._workers:
            worker.stop(patience=PATIENCE)


def _start(work: bytes) -> Worker:
    ours, theirs = Pipe()
    process = subprocess.Popen(
        [sys.executable, "-m", "hindsight.envs.worker", str(theirs.fileno())],
        pass_fds=[theirs.fileno()],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)},
        start_new_session=True,  # Ctrl-C belongs to the main process
    )
    theirs.close()
    worker = Worker(process, ours)
    with contextlib.suppress(OSError):
        ours.send_bytes(work)
    return worker
