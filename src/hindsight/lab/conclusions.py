"""What the numbers allow to say, in plain words, and no more than that."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from math import sqrt
from typing import Literal

from hindsight.lab.groups import Group, tasks
from hindsight.lab.statistics import FEW_SEEDS, Estimate, difference

Verdict = Literal["better", "ahead", "no difference", "too few episodes", "one seed", "alone"]
_ORDER: tuple[Verdict, ...] = (
    "better",
    "ahead",
    "no difference",
    "too few episodes",
    "alone",
    "one seed",
)
ALL_PAIRS = 4
"""Up to so many groups, every pair is compared; of more, the best with each other one."""


@dataclass(frozen=True)
class Conclusion:
    """A sentence, and what it rests on. `gap` is that of the first group minus the second."""

    task: str
    verdict: Verdict
    text: str
    groups: tuple[str, ...]
    gap: Estimate | None = None


def conclude(groups: Sequence[Group]) -> list[Conclusion]:
    """A sentence per comparison within an env, claims first; one for all groups of one seed."""
    found: list[Conclusion] = []
    for task, members in tasks(groups).items():
        measured = sorted((g for g in members if g.finals), key=lambda g: -_value(g))
        single = [g for g in measured if len(g.finals) == 1]
        several = [g for g in measured if len(g.finals) > 1]
        pairs = list(combinations(several, 2))
        if len(several) > ALL_PAIRS:
            pairs = [(several[0], other) for other in several[1:]]
        compared = [compare(task, first, second) for first, second in pairs]
        found += sorted(compared, key=lambda conclusion: _ORDER.index(conclusion.verdict))
        if len(several) == 1:
            text = (
                f"{_named(several[0])} reaches {several[0].final} on {task} ({_seeds(several[0])})."
            )
            found.append(Conclusion(task, "alone", text, (several[0].label,)))
        if single:
            numbers = ", ".join(f"{_named(g)} {g.final}" for g in single)
            text = f"One seed claims nothing: {numbers} on {task}."
            found.append(Conclusion(task, "one seed", text, tuple(g.label for g in single)))
    return found


def compare(task: str, first: Group, second: Group) -> Conclusion:
    """Which of two groups is better, if that can be said; `first` has the higher mean."""
    gap = difference(first.finals, second.finals)
    both = (first.label, second.label)
    numbers = f"{first.final} against {second.final}"
    same = len(first.finals) == len(second.finals)
    seeds = f"{_seeds(first)} each" if same else f"{_seeds(first)} and {_seeds(second)}"
    neither = (
        f"No difference can be claimed between {_named(first)} and {_named(second)} on {task}: "
        f"{numbers}"
    )
    if gap.low <= 0 <= gap.high:
        return Conclusion(task, "no difference", f"{neither} ({seeds}).", both, gap)
    if gap.value <= episode_noise(first, second):
        episodes = (
            f"{len(first.finals) * first.episodes} and {len(second.finals) * second.episodes} "
            "episodes"
        )
        return Conclusion(
            task,
            "too few episodes",
            f"{neither} is a gap that {episodes} can show by chance.",
            both,
            gap,
        )
    if min(len(first.finals), len(second.finals)) < FEW_SEEDS:
        text = (
            f"{_named(first)} is ahead of {_named(second)} on {task}: {numbers} ({seeds}; "
            f"{FEW_SEEDS} each are needed to claim it)."
        )
        return Conclusion(task, "ahead", text, both, gap)
    text = f"{_named(first)} is better than {_named(second)} on {task}: {numbers} ({seeds})."
    return Conclusion(task, "better", text, both, gap)


def episode_noise(first: Group, second: Group) -> float:
    """The gap that equal policies show in 1 of 20 cases, because each was tested on so many
    episodes only.

    Seeds that agree to the last digit have an interval of no width, however few episodes they were
    tested on.
    """
    n, m = (len(g.finals) * g.episodes for g in (first, second))
    share = (n * _mean(first) + m * _mean(second)) / (n + m)
    return 1.96 * sqrt(share * (1 - share) * (1 / n + 1 / m))


def notes(groups: Sequence[Group]) -> list[str]:
    """What a reader must know to take the numbers for what they are."""
    found = []
    unfinished = [g for g in groups if g.state != "finished"]
    for g in unfinished:
        done = ", ".join(
            f"seed {run.config.seed} {run.state} at {run.steps:,} of {run.config.steps:,} steps"
            for run in g.runs
            if run.state != "finished"
        )
        found.append(f"{g.label} is not finished ({done}): its numbers can still change.")
    for task, members in tasks(groups).items():
        steps = {run.config.steps for g in members for run in g.runs}
        if len(steps) > 1:
            listed = ", ".join(f"{count:,}" for count in sorted(steps))
            found.append(f"On {task} not all were trained for as long: {listed} steps.")
    if any(1 < len(g.finals) < FEW_SEEDS for g in groups):
        found.append(
            f"With fewer than {FEW_SEEDS} seeds an interval is little more than the range from "
            "the worst seed to the best: it is too narrow more often than 1 time in 20."
        )
    episodes = sorted({g.episodes for g in groups})
    listed = " or ".join(map(str, episodes))
    found.append(
        f"The result of a seed is its last evaluation, of {listed} greedy episodes: "
        f"by chance alone it is off by up to {0.98 / sqrt(episodes[0]):.2f} where half of them "
        "succeed."
    )
    found.append(
        "Best is the highest of all evaluations of a run. It flatters: of many noisy numbers the "
        "highest is too high. The paper's table shows it, so it is here, too; conclusions are "
        "drawn from the last evaluation."
    )
    return found


def _named(g: Group) -> str:
    """The label without the env, which the sentence names itself."""
    label = g.label.removeprefix(g.task).removeprefix(", ")
    return f"“{label or g.method}”"


def _seeds(g: Group) -> str:
    return f"{len(g.finals)} seed{'s' if len(g.finals) > 1 else ''}"


def _value(g: Group) -> float:
    return g.final.value if g.final else 0.0


def _mean(g: Group) -> float:
    return sum(g.finals) / len(g.finals)
