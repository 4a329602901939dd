"""`hindsight tune`: a search for better settings, by Optuna."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from tyro.conf import arg

from hindsight.commands.train import TrainOptions, read
from hindsight.errors import HindsightError
from hindsight.lab.places import OnRay


@dataclass
class Tune(OnRay, TrainOptions):
    """Search for better settings, by Optuna, with any option of `hindsight train`.

    Every trial is trained with every seed; trials that fall behind are given up. The same command
    again continues; with more --trials it goes on. Ctrl-C stops all trainings, saved. The best
    settings are written to best.json, for `hindsight train --config`. Exit code 1 if none finished.
    See docs/tune.md.
    """

    trials: int = 50
    """Settings to try, in all."""
    seeds: tuple[int, ...] = (10, 11, 12, 13, 14)
    """Each trial is trained with each of them. Results are better measured on others."""
    space: Annotated[
        Path | None, arg(metavar="PATH", help_behavior_hint="(default: the method's own)")
    ] = None
    """JSON file of where to look, as {"agent.tau": {"low": 0.01, "high": 0.1, "log": true},
    "batch_size": [128, 256]}."""
    objective: Literal["area", "final"] = "area"
    """What is maximised, as a mean over seeds: the mean success of all evaluations (the area under
    the learning curve), or that of the last one."""
    prune: bool = True
    """Give up trials that are behind the median of the others."""
    baseline: bool = True
    """Train the settings to begin with, too, to compare."""
    budget: Annotated[float | None, arg(metavar="MINUTES", help_behavior_hint="")] = None
    """Begin no training after so many minutes."""
    jobs: int = 0
    """Trials at a time. 0: one per two cores, because a training uses two threads; with --ray as
    many as there are cores for."""
    sampler_seed: int = 0
    """Another one tries other settings."""
    dir: Annotated[Path | None, arg(metavar="PATH", help_behavior_hint="(default: tunes/ENV)")] = (
        None
    )
    """Where runs/, logs/, the journal, best.json, trials.csv and importance.png go."""

    def run(self, more: Sequence[str]) -> int:
        if not self.env and not self.config:
            raise HindsightError(
                "which env? For example: hindsight tune hindsight/BitFlip-v0 --trials 20"
            )
        self._check(more)
        try:
            import matplotlib  # noqa: F401  (better to know now than at the end)
            import optuna  # noqa: F401
        except ImportError as error:
            raise HindsightError(
                f"{error.name} is not installed: pip install 'hindsight-rl[tune]'"
            ) from None
        from rich.console import Console

        from hindsight.lab.jobs import Processes, default_limit
        from hindsight.lab.space import default_space, read_space
        from hindsight.lab.tune import TuneConfig, Tuner, show

        base = read(self, more, "hindsight tune").config
        space = read_space(self.space, base) if self.space else default_space(base)
        config = TuneConfig(
            base,
            space,
            self.seeds,
            self.trials,
            self.objective,
            self.prune,
            self.baseline,
            self.sampler_seed,
        )
        directory = self.dir or Path("tunes") / re.sub(r"[^\w.-]+", "-", self.env or "config")
        console = Console()
        tuner = Tuner(config, directory)
        place = self.cluster(self.jobs) or Processes(self.jobs or default_limit())
        tuner.run(place, self.budget, console)
        show(tuner, tuner.write(), console if console.is_terminal else Console(width=160))
        return 0 if tuner.complete() else 1

    def _check(self, more: Sequence[str]) -> None:
        for name in ("--run-dir", "--seed", "--quiet"):
            if any(token.partition("=")[0] == name for token in more):
                raise HindsightError(
                    f"{name} is not for tuning{': use --seeds' if name == '--seed' else ''}"
                )
        if len(set(self.seeds)) < len(self.seeds) or not self.seeds:
            raise HindsightError("--seeds must be different numbers, such as 10 11 12")
        if self.trials < 1:
            raise HindsightError(f"--trials must be 1 or more, got {self.trials}")
        if self.jobs < 0:
            raise HindsightError(f"--jobs must be 0 or more, got {self.jobs}")
        if self.budget is not None and not self.budget > 0:
            raise HindsightError(f"--budget must be more than 0 minutes, got {self.budget:g}")
        self.check()
