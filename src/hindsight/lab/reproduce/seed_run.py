"""One seed of an entry, as a job: train or measure, evaluate, write a row beside the run."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hindsight import api
from hindsight.errors import HindsightError
from hindsight.lab.jobs import At, Minutes, OutOfTime, State, same, training_state
from hindsight.lab.reproduce import measure, rows
from hindsight.lab.reproduce.configs import config_of, differences, last_step
from hindsight.lab.reproduce.experiment import Entry, Measurement, Training
from hindsight.training.progress import Progress
from hindsight.training.run import Run


@dataclass(frozen=True)
class SeedRun:
    """One seed of an entry, in its own run directory."""

    entry: Entry
    seed: int
    run_dir: Path
    trial_steps: int | None = None
    """Shrunk to about so many steps, for a trial that leaves no row."""
    shared_machine: bool = False
    quiet: bool = True
    order: tuple[float, ...] = ()
    minutes: float = 0.0
    """What is left to run."""

    @property
    def name(self) -> str:
        return f"{self.entry.home} {self.entry.slug}, seed {self.seed}"

    @property
    def log(self) -> Path:
        return self.run_dir.parent / "logs" / f"{self.run_dir.name}.log"

    @property
    def steps(self) -> int:
        return 0 if isinstance(self.entry, Measurement) else self.end(self.entry)

    def end(self, entry: Training) -> int:
        """The step at which the training ends."""
        steps = config_of(entry, self.seed, self.trial_steps).steps
        return min(steps, entry.stop_at or steps)

    def trained(self) -> State:
        """What has become of the training, whether or not its policy was evaluated."""
        if isinstance(self.entry, Measurement) or not self.run_dir.exists():
            return "pending"
        return training_state(
            Run(self.run_dir, config_of(self.entry, self.seed, self.trial_steps)), self.steps
        )

    def state(self) -> State:
        has_row = (self.run_dir / "row.json").is_file()
        if has_row:
            row = rows.read(self.run_dir / "row.json")
            if (row["experiment"], row["slug"], row["seed"]) != (
                self.entry.home,
                self.entry.slug,
                self.seed,
            ):
                raise HindsightError(f"{self.run_dir} holds another run: choose another --runs-dir")
        if isinstance(self.entry, Measurement) or not self.run_dir.exists():
            return "done" if has_row else "pending"
        other = differences(
            Run.open(self.run_dir).config, config_of(self.entry, self.seed, self.trial_steps)
        )
        if other:
            raise HindsightError(
                f"{self.run_dir} holds a run of other settings ({other[0]}): remove it or choose "
                "another --runs-dir"
            )
        trained = self.trained()
        if trained == "done" and not has_row and self.trial_steps is None:
            return "interrupted"  # only the evaluation is left
        return "done" if has_row else trained

    @property
    def files(self) -> list[Path]:
        return []

    def command(self, left: float, at: At = same) -> list[str]:
        what = {
            "home": self.entry.home,
            "slug": self.entry.slug,
            "seed": self.seed,
            "run_dir": str(at(self.run_dir)),
        }
        how = {"trial_steps": self.trial_steps, "shared_machine": self.shared_machine}
        return [
            "-m",
            "hindsight.lab.reproduce",
            json.dumps({**what, **how, "left": min(left, sys.maxsize)}),
        ]

    def start_line(self, state: State) -> str:
        return f"{self.name} (about {self.minutes:.1f} minutes) in {self.run_dir}"

    def done_line(self) -> str:
        if isinstance(self.entry, Measurement):
            return f"{self.name}: measured"
        if self.trial_steps is not None:
            return (
                f"{self.name}: trained {last_step(Run.open(self.run_dir))} steps, as a trial: no "
                "result"
            )
        final = rows.read(self.run_dir / "row.json")["final"]
        return (
            f"{self.name}: success {final['success_rate']:.2f} on {final['episodes']} fresh "
            "episodes"
        )


def run_here(job: SeedRun, left: Minutes, clock: Callable[[], float] = time.monotonic) -> None:
    """Run a job in this process; OutOfTime if there are no minutes left before its end."""
    if isinstance(job.entry, Measurement):
        start = clock()
        values = measure.measure(job.entry, job.seed, job.trial_steps)
        row = rows.measured_row(
            job.entry, job.seed, values, (clock() - start) / 60, job.shared_machine
        )
    else:
        run = _train(job, job.entry, left)
        if job.trial_steps is None:
            row = rows.row_of(job.entry, job.seed, run, job.shared_machine)
    if job.trial_steps is None:
        rows.write(job.run_dir / "row.json", row)


def _train(job: SeedRun, entry: Training, left: Minutes) -> Run:
    """Train, or continue what was begun, until its end."""
    state, end = job.trained(), job.end(entry)
    if state == "done":
        return Run.open(job.run_dir)
    config = config_of(entry, job.seed, job.trial_steps)
    late = False

    def stop(progress: Progress) -> bool:
        nonlocal late
        late = progress.step < end and left() < 0
        return late or (end < config.steps and progress.step >= end)

    how: dict[str, Any] = {"callbacks": [stop], "quiet": job.quiet}
    if entry.collectors is not None and job.trial_steps is None:  # a trial may have a single env
        how |= {"ray": "local", "collectors": entry.collectors, "asynchronous": True}
    if state == "interrupted":
        run = api.resume(job.run_dir, **how)
    else:
        run = api.train(entry.env, config=config, run_dir=job.run_dir, **how)
    if late:
        raise OutOfTime
    if last_step(run) < end:
        raise HindsightError(f"{job.run_dir} stopped at step {last_step(run)} of {end}")
    return run
