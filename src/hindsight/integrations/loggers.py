"""Metrics of a training to Weights & Biases or MLflow, while it runs.

TensorBoard's files are always written. Where the numbers go, and as whose, is said to each
library in its own way: by its environment variables.
"""

from __future__ import annotations

import contextlib
import os
import time
import warnings
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any, get_args

from hindsight.errors import HindsightError, nearest, needs, say
from hindsight.integrations import LoggerName
from hindsight.saving.files import read_json, sealed, write_aside
from hindsight.settings import flatten, plain
from hindsight.training.run import TRACKED, Run
from hindsight.training.session import Logger

PROJECT = "hindsight"
"""Or experiment: where runs are put, unless WANDB_PROJECT or MLFLOW_EXPERIMENT_NAME says
otherwise."""
AT_ONCE = 100
"""Parameters that MLflow takes in one request."""


def check_logger(logger: Logger | LoggerName | None) -> None:
    """Raise HindsightError if it is no logger, or its library is not installed."""
    if logger is None or callable(logger):
        return
    if logger not in get_args(LoggerName):
        known = get_args(LoggerName)
        raise HindsightError(
            f"unknown logger {logger!r}.{nearest(str(logger), known)} It is one of "
            f"{', '.join(known)}, or a function of metrics and step"
        )
    if logger != "tensorboard":
        with needs(logger):
            import_module(logger)


@contextlib.contextmanager
def open_logger(logger: Logger | LoggerName | None, run: Run) -> Iterator[Logger | None]:
    """What to call with metrics and step: of a tracker, told how the training ends."""
    if logger is None or callable(logger):
        yield logger
        return
    if logger == "tensorboard":
        say(f"to see its curves: tensorboard --logdir {run.path / 'tensorboard'}")
        yield None
        return
    start = {"wandb": _start_wandb, "mlflow": _start_mlflow}[logger]
    try:
        log, end = start(run)
    except Exception as error:  # the library's own, of any class
        raise HindsightError(
            f"{logger} did not start ({_reason(error)}); without it: hindsight resume {run.path}"
        ) from error
    try:
        yield _Careful(logger, log)
    except BaseException as error:
        interrupted = isinstance(error, KeyboardInterrupt | SystemExit)
        _try_to(lambda: end("KILLED" if interrupted else "FAILED"), logger)
        raise
    _try_to(lambda: end("FINISHED"), logger)


Log = Callable[[dict[str, float], int], None]
End = Callable[[str], None]


class _Careful:
    """Calls a tracker. That it fails is said once, and is no reason to stop a training."""

    def __init__(self, name: str, log: Log) -> None:
        self.name = name
        self.log = log
        self.failed = False

    def __call__(self, metrics: dict[str, float], step: int) -> None:
        try:
            self.log(metrics, step)
        except Exception as error:  # the library's own, of any class
            if not self.failed:
                warnings.warn(
                    f"{self.name} did not take the metrics of step {step} ({_reason(error)}); "
                    "training goes on, and metrics.jsonl has them",
                    stacklevel=2,
                )
            self.failed = True


def _try_to(end: Callable[[], None], name: str) -> None:
    try:
        end()
    except Exception as error:  # the library's own, of any class
        warnings.warn(f"{name} did not take the end of the run: {_reason(error)}", stacklevel=2)


def _start_wandb(run: Run) -> tuple[Log, End]:
    import wandb

    known = _known_id(run, "wandb")
    tracked = wandb.init(
        project=os.environ.get("WANDB_PROJECT", PROJECT),
        name=run.path.name,
        id=known,
        resume="allow",
        config=_settings(run),
        settings=wandb.Settings(console="off"),
    )
    _keep_id(run, "wandb", tracked.id)
    return (
        lambda metrics, step: tracked.log(metrics, step=step),
        lambda status: tracked.finish(0 if status == "FINISHED" else 1),
    )


def _start_mlflow(run: Run) -> tuple[Log, End]:
    from mlflow import MlflowClient
    from mlflow.entities import Metric, Param
    from mlflow.exceptions import MlflowException

    client, name = MlflowClient(), os.environ.get("MLFLOW_EXPERIMENT_NAME", PROJECT)
    run_id = _known_id(run, "mlflow")
    if run_id is not None:
        try:
            client.update_run(run_id, status="RUNNING")
        except MlflowException:  # it was tracked elsewhere
            run_id = None
    if run_id is None:
        experiment = client.get_experiment_by_name(name)
        number = client.create_experiment(name) if experiment is None else experiment.experiment_id
        run_id = client.create_run(number, run_name=run.path.name).info.run_id
        params = [Param(key, str(value)) for key, value in _settings(run).items()]
        for i in range(0, len(params), AT_ONCE):
            client.log_batch(run_id, params=params[i : i + AT_ONCE])
        _keep_id(run, "mlflow", run_id)

    def log(metrics: dict[str, float], step: int) -> None:
        now = int(1000 * time.time())
        client.log_batch(run_id, [Metric(key, float(x), now, step) for key, x in metrics.items()])

    return log, lambda status: client.set_terminated(run_id, status)


def _settings(run: Run) -> dict[str, Any]:
    """By dotted name."""
    return {name: plain(value) for name, value in flatten(run.config).items()}


def _ids(run: Run) -> dict[str, Any]:
    try:
        return read_json(run.path / TRACKED, 1 << 16)
    except (OSError, HindsightError):
        return {}


def _known_id(run: Run, name: str) -> str | None:
    found = _ids(run).get(name)
    plain_id = isinstance(found, str) and found.isalnum() and len(found) <= 64
    return found if plain_id else None


def _keep_id(run: Run, name: str, run_id: str) -> None:
    ids = {key: value for key, value in _ids(run).items() if key != "sha256"}
    write_aside(run.path / TRACKED, sealed(ids | {name: run_id}))


def _reason(error: BaseException) -> str:
    return " ".join(str(error).split()) or type(error).__name__
