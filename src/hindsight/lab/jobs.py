"""Runs jobs, here or side by side in processes, until all are done or there is no time left.

    pending ──► running ──► done
                  ├───────► failed         its reason is printed, and the others go on
                  └───────► interrupted    saved: the same command continues it

What a job has done is in its files, so that every command begins by asking them.
"""

from __future__ import annotations

import contextlib
import math
import os
import signal
import subprocess
import sys
import time
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
POLL = 0.5
"""Seconds between two looks at the processes."""
OUT_OF_TIME = 75
"""Exit code of a process that has used up its minutes, and is saved."""


class OutOfTime(Exception):
    """The minutes are used up; the run is saved and can be continued."""


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

    def command(self, left: float) -> list[str]:
        """Arguments of a Python process that runs it; OUT_OF_TIME if `left` minutes are too few."""

    def start_line(self, state: State) -> str: ...
    def done_line(self) -> str: ...


J = TypeVar("J", bound=Job)


class Runner(Generic[J]):
    """Starts jobs in their order, at most `limit` at a time.

    `here` runs a job in this process, and is given the minutes left; without it each has a process
    of its own. Those are in process groups of their own: Ctrl-C reaches them through us, once,
    because a second signal would end them before they have saved themselves.
    """

    def __init__(
        self,
        jobs: Sequence[J],
        limit: int = 1,
        here: Callable[[J, Minutes], None] | None = None,
        budget: float | None = None,
        console: Console | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.jobs, self.limit, self.here = list(jobs), limit, here
        self.states: dict[str, State] = {job.name: "pending" for job in jobs}
        self.failures: dict[str, str] = {}
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        # If this process ends, however it does, the second end closes, and the trainings save
        # themselves and stop.
        self._lifeline, self._alive = os.pipe()
        self._display = _Display(len(self.jobs), console or Console(), bars=here is None)
        self._clock, self._end = clock, math.inf if budget is None else clock() + 60 * budget

    def minutes_left(self) -> float:
        return (self._end - self._clock()) / 60

    def left_out(self) -> list[J]:
        """What the budget was too small for."""
        return [job for job in self.jobs if self.states[job.name] in ("pending", "interrupted")]

    def run(self) -> None:
        """Until nothing can be started. SIGINT and SIGTERM stop all jobs, saved, and are raised."""
        with (
            StopSignals() if self.here is None else contextlib.nullcontext() as stop,
            self._display,
        ):
            try:
                while (stop is None or stop.received is None) and self._advance():
                    time.sleep(POLL)
            finally:
                self._interrupt()
                os.close(self._alive)
                os.close(self._lifeline)
        if stop is not None and stop.received is not None:
            message = "stopped; to continue, give the same command again"
            if stop.received == signal.SIGINT:
                raise KeyboardInterrupt(message)
            say(message)
            raise SystemExit(128 + stop.received)

    def _advance(self) -> bool:
        """Note what has ended and start what can be; whether there is something to wait for."""
        for job in self._in("running"):
            code = self._processes[job.name].poll()
            if code is not None:
                del self._processes[job.name]
                self._ended(job, code, _last_line(job.log) or f"exit code {code}")
        waiting = False
        for job in self._in("pending"):
            if len(self._processes) >= self.limit or "interrupted" in self.states.values():
                break
            state = job.state()
            if state == "done":
                self.states[job.name] = "done"
                self._display.end(job, f"{job.name} was finished")
            elif state == "running":  # in a process that is not ours
                waiting = True
            elif job.minutes <= self.minutes_left():
                self._start(job, state)
        self._display.update(self._in("running"))
        return waiting or bool(self._processes)

    def _start(self, job: J, state: State) -> None:
        self.states[job.name] = "running"
        self._display.begin(job, job.start_line(state))
        if self.here is not None:
            code, reason = 0, ""
            try:
                self.here(job, self.minutes_left)
            except OutOfTime:
                code = OUT_OF_TIME
            except HindsightError as error:
                code, reason = 2, str(error)
            except KeyboardInterrupt:
                raise KeyboardInterrupt(
                    f"stopped in {job.name}; to continue: the same command again"
                ) from None
            self._ended(job, code, reason)
            return
        job.log.parent.mkdir(parents=True, exist_ok=True)
        with open(job.log, "ab") as log:
            self._processes[job.name] = subprocess.Popen(
                [sys.executable, *job.command(self.minutes_left())],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                pass_fds=[self._lifeline],
                env={**os.environ, LIFELINE: str(self._lifeline)},
            )

    def _ended(self, job: J, code: int, reason: str) -> None:
        if code == 0:
            self.states[job.name] = "done"
            self._display.end(job, job.done_line())
        elif code == OUT_OF_TIME:
            self.states[job.name] = "interrupted"
            self._display.end(
                job, f"{job.name}: the minutes are used up; the same command continues it"
            )
        else:
            self.states[job.name] = "failed"
            self.failures[job.name] = reason
            where = f" (log: {job.log})" if self.here is None else ""
            self._display.end(job, f"{job.name} FAILED: {reason}{where}")

    def _interrupt(self) -> None:
        """End the processes that still run, saved: a signal or an error came between."""
        if self._processes:
            count = len(self._processes)
            self._display.print(f"stopping {count} trainings: they save themselves ...")
        for process in self._processes.values():
            process.send_signal(signal.SIGINT)
        for name, process in self._processes.items():
            process.wait()
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
        if run.summary.get("status") != "failed" and run.summary.get("steps", 0) >= end:
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


def _last_line(log: Path) -> str:
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

    def print(self, text: str) -> None:
        self.console.print(text, markup=False, highlight=False, soft_wrap=True)

    def begin(self, job: Job, text: str) -> None:
        self._tasks[job.name] = self._bar.add_task(job.name, total=job.steps, success="")
        self.print(text)

    def end(self, job: Job, text: str) -> None:
        if job.name in self._tasks:
            self._bar.remove_task(self._tasks.pop(job.name))
        self._bar.advance(self._all)
        self.print(text)

    def update(self, running: Sequence[Job]) -> None:
        if not self._bar.disable:
            for job in running:
                step, success = last_evaluation(job.run_dir)
                completed = min(step, job.steps)
                self._bar.update(
                    self._tasks[job.name], completed=completed, success=f"steps, success {success}"
                )
