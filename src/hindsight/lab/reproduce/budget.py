"""Which runs there are, what each costs, and in what order they say most."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

from hindsight.agents.config import OffPolicyAgentConfig
from hindsight.config import OffPolicyConfig, TrainConfig
from hindsight.errors import HindsightError
from hindsight.lab.reproduce import rows
from hindsight.lab.reproduce.configs import (
    config_of,
    horizon,
    is_installed,
    last_step,
    spec_of,
)
from hindsight.lab.reproduce.experiment import Entry, Measurement, Training
from hindsight.lab.reproduce.folder import Folder
from hindsight.lab.reproduce.seed_run import SeedRun
from hindsight.training.run import Run

# Seconds, on two cores (docs/performance.md); good enough to plan an evening.
_PER_REPLAYED = 28e-6  # a transition in an update of DDPG with 3x256 networks
_PER_UPDATE = 1.5e-3  # whatever the networks
_TIMES_DDPG = {"td3": 1.2, "sac": 1.35, "tqc": 1.7}
_BFLOAT16 = 0.6
_PRIORITISED = 1.3  # times as much
_PER_ROBOT_STEP = 1 / 2800
_PER_JAX_STEP = 6e-4  # of a policy gradient in bit flip and rooms, playing and learning
_START = 10.0  # compiling


@dataclass(frozen=True)
class Request:
    """What the user asked for."""

    names: Sequence[str]
    seeds: Sequence[int] = ()
    only: Sequence[str] = ()
    runs_dir: Path | None = None
    trial_steps: int | None = None
    missing: bool = False
    """Only what has no measured row."""
    shared_machine: bool = False
    quiet: bool = True


def seed_runs(folder: Folder, request: Request) -> list[SeedRun]:
    """All runs of the experiments, each once, those that say most first.

    That is: first seeds before second ones, then main rows before others, then short runs before
    long ones.
    """
    found: dict[tuple[str, str, int], SeedRun] = {}
    slugs = {entry.slug for name in request.names for entry in folder.entries(name)}
    for slug in request.only:
        if slug not in slugs:
            raise HindsightError(
                f"no {slug!r} in {', '.join(request.names)}: there are {', '.join(sorted(slugs))}"
            )
    for name in request.names:
        for place, entry in enumerate(folder.entries(name)):
            if request.only and entry.slug not in request.only:
                continue
            for turn, seed in enumerate(request.seeds or entry.seeds):
                key = (entry.home, entry.slug, seed)
                measured = rows.results_path(folder.results, entry, seed).is_file()
                if key in found or (request.missing and measured):
                    continue
                how = (request.trial_steps, request.shared_machine, request.quiet)
                job = SeedRun(entry, seed, run_path(request, entry, seed), *how)
                minutes = _left(folder, job)
                order = (turn, not entry.main, minutes, list(request.names).index(name), place)
                found[key] = replace(job, minutes=minutes, order=order)
    return sorted(found.values(), key=lambda job: job.order)


def run_path(request: Request, entry: Entry, seed: int) -> Path:
    """Where a run is kept: trials apart from the others."""
    base = request.runs_dir or Path("runs") / "reproduce" / entry.home
    if request.trial_steps is not None:
        base = base / f"trial-{request.trial_steps}"
    return base / f"{entry.slug}-seed{seed}"


def choose(pending: Sequence[SeedRun], budget: float | None) -> tuple[list[SeedRun], list[SeedRun]]:
    """The jobs that fit into so many minutes, taken in order, and those left out."""
    taken: list[SeedRun] = []
    left: list[SeedRun] = []
    remaining = float("inf") if budget is None else budget
    for job in pending:
        if job.minutes <= remaining:
            taken.append(job)
            remaining -= job.minutes
        else:
            left.append(job)
    return taken, left


def cost(folder: Folder, entry: Entry, seed: int) -> tuple[float, bool]:
    """Minutes of a whole run, and whether they were measured: of this seed, else of others, on a
    machine of its own."""
    found = {
        s: row
        for s, row in rows.rows_of(folder.results, entry).items()
        if row["minutes"] is not None
    }
    timed = {s: row for s, row in found.items() if not row["shared_machine"]} or found
    if timed:
        row = timed.get(seed) or next(iter(timed.values()))
        whole = 1.0  # what was stopped before its end would have taken longer
        if isinstance(entry, Training):
            whole = (
                min(entry.stop_at or row["config"]["steps"], row["config"]["steps"]) / row["steps"]
            )
        return row["minutes"] * max(whole, 1.0), not row["shared_machine"]
    if isinstance(entry, Measurement):
        return entry.minutes, False
    if not is_installed(entry):
        return 0.0, False  # it would end at once
    config = config_of(entry, seed)
    share = min(entry.stop_at or config.steps, config.steps) / config.steps
    return estimated_minutes(config, entry) * share, False


def estimated_minutes(config: TrainConfig, entry: Training) -> float:
    """From the number of steps and updates."""
    longest = horizon(config, spec_of(entry))
    robot = not entry.env.startswith("hindsight/")
    cycles = max(config.steps // (config.episodes_per_cycle * longest), 1)
    evaluated = cycles // config.eval_every * config.eval_episodes * longest
    simulated = _PER_ROBOT_STEP if robot else _PER_JAX_STEP / 10
    seconds = _START + evaluated * simulated
    if not isinstance(config, OffPolicyConfig):
        return (seconds + config.steps * (simulated + _PER_JAX_STEP)) / 60
    updates = cycles * config.updates_of_cycle(longest)
    learning = updates * (_PER_UPDATE + config.batch_size * _per_replayed(config.agent))
    learning *= _PRIORITISED if config.priority.sampling != "uniform" else 1
    collecting = config.steps * simulated
    return (seconds + (max(learning, collecting) if config.overlap else learning + collecting)) / 60


def _left(folder: Folder, job: SeedRun) -> float:
    """Minutes that a job still takes."""
    state, entry = job.state(), job.entry
    if state == "done":
        return 0.0
    if job.trained() == "done":
        return 0.3  # the evaluation
    if job.trial_steps is not None:
        return 0.5
    whole, _ = cost(folder, entry, job.seed)
    if state == "pending" or isinstance(entry, Measurement):
        return whole
    return whole * max(1 - last_step(Run.open(job.run_dir)) / job.steps, 0.0)


def _per_replayed(agent: OffPolicyAgentConfig) -> float:
    """Seconds of a transition in an update, by what the hidden layers multiply."""
    products = sum(a * b for a, b in pairwise(agent.net_arch)) / (2 * 256**2)
    faster = _BFLOAT16 if agent.precision == "bfloat16" else 1.0
    return _PER_REPLAYED * products * _TIMES_DDPG.get(agent.method, 1.0) * faster
