"""Policy-gradient training on any goal env: collect episodes, choose hindsight goals among those
achieved, learn."""

from __future__ import annotations

from collections.abc import Generator

import jax
import numpy as np

from hindsight.agents.config import OnPolicyAgentConfig
from hindsight.agents.goal_batch import (
    GoalBatch,
    choose_goals,
    episode_goals,
    hindsight_goals,
    joined,
    newly_achieved,
    own_goals,
)
from hindsight.agents.registry import make_on_policy_agent
from hindsight.collect import Collector
from hindsight.config import OnPolicyConfig
from hindsight.envs.batch import EnvBatch
from hindsight.envs.contract import GoalEnvSpec
from hindsight.episodes import Episodes
from hindsight.normalizer import Normalizer
from hindsight.saving.tree import State
from hindsight.training.exploration import led
from hindsight.training.guard import check_episodes, check_losses
from hindsight.training.progress import Progress, Reporter, by_collector, collected
from hindsight.training.relay import Relay
from hindsight.training.rollouts import Rollouts
from hindsight.training.state import LoopState


class OnPolicy:
    """A policy gradient and a collector, and the loop that ties them together."""

    def __init__(self, config: OnPolicyConfig, spec: GoalEnvSpec, envs: EnvBatch) -> None:
        self.config = config
        self.relay = Relay(spec, config)
        self.agent = make_on_policy_agent(config.agent, self.relay.spec)
        self.normalizer = Normalizer.of(self.relay.spec, config.agent)
        self.collector = Collector(envs, spec)
        explores = led(self.agent, config, self.relay)
        self.rollouts = Rollouts(config, spec, explores, self.collector)
        self.relabel = GoalChoice(config, self.relay)
        self.reporter = Reporter(config, spec, by_collector(config, self.collector))
        start, self.key = jax.random.split(jax.random.key(config.seed))
        learner = self.agent.init(start)
        self.state = LoopState(learner, normalizer=self.normalizer, goals=self.relabel, envs=envs)

    def train(self) -> Generator[Progress]:
        """Train on from the state as it is, yielding after every batch; stop by not asking for
        more."""
        config, agent, state, clock = self.config, self.agent, self.state, self.state.clock
        update = jax.jit(agent.update)
        while state.step < config.steps:
            progress = state.step / config.steps

            # Collect episodes with the policy as it is, drawing its actions.
            episodes, _ = self.rollouts.take(state.cycle + 1, state.learner, progress)
            check_episodes(episodes, state.step)
            state.cycle += 1
            state.step += episodes.transitions
            state.dropped += config.episodes_per_cycle - len(episodes)
            if config.agent.normalize:
                self.normalizer.add(self.relay.of_every_stage(episodes))
            clock.lap("collect")

            # Learn from them, under goals that they achieved.
            state.learner = agent.scheduled(state.learner, self.normalizer.scale(), progress)
            batch, inside = self.relabel(episodes, state.cycle)
            clock.lap("relabel")
            state.learner, learned = update(
                state.learner, batch, jax.random.fold_in(self.key, state.cycle)
            )
            metrics = {f"learn/{name}": float(value) for name, value in learned.items()}
            check_losses(metrics, state.step, batch._asdict())
            clock.lap("learn")

            # Evaluate with the likeliest actions.
            metrics |= collected(episodes) | self.relay.metrics(episodes)
            metrics |= {"train/dropped": float(state.dropped), "train/goals_inside": inside}
            policy = self.relay.last_stage(agent.actor(state.learner))
            yield self.reporter.report(state, policy, metrics, clock)
            clock.lap("write")


EARLY_STAGES = 8
"""The last stage has so many times the goals of an episode's own that an early one has."""


def goals_of_stages(agent: OnPolicyAgentConfig, stages: int) -> list[int]:
    """How many hindsight goals each stage has: as many of each; or, of an episode's own, fewer of
    the early stages, which most episodes teach, while few teach the last one. 0 is all."""
    if not agent.by_action_values:
        return [-(-agent.goals // stages)] * stages
    return [-(-agent.goals // EARLY_STAGES)] * (stages - 1) + [agent.goals]


class GoalChoice:
    """Chooses the goals that a batch of episodes is learnt under."""

    def __init__(self, config: OnPolicyConfig, relay: Relay) -> None:
        self.config = config
        self.relay = relay
        self.spec = relay.spec
        self.ends = False
        """Whether reaching a goal has been seen to end an episode."""

    def __call__(self, episodes: Episodes, number: int) -> tuple[GoalBatch, float]:
        """Batch `number` under its hindsight goals, of every stage, and the share of achieved goals
        that could be chosen, in the last stage."""
        rng = np.random.default_rng((self.config.seed, number, 1))
        stages = self.relay.by_stage(episodes)
        self.ends = self.ends or self._ends(stages[-1])
        counts = goals_of_stages(self.config.agent, len(stages))
        found = [self._of_stage(*stage, rng) for stage in zip(stages, counts, strict=True)]
        return joined([batch for batch, _ in found]), found[-1][1]

    def _of_stage(
        self, episodes: Episodes, count: int, rng: np.random.Generator
    ) -> tuple[GoalBatch, float]:
        agent, spec = self.config.agent, self.spec
        ends = self.ends or agent.until_reached
        if not agent.hindsight:
            return own_goals(episodes, spec, ends, agent.skip_achieved), 1.0
        may = newly_achieved(episodes, spec) if agent.skip_achieved else episodes.real
        if agent.by_action_values:
            also = agent.actual_goals, agent.skip_achieved
            return episode_goals(episodes, count, may, spec, ends, rng, *also), 1.0
        box = spec if agent.within_box else None
        goals, used, inside = choose_goals(episodes, count, may, box, rng, agent.spread)
        return hindsight_goals(
            episodes, goals, used, spec, ends, agent.actual_goals, agent.skip_achieved
        ), inside

    def _ends(self, episodes: Episodes) -> bool:
        """Does reaching a goal end an episode? By the env's own word, or once it has been seen
        to."""
        if self.spec.goal_terminated is not None:
            return bool(
                self.spec.goal_terminated(episodes.desired_goal, episodes.desired_goal).any()
            )
        return bool((episodes.terminated & episodes.success & episodes.real).any())

    def export_state(self) -> State:
        return {"ends": self.ends}

    def restore_state(self, state: State) -> None:
        self.ends = bool(state["ends"])
