"""Off-policy training with hindsight replay: collect episodes, store them, replay relabelled transitions, learn."""

from __future__ import annotations

import time
from collections.abc import Generator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from threadpoolctl import threadpool_limits

from hindsight.agents import make_agent
from hindsight.collect import Collector, episode_seeds
from hindsight.config import TrainConfig
from hindsight.envs.batch import EnvBatch
from hindsight.envs.contract import GoalEnvSpec
from hindsight.episodes import Episodes
from hindsight.errors import HindsightError
from hindsight.networks import Params, average, to_numpy
from hindsight.normalizer import Normalizer, Scale
from hindsight.replay.replay import HindsightReplay
from hindsight.training.evaluate import EVALUATION, TRAINING, Evaluation, evaluate
from hindsight.training.new_priorities import NewPriorities
from hindsight.training.policy import Policy
from hindsight.training.replay_metrics import Means, replay_metrics
from hindsight.types import Array, Floats


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


def train_off_policy(config: TrainConfig, spec: GoalEnvSpec, envs: EnvBatch) -> Generator[Progress]:
    """Train, yielding after every cycle; stop by not asking for more."""
    agent = make_agent(config.agent, spec)
    state: Any = agent.init(jax.random.key(config.seed))
    normalizer = Normalizer(spec.observation, spec.goal, config.agent.normalizer_epsilon, config.agent.clip_observation)
    scale = normalizer.scale()
    replay = HindsightReplay(spec, config.replay, config.priority)
    critic = NewPriorities(config, agent)
    draws = _draws(config)
    collector = Collector(envs, spec)
    rng = np.random.default_rng(config.seed)
    actor = averaged = to_numpy(agent.actor_parameters(state))
    ahead: Future[Episodes] | None = None
    step = cycle = diverged = 0
    clock = Clock()

    def collect(cycle: int, actor: Params, scale: Scale, progress: float) -> Episodes:
        """The episodes of a cycle, played by the actor with exploration."""
        first = (cycle - 1) * config.episodes_per_cycle
        seeds = episode_seeds(config.seed, TRAINING, first, config.episodes_per_cycle)
        exploration, noise = agent.exploration(progress), np.random.default_rng((config.seed, cycle))

        def explore(observation: Floats, goal: Floats) -> Array:
            return agent.explore(actor, scale, observation, goal, exploration, noise)

        return collector.collect(explore, seeds)

    # Acting is small: one BLAS thread does it, while idle ones would spin and take the cores from simulation and JAX.
    with ThreadPoolExecutor(1) as pool, threadpool_limits(1, user_api="blas"):
        while step < config.steps:
            cycle += 1
            progress = step / config.steps

            # Collect episodes, or take those collected meanwhile, and store them.
            episodes = collect(cycle, actor, scale, progress) if ahead is None else ahead.result()
            step += episodes.transitions
            diverged += config.episodes_per_cycle - len(episodes)
            clock.lap("collect")
            if config.agent.normalize:
                normalizer.add(episodes)
                scale = normalizer.scale()
            if config.overlap and step < config.steps:
                ahead = pool.submit(collect, cycle + 1, actor, scale, step / config.steps)
            replay.add(episodes, critic.evaluate(state, scale), progress, rng)
            clock.lap("replay")

            # Learn from relabelled transitions, and let their TD errors set their priorities.
            means = Means()
            for updates in draws:
                sample = replay.sample(updates, config.batch_size, progress, rng)
                means.add(replay_metrics(replay, sample), "replay/", updates)
                clock.lap("replay")
                state, td, learned = agent.update(state, scale, sample.replayed, agent.learning_rates(progress))
                means.add(learned, "learn/", updates)
                _check_finite(means(), step)
                clock.lap("learn")
                critic.fit(scale, sample, td)
                replay.update(sample, td)
                clock.lap("replay")
            actor = to_numpy(agent.actor_parameters(state))
            averaged = average(averaged, actor, config.policy_average)
            metrics = means()

            # Evaluate without exploration.
            policy = Policy.of(spec, agent, averaged, scale)
            done = step >= config.steps
            evaluation = None
            if done or cycle % config.eval_every == 0:
                if ahead is not None:
                    ahead.result()  # it uses the same envs, and may have failed
                clock.lap("collect")
                evaluation = evaluate(collector, policy.act, config.eval_episodes, config.seed, EVALUATION)
                metrics |= {"eval/success_rate": evaluation.success_rate, "eval/mean_return": evaluation.mean_return}
                clock.lap("evaluate")
            metrics |= _collected(episodes, config) | {"train/diverged": float(diverged)} | clock.metrics()
            yield Progress(cycle, step, config.steps, metrics, policy, evaluation, done)


def _collected(episodes: Episodes, config: TrainConfig) -> dict[str, float]:
    return {
        "train/success_rate": float(np.mean(episodes.final_success())),
        "train/mean_return": float(np.mean(episodes.returns())),
        "train/moved": float(np.mean(episodes.distance_moved() > config.replay.moved_threshold)),
    }


def _check_finite(metrics: dict[str, float], step: int) -> None:
    for name, value in metrics.items():
        if not np.isfinite(value):
            raise HindsightError(f"{name} is {value} at step {step}: learning has diverged; try a lower learning rate")


def _draws(config: TrainConfig) -> list[int]:
    """The updates of a cycle, by draw from the replay: all at once, unless each draw must know the last TD errors."""
    total, every = config.updates_per_cycle, config.priority.every
    if config.priority.index == "none":
        return [total]
    return [every] * (total // every) + ([total % every] if total % every else [])


class Clock:
    """Wall time by activity, as metrics. They are the only ones that differ between equal runs."""

    def __init__(self) -> None:
        self.start = self.last = time.perf_counter()
        self.laps: dict[str, float] = {}

    def lap(self, name: str) -> None:
        now = time.perf_counter()
        self.laps[name] = self.laps.get(name, 0.0) + now - self.last
        self.last = now

    def metrics(self) -> dict[str, float]:
        self.lap("other")
        return {"time/total": self.last - self.start} | {f"time/{name}": t for name, t in self.laps.items()}
