"""The run directory: config.json, metrics.jsonl (the source of truth), TensorBoard files,
policy, summary, more."""

from __future__ import annotations

import html
import json
import os
import platform
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hindsight.errors import HindsightError, printable
from hindsight.saving.checkpoints import Checkpoints
from hindsight.saving.files import JSON_LIMIT, read_file, read_json, write_aside
from hindsight.saving.lock import is_held
from hindsight.saving.metrics import read_metrics
from hindsight.settings import plain
from hindsight.training.policy import Policy
from hindsight.training.trust import mark

if TYPE_CHECKING:  # the settings of agents stand beside their learners, which need JAX
    from hindsight.config import TrainConfig

CONFIG, SUMMARY = "config.json", "summary.json"
TRACKED = "tracking.json"
"""By which names trackers (W&B, MLflow) know a run, so that a resumed one goes on there."""


@dataclass(frozen=True)
class Run:
    """A training's directory, during and after it."""

    path: Path
    config: TrainConfig

    def __repr__(self) -> str:
        what = f"{self.config.env}, {self.config.agent.method}, {self._status()}"
        return f"Run({str(self.path)!r}: {what})"

    def _status(self) -> str:
        """In words: status and success, as far as they are known."""
        rates = [row["eval/success_rate"] for row in self._rows() if "eval/success_rate" in row]
        success = f", success {rates[-1]:.2f}" if rates else ""
        try:
            return f"{self.summary.get('status', 'unknown')}{success}"
        except HindsightError:
            training = self.path.is_dir() and self.is_locked
            return f"{'training' if training else 'not finished'}{success}"

    def _rows(self) -> list[dict[str, float]]:
        try:
            return self.metrics
        except HindsightError:
            return []

    def _repr_html_(self) -> str:
        """For notebooks: what it is, and a small curve of its success."""
        rows = [row for row in self._rows() if "eval/success_rate" in row]
        last = max((row["step"] for row in rows), default=1)
        points = " ".join(
            f"{200 * row['step'] / last:.1f},{41 - 40 * row['eval/success_rate']:.1f}"
            for row in rows
        )
        curve = (
            f'<polyline points="{points}" fill="none" stroke="currentColor" stroke-width="1.5"/>'
        )
        return (
            f"<div><code>{html.escape(str(self.path))}</code> · {html.escape(self.config.env)} · "
            f"{html.escape(self.config.agent.method)} · {html.escape(self._status())}<br>"
            '<svg width="204" height="44" viewBox="-2 -1 204 44" role="img" '
            'aria-label="success by step">'
            f"{curve}</svg></div>"
        )

    def frame(self) -> Any:
        """The metrics as a pandas DataFrame, a row per cycle."""
        try:
            import pandas
        except ImportError:
            raise HindsightError(
                "pandas is not installed: pip install pandas, or use run.metrics"
            ) from None
        return pandas.DataFrame(self.metrics)

    @staticmethod
    def create(config: TrainConfig, path: Path | str | None = None) -> Run:
        """Make the directory. A given path must not exist, or be empty; without one, a free name
        under runs/ is taken."""
        content = config_file(config)
        if path is None:
            env = config.env.replace("/", "-").replace(":", "-")
            name = f"{env}-{config.agent.method}-seed{config.seed}"
            taken = (
                Path("runs") / (name if i == 1 else f"{name}-{i}") for i in range(1, 1_000_000)
            )
            directory = next(p for p in taken if not p.exists())
        else:
            directory = Path(path)
            if directory.exists() and not _is_empty(directory):
                raise HindsightError(
                    f"run directory {directory} exists: choose another, or remove it"
                )
        try:
            directory.mkdir(parents=True, exist_ok=True)
            write_aside(directory / CONFIG, content)
            mark(directory, config.env, config.env_kwargs)
        except OSError as error:
            raise HindsightError(f"cannot write to {directory}: {error.strerror}") from None
        return Run(directory, config)

    @staticmethod
    def open(path: Path | str) -> Run:
        """An existing run."""
        directory = Path(path)
        return Run(directory, read_config(directory / CONFIG))

    @property
    def checkpoints(self) -> Checkpoints:
        return Checkpoints(self.path / "checkpoints", self.config.checkpoint.keep)

    @property
    def policy(self) -> Policy:
        return Policy.load(self.path)

    @property
    def metrics(self) -> list[dict[str, float]]:
        """All rows written so far; a last line cut short is left out."""
        return read_metrics(self.path)

    @property
    def is_locked(self) -> bool:
        """Whether a process is training it now."""
        return is_held(self.path)

    @property
    def summary(self) -> dict[str, Any]:
        try:
            return read_json(self.path / SUMMARY)
        except (OSError, ValueError):
            raise HindsightError(f"{self.path} has no readable {SUMMARY}") from None


def _is_empty(directory: Path) -> bool:
    """Whether nothing is in it, or only what a process leaves that is killed while it begins a
    run."""
    return directory.is_dir() and {path.name for path in directory.iterdir()} <= {f"{CONFIG}.part"}


def config_file(config: TrainConfig) -> bytes:
    """The content of config.json."""
    try:
        return json.dumps(plain(config), indent=2).encode()
    except (TypeError, ValueError) as error:
        raise HindsightError(f"a setting cannot be written to {CONFIG}: {error}") from None


def read_config(path: Path) -> TrainConfig:
    """The config in a JSON file."""
    if path.is_dir():
        path = path / CONFIG
    if not path.exists():
        raise HindsightError(
            f"{path} does not exist"
            if not path.parent.is_dir()
            else f"no {path.name} in {path.parent}"
        )
    from hindsight.config import from_json

    content = read_file(path, JSON_LIMIT)
    try:
        data = json.loads(content)
        _refuse_control(data)
        return from_json(data)
    except (ValueError, TypeError, RecursionError) as error:
        raise HindsightError(f"{path}: {' '.join(str(error).split())}") from None


def _refuse_control(value: Any) -> None:
    """Text in settings is shown: it may have no characters that a terminal obeys, and none that
    cannot be written."""
    if isinstance(value, str) and not value.isprintable():
        raise HindsightError(
            f"a setting has characters that cannot be printed: {printable(value)[:100]}"
        )
    for inner in (
        [*value, *value.values()]
        if isinstance(value, dict)
        else value
        if isinstance(value, list)
        else ()
    ):
        _refuse_control(inner)


def machine() -> dict[str, Any]:
    model = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.is_file():
        names = [
            line.partition(":")[2].strip()
            for line in cpuinfo.read_text().splitlines()
            if "model name" in line
        ]
        model = names[0] if names else model
    return {
        "cpu": model,
        "cores": os.cpu_count(),
        "system": platform.system(),
        "python": platform.python_version(),
    }


_DEPENDED_ON = (
    "hindsight-rl",
    "jax",
    "numpy",
    "gymnasium",
    "gymnasium-robotics",
    "mujoco",
    "highway-env",
    "panda-gym",
    "pybullet",
)


def versions() -> Mapping[str, str]:
    """Versions of what results depend on."""
    found = {}
    for name in _DEPENDED_ON:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found
