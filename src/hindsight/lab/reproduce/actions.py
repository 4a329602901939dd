"""What `hindsight reproduce` does: lists, runs, imports, draws, and makes tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from hindsight.errors import HindsightError
from hindsight.lab.jobs import Here, Place, Processes, Runner
from hindsight.lab.reproduce import rows
from hindsight.lab.reproduce.budget import Request, choose, cost, run_path, seed_runs
from hindsight.lab.reproduce.experiment import Entry
from hindsight.lab.reproduce.figures import draw
from hindsight.lab.reproduce.folder import Folder, find
from hindsight.lab.reproduce.import_run import import_run
from hindsight.lab.reproduce.options import ReproduceOptions
from hindsight.lab.reproduce.seed_run import SeedRun, run_here
from hindsight.lab.reproduce.tables import refill, table


def act(options: ReproduceOptions) -> int:
    folder = find()
    names = (
        list(folder.experiments)
        if "all" in options.names
        else [n.replace("-", "_") for n in options.names]
    )
    for name in names:
        _ = folder[name]
    if options.list:
        print(listing(folder))
        return 0
    if options.tables:
        return _tables(folder)
    if not names:
        raise HindsightError(
            "which experiment? `hindsight reproduce --list` shows them; `all` runs all of them"
        )
    if options.import_runs:
        return _import_runs(folder, names, options)
    if options.draw:
        for name in names:
            target = folder.root / "docs" / "figures" / f"{name}.png"
            _draw(
                folder,
                name,
                [rows.rows_of(folder.results, e) for e in folder.entries(name)],
                target,
            )
        return 0
    return _run(folder, names, options)


def _run(folder: Folder, names: Sequence[str], options: ReproduceOptions) -> int:
    if options.steps is not None and options.steps < 1:
        raise HindsightError(f"--steps must be 1 or more, got {options.steps}")
    if options.budget is not None and not options.budget > 0:
        raise HindsightError(f"--budget must be more than 0 minutes, got {options.budget}")
    if any(seed < 0 for seed in options.seeds):
        raise HindsightError(f"--seeds must be 0 or more, got {min(options.seeds)}")
    if options.runs_dir is not None and len(names) > 1:
        raise HindsightError(
            "--runs-dir is for one experiment: the names of runs of several may be the same"
        )
    if options.jobs < 1:
        raise HindsightError(f"--jobs must be 1 or more, got {options.jobs}")
    options.check()
    request = Request(
        names,
        options.seeds,
        options.only,
        options.runs_dir,
        options.steps,
        options.missing,
        options.shared_machine or options.jobs > 1 or options.ray is not None,
        options.quiet,
    )
    every = seed_runs(folder, request)
    pending = [job for job in every if job.state() != "done"]
    chosen, left = choose(pending, options.budget)
    runs = "1 run" if len(every) == 1 else f"{len(every)} runs"
    finished = len(every) - len(pending)
    print(f"{runs}: {finished} finished, {_sum(chosen)} to run, {_sum(left)} left out", flush=True)
    if options.plan:
        for job in chosen:
            print(f"  {job.minutes:6.1f} min  {job.name}")
        _print_left_out(left)
        return 0
    place: Place[SeedRun] = Here(run_here) if options.jobs == 1 else Processes(options.jobs)
    place = options.cluster(options.jobs if options.jobs > 1 else 0) or place
    runner = Runner(pending, place, options.budget)
    runner.run()
    _print_left_out(runner.left_out())
    if options.steps is None:
        for name in names:
            _show(folder, name, request)
    return 1 if runner.failures else 0


def _sum(some: Sequence[SeedRun]) -> str:
    return f"{len(some)} (about {sum(job.minutes for job in some):.3g} minutes)" if some else "none"


def _print_left_out(left: Sequence[SeedRun]) -> None:
    if left:
        print("left out, too long for the budget:")
        for job in left:
            print(f"  {job.minutes:6.1f} min  {job.name}")


def _show(folder: Folder, name: str, request: Request) -> None:
    """The table and the figure of the user's own runs."""
    entries = folder.entries(name)
    found = [_own_rows(request, entry) for entry in entries]
    if not any(found):
        return
    print(f"\n{folder[name].title}: your runs\n\n{table(folder[name], entries, found)}")
    target = (request.runs_dir or Path("runs") / "reproduce" / name) / f"{name}.png"
    _draw(folder, name, found, target)


def _own_rows(request: Request, entry: Entry) -> dict[int, rows.Row]:
    files = {
        seed: run_path(request, entry, seed) / "row.json"
        for seed in sorted(request.seeds or entry.seeds)
    }
    return {seed: rows.read(file) for seed, file in files.items() if file.is_file()}


def _draw(folder: Folder, name: str, found: Sequence[Mapping[int, rows.Row]], target: Path) -> None:
    if folder[name].figure == "none":
        print(f"{name} has no figure")
        return
    draw(folder[name], folder.entries(name), found, target)
    print(f"figure: {target}")


def _tables(folder: Folder) -> int:
    changed = refill(folder)
    print(
        "\n".join(f"tables made anew: {path}" for path in changed)
        or "all tables are what the rows say"
    )
    return 0


def _import_runs(folder: Folder, names: Sequence[str], options: ReproduceOptions) -> int:
    if len(names) != 1:
        raise HindsightError("name one experiment to import runs into")
    for path in options.import_runs:
        print(f"row: {import_run(folder, names[0], path, options.shared_machine)}", flush=True)
    return 0


def listing(folder: Folder) -> str:
    """A line per experiment. Runs that several experiments share are counted in each."""
    lines = [f"{'name':17}{'runs':>5}{'measured':>10}{'minutes':>9}  {'in the paper':20}  title"]
    for name, experiment in folder.experiments.items():
        entries = folder.entries(name)
        pairs = {(e.home, e.slug, seed): (e, seed) for e in entries for seed in e.seeds}
        measured = sum(
            rows.results_path(folder.results, e, seed).is_file() for e, seed in pairs.values()
        )
        costs = [cost(folder, e, seed) for e, seed in pairs.values()]
        minutes = f"{'' if all(known for _, known in costs) else '~'}{sum(m for m, _ in costs):.0f}"
        where = experiment.where
        lines.append(
            f"{name:17}{len(pairs):5}{measured:10}{minutes:>9}  {where:20}  {experiment.title}"
        )
    lines.append("~: partly estimated from steps, or measured beside other programs. Two cores.")
    lines.append("Runs that several experiments share are run once.")
    return "\n".join(lines)
