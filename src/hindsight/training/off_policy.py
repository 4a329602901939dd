"""Off-policy training with hindsight replay: collect episodes, store them, replay relabelled transitions, learn."""

from __future__ import annotations

from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from threadpoolctl import threadpool_limits

from hindsight.agents import make_agent
from hindsight.collect import Collector, episode_seeds
from hindsight.config import TrainConfig
from hindsight.envs.contract import GoalEnvSpec
from hindsight.episodes import Episodes
from hindsight.networks import Params, average, to_numpy
from hindsight.normalizer import Scale
from hindsight.saving.tree import Learning
from hindsight.training.evaluate import EVALUATION, TRAINING, Evaluation, evaluate
from hindsight.training.guard import check_episodes, check_losses, check_parameters
from hindsight.training.off_policy_state import OffPolicyState
from hindsight.training.policy import Policy
from hindsight.training.replay_metrics import Means, replay_metrics


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


def train_off_policy(config: TrainConfig, spec: GoalEnvSpec, now: OffPolicyState) -> Generator[Progress]:
    """Train on from a state, a new or a restored one, yielding after every cycle; stop by not asking for more."""
    agent = make_agent(config.agent, spec)
    collector = Collector(now.envs, spec)
    draws = _draws(config)
    actor, scale = to_numpy(agent.actor_parameters(now.agent)), now.normalizer.scale()
    clock = now.clock

    def collect(cycle: int, actor: Params, scale: Scale, progress: float) -> Episodes:
        """The episodes of a cycle, played by the actor with exploration."""
        first = (cycle - 1) * config.episodes_per_cycle
        seeds = episode_seeds(config.seed, TRAINING, first, config.episodes_per_cycle)
        rng = np.random.default_rng((config.seed, cycle))
        return collector.collect(agent.explorer(actor, scale, progress, rng), seeds)

    # Acting is small: one BLAS thread does it, while idle ones would spin and take the cores from simulation and JAX.
    with ThreadPoolExecutor(1) as pool, threadpool_limits(1, user_api="blas"):
        while now.step < config.steps:
            progress = now.step / config.steps

            # Collect episodes, or take those collected meanwhile, and store them.
            ahead, now.ahead = now.ahead, None
            episodes = collect(now.cycle + 1, actor, scale, progress) if ahead is None else ahead.result()
            check_episodes(episodes, now.step)
            now.cycle += 1
            now.step += episodes.transitions
            now.dropped += config.episodes_per_cycle - len(episodes)
            clock.lap("collect")
            if config.agent.normalize:
                now.normalizer.add(episodes)
                scale = now.normalizer.scale()
            if config.overlap and now.step < config.steps:
                now.ahead = pool.submit(collect, now.cycle + 1, actor, scale, now.step / config.steps)
            now.replay.add(episodes, now.critic.evaluate(now.agent, scale), progress, now.rng)
            clock.lap("replay")

            # Learn from relabelled transitions, and let their TD errors set their priorities.
            means = Means()
            for updates in draws:
                sample = now.replay.sample(updates, config.batch_size, progress, now.rng)
                means.add(replay_metrics(now.replay, sample), "replay/", updates)
                clock.lap("replay")
                now.agent, td, learned = agent.update(now.agent, scale, sample.replayed, agent.learning_rates(progress))
                means.add(learned, "learn/", updates)
                check_losses(means(), now.step, sample.replayed.batch._asdict() | td._asdict())
                clock.lap("learn")
                now.critic.fit(scale, sample, td)
                now.replay.update(sample, td)
                clock.lap("replay")
            check_parameters(now.agent, now.step, sample.replayed.batch)
            actor = to_numpy(agent.actor_parameters(now.agent))
            now.averaged = average(now.averaged, actor, config.policy_average)
            metrics = means()

            # Evaluate without exploration.
            policy = Policy.of(spec, agent, now.averaged, scale)
            done = now.step >= config.steps
            evaluation = None
            if done or now.cycle % config.eval_every == 0:
                if now.ahead is not None:
                    now.ahead.result()  # it uses the same envs, and may have failed
                clock.lap("collect")
                evaluation = evaluate(collector, policy.act, config.eval_episodes, config.seed, EVALUATION)
                metrics |= {"eval/success_rate": evaluation.success_rate, "eval/mean_return": evaluation.mean_return}
                clock.lap("evaluate")
            metrics |= _collected(episodes, config) | {"train/dropped": float(now.dropped)} | clock.metrics()
            yield Progress(now.cycle, now.step, config.steps, metrics, policy, evaluation, done, now)
            clock.lap("write")


def _collected(episodes: Episodes, config: TrainConfig) -> dict[str, float]:
    return {
        "train/success_rate": float(np.mean(episodes.final_success())),
        "train/mean_return": float(np.mean(episodes.returns())),
        "train/moved": float(np.mean(episodes.distance_moved() > config.replay.moved_threshold)),
    }


def _draws(config: TrainConfig) -> list[int]:
    """The updates of a cycle, by draw from the replay: all at once, unless each draw must know the last TD errors."""
    total, every = config.updates_per_cycle, config.priority.every
    if config.priority.index == "none":
        return [total]
    return [every] * (total // every) + ([total % every] if total % every else [])
