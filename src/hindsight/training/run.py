"""The run directory: config.json, metrics.jsonl (the source of truth), TensorBoard files, the policy and a summary."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import TracebackType
from typing import Any

from tensorboardX import SummaryWriter

from hindsight.config import TrainConfig, from_json, plain
from hindsight.errors import HindsightError
from hindsight.gradients import config as gradients
from hindsight.training.off_policy import Progress
from hindsight.training.policy import Policy, write_aside

CONFIG, METRICS, SUMMARY = "config.json", "metrics.jsonl", "summary.json"


@dataclass(frozen=True)
class Run:
    """A training's directory, during and after it."""

    path: Path
    config: TrainConfig | gradients.OnPolicyConfig

    @staticmethod
    def create(config: TrainConfig | gradients.OnPolicyConfig, path: Path | str | None = None) -> Run:
        """Make the directory. A given path must not exist; without one, a free name under runs/ is taken."""
        try:
            content = json.dumps(plain(config), indent=2).encode()
        except (TypeError, ValueError) as error:
            raise HindsightError(f"a setting cannot be written to {CONFIG}: {error}") from None
        if path is None:
            name = f"{config.env.replace('/', '-').replace(':', '-')}-{config.agent.method}-seed{config.seed}"
            taken = (Path("runs") / (name if i == 1 else f"{name}-{i}") for i in range(1, 1_000_000))
            directory = next(p for p in taken if not p.exists())
        else:
            directory = Path(path)
            if directory.exists():
                raise HindsightError(f"run directory {directory} exists: choose another, or remove it")
        try:
            directory.mkdir(parents=True)
            write_aside(directory / CONFIG, content)
        except OSError as error:
            raise HindsightError(f"cannot write to {directory}: {error.strerror}") from None
        return Run(directory, config)

    @staticmethod
    def open(path: Path | str) -> Run:
        """An existing run."""
        directory = Path(path)
        return Run(directory, read_config(directory / CONFIG))

    @property
    def policy(self) -> Policy:
        return Policy.load(self.path)

    @property
    def metrics(self) -> list[dict[str, float]]:
        """All rows written so far; a last line cut short is left out."""
        file = self.path / METRICS
        if not file.is_file():
            raise HindsightError(f"{self.path} has no {METRICS}")
        rows = []
        for line in file.read_text().splitlines():
            try:
                rows.append(json.loads(line))
            except json.JSONDecodeError:
                break
        return rows

    @property
    def summary(self) -> dict[str, Any]:
        try:
            data: dict[str, Any] = json.loads((self.path / SUMMARY).read_bytes())
        except (OSError, ValueError):
            raise HindsightError(f"{self.path} has no readable {SUMMARY}") from None
        return data


def read_config(path: Path) -> TrainConfig | gradients.OnPolicyConfig:
    """The config in a JSON file."""
    if path.is_dir():
        path = path / CONFIG
    if not path.is_file():
        raise HindsightError(
            f"{path} does not exist" if not path.parent.is_dir() else f"no {path.name} in {path.parent}"
        )
    try:
        data = json.loads(path.read_bytes())
        return gradients.from_json(data) if gradients.is_on_policy(data) else from_json(data)
    except (ValueError, TypeError, RecursionError) as error:
        raise HindsightError(f"{path}: {' '.join(str(error).split())}") from None


class RunWriter:
    """Writes the files of a run while it trains."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self._metrics = open(run.path / METRICS, "a", buffering=1)  # noqa: SIM115  (closed by close)
        self._board = SummaryWriter(str(run.path / "tensorboard"))
        self._best = 0.0
        self._last: Progress | None = None
        self._evaluated: float | None = None

    def write(self, progress: Progress) -> None:
        self._last = progress
        row = {"cycle": progress.cycle, "step": progress.step, **progress.metrics}
        self._metrics.write(json.dumps(row) + "\n")
        for name, value in progress.metrics.items():
            self._board.add_scalar(name, value, progress.step)
        if progress.evaluation is not None:
            self._evaluated = progress.evaluation.success_rate
            self._best = max(self._best, self._evaluated)
            progress.policy.save(self.run.path)

    def __enter__(self) -> RunWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Save the last policy and the summary, whatever has happened."""
        status = "finished" if self._last is not None and self._last.done else "stopped"
        if kind is not None:
            status = "interrupted" if issubclass(kind, KeyboardInterrupt) else "failed"
        self._metrics.close()
        self._board.close()
        if self._last is not None:
            self._last.policy.save(self.run.path)
        config, last = self.run.config, self._last
        summary = {
            "status": status,
            "env": config.env,
            "method": config.agent.method,
            "seed": config.seed,
            "steps": last.step if last else 0,
            "minutes": round(last.metrics["time/total"] / 60, 3) if last else 0.0,
            "success_rate": self._evaluated,
            "best_success_rate": self._best if self._evaluated is not None else None,
            "eval_episodes": config.eval_episodes,
            "machine": machine(),
            "versions": versions(),
        }
        write_aside(self.run.path / SUMMARY, json.dumps(summary, indent=2).encode())


def machine() -> dict[str, Any]:
    model = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.is_file():
        names = [line.partition(":")[2].strip() for line in cpuinfo.read_text().splitlines() if "model name" in line]
        model = names[0] if names else model
    return {"cpu": model, "cores": os.cpu_count(), "system": platform.system(), "python": platform.python_version()}


def versions() -> Mapping[str, str]:
    """Versions of what results depend on."""
    found = {}
    for name in ("hindsight-rl", "jax", "numpy", "gymnasium", "gymnasium-robotics", "mujoco"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found
