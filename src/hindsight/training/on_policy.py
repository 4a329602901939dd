"""Policy-gradient training on any goal env: collect episodes, choose hindsight goals among those achieved, learn."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import replace

import jax
import numpy as np
from threadpoolctl import threadpool_limits

from hindsight.collect import Collector, episode_seeds
from hindsight.envs.batch import EnvBatch
from hindsight.envs.contract import GoalEnvSpec
from hindsight.episodes import Episodes
from hindsight.gradients.batch import GoalBatch, choose_goals, hindsight_goals, newly_met, own_goals
from hindsight.gradients.config import HPGConfig, OnPolicyConfig
from hindsight.gradients.learner import Learner, make_learner
from hindsight.gradients.state import Metrics
from hindsight.networks import Params, to_numpy
from hindsight.normalizer import Normalizer, Scale
from hindsight.replay.replay import Batch, HindsightReplay
from hindsight.saving.checkpoints import Checkpoint, restore
from hindsight.schedules import Schedule
from hindsight.training.evaluate import EVALUATION, TRAINING, evaluate
from hindsight.training.guard import check_episodes, check_losses
from hindsight.training.off_policy import Progress
from hindsight.training.on_policy_state import OnPolicyState
from hindsight.training.policy import Policy
from hindsight.types import Array, Floats


def train_on_policy(
    config: OnPolicyConfig, spec: GoalEnvSpec, envs: EnvBatch, resumed: Checkpoint | None = None
) -> Generator[Progress]:
    """Train, from a checkpoint if one is given, yielding after every batch; stop by not asking for more."""
    learner = make_learner(config.agent, spec)
    update, fit = jax.jit(learner.update), jax.jit(learner.replay)
    start, key = jax.random.split(jax.random.key(config.seed))
    normalizer = make_normalizer(config, spec)
    replay = make_replay(config, spec) if learner.model.replayed else None
    now = OnPolicyState(learner.init(start), normalizer, envs, replay)
    if resumed is not None:
        restore(now, resumed)
    player = Player(config, spec, learner, envs)
    player.ends = now.ends
    clock = now.clock
    with threadpool_limits(1, user_api="blas"):  # as in off-policy training: acting is small
        while now.step < config.steps:
            progress = now.step / config.steps

            # Collect episodes with the policy as it is, drawing its actions.
            episodes = player.play(to_numpy(now.learner.policy), normalizer.scale(), now.cycle + 1, progress)
            check_episodes(episodes, now.step)
            now.cycle += 1
            now.step += episodes.transitions
            now.dropped += config.episodes_per_cycle - len(episodes)
            if config.agent.normalize:
                normalizer.add(episodes)
            scale = normalizer.scale()
            clock.lap("collect")

            # Learn from them, under goals that they achieved; or store and replay them, for a critic that needs it.
            rates, update_key = learner.rates(progress), jax.random.fold_in(key, now.cycle)
            metrics = collected(episodes) | {"train/dropped": float(now.dropped)}
            batch: GoalBatch | Batch
            learned: Metrics = {}
            if replay is None:
                batch, metrics["train/goals_inside"] = player.relabel(episodes, now.cycle)
                now.ends = player.ends
                clock.lap("relabel")
            else:
                batches, batch = player.replay(replay, episodes, now.cycle, progress)
                clock.lap("replay")
                now.learner, learned = fit(now.learner, scale, batches, rates)
            now.learner, more = update(now.learner, scale, batch, rates, update_key)
            metrics |= {f"learn/{name}": float(value) for name, value in (learned | more).items()}
            check_losses(metrics, now.step, batch._asdict())
            clock.lap("learn")

            # Evaluate with the likeliest actions.
            policy = Policy.of(spec, learner, to_numpy(now.learner.policy), scale)
            done = now.step >= config.steps
            evaluation = None
            if done or now.cycle % config.eval_every == 0:
                evaluation = evaluate(player.collector, policy.act, config.eval_episodes, config.seed, EVALUATION)
                metrics |= {"eval/success_rate": evaluation.success_rate, "eval/mean_return": evaluation.mean_return}
                clock.lap("evaluate")
            metrics |= clock.metrics()
            yield Progress(now.cycle, now.step, config.steps, metrics, policy, evaluation, done, now)
            clock.lap("write")


class Player:
    """Plays the batches of a training, by their numbers, and relabels them."""

    def __init__(self, config: OnPolicyConfig, spec: GoalEnvSpec, learner: Learner, envs: EnvBatch) -> None:
        self.config = config
        self.spec = spec
        self.model = learner.model
        self.collector = Collector(envs, spec)
        self.ends = False

    def play(self, policy: Params, scale: Scale, number: int, progress: float) -> Episodes:
        """The episodes of batch `number`, with actions drawn from the policy, some of them at random."""
        count = self.config.episodes_per_cycle
        seeds = episode_seeds(self.config.seed, TRAINING, (number - 1) * count, count)
        rng = np.random.default_rng((self.config.seed, number))
        random = self.model.random_actions(progress)

        def act(observation: Floats, goal: Floats) -> tuple[Array, Floats]:
            action, log_prob = self.model.sample(policy, scale, observation, goal, rng)
            return (self.model.mixed(action, random, rng) if random else action), log_prob

        return self.collector.collect(act, seeds)

    def replay(self, replay: HindsightReplay, episodes: Episodes, number: int, progress: float) -> tuple[Batch, Batch]:
        """After batch `number` has been stored: batches for the updates of the critic [U, B, ...], with rewards of -1
        and 0, and those of their rows that the policy learns from [R, ...]."""
        agent = self.config.agent
        assert not isinstance(agent, HPGConfig)
        rng = np.random.default_rng((self.config.seed, number, 2))
        replay.add(episodes, None, progress, rng)
        found = replay.sample(agent.critic_updates, agent.critic_batch, progress, rng).replayed.batch
        missed = found.reward < self.spec.success_reward
        found = found._replace(reward=-missed.astype(np.float32))
        return found, Batch(*(part.reshape(-1, *part.shape[2:])[: agent.rows or None] for part in found))

    def relabel(self, episodes: Episodes, number: int) -> tuple[GoalBatch, float]:
        """The batch under its hindsight goals, and the share of achieved goals that could be chosen."""
        agent, spec = self.config.agent, self.spec
        self.ends = self.ends or self._ends(episodes)
        ends = self.ends or agent.until_reached
        if not agent.hindsight:
            return own_goals(episodes, spec, ends, agent.unmet), 1.0
        rng = np.random.default_rng((self.config.seed, number, 1))
        may = newly_met(episodes, spec) if agent.unmet else episodes.real
        box = spec if agent.within_box else None
        goals, used, inside = choose_goals(episodes, agent.goals, may, box, rng, agent.spread)
        return hindsight_goals(episodes, goals, used, spec, ends, agent.pursued, agent.unmet), inside

    def _ends(self, episodes: Episodes) -> bool:
        """Does reaching a goal end an episode? By the env's own word, or once it has been seen to."""
        if self.spec.goal_terminated is not None:
            return bool(self.spec.goal_terminated(episodes.desired_goal, episodes.desired_goal).any())
        return bool((episodes.terminated & episodes.success & episodes.real).any())


def make_replay(config: OnPolicyConfig, spec: GoalEnvSpec) -> HindsightReplay:
    """What a replayed critic learns from; without hindsight, only the goals that were pursued."""
    plain = replace(config.replay, replay_k=Schedule.parse(0.0))
    return HindsightReplay(spec, config.replay if config.agent.hindsight else plain)


def make_normalizer(config: OnPolicyConfig, spec: GoalEnvSpec) -> Normalizer:
    agent = config.agent
    return Normalizer(spec.observation, spec.goal, agent.normalizer_epsilon, agent.clip_observation)


def collected(episodes: Episodes) -> dict[str, float]:
    return {
        "train/success_rate": float(np.mean(episodes.final_success())),
        "train/mean_return": float(np.mean(episodes.returns())),
    }
