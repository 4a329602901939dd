"""A3C: workers play and learn at their own pace, each on its own copy of the parameters and with its own envs. What a
worker has changed, it adds to the shared parameters, and then goes on from those.

What differs between two runs of the same seed: the order in which workers hand in, hence everything. What does not: the
starts of the episodes, by batch number. With `deterministic` the workers hand in one after the other (they still play
and learn at the same time), so that the same seed and number of workers give the same bytes, resumed or not.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax
from threadpoolctl import threadpool_limits

from hindsight.collect import Collector
from hindsight.envs.batch import EnvBatch
from hindsight.envs.contract import GoalEnvSpec
from hindsight.gradients.config import A3CConfig, OnPolicyConfig
from hindsight.gradients.learner import Learner, make_learner
from hindsight.gradients.state import State
from hindsight.networks import Params, to_numpy
from hindsight.normalizer import Normalizer, Scale
from hindsight.saving.checkpoints import Checkpoint, restore
from hindsight.training.asynchronous_state import AsynchronousState, WorkerState, starting
from hindsight.training.clock import Clock
from hindsight.training.evaluate import EVALUATION, evaluate
from hindsight.training.guard import check_losses
from hindsight.training.off_policy import Progress
from hindsight.training.on_policy import Player, collected, make_normalizer
from hindsight.training.policy import Policy


@dataclass
class HandedIn:
    """What a worker reports after a batch: the shared policy as it then is."""

    metrics: dict[str, float]
    policy: Params
    scale: Scale
    now: AsynchronousState


@dataclass
class Shared:
    """What the workers share. `turns` is held while anything of it is read or written."""

    state: State
    normalizer: Normalizer
    workers: list[WorkerState]
    clock: Clock
    turns: threading.Condition = field(default_factory=threading.Condition)
    results: queue.Queue[HandedIn | BaseException] = field(default_factory=queue.Queue)
    number: int = 0
    step: int = 0
    stop: bool = False

    def moment(self) -> AsynchronousState:
        """Where the training stands."""
        normalizer = self.normalizer.export_state()
        return AsynchronousState(self.state, tuple(self.workers), normalizer, self.clock, self.number, self.step)


def work(config: OnPolicyConfig, learner: Learner, update: Any, player: Player, shared: Shared, worker: int) -> None:
    """The life of one worker: copy, play, learn, hand in, until the steps are used up."""
    agent = config.agent
    assert isinstance(agent, A3CConfig)
    local, scale, progress, number, player.ends = shared.workers[worker]
    while True:
        episodes = player.play(to_numpy(local.policy), scale, number, progress)
        batch, _ = player.relabel(episodes, number)
        if agent.normalize and number <= agent.workers:  # its first batch: nobody has told it a scale yet
            own = make_normalizer(config, player.spec)
            own.add(episodes)
            scale = own.scale()
        key = jax.random.fold_in(jax.random.key(config.seed), number)
        learned, metrics = update(local, scale, batch, learner.rates(progress), key)
        metrics = {f"learn/{name}": float(value) for name, value in metrics.items()}  # waits until it is computed
        with shared.turns:
            while agent.deterministic and not shared.stop and shared.number != number - 1:
                shared.turns.wait()
            if shared.stop or shared.step >= config.steps:
                return
            # Small steps of policies add up. Critics are fitted to the same returns: added up, they would overshoot.
            policy = _moved(shared.state.policy, local.policy, learned.policy, 1.0)
            critic = _moved(shared.state.critic, local.critic, learned.critic, 1.0 / agent.workers)
            shared.state = shared.state._replace(policy=policy, critic=critic)
            if agent.normalize:
                shared.normalizer.add(episodes)
            shared.number += 1
            shared.step += episodes.transitions
            local = learned._replace(policy=policy, critic=critic)  # each keeps its own moments of Adam
            scale, progress = shared.normalizer.scale(), shared.step / config.steps
            number += agent.workers  # worker w has the batches w + 1, w + 1 + workers, ...
            shared.workers[worker] = WorkerState(local, scale, progress, number, player.ends)
            found = HandedIn(metrics | collected(episodes), to_numpy(policy), scale, shared.moment())
            shared.results.put(found)
            shared.turns.notify_all()


def _moved(shared: Params, before: Params, after: Params, share: float) -> Params:
    """The shared parameters, changed by this share of what a worker has changed on its copy."""
    return jax.tree.map(lambda all_, mine, new: all_ + share * (new - mine), shared, before, after)


def train_asynchronously(
    config: OnPolicyConfig,
    spec: GoalEnvSpec,
    envs: Sequence[EnvBatch],
    eval_envs: EnvBatch,
    resumed: Checkpoint | None = None,
) -> Generator[Progress]:
    """Train, from a checkpoint if one is given, with one worker thread per batch of envs, yielding after every batch
    that is handed in."""
    learner = make_learner(config.agent, spec)
    update = jax.jit(learner.update)
    normalizer = make_normalizer(config, spec)
    now = starting(learner.init(jax.random.key(config.seed)), normalizer, len(envs))
    if resumed is not None:
        restore(now, resumed)
        normalizer.restore_state(now.normalizer)
    clock = now.clock
    shared = Shared(now.learner, normalizer, list(now.workers), clock, number=now.cycle, step=now.step)

    def guarded(worker: int, player: Player) -> None:
        try:
            work(config, learner, update, player, shared, worker)
        except BaseException as error:
            shared.results.put(error)

    players = [Player(config, spec, learner, one) for one in envs]
    threads = [threading.Thread(target=guarded, args=(i, p), daemon=True) for i, p in enumerate(players)]
    with threadpool_limits(1, user_api="blas"):
        for thread in threads:
            thread.start()
        try:
            done = False
            while not done:
                found = shared.results.get()
                if isinstance(found, BaseException):
                    raise found
                now = found.now
                check_losses(found.metrics, now.step)
                done = now.step >= config.steps
                policy = Policy.of(spec, learner, found.policy, found.scale)
                evaluation, metrics = None, found.metrics
                clock.lap("train")
                if done or now.cycle % config.eval_every == 0:
                    collector = Collector(eval_envs, spec)
                    evaluation = evaluate(collector, policy.act, config.eval_episodes, config.seed, EVALUATION)
                    rates = {"eval/success_rate": evaluation.success_rate, "eval/mean_return": evaluation.mean_return}
                    metrics = metrics | rates
                    clock.lap("evaluate")
                metrics = metrics | clock.metrics()
                yield Progress(now.cycle, now.step, config.steps, metrics, policy, evaluation, done, now)
        finally:
            with shared.turns:
                shared.stop = True
                shared.turns.notify_all()
            for thread in threads:
                thread.join()
