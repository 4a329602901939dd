"""Turns runs that have ended into measured rows, if they have the experiment's settings."""

from __future__ import annotations

from pathlib import Path

from hindsight.errors import HindsightError
from hindsight.lab.reproduce import rows
from hindsight.lab.reproduce.configs import config_of, differences, last_step
from hindsight.lab.reproduce.experiment import Measurement, Training
from hindsight.lab.reproduce.folder import Folder
from hindsight.training.run import Run


def import_run(folder: Folder, name: str, path: Path, shared_machine: bool) -> Path:
    """Evaluate the policy of a run, write its row to the results, and return where it is."""
    own = [entry for entry in folder.entries(name) if entry.home == name]
    if not (path / "config.json").is_file() and (path / "row.json").is_file():
        return _import_measurement(folder, name, path, shared_machine)
    run = Run.open(path)
    nearest: list[str] = []
    for entry in own:
        if isinstance(entry, Measurement) or (entry.env, entry.env_kwargs) != (
            run.config.env,
            run.config.env_kwargs,
        ):
            continue
        other = differences(run.config, config_of(entry, run.config.seed))
        if not other:
            return _import_training(folder, entry, run, shared_machine)
        nearest = other if not nearest or len(other) < len(nearest) else nearest
    why = (
        f"the nearest has other settings ({'; '.join(nearest[:3])})"
        if nearest
        else f"none trains {run.config.env}"
    )
    raise HindsightError(f"{path} is no run of {name}: {why}")


def _import_training(folder: Folder, entry: Training, run: Run, shared_machine: bool) -> Path:
    seed = run.config.seed
    if seed not in entry.seeds:
        raise HindsightError(
            f"{run.path} has seed {seed}: {entry.slug} has {', '.join(map(str, entry.seeds))}"
        )
    if not (run.path / "summary.json").is_file():
        raise HindsightError(f"{run.path} has not ended: it has no summary.json")
    end = min(run.config.steps, entry.stop_at or run.config.steps)
    if last_step(run) < end and run.summary.get("status") in ("interrupted", "failed"):
        raise HindsightError(
            f"{run.path} was {run.summary['status']} at step {last_step(run)}: resume it first"
        )
    target = rows.results_path(folder.results, entry, seed)
    rows.write(target, rows.row_of(entry, seed, run, shared_machine))
    return target


def _import_measurement(folder: Folder, name: str, path: Path, shared_machine: bool) -> Path:
    row = rows.read(path / "row.json")
    own = {entry.slug: entry for entry in folder.entries(name) if isinstance(entry, Measurement)}
    if row["experiment"] != name or row["slug"] not in own:
        raise HindsightError(
            f"{path} is no measurement of {name}, but of {row['experiment']} {row['slug']}"
        )
    target = rows.results_path(folder.results, own[row["slug"]], row["seed"])
    rows.write(target, row | {"shared_machine": row["shared_machine"] or shared_machine})
    return target
