"""The episodes of each cycle: played when they are asked for, or, with overlap, while the
learner updates."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import fields
from typing import Any, NamedTuple

import numpy as np

from hindsight.acting import Actor
from hindsight.collect import Collecting, episode_seeds
from hindsight.config import TrainConfig
from hindsight.envs.contract import GoalEnvSpec
from hindsight.episodes import Episodes
from hindsight.replay.batch import NewPairs
from hindsight.saving.tree import State, all_between, fitting
from hindsight.training.evaluate import TRAINING
from hindsight.training.exploration import Explores

PLAYED = [
    f.name for f in fields(Episodes) if f.name != "log_prob"
]  # which no off-policy learner needs


class Rollout(NamedTuple):
    """The episodes of a cycle."""

    episodes: Episodes
    pairs: NewPairs | None = None
    """Their pairs with goals and TD errors, if whoever played them has found those already."""


class Rollouts:
    """Plays the episodes of a cycle by its number. Which parameters play which episode never
    depends on timing."""

    def __init__(
        self, config: TrainConfig, spec: GoalEnvSpec, agent: Explores, collector: Collecting
    ) -> None:
        self.config = config
        self.spec = spec
        self.agent = agent
        self.collector = collector
        self._pool = ThreadPoolExecutor(1)
        self._ahead: Future[Episodes] | None = None

    def play(self, cycle: int, actor: Actor, progress: float) -> Episodes:
        """The episodes of a cycle, played by the actor with exploration."""
        count = self.config.episodes_per_cycle
        seeds = episode_seeds(self.config.seed, TRAINING, (cycle - 1) * count, count)
        rng = np.random.default_rng((self.config.seed, cycle))
        return self.collector.collect(self.agent.explorer(actor, progress, rng), seeds)

    def take(self, cycle: int, learner: Any, progress: float) -> Rollout:
        """The episodes of a cycle: those that were begun before, or newly played."""
        ahead, self._ahead = self._ahead, None
        if ahead is None:
            return Rollout(self.play(cycle, self.agent.actor(learner), progress))
        return Rollout(ahead.result())

    def begin(self, cycle: int, learner: Any, progress: float) -> None:
        """Begin to play the episodes of a later cycle in the background, by the learner as it is
        now."""
        self._ahead = self._pool.submit(self.play, cycle, self.agent.actor(learner), progress)

    def wait(self) -> None:
        """Until no episode is being played; an error there is raised here."""
        if self._ahead is not None:
            self._ahead.result()

    def metrics(self) -> dict[str, float]:
        return self.collector.metrics()

    def close(self) -> None:
        self._pool.shutdown()

    def export_state(self) -> State:
        """The episodes that were begun; waits for them."""
        if self._ahead is None or self._ahead.exception() is not None:
            return {}
        episodes = self._ahead.result()
        return {name: getattr(episodes, name) for name in PLAYED}

    def restore_state(self, state: State) -> None:
        self._ahead = None
        if state:
            self._ahead = Future()
            self._ahead.set_result(self._restored(state))

    def _restored(self, state: State) -> Episodes:
        """Saved episodes, if they are of this env."""
        spec, n = self.spec, len(state["length"])
        action: tuple[tuple[int, ...], Any] = ((spec.actions.dim,), np.float32)
        if spec.actions.discrete:
            action = ((), np.int64)
        shapes: dict[str, tuple[tuple[int, ...], Any]] = {
            "observation": (
                (spec.horizon + 1, spec.observation.dim),
                spec.observation.dtype,
            ),
            "achieved_goal": ((spec.horizon + 1, *spec.goal.shape), spec.goal_dtype),
            "desired_goal": (spec.goal.shape, spec.goal_dtype),
            "action": ((spec.horizon, *action[0]), action[1]),
            "reward": ((spec.horizon,), np.float32),
            "terminated": ((spec.horizon,), np.bool_),
            "success": ((spec.horizon,), np.bool_),
            "length": ((), np.int64),
        }
        parts = {
            name: fitting(state[name], name, (n, *shape), dtype)
            for name, (shape, dtype) in shapes.items()
        }
        all_between(parts["length"], "length", 1, spec.horizon)
        return Episodes(**parts)


class FromDataset(Rollouts):
    """The episodes of a dataset, again from the first after the last. Nothing is played."""

    def __init__(
        self,
        config: TrainConfig,
        spec: GoalEnvSpec,
        agent: Explores,
        collector: Collecting,
        dataset: Episodes,
    ) -> None:
        super().__init__(config, spec, agent, collector)
        self.dataset = dataset

    def play(self, cycle: int, actor: Actor, progress: float) -> Episodes:
        """The next episodes of the dataset."""
        count = self.config.episodes_per_cycle
        return self.dataset.select(
            np.arange((cycle - 1) * count, cycle * count) % len(self.dataset)
        )

    def begin(self, cycle: int, learner: Any, progress: float) -> None:
        """There is nothing to begin."""
