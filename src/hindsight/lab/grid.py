"""The runs of a sweep: every combination of settings with every seed, checked beforehand."""

from __future__ import annotations

import dataclasses
import itertools
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from hindsight.config import TrainConfig
from hindsight.errors import HindsightError
from hindsight.lab.jobs import At, State, last_evaluation, same, training_state
from hindsight.options import as_value
from hindsight.training.run import Run, config_file, read_config

_ARGUMENTS = re.compile(r"preset|method|env\..+")
"""No settings, but options of `hindsight train` that decide which settings it begins with."""


@dataclass(frozen=True)
class GridRun:
    """One training of a sweep, as a job."""

    name: str
    config: TrainConfig
    run_dir: Path
    config_path: Path
    log: Path
    minutes: float = 0.0

    @property
    def steps(self) -> int:
        return self.config.steps

    def state(self) -> State:
        return training_state(Run(self.run_dir, self.config), self.steps)

    @property
    def files(self) -> list[Path]:
        return [self.config_path]

    def command(self, left: float, at: At = same) -> list[str]:
        cli = ["-m", "hindsight.cli"]
        if self.state() == "interrupted":
            return [*cli, "resume", str(at(self.run_dir)), "--quiet"]
        return [
            *cli,
            "train",
            self.config.env,
            "--config",
            str(at(self.config_path)),
            "--run-dir",
            str(at(self.run_dir)),
            "--quiet",
        ]

    def start_line(self, state: State) -> str:
        return f"{self.name} {'continues' if state == 'interrupted' else 'starts'}"

    def done_line(self) -> str:
        return f"{self.name} is finished, success {last_evaluation(self.run_dir)[1]}"


Configure = Callable[[list[str], dict[str, Any]], TrainConfig]
"""Makes a config from more options of `hindsight train`, and settings by dotted name."""


def grid(
    directory: Path, vary: Sequence[str], seeds: Sequence[int], configure: Configure
) -> list[GridRun]:
    """All trainings in their order: first seeds of all settings before second ones."""
    varied = dict(read_varied(text) for text in vary)
    if len(varied) < len(vary):
        raise HindsightError(
            "--vary names a setting twice: give all its values at once, as NAME=V1,V2"
        )
    if "seed" in varied:
        raise HindsightError("seeds are given by --seeds, not by --vary")
    if len(set(seeds)) < len(seeds) or not seeds:
        raise HindsightError("--seeds must be different numbers, such as 0 1 2")
    combinations = list(
        itertools.product(*([(name, value) for value in varied[name]] for name in varied))
    )
    configs = [_config(configure, combination) for combination in combinations]
    for i, found in enumerate(configs):
        if found in configs[:i]:
            twin = combinations[configs.index(found)]
            raise HindsightError(
                f"the same settings twice: {_text(twin)} and {_text(combinations[i])}"
            )
    names = _names(combinations)
    return [
        grid_run(directory, f"{name}-seed{seed}", dataclasses.replace(found, seed=seed), GridRun)
        for seed in seeds
        for name, found in zip(names, configs, strict=True)
    ]


def read_varied(text: str) -> tuple[str, list[str]]:
    """`NAME=V1,V2` as name and values; commas in brackets, as in linear(8, 1), do not count."""
    name, equals, values = text.partition("=")
    found, depth = [""], 0
    for character in values:
        depth += (character in "([{") - (character in ")]}")
        if character == "," and depth == 0:
            found.append("")
        else:
            found[-1] += character
    found = [value.strip() for value in found]
    if not equals or not name.strip() or not all(found) or depth != 0:
        raise HindsightError(
            f"cannot read --vary {text!r}: write NAME=V1,V2, as replay.replay_k=4,8"
        )
    return name.strip().replace("-", "_"), found


def _config(configure: Configure, combination: Sequence[tuple[str, str]]) -> TrainConfig:
    """The config of one combination; wrong names and values are errors that name the setting."""
    extra: list[str] = []
    settings: dict[str, Any] = {}
    for name, value in combination:
        if _ARGUMENTS.fullmatch(name):
            extra += [f"--{name}", value]
        else:
            settings[name] = as_value(value)
    return configure(extra, settings)


def _names(combinations: Sequence[Sequence[tuple[str, str]]]) -> list[str]:
    """Names of directories: short, and the same whenever the same command is given."""
    names: list[str] = []
    for combination in combinations:
        text = (
            "-".join(f"{name.rpartition('.')[2]}-{value}" for name, value in combination) or "run"
        )
        name = re.sub(r"[^\w.+-]+", "_", text).strip("_")[:100]
        names.append(name if name not in names else f"{name}-{len(names)}")
    return names


G = TypeVar("G", bound="GridRun")


def grid_run(directory: Path, name: str, found: TrainConfig, kind: type[G]) -> G:
    """A training in its place under a directory, unless another one is there."""
    run_dir = directory / "runs" / name
    if (run_dir / "config.json").is_file() and read_config(run_dir) != found:
        raise HindsightError(
            f"{run_dir} was trained with other settings: choose another --dir, or remove it"
        )
    return kind(
        name,
        found,
        run_dir,
        directory / "configs" / f"{name}.json",
        directory / "logs" / f"{name}.log",
    )


def write_configs(runs: Sequence[GridRun]) -> None:
    """The settings of every training, as `hindsight train --config` reads them."""
    for run in runs:
        for path in (run.config_path, run.run_dir):
            path.parent.mkdir(parents=True, exist_ok=True)
        run.config_path.write_bytes(config_file(run.config))
        if read_config(run.config_path) != run.config:
            raise HindsightError(
                f"the settings of {run.name} are not what {run.config_path} gives back"
            )


def _text(combination: Sequence[tuple[str, str]]) -> str:
    return ", ".join(f"{name}={value}" for name, value in combination) or "no --vary"
