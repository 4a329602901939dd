"""How soon the groups of a comparison learn, and whether sooner than a base."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hindsight.errors import HindsightError, nearest
from hindsight.lab.groups import Group, tasks
from hindsight.lab.runs import SUCCESS
from hindsight.lab.statistics import (
    Estimate,
    StepsToGood,
    area,
    estimate,
    first_good,
    improvement_of_many,
    improvement_text,
    steps_to_good,
)


@dataclass(frozen=True)
class Speed:
    """How soon a group learns."""

    area: Estimate
    """Mean success of the evaluations up to `until`, over seeds."""
    until: int
    """The last step that every run of the env has been evaluated at or after."""
    steps_to_good: StepsToGood
    base: str
    """The group that it is compared with; its own label for the base."""
    improvement: Estimate | None
    """The probability of a larger area than the base's; None for too few seeds, and the base."""

    def against(self, label: str) -> str:
        return "the base" if label == self.base else improvement_text(self.improvement)


def speeds(groups: Sequence[Group], base: str = "") -> dict[str, Speed]:
    """By label, for groups with an evaluation. The base of an env is its first group, or the one
    that is named."""
    labels = [g.label for g in groups]
    if base and base not in labels:
        raise HindsightError(f"no group is called {base!r}.{nearest(base, labels)}")
    found: dict[str, Speed] = {}
    for members in tasks(groups).values():
        curves = {
            g.label: [
                (steps.tolist(), success.tolist())
                for steps, _, success in (run.series(SUCCESS) for run in g.runs)
                if len(steps)
            ]
            for g in members
        }
        curves = {label: some for label, some in curves.items() if some}
        if not curves:
            continue
        every = [steps for some in curves.values() for steps, _ in some]
        # A run that has only just begun would leave nothing to compare: each keeps its first.
        until = max(min(steps[-1] for steps in every), max(steps[0] for steps in every))
        areas = {label: [area(*curve, until) for curve in some] for label, some in curves.items()}
        against = base if base in areas else next(iter(areas))
        for label, some in curves.items():
            found[label] = Speed(
                estimate(areas[label]),
                int(until),
                steps_to_good([first_good(*curve) for curve in some]),
                against,
                None if label == against else improvement_of_many(areas[label], areas[against]),
            )
    return found
