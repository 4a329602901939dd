"""Off-policy training with hindsight replay: Algorithms 1 and 2 of "Improvements on Hindsight
Learning".

The comments in `train` quote the lines of Algorithm 2, hindsight prioritised experience replay.
With goals that are chosen when sampled and no priorities, the same loop is Algorithm 1,
hindsight experience replay: then `store` makes no pairs, `push` does nothing, and `sample` picks
the future states. Unlike in the paper, the updates follow a whole cycle of episodes instead of
each one.
"""

from __future__ import annotations

from collections.abc import Generator

import jax
import numpy as np

from hindsight.acting import Actor
from hindsight.agents.agent import OffPolicyAgent
from hindsight.config import OffPolicyConfig
from hindsight.episodes import Episodes
from hindsight.networks import average
from hindsight.normalizer import Normalizer
from hindsight.replay.batch import Batch
from hindsight.replay.replay import HindsightReplay
from hindsight.training.guard import check_episodes, check_losses, check_parameters
from hindsight.training.initial_priorities import InitialPriorities
from hindsight.training.progress import Progress, Reporter, Score, by_collector, collected
from hindsight.training.relay import Relay
from hindsight.training.replay_metrics import Means, replay_metrics
from hindsight.training.rollouts import Rollouts
from hindsight.training.state import Generator as SavedGenerator
from hindsight.training.state import LoopState, Tree

UPDATES = 0x5EED
"""Sets the random keys of updates apart from that of the first parameters."""
AFTER = 2**31 - 1
"""And those of what follows the updates of a cycle, from those of its draws."""
PIECES = 16
"""Into how many draws the updates of a cycle are divided, if episodes end early."""


class OffPolicy:
    """An agent, a replay and a collector, and the loop that ties them together."""

    def __init__(
        self,
        config: OffPolicyConfig,
        relay: Relay,
        agent: OffPolicyAgent,
        replay: HindsightReplay,
        initial_priorities: InitialPriorities,
        rollouts: Rollouts,
        dataset: Episodes | None = None,
    ) -> None:
        """With a dataset, the replay is filled from it before the first cycle."""
        self.config = config
        self.relay = relay
        self.agent = agent
        self.replay = replay
        replay.scale_rewards(agent.reward_scale)
        self.initial_priorities = initial_priorities
        self.normalizer = Normalizer.of(relay.spec, config.agent)
        self.rollouts = rollouts
        self.dataset = dataset
        self.reporter = Reporter(config, relay.task, self._score)
        learner = self.agent.init(jax.random.key(config.seed))
        self.averaged = Tree(self.agent.actor(learner).params)
        self.generator = SavedGenerator(config.seed)
        self.state = LoopState(
            learner,
            averaged=self.averaged,
            normalizer=self.normalizer,
            replay=self.replay,
            initial_priorities=self.initial_priorities,
            rollouts=self.rollouts,
            rng=self.generator,
            envs=rollouts.collector.envs,
        )

    def train(self) -> Generator[Progress]:
        """Train on from the state as it is, yielding after every cycle; stop by not asking for
        more."""
        config, agent, replay, state = self.config, self.agent, self.replay, self.state
        rng, clock, keys = (
            self.generator.rng,
            state.clock,
            jax.random.fold_in(jax.random.key(config.seed), UPDATES),
        )
        if self.dataset is not None and state.cycle == 0:
            self._fill(self.dataset)
        while state.step < config.steps:
            progress = state.step / config.steps

            # "Observe trajectory T". With overlap it was begun a cycle ago, by the actor of then.
            episodes, new_pairs = self.rollouts.take(state.cycle + 1, state.learner, progress)
            check_episodes(episodes, state.step)
            state.cycle += 1
            before, state.step = state.step, state.step + episodes.transitions
            state.dropped += config.episodes_per_cycle - len(episodes)
            clock.lap("collect")
            staged = self.relay.of_every_stage(episodes)  # as they are, without relay goals
            if config.agent.normalize and config.collect:
                self.normalizer.add(staged)
            state.learner = agent.scheduled(state.learner, self.normalizer.scale(), progress)
            if config.overlap and state.step < config.steps:
                self.rollouts.begin(state.cycle + 1, state.learner, state.step / config.steps)

            if config.collect:  # else they are in the replay, all of them
                # "num_goals <- (1 - t/T) x replay_k; sample num_goals number of goals; append
                # transition with sampled goals and actual goal": `goal_number` in replay/pairs.py,
                # whose default follows the paper's published code.
                pairs = replay.store(staged, progress, rng, new_pairs)
                # "Compute priority delta = r + gamma Q(S', a') - Q(S, a)": the agent's
                # `td_errors`. Collectors on other machines may have done both (distributed/).
                new_td = self.initial_priorities.td_errors(state.learner, replay, pairs, new_pairs)
                # "Push goal appended transition to priority queue P1 (P2)": by |delta|, in
                # replay/priorities.py.
                replay.push(pairs, new_td)
            clock.lap("replay")

            means, batches = Means(), list[Batch]()
            for draw, updates in enumerate(self._draws(config.updates(state.step, before))):
                # "Sample batch number of transitions"
                sample = replay.sample(updates, config.batch_size, progress, rng)
                sample = self.initial_priorities.suggest(state.learner, sample)
                means.add(replay_metrics(replay, sample), "replay/", updates)
                clock.lap("replay")
                # "Use sample to learn"
                key = jax.random.fold_in(jax.random.fold_in(keys, state.cycle), draw)
                state.learner, td, learned = agent.learn(state.learner, sample.batch, key)
                means.add(learned, "learn/", updates)
                batches.append(sample.batch)
                check_losses(means.values(), state.step, sample.batch._asdict() | td._asdict())
                clock.lap("learn")
                self.initial_priorities.fit_predictor(state.learner, sample, td)
                # Not in Algorithm 2, but in prioritised replay: what was replayed is pushed again.
                replay.push(sample.pairs, td, sample.sampled_at)
                clock.lap("replay")
            if batches:  # a short cycle may have no updates
                key = jax.random.fold_in(jax.random.fold_in(keys, state.cycle), AFTER)
                state.learner, learned = agent.after_updates(state.learner, batches, key)
                means.add(learned, "learn/")
                check_parameters(state.learner, state.step, sample.batch)
                clock.lap("learn")

            # Evaluate without exploration.
            actor = agent.actor(state.learner)
            self.averaged.value = average(self.averaged.value, actor.params, config.policy_ema)
            policy = self.relay.last_stage(Actor(actor.shape, self.averaged.value, actor.scale))
            yield self.reporter.report(
                state, policy, means.values() | self._collected(episodes), clock
            )
            clock.lap("write")

    def _fill(self, episodes: Episodes) -> None:
        """Store a dataset as if it had been collected."""
        state, replay, rng = self.state, self.replay, self.generator.rng
        if self.config.agent.normalize:
            self.normalizer.add(episodes)
        state.learner = self.agent.scheduled(state.learner, self.normalizer.scale(), 0.0)
        pairs = replay.store(episodes, 0.0, rng)
        replay.push(pairs, self.initial_priorities.td_errors(state.learner, replay, pairs))

    def _draws(self, updates: int) -> list[int]:
        """The updates of a cycle, by draw: all at once, unless each draw must know the last TD
        errors.

        Each size is compiled once. So a cycle whose episodes ended early, which may have any
        number of updates, is made of two sizes.
        """
        usual = self.config.updates_of_cycle(self.relay.spec.horizon)
        each = usual
        if self.config.priority.sampling != "uniform":
            each = self.config.priority.updates_per_draw
        if updates == usual:
            return [each] * (updates // each) + ([updates % each] if updates % each else [])
        each = max(min(each, usual // PIECES), 1)
        return [each] * (updates // each) + [1] * (updates % each)

    def _score(self, actor: Actor, last: bool) -> Score:
        self.rollouts.wait()  # they use the same envs
        self.state.clock.lap("collect")
        return by_collector(self.config, self.rollouts.collector)(actor, last)

    def _collected(self, episodes: Episodes) -> dict[str, float]:
        moved = np.mean(episodes.distance_moved() > self.config.replay.moved_threshold)
        return (
            collected(episodes)
            | self.relay.metrics(episodes)
            | {
                "train/moved": float(moved),
                "train/dropped": float(self.state.dropped),
            }
            | self.rollouts.metrics()
        )
