"""Markdown tables from measured rows, and the markers in README and docs around them."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np

from hindsight.errors import HindsightError
from hindsight.lab.reproduce import measured_tables
from hindsight.lab.reproduce.configs import command, config_of, differences, is_installed
from hindsight.lab.reproduce.experiment import Entry, Experiment, Measurement, Training
from hindsight.lab.reproduce.folder import Folder
from hindsight.lab.reproduce.rows import Row, config_in, rows_of
from hindsight.lab.statistics import (
    FEW_SEEDS,
    area,
    difference,
    estimate,
    first_good,
    improvement_of_many,
    improvement_text,
    steps_to_good,
    swing,
)

MARKER = re.compile(r"(<!-- table: ([\w-]+)(?: (\w+))? -->\n)(.*?)(<!-- /table -->)", re.DOTALL)
VIEWS: dict[str, tuple[str, ...]] = {"short": ("label", "by_seed", "steps", "minutes", "command")}
NOT_RUN = "not run"
Rows = Mapping[int, Row]


def table(
    experiment: Experiment, entries: Sequence[Entry], found: Sequence[Rows], view: str | None = None
) -> str:
    """The table of an experiment, from the rows found of each of its entries."""
    measured = [
        (entry, rows)
        for entry, rows in zip(entries, found, strict=True)
        if isinstance(entry, Measurement)
    ]
    if measured:
        titles = [f"{entry.label}:\n\n" if entry.label else "" for entry, _ in measured]
        tables = [measured_tables.table(entry, rows) for entry, rows in measured]
        return "\n".join(title + made for title, made in zip(titles, tables, strict=True))
    trainings = [entry for entry in entries if isinstance(entry, Training)]
    if any(entry.column for entry in trainings):
        return _crossed(experiment, trainings, found)
    columns = experiment.columns if view is None else VIEWS[view]
    lines = [[_heading(experiment, name) for name in columns]]
    by_slug = {e.slug: (e, rows) for e, rows in zip(trainings, found, strict=True)}
    for entry, rows in zip(trainings, found, strict=True):
        if not rows:
            continue
        cells = {name: COLUMNS[name][1](experiment, entry, rows) for name in columns}
        base, base_rows = by_slug.get(entry.base or experiment.base, (None, {}))
        if base_rows and entry is not base:
            for name, (measure, compare) in COMPARISONS.items():
                if name in cells:
                    cells[name] = compare(measure(experiment, rows), measure(experiment, base_rows))
            if entry.base and base is not None:
                for name in GAPS:
                    if cells.get(name):
                        cells[name] += f" than *{base.label}*"
        lines.append(list(cells.values()))
    keep = [
        i
        for i, name in enumerate(columns)
        if name != "stopped" or any(line[i] for line in lines[1:])
    ]
    made = markdown([[line[i] for i in keep] for line in lines]) if len(lines) > 1 else ""
    missing = [entry for entry, rows in zip(trainings, found, strict=True) if not rows]
    return made + _not_run(missing) + _note(experiment)


def _not_run(missing: Sequence[Training]) -> str:
    """What has no row yet, and how to make them."""
    homes = dict.fromkeys(entry.home for entry in missing)
    return "".join(
        f"\nNot run yet (`hindsight reproduce {home} --missing`): "
        f"{'; '.join(entry.label for entry in missing if entry.home == home)}.\n"
        for home in homes
    )


def _crossed(experiment: Experiment, entries: Sequence[Training], found: Sequence[Rows]) -> str:
    """Lines and columns: a cell for each training."""
    columns = list(dict.fromkeys(entry.column for entry in entries))
    names = list(dict.fromkeys(entry.line for entry in entries))
    paper = {entry.line: entry.paper for entry in entries if entry.paper is not None}
    best = {entry.line: entry.best_score for entry in entries if entry.best_score is not None}
    cells = {
        (e.line, e.column): _cell(experiment, e, rows)
        for e, rows in zip(entries, found, strict=True)
    }
    lines = [experiment.line_heading.split(" | ")]
    lines[0] += (
        (["the paper's best"] if paper else [])
        + (["best possible score"] if best else [])
        + columns
    )
    for name in names:
        line = name.split(" | ")
        line += [str(paper.get(name, "not given"))] if paper else []
        line += [f"{best[name]:.2f}"] if best else []
        lines.append(line + [cells.get((name, column), "") for column in columns])
    return markdown(lines) + _note(experiment)


def _cell(experiment: Experiment, entry: Training, rows: Rows) -> str:
    """Success on fresh episodes, and the best over evaluations, because the paper shows that."""
    if not rows:
        return NOT_RUN
    shown = _few_or_many([row["final"]["success_rate"] for row in rows.values()])
    if experiment.cell == "score":
        score = _few_or_many([row["final"]["score"] for row in rows.values()])
        shown = f"{score}, success {shown}"
    best = [row["best"] for row in rows.values()]
    flattering = f"{np.mean([b['success_rate'] for b in best]):.2f}"
    if entry.epoch_steps:
        epochs = sorted({-(-b["step"] // entry.epoch_steps) - 1 for b in best})  # from 0
        flattering += f" in epoch {', '.join(map(str, epochs))}"
    seeds = f"{len(rows)} seeds" if len(rows) > 1 else "1 seed"
    stopped = sorted({row["stopped_at"] for row in rows.values() if "stopped_at" in row})
    steps = f"; stopped at {stopped[0]:,} steps" if stopped else ""
    return f"{shown}; best {flattering} ({seeds}{steps})"


def _few_or_many(values: Sequence[float]) -> str:
    """The values of few seeds; of enough, their interquartile mean with its interval."""
    if len(values) < FEW_SEEDS:
        return ", ".join(f"{value:.2f}" for value in values)
    return str(estimate(values))


def _note(experiment: Experiment) -> str:
    return f"\n{experiment.note}\n" if experiment.note else ""


def markdown(lines: Sequence[Sequence[str]]) -> str:
    head, *rest = ("| " + " | ".join(line) + " |" for line in lines)
    return "\n".join([head, "|" + "---|" * len(lines[0]), *rest]) + "\n"


# -------------------------------------------------------------------------------- columns, by name


def _seeds(rows: Rows) -> str:
    return (
        ""
        if list(rows) == [0, 1, 2]
        else f" (seed{'s' if len(rows) > 1 else ''} {', '.join(map(str, rows))})"
    )


def _by_seed(experiment: Experiment, entry: Training, rows: Rows) -> str:
    return ", ".join(f"{row['final']['success_rate']:.2f}" for row in rows.values()) + _seeds(rows)


def _best(experiment: Experiment, entry: Training, rows: Rows) -> str:
    return ", ".join(f"{row['best']['success_rate']:.2f}" for row in rows.values())


def _first(experiment: Experiment, entry: Training, rows: Rows) -> str:
    """With its minute, if the machine had nothing else to do."""
    found = []
    for row in rows.values():
        point = next((point for point in row["curve"] if point[2] >= 0.9), None)
        minute = "" if point is None or row["shared_machine"] else f" ({point[1]:.1f} min)"
        found.append(f"{point[0] / 1000:.0f}k{minute}" if point else "never")
    return ", ".join(found)


def _steps(experiment: Experiment, entry: Training, rows: Rows) -> str:
    return ", ".join(f"{steps:,}" for steps in sorted({row["steps"] for row in rows.values()}))


def _minutes(experiment: Experiment, entry: Training, rows: Rows) -> str:
    """Of the runs that had the machine alone; else a bound, by the fastest one."""
    alone = [row["minutes"] for row in rows.values() if not row["shared_machine"]]
    if alone:
        return ", ".join(f"{minutes:.1f}" for minutes in alone)
    return f"< {math.ceil(min(row['minutes'] for row in rows.values()))}, beside other work"


def _command(experiment: Experiment, entry: Training, rows: Rows) -> str:
    shown = re.sub(r" (--seeds?) 0$", r" \1 S", command(entry, 0))
    return f"`{shown}`"


def _version(experiment: Experiment, entry: Training, rows: Rows) -> str:
    found = dict.fromkeys(row["versions"].get(entry.package, "") for row in rows.values())
    return f"{entry.package} {', '.join(filter(None, found))}".strip()


def _peer(experiment: Experiment, entry: Training, rows: Rows) -> str:
    return entry.peer


def _curve(row: Row) -> tuple[list[float], list[float]]:
    """Steps and success of the evaluations."""
    return [point[0] for point in row["curve"]], [point[2] for point in row["curve"]]


def areas(experiment: Experiment, rows: Rows) -> list[float]:
    """Under the learning curve of each seed."""
    return [area(*_curve(row), experiment.area_until) for row in rows.values()]


def _area(experiment: Experiment, entry: Training, rows: Rows) -> str:
    return str(estimate(areas(experiment, rows)))


def _soon(experiment: Experiment, entry: Training, rows: Rows) -> str:
    return str(steps_to_good([first_good(*_curve(row)) for row in rows.values()]))


def _against(areas: Sequence[float], base: Sequence[float]) -> str:
    """The probability of a larger area than the base's, in words if its interval says so."""
    return improvement_text(improvement_of_many(areas, base))


def _gap(values: Sequence[float], base: Sequence[float]) -> str:
    """How much larger the measure is than the base's: what cannot be told is no larger than
    this."""
    if min(len(values), len(base)) < FEW_SEEDS:
        return ""
    found = difference(values, base)
    return f"{found.value:+.2f} [{found.low:+.2f}, {found.high:+.2f}]"


def _at_last(experiment: Experiment, rows: Rows) -> list[float]:
    """Success of each seed at the last of the steps that the experiment names."""
    curves = [{point[0]: point[2] for point in row["curve"]} for row in rows.values()]
    last = experiment.at_steps[-1]
    return [curve[last] for curve in curves if last in curve]


COMPARISONS: dict[
    str,
    tuple[
        Callable[[Experiment, Rows], list[float]], Callable[[Sequence[float], Sequence[float]], str]
    ],
] = {
    "against": (areas, _against),
    "gap": (areas, _gap),
    "gap_at": (_at_last, _gap),
}
GAPS = ("gap", "gap_at")


def _from_to(name: str) -> Callable[[Experiment, Training, Rows], str]:
    """A replay metric: its mean over the first and the last tenth of the curve."""

    def cell(experiment: Experiment, entry: Training, rows: Rows) -> str:
        ends = []
        for row in rows.values():
            values = [value for _, value in row["replay"].get(name, [])]
            tenth = max(len(values) // 10, 1)
            if values:
                ends.append((np.mean(values[:tenth]), np.mean(values[-tenth:])))
        if not ends:
            return "-"
        first, last = np.mean(ends, axis=0)
        return f"{first:.2f} to {last:.2f}"

    return cell


def _swing(experiment: Experiment, entry: Training, rows: Rows) -> str:
    """How much success changes from one evaluation to the next, once it has been 0.5."""
    found = [swing([point[2] for point in row["curve"]]) for row in rows.values()]
    known = [value for value in found if value is not None]
    return str(estimate(known)) if known else "-"


def _at_steps(experiment: Experiment, entry: Training, rows: Rows) -> str:
    """At each step, over the seeds that were evaluated at it."""
    curves = [{point[0]: point[2] for point in row["curve"]} for row in rows.values()]
    found = [[c[step] for c in curves if step in c] for step in experiment.at_steps]
    return "; ".join(str(estimate(values)) if values else "-" for values in found)


def _stopped(experiment: Experiment, entry: Training, rows: Rows) -> str:
    return ", ".join(
        f"{step:,}"
        for step in sorted({r["stopped_at"] for r in rows.values() if "stopped_at" in r})
    )


COLUMNS: dict[str, tuple[str, Callable[[Experiment, Training, Rows], str]]] = {
    "label": ("", lambda experiment, entry, rows: entry.label),
    "by_seed": ("success by seed", _by_seed),
    "estimate": (
        "interquartile mean [95 %]",
        lambda experiment, entry, rows: str(
            estimate([row["final"]["success_rate"] for row in rows.values()])
        ),
    ),
    "area": ("area under the curve [95 %]", _area),
    "against": ("P(larger area than the base, or as said)", lambda experiment, entry, rows: ""),
    "gap": ("how much larger", lambda experiment, entry, rows: ""),
    "gap_at": ("at the last of them, how much higher", lambda experiment, entry, rows: ""),
    "soon": ("seeds that reach 0.9, median step", _soon),
    "version": ("version", _version),
    "peer": ("another library", _peer),
    "count": ("seeds", lambda experiment, entry, rows: str(len(rows))),
    "best": ("best evaluation (flatters)", _best),
    "first": ("first evaluation of 0.9", _first),
    "steps": ("steps", _steps),
    "minutes": ("minutes", _minutes),
    "seeds": ("seeds", lambda experiment, entry, rows: ", ".join(map(str, rows))),
    "command": ("command", _command),
    "ratio": ("alternate goals per actual one", _from_to("alternate_per_actual")),
    "reached": ("share of r = 0", _from_to("reached")),
    "moved": ("episodes in which the object moved", _from_to("moved")),
    "swing": ("change between evaluations once at 0.5 [95 %]", _swing),
    "at_steps": ("success at {} steps", _at_steps),
    "stopped": ("stopped at", _stopped),
}


def _heading(experiment: Experiment, name: str) -> str:
    return COLUMNS[name][0].format(", ".join(f"{step // 1000}k" for step in experiment.at_steps))


# -------------------------------------------------------------------------------- markers in files


def fill(folder: Folder, text: str) -> str:
    """The text with every table between its markers made anew."""

    def made(match: re.Match[str]) -> str:
        name, view = match[2], match[3]
        if view is not None and view not in VIEWS:
            raise HindsightError(
                f"unknown view {view!r} in the marker of table {name}: choose from "
                f"{', '.join(VIEWS)}"
            )
        entries = folder.entries(name)
        found = [_current(folder, entry) for entry in entries]
        return match[1] + table(folder[name], entries, found, view) + match[5]

    return MARKER.sub(made, text)


def _current(folder: Folder, entry: Entry) -> Rows:
    """The rows of an entry; it is an error if they have settings that the entry has not."""
    found = rows_of(folder.results, entry)
    for seed, row in found.items():
        if not isinstance(entry, Training) or not is_installed(entry):
            continue
        if other := differences(config_in(row), config_of(entry, seed)):
            where = f"experiments/results/{entry.home}/{entry.slug}-seed{seed}.json"
            raise HindsightError(
                f"{where} was measured with other settings ({other[0]}): measure it again or "
                "remove it"
            )
    return found


def documents(root: Path) -> list[Path]:
    return [
        path
        for path in (root / "README.md", *sorted((root / "docs").rglob("*.md")))
        if path.is_file()
    ]


def stale(folder: Folder) -> dict[Path, str]:
    """Documents whose tables are not what the rows say, and how they should read."""
    filled = {path: fill(folder, path.read_text()) for path in documents(folder.root)}
    return {path: text for path, text in filled.items() if text != path.read_text()}


def refill(folder: Folder) -> list[Path]:
    """Make all tables anew; returns the documents that changed."""
    changed = stale(folder)
    for path, text in changed.items():
        path.write_text(text)
    return list(changed)
