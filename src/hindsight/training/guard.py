"""The guard against NaN and infinity: learning stops before they spread, and shows what brought
them.

Loops look at what they collect and learn. Whoever saves looks once more (`check_saved`), so that
no loop can forget to.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import jax
import numpy as np

from hindsight.episodes import Episodes
from hindsight.errors import HindsightError
from hindsight.replay.batch import Batch
from hindsight.saving.tree import State, split
from hindsight.types import Array


class Diverged(HindsightError):
    """A quantity is not finite. `batch` holds the arrays that it comes from."""

    def __init__(self, message: str, batch: Mapping[str, Any]) -> None:
        super().__init__(message)
        arrays = {name: value for name, value in batch.items() if hasattr(value, "shape")}
        self.batch: dict[str, Array] = {name: np.asarray(value) for name, value in arrays.items()}


def check_episodes(episodes: Episodes, step: int) -> None:
    """What was collected must be finite before it is stored."""
    arrays = {
        f.name: getattr(episodes, f.name)
        for f in fields(Episodes)
        if getattr(episodes, f.name) is not None
    }
    for name, array in arrays.items():
        if not np.isfinite(array).all():
            raise Diverged(
                f"{name} of the episodes collected after step {step} is not finite", arrays
            )


def check_losses(
    metrics: Mapping[str, float], step: int, batch: Mapping[str, Any] | None = None
) -> None:
    """Losses and values of an update from a batch must be finite before anything is made of
    them."""
    for name, value in metrics.items():
        if not np.isfinite(value):
            message = f"{name} is {value} at step {step}: learning has diverged; "
            message += "try a lower learning rate"
            raise Diverged(message, batch or {})


def check_parameters(state: Any, step: int, batch: Batch) -> None:
    """Parameters and optimiser states must be finite before a policy is made of them, or
    anything is saved."""
    for path, leaf in jax.tree.leaves_with_path(state):
        if not np.isfinite(np.asarray(leaf)).all():
            name = jax.tree_util.keystr(path, simple=True, separator="/")
            raise _diverged(name, step, batch._asdict())


OBSERVED = ("replay", "rollouts", "envs")
"""Parts of a state that need not be finite: episodes were looked at when they came; what an env
keeps is its own."""


def check_saved(state: State, step: int) -> None:
    """What is about to be saved must be finite: the parts of a checkpoint, or a policy."""
    tensors, _ = split({name: part for name, part in state.items() if name not in OBSERVED})
    for name, tensor in tensors.items():
        if not np.isfinite(tensor).all():
            raise _diverged(name, step, tensors)


def _diverged(name: str, step: int, batch: Mapping[str, Any]) -> Diverged:
    message = f"the parameters {name} are not finite at step {step}: learning has diverged; "
    return Diverged(message + "try a lower learning rate", batch)
