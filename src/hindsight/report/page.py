"""The page: one HTML file that needs nothing else, on any screen, with or without a mouse."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from datetime import datetime
from html import escape

from hindsight.report import series, svg
from hindsight.report.conclusions import conclude, notes
from hindsight.report.film import Film
from hindsight.report.groups import Group, differing, tasks
from hindsight.report.html import badge, figure, listed, table
from hindsight.report.load import Skipped
from hindsight.report.series import LEARNT, REPLAYED, Line, Quantity
from hindsight.report.style import CSS
from hindsight.report.terminal import shown

# The page asks nobody for anything: the browser is told to refuse it, too.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; media-src data:"


def page(
    groups: Sequence[Group],
    skipped: Sequence[Skipped] = (),
    films: Mapping[str, Film] | None = None,
    refresh: float | None = None,
    title: str = "",
) -> str:
    """HTML of a comparison. `films` are by env, None if none were wanted; `refresh`: seconds until it is read again."""
    running = sum(run.state == "running" for g in groups for run in g.runs)
    title = title or "Hindsight: " + ", ".join(tasks(groups))
    reload = f'<meta http-equiv="refresh" content="{max(refresh, 1):.0f}">' if refresh and running else ""
    count = sum(len(g.runs) for g in groups)
    state = f"{badge(f'{running} running')} " if running else ""
    again = f" This page is read again every {refresh:.0f} s while they run." if reload else ""
    style = {id(g): i for members in tasks(groups).values() for i, g in enumerate(members)}
    return "".join(
        [
            '<!doctype html><html lang="en"><head><meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">',
            f'<meta name="viewport" content="width=device-width, initial-scale=1">{reload}',
            f'<title>{escape(title)}</title><link rel="icon" href="data:,"><style>{CSS}</style></head><body>',
            f'<a class="skip" href="#main">Skip to the content</a><header><h1>{escape(title)}</h1>',
            f'<p class="soft">{state}{count} run{"s" if count > 1 else ""} in {len(groups)} group',
            f"{'s' if len(groups) > 1 else ''}. Written {datetime.now():%Y-%m-%d %H:%M}.{again}</p></header>",
            '<main id="main" tabindex="-1">',
            _conclusions(groups),
            _overview(groups, style),
            *(_task(i, task, members, style, films) for i, (task, members) in enumerate(tasks(groups).items())),
            _machines(groups),
            _runs(groups, skipped),
            "</main><footer>Made by <code>hindsight report</code>. This file needs no network and no other file.",
            "</footer></body></html>\n",
        ]
    )


def _conclusions(groups: Sequence[Group]) -> str:
    texts = [conclusion.text for conclusion in conclude(groups)] or ["No run has been evaluated yet."]
    heading = '<section><h2 id="conclusions">What can be said</h2>'
    return f"{heading}{listed(texts, 'conclusions')}</section>"


def _overview(groups: Sequence[Group], style: dict[int, int]) -> str:
    head = ("group", "final success", "0 to 1", "best", "env", "method", "seeds", "steps", "minutes", "state")
    rows = []
    for g in groups:
        i = style[id(g)]
        strip = svg.strip(g.finals, g.final.low, g.final.high, g.final.value, i) if g.final else ""
        final = f"{shown(g.final)}<br><small>{g.episodes} episodes each</small>"
        best = f"{shown(g.best)}<br><small>of {g.evaluations} evaluations</small>"
        seeds = ", ".join(map(str, g.seeds))
        rows.append(
            (
                f"{svg.swatch(i)} {escape(g.label)}",
                final,
                strip,
                best,
                escape(g.task),
                escape(g.method),
                seeds,
                g.steps,
                g.minutes,
                badge(g.state),
            )
        )
    caption = (
        "Final success: interquartile mean over seeds of the last evaluation [95 % bootstrap interval]; a dot is a "
        "seed. Best: the same of each run's highest evaluation; it flatters."
    )
    how = listed(notes(groups), "notes")
    return f'<section><h2 id="overview">Overview</h2>{table(caption, head, rows, (1, 3, 7, 8))}{how}</section>'


def _task(i: int, task: str, groups: Sequence[Group], style: dict[int, int], films: Mapping[str, Film] | None) -> str:
    """All about one env: curves, what was replayed, the film, settings."""
    against: tuple[tuple[series.Against, str], ...] = (("steps", "env steps"), ("minutes", "minutes of training"))
    curves = []
    for kind, name in against:
        lines = [line for g in groups if (line := series.success(g, kind, style[id(g)]))]
        if lines:
            axes = svg.Axes(f"Success against {kind}", name, "success rate", 1.0)
            curves.append(figure(axes, lines, f"f{i}-{kind}"))
    parts = [f'<section><h2 id="t{i}">{escape(task)}</h2>']
    if curves:
        parts.append(f'<h3>Learning curves</h3><div class="figures two">{"".join(curves)}</div>')
        parts.append('<p class="soft">Line: interquartile mean over seeds. Band: its 95 % bootstrap interval.</p>')
    for heading, quantities in (("What was replayed", REPLAYED), ("What the policy gradient saw", LEARNT)):
        figures = [
            _quantity(quantity, lines, f"f{i}-{quantity.key.replace('/', '-')}")
            for quantity in quantities
            if (lines := [x for g in groups if (x := series.line(g, quantity.key, "steps", style[id(g)]))])
        ]
        if figures:
            parts.append(f'<h3>{heading}</h3><div class="figures">{"".join(figures)}</div>')
    if films is not None and task in films:
        parts.append(_film(task, films[task]))
    settings = differing(groups)
    if settings:
        rows = [(_code(name), *map(escape, values)) for name, values in settings.items()]
        parts.append("<h3>Settings that differ</h3>")
        parts.append(table(f"Settings that differ, {task}", ("setting", *(escape(g.label) for g in groups)), rows))
    return "".join([*parts, "</section>"])


def _quantity(quantity: Quantity, lines: Sequence[Line], number: str) -> str:
    return figure(svg.Axes(quantity.title, "env steps", quantity.axis), lines, number, quantity.note)


def _film(task: str, film: Film) -> str:
    if film.problem:
        return f"<h3>Video</h3><p>There is no video: {escape(film.problem)}.</p>"
    which = f"{film.label}, seed {film.seed}"
    data = base64.b64encode(film.video).decode()
    name = f"Video: the policy of {which}, plays {film.episodes} episodes of {task}"
    return (
        f'<h3>Video</h3><figure class="film"><video controls muted playsinline loop preload="auto" '
        f'aria-label="{escape(name, quote=True)}" src="data:video/mp4;base64,{data}"></video><figcaption><p>'
        f"{film.episodes} fresh episodes by the policy of {escape(which)}, whose last evaluation was the best of all: "
        f"{film.success:.2f}. The border is green while the goal is reached.</p></figcaption></figure>"
    )


def _machines(groups: Sequence[Group]) -> str:
    """Hardware and versions, once per kind, with the groups that ran on it."""
    kinds: dict[tuple[str, ...], list[str]] = {}
    for g in groups:
        for run in g.runs:
            machine, versions = (
                found if isinstance(found := run.summary.get(name), dict) else {} for name in ("machine", "versions")
            )
            text = f"{machine.get('cpu', '?')}, {machine.get('cores', '?')} cores, {machine.get('system', '?')}"
            packages = [f"Python {machine.get('python', '?')}", *(f"{k} {v}" for k, v in versions.items())]
            kind = (text, ", ".join(packages)) if machine else ("not known: no summary yet", "")
            kinds.setdefault(kind, []).append(g.label)
    rows = [(*map(escape, kind), escape(", ".join(dict.fromkeys(labels)))) for kind, labels in kinds.items()]
    known = [kind for kind in kinds if kind[1]]
    mixed = "<p>They differ: minutes, and to the last digit results, cannot be compared.</p>" if len(known) > 1 else ""
    inner = table("Where the runs were trained, and with what", ("machine", "versions", "groups"), rows)
    return f'<section><h2 id="machines">Hardware and versions</h2>{inner}{mixed}</section>'


def _runs(groups: Sequence[Group], skipped: Sequence[Skipped]) -> str:
    rows = [
        (
            _code(str(run.path)),
            escape(g.label),
            str(run.config.seed),
            "–" if run.final is None else f"{run.final:.3f}",  # noqa: RUF001  (no number)
            "–" if run.best is None else f"{run.best:.3f}",  # noqa: RUF001
            f"{run.steps:,} of {run.config.steps:,}",
            f"{run.minutes:.1f}",
            badge(run.state),
        )
        for g in groups
        for run in g.runs
    ]
    head = ("directory", "group", "seed", "final", "best", "steps", "minutes", "state")
    inner = table("Every run on this page", head, rows, (2, 3, 4, 5, 6))
    left = [f"{item.path}: {item.reason}" for item in skipped]
    out = f"<h3>Not on this page</h3>{listed(left)}" if left else ""
    return f'<section><h2 id="runs">Runs</h2>{inner}{out}</section>'


def _code(text: str) -> str:
    """A path or a dotted name, which may be broken after its separators only."""
    return f"<code>{escape(text).replace('/', '/<wbr>').replace('.', '.<wbr>')}</code>"
