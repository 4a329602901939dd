"""Where new pairs of a prioritised replay get their first TD errors from."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import numpy as np

from hindsight.agents.agent import OffPolicyAgent
from hindsight.agents.td_model import TDModel
from hindsight.config import OffPolicyConfig
from hindsight.replay.batch import Batch, NewPairs, Sample, TDErrors
from hindsight.replay.replay import HindsightReplay
from hindsight.saving.tree import State, export_pytree, restore_pytree
from hindsight.types import Ints


class InitialPriorities:
    """TD errors of new pairs: the learner's, those that a small model predicts, or none (the
    largest priority)."""

    CHUNK = 2048

    def __init__(self, config: OffPolicyConfig, agent: OffPolicyAgent) -> None:
        self.agent = agent
        self.kind = config.priority.initial if config.priority.sampling != "uniform" else "largest"
        clip = config.agent.clip_normalized if config.agent.normalize else np.inf
        self.model = TDModel(agent.shapes, config.agent.clip_observation, clip)
        self.suggests = config.priority.chosen_by == "model"
        predicts = self.suggests or self.kind == "predicted"
        self.state = self.model.init(jax.random.key(config.seed)) if predicts else None

    def td_errors(
        self, state: Any, replay: HindsightReplay, pairs: Ints, found: NewPairs | None = None
    ) -> TDErrors | None:
        """TD errors [n] of new pairs [n], unless they were found already; None if they get the
        largest priority."""
        if found is not None:
            return found.td
        if self.kind == "largest":
            return None
        evaluate: Callable[[Batch], TDErrors] = partial(self.agent.evaluate, state)
        if self.kind == "predicted":
            evaluate = partial(self.model.evaluate, self.state, state.scale)
        parts = []
        for start in range(
            0, len(pairs), self.CHUNK
        ):  # compiled once: all chunks have one size, the last is padded
            rows = np.minimum(np.arange(start, start + self.CHUNK), len(pairs) - 1)
            parts.append(evaluate(replay.read(pairs[rows])))
        joined: TDErrors = jax.tree.map(lambda *part: np.concatenate(part)[: len(pairs)], *parts)
        return joined

    def suggest(self, state: Any, sample: Sample) -> Sample:
        """Of candidates, those that the model suggests; the sample as it is if it suggests
        none."""
        if not self.suggests:
            return sample
        batch, which = self.model.suggest(self.state, state.scale, sample.batch)
        rows = np.asarray(which)
        addresses, pairs = jax.tree.map(
            lambda part: np.take_along_axis(part, rows, axis=1), (sample.addresses, sample.pairs)
        )
        return sample._replace(batch=batch, addresses=addresses, pairs=pairs)

    def fit_predictor(self, state: Any, sample: Sample, td: TDErrors) -> None:
        """The model, if there is one, learns from what was sampled."""
        if self.state is not None:
            self.state, _ = self.model.fit(self.state, state.scale, sample.batch, td)

    def export_state(self) -> State:
        return export_pytree(self.state)

    def restore_state(self, state: State) -> None:
        self.state = restore_pytree(self.state, state)
