"""All that policy-gradient training changes: what a checkpoint of it holds."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from hindsight.envs.batch import EnvBatch
from hindsight.gradients.state import State as LearnerState
from hindsight.normalizer import Normalizer
from hindsight.replay.replay import HindsightReplay
from hindsight.saving.tree import State, between, export_pytree, restore_pytree
from hindsight.training.clock import Clock


class OnPolicyState:
    """What the training loops read and write. Between two batches, all that the rest of the training depends on."""

    def __init__(
        self,
        learner: LearnerState,
        normalizer: Normalizer | None = None,
        envs: EnvBatch | None = None,
        replay: HindsightReplay | None = None,
    ) -> None:
        self.learner = learner
        self.replay = replay
        self.normalizer = normalizer
        self.envs = envs
        self.cycle = self.step = self.dropped = 0
        self.ends = False
        """Whether reaching a goal has been seen to end an episode."""
        self.clock = Clock()

    def export_state(self) -> State:
        """Copies of everything."""
        state: dict[str, Any] = {
            "counts": {"cycle": self.cycle, "step": self.step, "dropped": self.dropped, "ends": int(self.ends)},
            "learner": export_pytree(self.learner),
            "clock": self.clock.export_state(),
        }
        if self.normalizer is not None:
            state["normalizer"] = self.normalizer.export_state()
        if self.envs is not None:
            state["envs"] = self.envs.export_state()
        if self.replay is not None:
            state["replay"] = self.replay.export_state()
        return state

    def restore_state(self, state: State) -> None:
        counts = state["counts"]
        self.cycle, self.step, self.dropped = (
            between(counts[name], name, 0, 2**62) for name in ("cycle", "step", "dropped")
        )
        self.ends = bool(between(counts["ends"], "ends", 0, 1))
        self.learner = jax.tree.map(jnp.array, restore_pytree(self.learner, state["learner"]))
        if self.normalizer is not None:
            self.normalizer.restore_state(state["normalizer"])
        if self.envs is not None:
            self.envs.restore_state(state["envs"])
        if self.replay is not None:
            self.replay.restore_state(state["replay"])
        self.clock.restore_state(state["clock"])
