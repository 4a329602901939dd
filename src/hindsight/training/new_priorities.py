"""Where new entries of a prioritised replay get their first priorities from."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import numpy as np

from hindsight.agents import Agent
from hindsight.agents.td_model import TDModel
from hindsight.config import TrainConfig
from hindsight.normalizer import Scale
from hindsight.replay.prioritized import TDErrors
from hindsight.replay.replay import Batch, Evaluate, Sample
from hindsight.saving.tree import State, export_pytree, restore_pytree


class NewPriorities:
    """What new entries get their priorities from: the learner, a small model of its TD errors, or nothing."""

    CHUNK = 2048

    def __init__(self, config: TrainConfig, agent: Agent) -> None:
        self.agent = agent
        self.kind = config.priority.new if config.priority.index != "none" else "largest"
        clip = config.agent.clip_normalized if config.agent.normalize else np.inf
        self.model = TDModel(agent.shapes, config.agent.clip_observation, clip)
        self.state = self.model.init(jax.random.key(config.seed)) if self.kind == "predicted" else None

    def evaluate(self, state: Any, scale: Scale) -> Evaluate | None:
        """A function of a batch [n, ...]; None if new entries get the largest priority."""
        if self.kind == "largest":
            return None
        if self.state is not None:
            return lambda batch: self._in_chunks(partial(self.model.evaluate, self.state, scale), batch)
        return lambda batch: self._in_chunks(partial(self.agent.evaluate, state, scale), batch)

    def fit(self, scale: Scale, sample: Sample, td: TDErrors) -> None:
        if self.state is not None:
            self.state, _ = self.model.fit(self.state, scale, sample.replayed.batch, td)

    def export_state(self) -> State:
        return export_pytree(self.state)

    def restore_state(self, state: State) -> None:
        self.state = restore_pytree(self.state, state)

    def _in_chunks(self, evaluate: Evaluate, batch: Batch) -> TDErrors:
        """Compiled once: every chunk has the same size, the last one is padded."""
        n = len(batch.reward)
        parts = []
        for start in range(0, n, self.CHUNK):
            rows = np.minimum(np.arange(start, start + self.CHUNK), n - 1)
            parts.append(evaluate(Batch(*(part[rows] for part in batch))))
        return TDErrors(
            *(np.concatenate([np.asarray(part) for part in column])[:n] for column in zip(*parts, strict=True))
        )
