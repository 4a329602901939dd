"""Runs jobs one after the other: begins, goes on, evaluates, and writes a row beside each run."""

from __future__ import annotations

import time
from collections.abc import Callable

from hindsight import api
from hindsight.errors import HindsightError
from hindsight.reproduce import measure, rows
from hindsight.reproduce.configs import config_of, last_step
from hindsight.reproduce.experiment import Measurement, Training
from hindsight.reproduce.plan import Job
from hindsight.training.off_policy import Progress
from hindsight.training.run import Run

Say = Callable[[str], None]


class OutOfBudget(Exception):
    """The minutes are used up; the run is saved and goes on next time."""


def run_all(
    pending: list[Job],
    budget: float | None,
    trial_steps: int | None,
    shared_machine: bool,
    quiet: bool,
    say: Say,
    clock: Callable[[], float] = time.monotonic,
) -> list[Job]:
    """Run what fits into the budget, in order, and return what was left out.

    What a run really took counts, not what was expected. A run that takes longer than there is time is stopped, saved.
    """
    start, waiting = clock(), list(pending)
    while waiting:
        used = (clock() - start) / 60
        job = next((j for j in waiting if budget is None or j.minutes <= budget - used), None)
        if job is None:
            break
        deadline = None if budget is None else start + 60 * budget
        say(f"{job.name} ({'about ' if job.state != 'trained' else ''}{job.minutes:.1f} minutes) in {job.path}")
        try:
            text = _run(job, deadline, trial_steps, shared_machine, quiet, clock)
        except OutOfBudget:
            say(f"{job.name}: the minutes are used up; the same command goes on with it")
            break
        except KeyboardInterrupt:
            raise KeyboardInterrupt(f"stopped in {job.name}; to go on: the same command again") from None
        say(f"{job.name}: {text}")
        waiting.remove(job)
    return waiting


def _run(
    job: Job, deadline: float | None, trial_steps: int | None, shared: bool, quiet: bool, clock: Callable[[], float]
) -> str:
    if isinstance(job.entry, Measurement):
        start = clock()
        values = measure.measure(job.entry, job.seed, trial_steps)
        if trial_steps is None:
            row = rows.measured_row(job.entry, job.seed, values, (clock() - start) / 60, shared)
            rows.write(job.path / "row.json", row)
        return "measured"
    run = _train(job, job.entry, deadline, trial_steps, quiet, clock)
    if trial_steps is not None:
        return f"trained {last_step(run)} steps, as a trial: no result"
    row = rows.row_of(job.entry, job.seed, run, shared)
    rows.write(job.path / "row.json", row)
    return f"success {row['final']['success_rate']:.2f} on {row['final']['episodes']} fresh episodes"


def _train(
    job: Job, entry: Training, deadline: float | None, trial_steps: int | None, quiet: bool, clock: Callable[[], float]
) -> Run:
    """Train, or go on with what was begun, until its end."""
    if job.state == "trained":
        return Run.open(job.path)
    config = config_of(entry, job.seed, trial_steps)
    end = min(config.steps, entry.stop_at or config.steps)
    late = False

    def stop(progress: Progress) -> bool:
        nonlocal late
        late = deadline is not None and clock() > deadline and progress.step < end
        return late or (end < config.steps and progress.step >= end)

    if (job.path / "config.json").exists():
        run = api.resume(job.path, callbacks=[stop], quiet=quiet)
    else:
        run = api.train(entry.env, config=config, run_dir=job.path, callbacks=[stop], quiet=quiet)
    if late:
        raise OutOfBudget
    if last_step(run) < end:
        raise HindsightError(f"{job.path} stopped at step {last_step(run)} of {end}")
    return run
