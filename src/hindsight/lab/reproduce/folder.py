"""Finds and reads the folder experiments/."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType

import hindsight
from hindsight.errors import HindsightError, nearest
from hindsight.lab.reproduce.experiment import Entry, Experiment, Use


@dataclass(frozen=True)
class Folder:
    """All experiments, with every `Use` replaced by what it stands for."""

    path: Path
    experiments: dict[str, Experiment]

    @property
    def root(self) -> Path:
        return self.path.parent

    @property
    def results(self) -> Path:
        return self.path / "results"

    def entries(self, name: str) -> list[Entry]:
        """The trainings and measurements of an experiment, its own and those it uses."""
        return [self._resolve(name, entry) for entry in self[name].entries]

    def __getitem__(self, name: str) -> Experiment:
        if name not in self.experiments:
            raise HindsightError(
                f"no experiment {name!r}.{nearest(name, self.experiments)} `hindsight reproduce "
                "--list`"
            )
        return self.experiments[name]

    def _resolve(self, name: str, entry: Entry | Use) -> Entry:
        if not isinstance(entry, Use):
            return replace(entry, home=name)
        found = [
            e
            for e in self[entry.experiment].entries
            if not isinstance(e, Use) and e.slug == entry.slug
        ]
        if len(found) != 1:
            raise HindsightError(
                f"{self.path / name}.py uses {entry.slug!r}, which {entry.experiment}.py does "
                "not have"
            )
        return replace(entry.of(found[0]), home=entry.experiment)


def roots(start: Path | None = None) -> tuple[Path, Path]:
    """Where a checkout may be: the current directory, or that of an editable install."""
    return start or Path.cwd(), Path(hindsight.__file__).resolve().parents[2]


def benchmark(name: str) -> ModuleType:
    """A module of the folder benchmarks/, which is not installed."""
    for root in roots():
        if (root / "benchmarks" / f"{name}.py").is_file():
            if str(root) not in sys.path:
                sys.path.append(str(root))
            return importlib.import_module(f"benchmarks.{name}")
    raise HindsightError(
        "no folder benchmarks/ here: clone the Hindsight repository and run this inside of it"
    )


def find(start: Path | None = None) -> Folder:
    """The folder in the current directory, or beside the source tree of an editable install."""
    for root in roots(start):
        path = root / "experiments"
        if (path / "results").is_dir():
            return read(path)
    raise HindsightError(
        "no folder experiments/ here: clone the Hindsight repository and run this inside of it"
    )


def read(path: Path) -> Folder:
    experiments = {}
    for file in sorted(path.glob("*.py")):
        spec = importlib.util.spec_from_file_location(f"hindsight_experiment_{file.stem}", file)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        try:
            spec.loader.exec_module(module)
        except Exception as error:
            raise HindsightError(
                f"{file}: {type(error).__name__}: {' '.join(str(error).split())}"
            ) from None
        experiment = getattr(module, "EXPERIMENT", None)
        if not isinstance(experiment, Experiment):
            raise HindsightError(f"{file} defines no EXPERIMENT")
        own = [entry.slug for entry in experiment.entries if not isinstance(entry, Use)]
        if len(set(own)) < len(own):
            raise HindsightError(f"{file}: two of its entries have the same slug")
        experiments[file.stem] = experiment
    return Folder(path, dict(sorted(experiments.items(), key=lambda item: item[1].order)))
