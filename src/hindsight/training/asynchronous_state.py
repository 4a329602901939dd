"""Where an asynchronous training stands when a worker has just handed in: what a checkpoint of it holds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp

from hindsight.errors import HindsightError
from hindsight.gradients.state import State as LearnerState
from hindsight.normalizer import Normalizer, Scale
from hindsight.saving.tree import State, between, export_pytree, restore_pytree
from hindsight.training.clock import Clock


class WorkerState(NamedTuple):
    """What a worker plays and learns its next batch with. A batch under way is not saved: it is played again."""

    learner: LearnerState
    scale: Scale
    progress: float
    number: int
    """Of the batch."""
    ends: bool
    """Whether it has seen that reaching a goal ends an episode."""

    def export_state(self) -> State:
        counts = {"progress": self.progress, "number": self.number, "ends": int(self.ends)}
        return {"learner": export_pytree(self.learner), "scale": export_pytree(self.scale), "counts": counts}

    def restored(self, state: State) -> WorkerState:
        counts = state["counts"]
        return WorkerState(
            _restored(self.learner, state["learner"]),
            restore_pytree(self.scale, state["scale"]),
            float(counts["progress"]),
            between(counts["number"], "number", 1, 2**62),
            bool(between(counts["ends"], "ends", 0, 1)),
        )


@dataclass
class AsynchronousState:
    """One moment: nothing in it changes when the workers go on."""

    learner: LearnerState
    workers: tuple[WorkerState, ...]
    normalizer: State
    clock: Clock
    cycle: int = 0
    step: int = 0

    def export_state(self) -> State:
        return {
            "counts": {"cycle": self.cycle, "step": self.step},
            "learner": export_pytree(self.learner),
            "workers": {str(i): worker.export_state() for i, worker in enumerate(self.workers)},
            "normalizer": self.normalizer,
            "clock": self.clock.export_state(),
        }

    def restore_state(self, state: State) -> None:
        counts = state["counts"]
        self.cycle, self.step = (between(counts[name], name, 0, 2**62) for name in ("cycle", "step"))
        self.learner = _restored(self.learner, state["learner"])
        if set(state["workers"]) != {str(i) for i in range(len(self.workers))}:
            raise HindsightError(f"it has {len(state['workers'])} workers, not {len(self.workers)}")
        self.workers = tuple(w.restored(state["workers"][str(i)]) for i, w in enumerate(self.workers))
        self.normalizer = state["normalizer"]
        self.clock.restore_state(state["clock"])


def starting(learner: LearnerState, normalizer: Normalizer, workers: int) -> AsynchronousState:
    """Before the first batch: worker w begins with batch w + 1."""
    everyone = tuple(WorkerState(learner, normalizer.scale(), 0.0, w + 1, False) for w in range(workers))
    return AsynchronousState(learner, everyone, normalizer.export_state(), Clock())


def _restored(like: LearnerState, state: State) -> LearnerState:
    restored: LearnerState = jax.tree.map(jnp.array, restore_pytree(like, state))
    return restored
