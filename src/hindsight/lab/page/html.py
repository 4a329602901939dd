"""Pieces of HTML: tables in a box that scrolls by itself, figures with their data, badges."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from hindsight.lab.page import svg
from hindsight.lab.series import Line


def table(caption: str, head: Sequence[str], rows: Sequence[Sequence[str]], numbers: Sequence[int] = ()) -> str:
    """Cells are HTML; the first of a row is its heading. Columns in `numbers` are set to the right.

    The caption stands above the box, so that it does not scroll away.
    """

    def cell(kind: str, i: int, text: str, extra: str = "") -> str:
        return f"<{kind}{extra}{' class=number' if i in numbers else ''}>{text}</{kind}>"

    top = "".join(cell("th", i, text, " scope=col") for i, text in enumerate(head))
    body = ""
    for first, *rest in rows:
        cells = "".join(cell("td", i, text) for i, text in enumerate(rest, 1))
        body += f"<tr><th scope=row class=row>{first}</th>{cells}</tr>"
    name = caption.partition(":")[0]
    content = f"<table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>"
    return f'<p class="soft">{escape(caption)}</p>{scroll(name, content)}'


def scroll(name: str, content: str, tall: bool = False) -> str:
    """A box that scrolls by itself: with a keyboard, too."""
    kind = "scroll tall" if tall else "scroll"
    return f'<div class="{kind}" role="region" tabindex="0" aria-label="{escape(name, quote=True)}">{content}</div>'


def figure(axes: svg.Axes, lines: Sequence[Line], number: str, note: str = "", level: int = 4) -> str:
    """A plot with legend, caption and the numbers it is drawn from."""
    legend = "".join(f"<li>{svg.swatch(line.style)}<span>{escape(line.label)}</span></li>" for line in lines)
    caption = f"<p>{escape(note)}</p>" if note else ""
    return (
        f'<figure id="{number}"><h{level}>{escape(axes.title)}</h{level}>{svg.figure(axes, lines, number)}'
        f'<figcaption><ul class="legend">{legend}</ul>{caption}</figcaption>{_data(axes, lines)}</figure>'
    )


def _data(axes: svg.Axes, lines: Sequence[Line]) -> str:
    """The numbers of a figure. Closing tags that HTML does not ask for are left out: there are many rows."""
    rows = []
    for line in lines:
        for i in range(len(line.x)):
            band = f"<td>{line.low[i]:.4g}<td>{line.high[i]:.4g}" if line.seeds > 1 else "<td><td>"
            x = f"{line.x[i]:,.0f}" if line.x[-1] >= 1000 else f"{line.x[i]:.3g}"
            rows.append(f"<tr><td>{escape(line.label)}<td>{x}<td>{line.y[i]:.4g}{band}")
    head = "".join(f"<th scope=col>{escape(text)}" for text in ("group", axes.x, axes.y, "low", "high"))
    content = f"<table><thead><tr>{head}<tbody>{''.join(rows)}</table>"
    return f"<details><summary>Data</summary>{scroll(f'Data: {axes.title}', content, tall=True)}</details>"


def badge(state: str) -> str:
    return f'<span class="badge {"running" if "running" in state else ""}">{escape(state)}</span>'


def listed(items: Sequence[str], kind: str = "") -> str:
    """A list of texts."""
    opening = f'<ul class="{kind}">' if kind else "<ul>"
    return opening + "".join(f"<li>{escape(item)}</li>" for item in items) + "</ul>"
