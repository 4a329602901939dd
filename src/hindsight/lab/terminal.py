"""A comparison in the terminal, and as JSON."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from rich import markup
from rich.console import Console
from rich.table import Table

from hindsight.errors import printable
from hindsight.lab.conclusions import conclude, notes
from hindsight.lab.groups import Group, differing, tasks
from hindsight.lab.runs import Skipped
from hindsight.lab.speed import Speed, speeds
from hindsight.lab.statistics import Estimate


def escape(text: str) -> str:
    """Text of a run (its path, its labels) as rich shows it: nothing in it is obeyed."""
    return markup.escape(printable(text))


def show(groups: Sequence[Group], console: Console, base: str = "") -> None:
    """Overview, learning speed, settings that differ, conclusions and notes."""
    found = speeds(groups, base)
    table = Table(
        title="Success: interquartile mean over seeds [95 % bootstrap interval]",
        title_justify="left",
    )
    for name in ("group", "env", "method"):
        table.add_column(name, overflow="fold")
    for name in ("seeds", "steps", "minutes", "final", "best*", "episodes"):
        table.add_column(name, justify="right")
    table.add_column("state")
    for g in groups:
        row = (g.label, g.task, g.method, ", ".join(map(str, g.seeds)), g.steps, g.minutes)
        numbers = (shown(g.final), shown(g.best), str(g.episodes))
        table.add_row(
            *map(escape, row), *map(escape, numbers), escape(g.state), end_section=g is groups[-1]
        )
    console.print(table)
    console.print("* the highest of all evaluations: it flatters\n", highlight=False)
    if found:
        console.print(_speed(found))
        until = ", ".join(f"{step:,}" for step in sorted({s.until for s in found.values()}))
        console.print(
            f"Area: mean success of the evaluations up to step {until}, the last that all runs of "
            "an env have.\nP: the probability that a seed has a larger area than one of the "
            "base.\n",
            highlight=False,
        )
    for task, members in tasks(groups).items():
        settings = differing(members)
        if settings:
            console.print(_settings(task, members, settings))
    for conclusion in conclude(groups):
        text = f"- {printable(conclusion.text)}"
        console.print(text, markup=False, highlight=False, soft_wrap=True)
    console.print()
    for text in notes(groups):
        console.print(f"note: {printable(text)}", markup=False, highlight=False, soft_wrap=True)


def _speed(found: dict[str, Speed]) -> Table:
    title = "Learning speed, over seeds [95 % bootstrap interval]"
    table = Table(title=title, title_justify="left")
    table.add_column("group", overflow="fold")
    for name in ("area", "seeds that reach 0.9, median step", "P(larger area than the base)"):
        table.add_column(name)
    for label, speed in found.items():
        cells = (label, str(speed.area), speed.steps_to_good.with_interval, speed.against(label))
        table.add_row(*map(escape, cells))
    return table


def _settings(task: str, groups: Sequence[Group], settings: dict[str, list[str]]) -> Table:
    table = Table(title=escape(f"Settings that differ, {task}"), title_justify="left")
    table.add_column("setting", overflow="fold")
    for g in groups:
        table.add_column(escape(g.label), overflow="fold")
    for name, values in settings.items():
        table.add_row(escape(name), *map(escape, values))
    return table


def shown(number: Estimate | None) -> str:
    return "–" if number is None else str(number)  # noqa: RUF001  (no number)


def as_json(groups: Sequence[Group], skipped: Sequence[Skipped], base: str = "") -> dict[str, Any]:
    """The same as plain values."""
    found = speeds(groups, base)
    return {
        "groups": [_group(g, found.get(g.label)) for g in groups],
        "settings_that_differ": {
            task: {
                name: dict(zip([g.label for g in members], row, strict=True))
                for name, row in rows.items()
            }
            for task, members in tasks(groups).items()
            if (rows := differing(members))
        },
        "conclusions": [dataclasses.asdict(conclusion) for conclusion in conclude(groups)],
        "notes": notes(groups),
        "skipped": [{"path": str(item.path), "reason": item.reason} for item in skipped],
    }


def _group(g: Group, speed: Speed | None) -> dict[str, Any]:
    return {
        "label": g.label,
        "env": g.env,
        "env_kwargs": g.runs[0].config.env_kwargs,
        "method": g.method,
        "final": dataclasses.asdict(g.final) if g.final else None,
        "best": dataclasses.asdict(g.best) if g.best else None,
        "speed": dataclasses.asdict(speed) if speed else None,
        "evaluations": g.evaluations,
        "eval_episodes": g.episodes,
        "runs": [
            {
                "path": str(run.path),
                "seed": run.config.seed,
                "state": run.state,
                "steps": run.steps,
                "minutes": run.minutes,
                "final": run.final,
                "best": run.best,
            }
            for run in g.runs
        ],
    }
