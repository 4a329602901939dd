"""The commands that study runs, by the lab: compare, plot, report, sweep, reproduce."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from tyro.conf import Positional, UseAppendAction, arg

from hindsight.commands.train import TrainOptions, read
from hindsight.errors import HindsightError, needs
from hindsight.lab.places import OnRay
from hindsight.lab.reproduce.options import ReproduceOptions
from hindsight.options import parse

if TYPE_CHECKING:
    from hindsight.config import TrainConfig


@dataclass
class Compare:
    """Compare runs: success over seeds with intervals, settings that differ, conclusions.

    Runs that differ in seed only are one group. Directories that cannot be used are named and
    skipped: exit code 1; 2 if none can be used.
    """

    runs: Annotated[tuple[Path, ...], Positional, arg(metavar="RUN")] = ()
    """Run directories."""
    labels: tuple[str, ...] = ()
    """A name per group, in the order of the runs; by default the settings in which they differ."""
    base: str = ""
    """The group that the others are compared with, by its name; by default the first."""
    json: bool = False
    """Print one JSON object."""

    def run(self, more: Sequence[str]) -> int:
        from rich.console import Console

        from hindsight.lab.compare import grouped

        groups, skipped = grouped(self.runs, self.labels, "compare")
        from hindsight.lab.terminal import as_json, show

        if self.json:
            print(json.dumps(as_json(groups, skipped, self.base), indent=2))
        else:
            console = Console()
            # A pipe has no width: tables must fit.
            show(groups, console if console.is_terminal else Console(width=160), self.base)
        return 1 if skipped else 0


@dataclass
class Plot:
    """Draw the learning curves of runs, against steps and minutes. Runs that differ in seed only
    share a line."""

    runs: Annotated[tuple[Path, ...], Positional, arg(metavar="RUN")] = ()
    """Run directories."""
    output: Annotated[Path, arg(aliases=["-o"], metavar="PATH")] = Path("curves.png")
    """The picture."""
    title: str = ""
    labels: tuple[str, ...] = ()
    """A name per line, in the order of the runs; by default the settings in which they differ."""
    against: Literal["both", "steps", "minutes"] = "both"

    def run(self, more: Sequence[str]) -> int:
        if not self.runs:
            raise HindsightError("which runs? For example: hindsight plot runs/*")
        with needs("report"):
            from hindsight.lab.groups import group
            from hindsight.lab.plots import learning_curves
            from hindsight.lab.runs import load_run
        groups = group([load_run(path) for path in self.runs], self.labels)
        title = self.title or ", ".join(dict.fromkeys(g.task for g in groups))
        learning_curves(groups, self.output, title, self.against)
        print(f"figure: {self.output}")
        return 0


@dataclass
class Report:
    """Write one page that needs no network: curves, replay, settings, video, conclusions.

    Directories that cannot be used are named and skipped: exit code 1; 2 if none can be used.
    """

    runs: Annotated[tuple[Path, ...], Positional, arg(metavar="RUN")] = ()
    """Run directories."""
    output: Annotated[Path, arg(aliases=["-o"], metavar="PATH")] = Path("report.html")
    """The page."""
    labels: tuple[str, ...] = ()
    """A name per group, in the order of the runs; by default what their directories or settings
    are called."""
    base: str = ""
    """The group that the others are compared with, by its name; by default the first."""
    title: str = ""
    video: bool = True
    """Show a video of the best policy of every env."""
    watch: bool = False
    """Write the page again and again until no run is training; the browser follows. The video
    comes with the last."""
    every: float = 10.0
    """Seconds between two pages, with --watch."""

    def run(self, more: Sequence[str]) -> int:
        from hindsight.lab.report import report

        if not 1 <= self.every < 1e6:
            raise HindsightError(f"--every must be 1 second or more, got {self.every:g}")
        watch = self.every if self.watch else None
        skipped = report(
            self.runs, self.output, self.labels, self.title, self.video, watch, self.base
        )
        print(f"page: {self.output}")
        return 1 if skipped else 0


@dataclass
class Sweep(OnRay, TrainOptions):
    """Train settings x seeds side by side, with any option of `hindsight train`.

    The same command again continues: finished runs are not repeated, stopped ones are resumed,
    failed ones are tried again. Ctrl-C stops all of them, saved. Exit code 1 if one failed.
    """

    vary: Annotated[UseAppendAction[tuple[str, ...]], arg(metavar="NAME=V1,V2")] = ()
    """A setting and its values, as "replay.replay_k=4,linear(8, 1)"; also preset=her,hper,
    method=hpg,ppo and env.bits=8,16. Several times: all combinations."""
    seeds: tuple[int, ...] = (0, 1, 2)
    jobs: int = 0
    """Trainings at a time. 0: one per two cores, because a training uses two threads; on a cluster
    as many as its nodes have cores for."""
    dir: Annotated[Path | None, arg(metavar="PATH", help_behavior_hint="(default: sweeps/ENV)")] = (
        None
    )
    """Where runs/, logs/, configs/ and report.html go."""
    video: bool = True
    """Show a video of the best policy on the page."""

    def run(self, more: Sequence[str]) -> int:
        if not self.env and not self.config:
            raise HindsightError(
                "which env? For example: hindsight sweep FetchReach-v4 --vary replay.replay_k=4,8"
            )
        for name in ("--run-dir", "--seed", "--quiet"):
            if any(token.partition("=")[0] == name for token in more):
                raise HindsightError(
                    f"{name} is not for a sweep{': use --seeds' if name == '--seed' else ''}"
                )
        if self.jobs < 0:
            raise HindsightError(f"--jobs must be 0 or more, got {self.jobs}")
        self.check()
        with needs("report"):
            import hindsight.lab.page.render  # noqa: F401  (better to know now than at the end)
            from hindsight.lab.jobs import Processes, default_limit
            from hindsight.lab.sweep import sweep

        def configure(extra: list[str], settings: dict[str, Any]) -> TrainConfig:
            options, rest = parse(TrainOptions, extra, "hindsight sweep", self._train_options())
            return read(options, [*more, *rest], "hindsight sweep", settings).config

        directory = self.dir or Path("sweeps") / re.sub(r"[^\w.-]+", "-", self.env or "config")
        return sweep(
            directory,
            self.vary,
            self.seeds,
            configure,
            lambda: self.cluster(self.jobs) or Processes(self.jobs or default_limit()),
            self.video,
        )

    def _train_options(self) -> TrainOptions:
        return TrainOptions(
            **{f.name: getattr(self, f.name) for f in dataclasses.fields(TrainOptions)}
        )


@dataclass
class Reproduce(ReproduceOptions):
    """Run the paper's tables and figures, and ours. Interrupted runs are resumed."""

    def run(self, more: Sequence[str]) -> int:
        with needs("report"):
            from hindsight.lab.reproduce.actions import act
        return act(self)
