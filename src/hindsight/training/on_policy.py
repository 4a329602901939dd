"""Policy-gradient training on any goal env: collect episodes, choose hindsight goals among those achieved, learn."""

from __future__ import annotations

from collections.abc import Generator
from functools import partial

import jax
import numpy as np
from threadpoolctl import threadpool_limits

from hindsight.collect import Collector, episode_seeds
from hindsight.envs.batch import EnvBatch
from hindsight.envs.contract import GoalEnvSpec
from hindsight.episodes import Episodes
from hindsight.gradients.batch import GoalBatch, choose_goals, hindsight_goals, newly_met, own_goals
from hindsight.gradients.config import OnPolicyConfig
from hindsight.gradients.learner import Learner, make_learner
from hindsight.networks import Params, to_numpy
from hindsight.normalizer import Normalizer, Scale
from hindsight.saving.checkpoints import Checkpoint, restore
from hindsight.training.evaluate import EVALUATION, TRAINING, evaluate
from hindsight.training.guard import check_episodes, check_losses
from hindsight.training.off_policy import Progress
from hindsight.training.on_policy_state import OnPolicyState
from hindsight.training.policy import Policy


def train_on_policy(
    config: OnPolicyConfig, spec: GoalEnvSpec, envs: EnvBatch, resumed: Checkpoint | None = None
) -> Generator[Progress]:
    """Train, from a checkpoint if one is given, yielding after every batch; stop by not asking for more."""
    learner = make_learner(config.agent, spec)
    update = jax.jit(learner.update)
    start, key = jax.random.split(jax.random.key(config.seed))
    normalizer = make_normalizer(config, spec)
    now = OnPolicyState(learner.init(start), normalizer, envs)
    if resumed is not None:
        restore(now, resumed)
    player = Player(config, spec, learner, envs)
    player.ends = now.ends
    clock = now.clock
    with threadpool_limits(1, user_api="blas"):  # as in off-policy training: acting is small
        while now.step < config.steps:
            progress = now.step / config.steps

            # Collect episodes with the policy as it is, drawing its actions.
            episodes = player.play(to_numpy(now.learner.policy), normalizer.scale(), now.cycle + 1)
            check_episodes(episodes, now.step)
            now.cycle += 1
            now.step += episodes.transitions
            now.dropped += config.episodes_per_cycle - len(episodes)
            if config.agent.normalize:
                normalizer.add(episodes)
            scale = normalizer.scale()
            clock.lap("collect")

            # Learn from them, under goals that they achieved.
            batch, inside = player.relabel(episodes, now.cycle)
            now.ends = player.ends
            clock.lap("relabel")
            rates, update_key = learner.rates(progress), jax.random.fold_in(key, now.cycle)
            now.learner, learned = update(now.learner, scale, batch, rates, update_key)
            metrics = {f"learn/{name}": float(value) for name, value in learned.items()}
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
            metrics |= collected(episodes) | {"train/goals_inside": inside, "train/dropped": float(now.dropped)}
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

    def play(self, policy: Params, scale: Scale, number: int) -> Episodes:
        """The episodes of batch `number`, with actions drawn from the policy."""
        count = self.config.episodes_per_cycle
        seeds = episode_seeds(self.config.seed, TRAINING, (number - 1) * count, count)
        rng = np.random.default_rng((self.config.seed, number))
        return self.collector.collect(partial(self.model.sample, policy, scale, rng=rng), seeds)

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


def make_normalizer(config: OnPolicyConfig, spec: GoalEnvSpec) -> Normalizer:
    agent = config.agent
    return Normalizer(spec.observation, spec.goal, agent.normalizer_epsilon, agent.clip_observation)


def collected(episodes: Episodes) -> dict[str, float]:
    return {
        "train/success_rate": float(np.mean(episodes.final_success())),
        "train/mean_return": float(np.mean(episodes.returns())),
    }
