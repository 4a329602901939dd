"""Where a training stands after a cycle, and the one way to find out: evaluate, then report."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from hindsight.acting import Actor
from hindsight.collect import Collecting
from hindsight.config import TrainConfig
from hindsight.envs.contract import GoalEnvSpec
from hindsight.episodes import Episodes
from hindsight.saving.tree import Learning
from hindsight.training.clock import Clock
from hindsight.training.evaluate import EVALUATION, Evaluation, evaluate
from hindsight.training.policy import Policy


@dataclass(frozen=True)
class Progress:
    """Where a training stands after a cycle. `evaluation` is None for cycles without one."""

    cycle: int
    step: int
    steps: int
    metrics: dict[str, float]
    policy: Policy
    evaluation: Evaluation | None
    done: bool
    learning: Learning | None = None
    """What a checkpoint is made of; None for a method that cannot be saved."""


Score = tuple[Evaluation, dict[str, float]]
"""An evaluation, and metrics that only this env or loop has."""


class Reporter:
    """Evaluates the policy when it is due, and says where the training stands."""

    def __init__(
        self, config: TrainConfig, spec: GoalEnvSpec, score: Callable[[Actor, bool], Score]
    ) -> None:
        self.config = config
        self.spec = spec
        self.score = score

    def report(
        self, now: Learning, actor: Actor, metrics: dict[str, float], clock: Clock
    ) -> Progress:
        """After a cycle of which `metrics` are known, with the policy that `actor` is."""
        policy = Policy.of(self.spec, actor, self.config.agent)
        done = now.step >= self.config.steps
        evaluation = None
        if done or now.cycle % self.config.eval_every == 0:
            evaluation, more = self.score(actor, done)
            rates = {
                "eval/success_rate": evaluation.success_rate,
                "eval/mean_return": evaluation.mean_return,
            }
            metrics = metrics | rates | more
            clock.lap("evaluate")
            wanted = self.config.stop_at_success
            done = done or (wanted is not None and evaluation.success_rate >= wanted)
        metrics = metrics | clock.metrics()
        return Progress(
            now.cycle, now.step, self.config.steps, metrics, policy, evaluation, done, now
        )


def by_collector(config: TrainConfig, collector: Collecting) -> Callable[[Actor, bool], Score]:
    """Evaluation by greedy episodes that a collector plays. One that is good enough to end the
    training is confirmed by others, because it was good by chance, too."""

    def score(actor: Actor, last: bool) -> Score:
        def played(episodes: int, first: int = 0) -> Evaluation:
            return evaluate(collector, actor, episodes, config.seed, EVALUATION, first)

        if last:
            return played(config.last_eval_episodes), {}
        found, wanted = played(config.eval_episodes), config.stop_at_success
        few = config.eval_episodes < config.last_eval_episodes
        if few and wanted is not None and found.success_rate >= wanted:
            found = played(config.last_eval_episodes, first=config.eval_episodes)
        return found, {}

    return score


def collected(episodes: Episodes) -> dict[str, float]:
    """Metrics of the episodes of a cycle."""
    return {
        "train/success_rate": float(np.mean(episodes.final_success())),
        "train/mean_return": float(np.mean(episodes.returns())),
    }
