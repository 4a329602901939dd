"""The page: one HTML file that needs nothing else, on any screen, with or without a mouse."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

import jinja2
from markupsafe import Markup, escape

from hindsight.lab import series
from hindsight.lab.conclusions import conclude, notes
from hindsight.lab.groups import Group, differing, tasks
from hindsight.lab.page.figure import MARKERS, Axes, Figure, figure
from hindsight.lab.runs import SUCCESS, LoadedRun, Skipped
from hindsight.lab.speed import speeds
from hindsight.lab.video import PolicyVideo


class Machine(NamedTuple):
    """What a run was trained on and with; no versions if its summary does not say yet."""

    name: str
    versions: str = ""


def page(
    groups: Sequence[Group],
    skipped: Sequence[Skipped] = (),
    videos: Mapping[str, PolicyVideo] | None = None,
    refresh: float | None = None,
    title: str = "",
    base: str = "",
) -> str:
    """HTML of a comparison. `videos` are by env; `refresh`: seconds until the page is reloaded."""
    by_task = tasks(groups)
    running = sum(run.state == "running" for g in groups for run in g.runs)
    style = {
        g.label: i % len(MARKERS) for members in by_task.values() for i, g in enumerate(members)
    }
    machines: dict[Machine, list[str]] = {}
    for g in groups:
        for machine in dict.fromkeys(map(_machine, g.runs)):
            machines.setdefault(machine, []).append(g.label)
    return (
        _templates()
        .get_template("page.html.j2")
        .render(
            title=title or "Hindsight: " + ", ".join(by_task),
            groups=groups,
            runs=[(g.label, run) for g in groups for run in g.runs],
            running=running,
            refresh=f"{max(refresh, 1):.0f}" if refresh and running else "",
            written=f"{datetime.now():%Y-%m-%d %H:%M}",
            conclusions=conclude(groups),
            notes=notes(groups),
            style=style,
            speeds=speeds(groups, base),
            tasks=[
                _task(i, name, members, style, (videos or {}).get(name))
                for i, (name, members) in enumerate(by_task.items())
            ],
            machines=machines,
            skipped=skipped,
        )
    )


def _task(
    number: int,
    name: str,
    groups: Sequence[Group],
    style: Mapping[str, int],
    video: PolicyVideo | None,
) -> dict[str, Any]:
    """All about one env: curves, what was replayed, the video, settings."""

    def drawn(key: str, against: series.Against, axes: Axes) -> list[Figure]:
        lines = [line for g in groups if (line := series.line(g, key, against, style[g.label]))]
        place = against if key == SUCCESS else key.replace("/", "-")
        return [figure(f"f{number}-{place}", axes, lines)] if lines else []

    def quantities(some: Sequence[series.Quantity]) -> list[Figure]:
        return [
            f
            for q in some
            for f in drawn(q.key, "steps", Axes(q.title, "env steps", q.axis, note=q.note))
        ]

    return {
        "name": name,
        "curves": [
            f
            for against, x in series.AXES.items()
            for f in drawn(
                SUCCESS, against, Axes(f"Success against {against}", x, "success rate", 1.0)
            )
        ],
        "replayed": quantities(series.REPLAYED),
        "learnt": quantities(series.LEARNT),
        "video": video,
        "settings": differing(groups),
        "labels": [g.label for g in groups],
    }


def _machine(run: LoadedRun) -> Machine:
    machine, versions = (
        found if isinstance(found := run.summary.get(name), dict) else {}
        for name in ("machine", "versions")
    )
    if not machine:
        return Machine("not known: no summary yet")
    cpu, cores, system, python = (
        machine.get(key, "?") for key in ("cpu", "cores", "system", "python")
    )
    packages = [f"Python {python}", *(f"{name} {version}" for name, version in versions.items())]
    return Machine(f"{cpu}, {cores} cores, {system}", ", ".join(packages))


def _templates() -> jinja2.Environment:
    found = jinja2.Environment(
        loader=jinja2.PackageLoader("hindsight.lab.page"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    found.globals["markers"] = MARKERS
    script = (Path(__file__).parent / "templates" / "script.js").read_text()
    found.globals["script"] = Markup(script)
    found.globals["script_hash"] = f"sha256-{_sha256(script)}"
    found.filters["known"] = lambda value, form="%s": "–" if value is None else form % value  # noqa: RUF001
    found.filters["code"] = _code
    return found


def _sha256(text: str) -> str:
    """As a Content-Security-Policy wants it."""
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _code(text: object) -> Markup:
    """A path or a dotted name, which may be broken after its separators only."""
    return Markup(f"<code>{str(escape(text)).replace('/', '/<wbr>').replace('.', '.<wbr>')}</code>")
