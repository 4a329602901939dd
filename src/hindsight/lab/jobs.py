"""Runs jobs until all are done or there is no time left: here, in processes, or on a cluster.

    pending ──► running ──► done
       ▲          ├───────► failed         its reason is printed, and the others go on
       │          ├───────► interrupted    saved: the same command continues it
       └──────────┘                        its machine was lost: it is run again

What a job has done is in its files, so that every command begins by asking them. Where it runs is
a `Place`; `lab/ray_jobs.py` has the one for a cluster.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import math
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Generic, Literal, Protocol, TypeVar

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
)

from hindsight.errors import HindsightError, say
from hindsight.saving.metrics import read_metrics
from hindsight.training.run import Run
from hindsight.training.signals import LIFELINE, StopSignals

State = Literal["pending", "running", "done", "failed", "interrupted"]
Minutes = Callable[[], float]
At = Callable[[Path], Path]
POLL = 0.5
"""Seconds between two looks at the processes."""
OUT_OF_TIME = 75
"""Exit code of a process that has used up its minutes, and is saved."""
LOST = 256
"""In place of an exit code: its machine was lost."""
LOSSES = 5
"""So often a job is run again, before it is the one to blame."""


class OutOfTime(Exception):
    """The minutes are used up; the run is saved and can be continued."""


def same(path: Path) -> Path:
    """Where a path is on this machine."""
    return path


class Job(Protocol):
    """Something to run that can be interrupted and continued."""

    @property
    def name(self) -> str: ...
    @property
    def log(self) -> Path: ...
    @property
    def steps(self) -> int: ...
    @property
    def run_dir(self) -> Path: ...
    @property
    def minutes(self) -> float:
        """What it still takes, about."""

    def state(self) -> State:
        """As its files say: pending, interrupted, running (in some process), or done."""

    def command(self, left: float, at: At = same) -> list[str]:
        """Arguments of a Python process that runs it; OUT_OF_TIME if `left` minutes are too few.
        `at` says where its run directory and its files are."""

    @property
    def files(self) -> Sequence[Path]:
        """What its command reads, besides the run directory."""

    def start_line(self, state: State) -> str: ...
    def done_line(self) -> str: ...


J = TypeVar("J", bound=Job)
P = TypeVar("P", bound=Job, contravariant=True)


class Running(Protocol):
    """A job that was started."""

    def poll(self) -> int | None:
        """Its exit code, or LOST, once it has ended."""

    def reason(self) -> str:
        """Why it failed, in a line."""

    def stop(self) -> None:
        """Ask it to save itself and to stop."""

    def wait(self) -> object:
        """Until it has ended."""


class Place(Protocol[P]):
    """Where jobs are run."""

    pause: float
    """Seconds between two looks at them."""

    def has_room(self, running: int) -> bool: ...
    def start(self, job: P, left: Minutes) -> Running: ...
    def close(self) -> None: ...


class Here(Generic[J]):
    """In this process, one after the other."""

    pause = 0.0

    def __init__(self, run: Callable[[J, Minutes], None]) -> None:
        self.run = run

    def has_room(self, running: int) -> bool:
        return running == 0

    def start(self, job: J, left: Minutes) -> Running:
        try:
            self.run(job, left)
        except OutOfTime:
            return _Ended(OUT_OF_TIME)
        except HindsightError as error:
            return _Ended(2, str(error))
        except KeyboardInterrupt:
            raise KeyboardInterrupt(
                f"stopped in {job.name}; to continue: the same command again"
            ) from None
        finally:
            _return_memory()
        return _Ended(0)

    def close(self) -> None:
        pass


def _return_memory() -> None:
    """Give the system back what a job has freed. The C library keeps much of it: some 40 MB for
    each training, gigabytes for a hundred."""
    gc.collect()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # glibc's
    if trim is not None:
        trim(0)


class _Ended:
    """A job that has run before anybody could ask."""

    def __init__(self, code: int, why: str = "") -> None:
        self._code, self._why = code, why

    def poll(self) -> int:
        return self._code

    def reason(self) -> str:
        return self._why

    def stop(self) -> None:
        pass

    def wait(self) -> None:
        pass


class Processes:
    """In processes on this machine, at most `limit` at a time.

    They are in process groups of their own: Ctrl-C reaches them through us, once, because a second
    signal would end them before they have saved themselves.
    """

    pause = POLL

    def __init__(self, limit: int) -> None:
        self.limit = limit
        # If this process ends, however it does, the second end closes, and the trainings save
        # themselves and stop.
        self._lifeline, self._alive = os.pipe()

    def has_room(self, running: int) -> bool:
        return running < self.limit

    def start(self, job: Job, left: Minutes) -> Running:
        job.log.parent.mkdir(parents=True, exist_ok=True)
        with open(job.log, "ab") as log:
            return _Process(
                job.log,
                subprocess.Popen(
                    [sys.executable, *job.command(left())],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                    pass_fds=[self._lifeline],
                    env={**os.environ, LIFELINE: str(self._lifeline)},
                ),
            )

    def close(self) -> None:
        os.close(self._alive)
        os.close(self._lifeline)


class _Process:
    def __init__(self, log: Path, process: subprocess.Popen[bytes]) -> None:
        self._log, self._process = log, process

    def poll(self) -> int | None:
        return self._process.poll()

    def reason(self) -> str:
        return last_line(self._log) or f"exit code {self._process.returncode}"

    def stop(self) -> None:
        self._process.send_signal(signal.SIGINT)

    def wait(self) -> object:
        return self._process.wait()


class Runner(Generic[J]):
    """Starts jobs in their order, as long as their place has room.

    `each_time` is called before jobs are started; it may `add` jobs and `finish` them.
    """

    def __init__(
        self,
        jobs: Sequence[J],
        place: Place[J],
        budget: float | None = None,
        console: Console | None = None,
        clock: Callable[[], float] = time.monotonic,
        each_time: Callable[[], None] = lambda: None,
    ) -> None:
        self.jobs, self.place, self.each_time = list(jobs), place, each_time
        self.states: dict[str, State] = {job.name: "pending" for job in jobs}
        self.failures: dict[str, str] = {}
        self._running: dict[str, Running] = {}
        self._finished_early: set[str] = set()
        self._losses: Counter[str] = Counter()
        self._here = isinstance(place, Here)
        self._display = _Display(len(self.jobs), console or Console(), bars=not self._here)
        self._clock, self._end = clock, math.inf if budget is None else clock() + 60 * budget

    def minutes_left(self) -> float:
        return (self._end - self._clock()) / 60

    def left_out(self) -> list[J]:
        """What the budget was too small for."""
        return [job for job in self.jobs if self.states[job.name] in ("pending", "interrupted")]

    def has_room(self) -> bool:
        return not self._in("pending") and self.place.has_room(len(self._running))

    def add(self, job: J) -> None:
        """One more job, after the others."""
        self.jobs.append(job)
        self.states[job.name] = "pending"
        self._display.expect(len(self.jobs))

    def finish(self, job: J) -> None:
        """Stop a job that has done enough: it is done."""
        if job.name in self._running and job.name not in self._finished_early:
            self._finished_early.add(job.name)
            self._running[job.name].stop()

    def print(self, text: str) -> None:
        self._display.print(text)

    def run(self) -> None:
        """Until nothing can be started. SIGINT and SIGTERM stop all jobs, saved, and are raised."""
        with (
            contextlib.nullcontext() if self._here else StopSignals() as stop,
            self._display,
        ):
            try:
                while (stop is None or stop.received is None) and self._advance():
                    time.sleep(self.place.pause)
            finally:
                self._interrupt()
                self.place.close()
        if stop is not None and stop.received is not None:
            message = "stopped; to continue, give the same command again"
            if stop.received == signal.SIGINT:
                raise KeyboardInterrupt(message)
            say(message)
            raise SystemExit(128 + stop.received)

    def _advance(self) -> bool:
        """Note what has ended and start what can be; whether there is something to wait for."""
        for job in self._in("running"):
            running = self._running[job.name]
            code = running.poll()
            if code is not None:
                del self._running[job.name]
                self._ended(job, code, running)
        self.each_time()
        again = False
        for job in self._in("pending"):
            if not self.place.has_room(len(self._running)) or "interrupted" in self.states.values():
                break
            state = job.state()
            if state == "done":
                self.states[job.name] = "done"
                self._display.end(job, f"{job.name} was finished")
                again = True  # what follows it may be added
            elif state == "running":  # in a process that is not ours
                again = True
            elif job.minutes <= self.minutes_left():
                self._start(job, state)
        self._display.update(self._in("running"))
        return again or bool(self._running)

    def _start(self, job: J, state: State) -> None:
        self.states[job.name] = "running"
        self._display.begin(job, job.start_line(state))
        self._running[job.name] = self.place.start(job, self.minutes_left)

    def _ended(self, job: J, code: int, running: Running) -> None:
        if code == LOST and self._losses[job.name] < LOSSES:
            self._losses[job.name] += 1
            self.states[job.name] = "pending"
            self._display.again(job, f"{job.name}: {running.reason()}; it is run again")
        elif code == 0 or job.name in self._finished_early:
            self.states[job.name] = "done"
            self._display.end(job, job.done_line())
        elif code == OUT_OF_TIME:
            self.states[job.name] = "interrupted"
            self._display.end(
                job, f"{job.name}: the minutes are used up; the same command continues it"
            )
        else:
            self.states[job.name] = "failed"
            self.failures[job.name] = running.reason()
            where = "" if self._here else f" (log: {job.log})"
            self._display.end(job, f"{job.name} FAILED: {running.reason()}{where}")

    def _interrupt(self) -> None:
        """End the jobs that still run, saved: a signal or an error came between."""
        if self._running:
            count = len(self._running)
            self._display.print(f"stopping {count} trainings: they save themselves ...")
        for running in self._running.values():
            running.stop()
        for name, running in self._running.items():
            running.wait()
            self.states[name] = "interrupted"

    def _in(self, state: State) -> list[J]:
        return [job for job in self.jobs if self.states[job.name] == state]


def training_state(run: Run, end: int) -> State:
    """What has become of a training that is to reach step `end`, as its run directory says."""
    if not run.path.is_dir():
        return "pending"
    if run.is_locked:
        return "running"
    with contextlib.suppress(HindsightError):
        status, steps = run.summary.get("status"), run.summary.get("steps", 0)
        if status != "failed" and steps >= end:
            return "done"
        if status == "finished" and run.config.stop_at_success is not None:
            return "done"
    return "interrupted" if (run.path / "config.json").is_file() else "pending"


def default_limit() -> int:
    """One job per two cores, at least one: a training uses two threads."""
    cores = (
        len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    )
    return max(1, cores // 2)


def last_evaluation(run_dir: Path) -> tuple[int, str]:
    """Where a training stands: step, and success of the last evaluation."""
    try:
        rows = read_metrics(run_dir, tail=200_000)
    except (OSError, HindsightError):
        return 0, "-"
    success = [row["eval/success_rate"] for row in rows if "eval/success_rate" in row]
    return int(rows[-1]["step"]) if rows else 0, f"{success[-1]:.2f}" if success else "-"


def last_line(log: Path) -> str:
    lines = log.read_text(errors="replace").strip().splitlines()
    return lines[-1].removeprefix("hindsight: ") if lines else ""


class _Display:
    """On a terminal a bar per job and one for all; everywhere a line when one begins or ends."""

    def __init__(self, total: int, console: Console, bars: bool) -> None:
        self.console = console
        self._bar = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[success]}", markup=False),
            TimeElapsedColumn(),
            console=console,
            disable=not (bars and console.is_terminal),
        )
        self._all = self._bar.add_task("trainings", total=total, success="")
        self._tasks: dict[str, TaskID] = {}

    def __enter__(self) -> None:
        self._bar.start()

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def expect(self, total: int) -> None:
        self._bar.update(self._all, total=total)

    def print(self, text: str) -> None:
        if text:
            self.console.print(text, markup=False, highlight=False, soft_wrap=True)

    def begin(self, job: Job, text: str) -> None:
        self._tasks[job.name] = self._bar.add_task(job.name, total=job.steps, success="")
        self.print(text)

    def end(self, job: Job, text: str) -> None:
        self._bar.advance(self._all)
        self.again(job, text)

    def again(self, job: Job, text: str) -> None:
        """It no longer runs, and is not done."""
        if job.name in self._tasks:
            self._bar.remove_task(self._tasks.pop(job.name))
        self.print(text)

    def update(self, running: Sequence[Job]) -> None:
        if not self._bar.disable:
            for job in running:
                step, success = last_evaluation(job.run_dir)
                completed = min(step, job.steps)
                self._bar.update(
                    self._tasks[job.name], completed=completed, success=f"steps, success {success}"
                )
