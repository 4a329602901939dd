"""What a group's runs did during training, as lines with bands over seeds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from hindsight.lab.groups import Group
from hindsight.lab.runs import SUCCESS
from hindsight.lab.statistics import estimate
from hindsight.types import Array

POINTS = 40
"""Points of a line at most: more would blur on a phone, and make the page heavy."""
Against = Literal["steps", "minutes"]
AXES: dict[Against, str] = {"steps": "env steps", "minutes": "minutes of training"}


@dataclass(frozen=True)
class Line:
    """A line through n points; low and high are its band."""

    label: str
    x: Array
    y: Array
    low: Array
    high: Array
    seeds: int
    style: int
    """Number of its colour, dash and marker: a group has the same in every figure."""


class Quantity(NamedTuple):
    """A metric worth a figure."""

    key: str
    title: str
    axis: str
    note: str


REPLAYED = (
    Quantity(
        "replay/alternate_per_actual",
        "Alternate goals per actual goal",
        "alternate / actual",
        "In what was replayed. With one queue the TD errors decide it: the paper saw it fall "
        "from about 6 to about 4.",
    ),
    Quantity(
        "replay/reached",
        "Share of r = 0",
        "share of transitions",
        "Replayed transitions whose goal is reached. Near 0 there is nothing to learn from; near "
        "1, as in uniform replay while no object moves, the agent learns to do nothing.",
    ),
    Quantity(
        "replay/priority_age",
        "Age of the priorities",
        "collections ago",
        "How long ago the priorities of the replayed pairs were set. Old ones belong to another "
        "network.",
    ),
    Quantity(
        "replay/effective_share",
        "Effective sample size",
        "share of the batch",
        "Of the importance weights: 1 if all transitions of a batch count alike.",
    ),
    Quantity(
        "replay/time_quarter_1",
        "From the first quarter of an episode",
        "share of transitions",
        "Replayed transitions from the first quarter of the time limit; 0.25 if all steps were "
        "replayed alike.",
    ),
    Quantity(
        "replay/duplicates",
        "Duplicates",
        "share of the batch",
        "Transitions that a batch holds more than once.",
    ),
    Quantity(
        "train/moved",
        "Episodes in which the goal moved",
        "share of episodes",
        "Collected episodes whose achieved goal changed: the others have nothing to teach in "
        "hindsight.",
    ),
)
LEARNT = (
    Quantity(
        "learn/effective_sample_size",
        "Effective sample size",
        "share of the episodes",
        "Of the importance weights, mean over goals and steps: near 0 a few episodes decide "
        "everything.",
    ),
    Quantity(
        "learn/kl", "KL divergence of an update", "nats", "How far an update moves the policy."
    ),
    Quantity(
        "learn/entropy", "Entropy of the policy", "nats", "Near 0 the policy has made up its mind."
    ),
    Quantity(
        "learn/largest_ratio",
        "Largest importance weight",
        "weight",
        "Of an episode under a goal; where it explodes, the estimate is noise.",
    ),
    Quantity(
        "learn/goals_with_signal",
        "Goals with a signal",
        "share of goals",
        "Hindsight goals that some episode of the batch reached.",
    ),
)


def success(group: Group, against: Against, style: int) -> Line | None:
    """Success of the evaluations; over those that all runs of the group have made."""
    return line(group, SUCCESS, against, style)


def line(group: Group, key: str, against: Against, style: int) -> Line | None:
    """A metric over those runs of a group that have it (yet); None if none has."""
    found = [run.series(key) for run in group.runs]
    found = [series for series in found if len(series[0])]
    if not found:
        return None
    count = min(len(series[0]) for series in found)
    x = np.array([series[0 if against == "steps" else 1][:count] for series in found]).mean(axis=0)
    values = np.array([series[2][:count] for series in found])
    x, values = _thinned(x, values, whole=key == SUCCESS)
    estimates = [estimate(column.tolist()) for column in values.T]
    y, low, high = (
        np.array([getattr(e, name) for e in estimates]) for name in ("value", "low", "high")
    )
    return Line(group.label, x, y, low, high, len(found), style)


def _thinned(x: Array, values: Array, whole: bool) -> tuple[Array, Array]:
    """At most POINTS columns: some of them (`whole`), or means of neighbours."""
    count = values.shape[1]
    if count <= POINTS:
        return x, values
    if whole:  # the last one is the result: it stays
        kept = np.unique(np.linspace(0, count - 1, POINTS).round().astype(int))
        return x[kept], values[:, kept]
    parts = np.array_split(np.arange(count), POINTS)
    return (
        np.array([x[part].mean() for part in parts]),
        np.stack([values[:, part].mean(axis=1) for part in parts], axis=1),
    )
