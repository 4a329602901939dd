"""Trainings side by side, each in a process of its own, that go on where they were stopped."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Literal

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from hindsight.commands.plan import Planned
from hindsight.errors import HindsightError
from hindsight.training.run import Run
from hindsight.training.signals import LIFELINE, StopSignals

State = Literal["new", "stopped", "running", "finished"]
POLL = 0.5
"""Seconds between two looks at the processes."""


def state_of(one: Planned) -> State:
    """What has become of a training so far."""
    if not one.run_dir.is_dir():
        return "new"
    run = Run(one.run_dir, one.config)
    if run.is_locked:
        return "running"
    try:
        if run.summary.get("status") == "finished":
            return "finished"
    except HindsightError:
        pass
    return "stopped" if (one.run_dir / "config.json").is_file() else "new"


class Jobs:
    """Starts trainings, at most `limit` at a time, until all are done or a signal comes.

    Children have process groups of their own: Ctrl-C reaches them through us, once, because a second signal would end
    them before they have saved themselves.
    """

    def __init__(self, planned: Sequence[Planned], limit: int, console: Console) -> None:
        self.waiting = list(planned)
        self.limit = limit
        self.console = console
        self.failed: dict[str, str] = {}
        self.running: dict[str, tuple[Planned, subprocess.Popen[bytes]]] = {}
        self._display = _Display(len(planned), console)
        self._lifeline, self._alive = os.pipe()
        """If this process ends, however it does, the second end closes, and the trainings save themselves and stop."""

    def run(self) -> signal.Signals | None:
        """The signal that stopped it, None if all was done. Failures are told, and do not stop the others."""
        with StopSignals() as stop, self._display:
            while (self.waiting or self.running) and stop.received is None:
                self._collect()
                self._start()
                self._display.update([one for one, _ in self.running.values()])
                if self.waiting or self.running:
                    time.sleep(POLL)
            if stop.received is not None:
                self._stop()
        os.close(self._alive)
        os.close(self._lifeline)
        return stop.received

    def _start(self) -> None:
        for one in list(self.waiting):
            state = state_of(one)
            if state == "finished":
                self.waiting.remove(one)
                self._display.done(one, "was finished")
            elif state != "running" and len(self.running) < self.limit:  # another process's is waited for
                self.waiting.remove(one)
                self.running[one.name] = (one, _launch(one, state, self._lifeline))
                self._display.begun(one, "continues" if state == "stopped" else "starts")

    def _collect(self) -> None:
        for name, (one, process) in list(self.running.items()):
            code = process.poll()
            if code is None:
                continue
            del self.running[name]
            if code == 0 and state_of(one) == "finished":
                self._display.done(one, f"is finished, success {_last(one)[1]}")
            else:
                self.failed[name] = _reason(one, code)
                self._display.done(one, f"FAILED: {self.failed[name]} (log: {one.log})")

    def _stop(self) -> None:
        self.console.print(f"stopping {len(self.running)} trainings: they save themselves ...", highlight=False)
        for _, process in self.running.values():
            process.send_signal(signal.SIGINT)
        for _, process in self.running.values():
            process.wait()


def _launch(one: Planned, state: State, lifeline: int) -> subprocess.Popen[bytes]:
    if state == "stopped":
        what = ["resume", str(one.run_dir), "--quiet"]
    else:
        what = ["train", one.config.env, "--config", str(one.config_path), "--run-dir", str(one.run_dir), "--quiet"]
    with open(one.log, "ab") as log:
        return subprocess.Popen(
            [sys.executable, "-m", "hindsight.cli", *what],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            pass_fds=[lifeline],
            env={**os.environ, LIFELINE: str(lifeline)},
        )


def _reason(one: Planned, code: int) -> str:
    """The last line that a training wrote."""
    lines = one.log.read_text(errors="replace").strip().splitlines()
    return lines[-1].removeprefix("hindsight: ") if lines else f"exit code {code}"


def _last(one: Planned) -> tuple[int, str]:
    """Where a training stands: step, and success of the last evaluation."""
    try:
        with open(one.run_dir / "metrics.jsonl", "rb") as file:
            file.seek(0, os.SEEK_END)
            file.seek(max(0, file.tell() - 200_000))
            lines = file.read().split(b"\n")[:-1]
        rows = [json.loads(line) for line in lines if line.startswith(b"{")]
    except (OSError, ValueError):
        return 0, "-"
    success = [row["eval/success_rate"] for row in rows if "eval/success_rate" in row]
    return int(rows[-1]["step"]) if rows else 0, f"{success[-1]:.2f}" if success else "-"


class _Display:
    """On a terminal a bar per training and one for all, elsewhere a line whenever one begins or ends."""

    def __init__(self, total: int, console: Console) -> None:
        self.console = console
        self._bar = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[success]}", markup=False),
            TimeElapsedColumn(),
            console=console,
            disable=not console.is_terminal,
        )
        self._all = self._bar.add_task("trainings", total=total, success="")
        self._tasks: dict[str, TaskID] = {}

    def __enter__(self) -> None:
        self._bar.start()

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def begun(self, one: Planned, text: str) -> None:
        self._tasks[one.name] = self._bar.add_task(one.name, total=one.config.steps, success="")
        self.console.print(f"{one.name} {text}", markup=False, highlight=False, soft_wrap=True)

    def done(self, one: Planned, text: str) -> None:
        if one.name in self._tasks:
            self._bar.remove_task(self._tasks.pop(one.name))
        self._bar.advance(self._all)
        self.console.print(f"{one.name} {text}", markup=False, highlight=False, soft_wrap=True)

    def update(self, running: Sequence[Planned]) -> None:
        if self.console.is_terminal:
            for one in running:
                step, success = _last(one)
                steps = min(step, one.config.steps)
                self._bar.update(self._tasks[one.name], completed=steps, success=f"steps, success {success}")
