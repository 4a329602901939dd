"""What training loops change: what a checkpoint holds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from hindsight.saving.tree import (
    Saveable,
    State,
    between,
    export_generator,
    export_pytree,
    restore_generator,
    restore_pytree,
)
from hindsight.training.clock import Clock


class LoopState:
    """Counts, the learner's state, and other parts by name: between two cycles, all that the
    rest depends on."""

    def __init__(self, learner: Any, **parts: Saveable) -> None:
        self.learner = learner
        self.parts: Mapping[str, Saveable] = parts
        self.cycle = self.step = self.dropped = 0
        self.clock = Clock()

    def export_state(self) -> State:
        """Copies of everything; waits for what is under way."""
        return {
            "counts": {"cycle": self.cycle, "step": self.step, "dropped": self.dropped},
            "learner": export_pytree(self.learner),
            "clock": self.clock.export_state(),
            **{name: part.export_state() for name, part in self.parts.items()},
        }

    def restore_state(self, state: State) -> None:
        counts = state["counts"]
        self.cycle, self.step, self.dropped = (
            between(counts[name], name, 0, 2**62) for name in ("cycle", "step", "dropped")
        )
        self.learner = restored(self.learner, state["learner"])
        self.clock.restore_state(state["clock"])
        for name, part in self.parts.items():
            part.restore_state(state[name])


def restored(like: Any, state: State) -> Any:
    """A learner's state, on the device."""
    return jax.tree.map(jnp.array, restore_pytree(like, state))


class Tree:
    """A tree of arrays that is replaced as a whole, such as averaged parameters."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def export_state(self) -> State:
        return export_pytree(self.value)

    def restore_state(self, state: State) -> None:
        self.value = restore_pytree(self.value, state)


class Generator:
    """A random generator."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)

    def export_state(self) -> State:
        return export_generator(self.rng)

    def restore_state(self, state: State) -> None:
        restore_generator(self.rng, state)
