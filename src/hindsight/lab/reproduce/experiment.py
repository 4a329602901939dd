"""What an experiment is: a list of trainings (or measurements), and what to show of them.

Each is one short file in the folder experiments/, which defines EXPERIMENT.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal


@dataclass(frozen=True)
class Paper:
    """The paper's own number: the best success rate over epochs, and its epoch, if given."""

    success: float
    epoch: int | None = None

    def __str__(self) -> str:
        return f"{self.success:.5g}" + (f" (epoch {self.epoch})" if self.epoch else "")


@dataclass(frozen=True)
class Training:
    """A configuration to train with several seeds."""

    slug: str
    """Its name in file names: unique within the experiment."""
    env: str
    preset: str = "default"
    method: str | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    """By dotted name, over the preset."""
    env_kwargs: Mapping[str, Any] = field(default_factory=dict)
    seeds: tuple[int, ...] = (0, 1, 2)
    """In the order in which they are run."""
    stop_at: int | None = None
    """Stop at this step, with schedules as if it went on to the end."""
    collectors: int | None = None
    """Episodes are played by so many processes on Ray, asynchronously."""
    main: bool = True
    """Run before those that are not."""
    label: str = ""
    line: str = ""
    """The line of a table with several trainings in a line."""
    column: str = ""
    paper: Paper | None = None
    epoch_steps: int | None = None
    """Env steps of one of the paper's epochs, where its epochs mean something."""
    episodes: int = 100
    """Fresh episodes of the final evaluation."""
    best_score: float | None = None
    """The best possible score on average, of envs where return plus horizon is a score."""
    peer: str = ""
    """What another library reaches, and the command that measured it."""
    package: str = ""
    """That its env is of, if an extra brings it. Where it is not installed, rows cannot be compared
    with the entry, and are believed."""
    base: str = ""
    """The training that it is compared with, by its slug, if not the experiment's `base`."""
    home: str = ""
    """The experiment whose results it belongs to; set when the file is read."""


@dataclass(frozen=True)
class Measurement:
    """Something to measure that is not a training."""

    slug: str
    what: Literal["replay", "bound", "estimators", "push_gradient"]
    minutes: float
    """About what it takes."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    seeds: tuple[int, ...] = (0,)
    main: bool = True
    label: str = ""
    line: str = ""
    column: str = ""
    paper: Paper | None = None
    home: str = ""


@dataclass(frozen=True)
class Published:
    """A learning curve that others published."""

    line: str
    """The panel of the figure that it belongs to: a training's line, or its env."""
    label: str
    epoch_steps: int
    success: tuple[float, ...]
    """After each epoch."""
    source: str


Entry = Training | Measurement


@dataclass(frozen=True)
class Use:
    """A training of another experiment, or another line: it is run once and shown in both."""

    experiment: str
    slug: str
    label: str = ""
    line: str = ""
    column: str = ""
    paper: Paper | None = None
    seeds: tuple[int, ...] | None = None

    def of(self, entry: Entry) -> Entry:
        """That training, with the place in the table that it has here."""
        seeds = entry.seeds if self.seeds is None else self.seeds
        return replace(
            entry,
            label=self.label,
            line=self.line,
            column=self.column,
            paper=self.paper,
            seeds=seeds,
        )


Figure = Literal["success", "score", "ratio", "areas", "bound", "speed", "none"]
"""Curves of success, score or the ratio of goals; or the areas under the curves of success."""


@dataclass(frozen=True)
class Experiment:
    title: str
    where: str
    """Where in the paper; "ours" if it is not in it."""
    entries: tuple[Training | Measurement | Use, ...]
    columns: tuple[str, ...] = ("label", "by_seed", "estimate", "best", "steps", "minutes")
    """Of its table, by name (see tables.py), if its trainings have no `column`."""
    line_heading: str = ""
    """Heading of the lines, for trainings with lines and columns."""
    cell: Literal["success", "score"] = "success"
    """What a cell shows then."""
    base: str = ""
    """The training that the others are compared with in the columns `against` and `gap`, by its
    slug."""
    at_steps: tuple[int, ...] = ()
    """Steps at which the column `at_steps` reads the learning curves."""
    area_until: int | None = None
    """Areas under the curve end at this step; at the end of the curve if not given."""
    figure: Figure = "success"
    published: tuple[Published, ...] = ()
    """Drawn beside ours."""
    order: int = 100
    """Its place among the others: earlier ones say more."""
    note: str = ""
    """A sentence for those who read its table."""
