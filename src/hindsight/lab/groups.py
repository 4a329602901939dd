"""Runs that differ in seed only, as groups; their labels, and the settings that differ."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from hindsight.errors import HindsightError
from hindsight.lab.runs import LoadedRun
from hindsight.lab.statistics import Estimate, estimate

_TELLING = (
    "agent.method",
    "priority.sampling",
    "priority.queues",
    "agent.hindsight",
    "replay.",
    "priority.",
    "agent.",
)
"""What says most about a method comes first in a label."""
_SECONDARY = (
    "steps",
    "eval_every",
    "eval_episodes",
    "final_episodes",
    "checkpoint.",
    "env_timeout",
    "env_failures",
    "simulator",
)
"""What says least comes last."""

_SEED = re.compile(r"[-_.]?seed[-_.]?\d+(-\d+)?$|[-_.]s?\d+$")
"""The end of a directory's name that tells the seed."""


@dataclass(frozen=True)
class Group:
    """Runs of the same settings with different seeds."""

    label: str
    runs: tuple[LoadedRun, ...]

    @property
    def settings(self) -> dict[str, str]:
        return self.runs[0].settings

    @property
    def env(self) -> str:
        return self.runs[0].config.env

    @property
    def task(self) -> str:
        """What makes results comparable: the env and its arguments."""
        config = self.runs[0].config
        arguments = ", ".join(
            f"{name} {value}" for name, value in sorted(config.env_kwargs.items())
        )
        return f"{config.env} with {arguments}" if arguments else config.env

    @property
    def method(self) -> str:
        """The learner, and what it replays or learns from."""
        value = self.settings.get
        name = value("agent.method", "")
        if "agent.hindsight" in self.settings:
            return name if value("agent.hindsight") == "True" else f"{name} without hindsight"
        if value("replay.replay_k") == "0.0":
            kind = "" if value("priority.sampling") == "uniform" else " + PER"
        elif value("replay.goals_chosen") == "stored" and value("priority.sampling") != "uniform":
            kind = " + HPER"
        else:
            kind = " + HER" if value("priority.sampling") == "uniform" else " + prioritised HER"
        return name + kind

    @property
    def seeds(self) -> list[int]:
        return [run.config.seed for run in self.runs]

    @property
    def finals(self) -> list[float]:
        """Success at the last evaluation of every run that has one."""
        return [run.final for run in self.runs if run.final is not None]

    @cached_property
    def final(self) -> Estimate | None:
        return estimate(self.finals) if self.finals else None

    @cached_property
    def best(self) -> Estimate | None:
        """The highest evaluation of each run: chance alone makes it higher than the last."""
        best = [run.best for run in self.runs if run.best is not None]
        return estimate(best) if best else None

    @property
    def evaluations(self) -> int:
        """How many evaluations the best is the best of."""
        return max(len(run.success) for run in self.runs)

    @property
    def episodes(self) -> int:
        """Episodes that each run's number rests on."""
        config = self.runs[0].config
        ended = all(run.state == "finished" for run in self.runs)
        return config.last_eval_episodes if ended else config.eval_episodes

    @property
    def steps(self) -> str:
        return _range([run.steps for run in self.runs], "{:,.0f}")

    @property
    def minutes(self) -> str:
        return _range([run.minutes for run in self.runs], "{:.1f}")

    @property
    def state(self) -> str:
        """finished, or how many are not."""
        states = [run.state for run in self.runs]
        if len(set(states)) == 1:
            return states[0]
        return ", ".join(f"{states.count(state)} {state}" for state in dict.fromkeys(states))

    @property
    def running(self) -> bool:
        return any(run.state == "running" for run in self.runs)


def _range(values: Sequence[float], form: str) -> str:
    low, high = form.format(min(values)), form.format(max(values))
    return low if low == high else f"{low}–{high}"  # noqa: RUF001  (a dash between numbers)


def group(runs: Sequence[LoadedRun], labels: Sequence[str] = ()) -> list[Group]:
    """The groups, in the order of their first runs, under short names or the given labels."""
    found: dict[tuple[tuple[str, str], ...], list[LoadedRun]] = {}
    for run in runs:
        found.setdefault(tuple(sorted(run.settings.items())), []).append(run)
    groups = [
        Group("", tuple(sorted(members, key=lambda run: run.config.seed)))
        for members in found.values()
    ]
    if not labels:
        labels = short_labels(groups)
    elif len(labels) != len(groups):
        raise HindsightError(
            f"{len(labels)} labels for {len(groups)} groups: {', '.join(short_labels(groups))}"
        )
    elif len(set(labels)) < len(labels):
        raise HindsightError("two labels are the same")
    return [replace(g, label=label) for g, label in zip(groups, labels, strict=True)]


def tasks(groups: Sequence[Group]) -> dict[str, list[Group]]:
    """Groups by env."""
    found: dict[str, list[Group]] = {}
    for g in groups:
        found.setdefault(g.task, []).append(g)
    return found


def differing(groups: Sequence[Group]) -> dict[str, list[str]]:
    """Settings in which groups differ: their values, group by group; a dash for none."""
    names = dict.fromkeys(name for g in groups for name in g.settings)
    values = {name: [g.settings.get(name, "–") for g in groups] for name in names}  # noqa: RUF001
    return {name: row for name, row in values.items() if len(set(row)) > 1}


def short_labels(groups: Sequence[Group]) -> list[str]:
    """The names of directories without seeds, if they tell the groups apart, else settings."""
    stems = [{_SEED.sub("", run.path.resolve().name) for run in g.runs} for g in groups]
    names = [stem for found in stems for stem in found]
    if all(names) and len(names) == len(set(names)) == len(groups):
        return names
    return setting_labels(groups)


def setting_labels(groups: Sequence[Group]) -> list[str]:
    """As few settings as tell the groups of an env apart; the env, where there are several."""
    labels = [""] * len(groups)
    envs = tasks(groups)
    for task, members in envs.items():
        chosen: dict[str, list[str]] = {}
        left = dict(sorted(differing(members).items(), key=lambda item: _rank(item[0])))
        while left and _kinds(chosen, len(members)) < len(members):
            name = max(
                left, key=lambda name: _kinds(chosen | {name: left[name]}, len(members))
            )  # the first of equals
            chosen[name] = left.pop(name)
        for i, member in enumerate(members):
            said = [
                _said(name, values[i])
                for name, values in chosen.items()
                if _applies(name, member.settings)
            ]
            place = task if len(envs) > 1 else ""
            label = ", ".join(filter(None, (place, ", ".join(said) or member.method)))
            labels[groups.index(member)] = (
                label if label not in labels else f"{label} ({labels.count(label) + 1})"
            )
    return labels


def _applies(name: str, settings: dict[str, str]) -> bool:
    """Whether a group has the setting, and uses it: without priorities, theirs say nothing."""
    idle = (
        name.startswith("priority.")
        and name != "priority.sampling"
        and settings.get("priority.sampling") == "uniform"
    )
    return name in settings and not idle


def _rank(name: str) -> int:
    if name.startswith(_SECONDARY):
        return len(_TELLING) + 1
    return next((i for i, start in enumerate(_TELLING) if name.startswith(start)), len(_TELLING))


def _kinds(chosen: dict[str, list[str]], count: int) -> int:
    return len({tuple(values[i] for values in chosen.values()) for i in range(count)})


def _said(name: str, value: str) -> str:
    """`two_queues` says enough; a number needs its name."""
    leaf = name.rpartition(".")[2]
    if name in ("agent.method", "priority.queues"):
        return value.replace("_", " ")
    if name == "priority.sampling":
        return "no priorities" if value == "uniform" else f"priorities by {value.replace('_', ' ')}"
    return f"{leaf} {value}"
