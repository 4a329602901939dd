"""A3C: workers play and learn at their own pace, each on its own copy of the parameters and with
its own envs. What a worker has changed, it adds to the shared parameters, and then continues from
those.

What differs between two runs of the same seed: the order in which workers hand in, hence
everything. What does not: the starts of the episodes, by batch number. With `deterministic` the
workers hand in one after the other (they still play and learn at the same time), so that the
same seed and number of workers give the same policy, resumed or not.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import jax

from hindsight.acting import Actor
from hindsight.agents.a2c import A3CConfig
from hindsight.agents.policy_gradient import State as LearnerState
from hindsight.agents.registry import make_on_policy_agent
from hindsight.collect import Collector
from hindsight.config import OnPolicyConfig
from hindsight.envs.batch import EnvBatch
from hindsight.envs.contract import GoalEnvSpec
from hindsight.errors import HindsightError
from hindsight.networks import Params
from hindsight.normalizer import Normalizer
from hindsight.saving.tree import State, between, export_pytree
from hindsight.training.clock import Clock
from hindsight.training.exploration import led
from hindsight.training.guard import check_losses
from hindsight.training.on_policy import GoalChoice
from hindsight.training.progress import Progress, Reporter, by_collector, collected
from hindsight.training.relay import Relay
from hindsight.training.rollouts import Rollouts
from hindsight.training.state import restored


class WorkerState(NamedTuple):
    """What a worker plays and learns its next batch with. A batch under way is not saved: it is
    played again."""

    learner: LearnerState
    progress: float
    number: int  # of the batch
    ends: bool  # whether it has seen that reaching a goal ends an episode

    def export_state(self) -> State:
        counts = {"progress": self.progress, "number": self.number, "ends": int(self.ends)}
        return {"learner": export_pytree(self.learner), "counts": counts}

    def restored(self, state: State) -> WorkerState:
        counts = state["counts"]
        return WorkerState(
            restored(self.learner, state["learner"]),
            float(counts["progress"]),
            between(counts["number"], "number", 1, 2**62),
            bool(between(counts["ends"], "ends", 0, 1)),
        )


@dataclass
class Snapshot:
    """Where the training stands when a worker has just handed in. Nothing in it changes when the
    workers continue."""

    learner: LearnerState
    workers: tuple[WorkerState, ...]
    normalizer: State
    clock: Clock
    cycle: int = 0
    step: int = 0
    dropped: int = 0
    """Episodes that the simulation could not end."""

    def export_state(self) -> State:
        return {
            "counts": {"cycle": self.cycle, "step": self.step, "dropped": self.dropped},
            "learner": export_pytree(self.learner),
            "workers": {str(i): worker.export_state() for i, worker in enumerate(self.workers)},
            "normalizer": self.normalizer,
            "clock": self.clock.export_state(),
        }

    def restore_state(self, state: State) -> None:
        counts = state["counts"]
        self.cycle, self.step, self.dropped = (
            between(counts[name], name, 0, 2**62) for name in ("cycle", "step", "dropped")
        )
        self.learner = restored(self.learner, state["learner"])
        if set(state["workers"]) != {str(i) for i in range(len(self.workers))}:
            raise HindsightError(f"it has {len(state['workers'])} workers, not {len(self.workers)}")
        self.workers = tuple(
            w.restored(state["workers"][str(i)]) for i, w in enumerate(self.workers)
        )
        self.normalizer = state["normalizer"]
        self.clock.restore_state(state["clock"])


class HandedIn(NamedTuple):
    """What a worker reports after a batch: the shared policy as it then is."""

    metrics: dict[str, float]
    actor: Actor
    state: Snapshot


@dataclass
class Shared:
    """What the workers share. `turns` is held while anything of it is read or written."""

    learner: LearnerState
    normalizer: Normalizer
    workers: list[WorkerState]
    clock: Clock
    number: int = 0
    step: int = 0
    dropped: int = 0
    stop: bool = False
    turns: threading.Condition = field(default_factory=threading.Condition)
    results: queue.Queue[HandedIn | BaseException] = field(default_factory=queue.Queue)

    def snapshot(self) -> Snapshot:
        workers, normalizer = tuple(self.workers), self.normalizer.export_state()
        counts = self.number, self.step, self.dropped
        return Snapshot(self.learner, workers, normalizer, self.clock, *counts)


class Asynchronous:
    """Workers, one per batch of envs, and what they share."""

    def __init__(
        self,
        config: OnPolicyConfig,
        spec: GoalEnvSpec,
        envs: Sequence[EnvBatch],
        eval_envs: EnvBatch,
    ) -> None:
        self.config = config
        self.spec = spec
        self.relay = Relay(spec, config)
        self.agent = make_on_policy_agent(config.agent, self.relay.spec)
        self.update: Any = jax.jit(self.agent.update)
        self.envs = envs
        self.reporter = Reporter(config, spec, by_collector(config, Collector(eval_envs, spec)))
        learner, normalizer = (
            self.agent.init(jax.random.key(config.seed)),
            Normalizer.of(self.relay.spec, config.agent),
        )
        everyone = tuple(WorkerState(learner, 0.0, w + 1, False) for w in range(len(envs)))
        self.state = Snapshot(learner, everyone, normalizer.export_state(), Clock())

    def train(self) -> Generator[Progress]:
        """Train on from the state as it is, yielding after every batch that is handed in."""
        state, normalizer = self.state, Normalizer.of(self.relay.spec, self.config.agent)
        normalizer.restore_state(state.normalizer)
        counts = state.cycle, state.step, state.dropped
        shared = Shared(state.learner, normalizer, list(state.workers), state.clock, *counts)

        def guarded(worker: int, envs: EnvBatch) -> None:
            try:
                self._work(shared, worker, envs)
            except BaseException as error:
                shared.results.put(error)

        threads = [
            threading.Thread(target=guarded, args=(i, e), daemon=True)
            for i, e in enumerate(self.envs)
        ]
        for thread in threads:
            thread.start()
        try:
            done = False
            while not done:
                found = shared.results.get()
                if isinstance(found, BaseException):
                    raise found
                check_losses(found.metrics, found.state.step)
                state.clock.lap("train")
                progress = self.reporter.report(
                    found.state, found.actor, found.metrics, state.clock
                )
                done = progress.done
                yield progress
        finally:
            with shared.turns:
                shared.stop = True
                shared.turns.notify_all()
            for thread in threads:
                thread.join()

    def _work(self, shared: Shared, worker: int, envs: EnvBatch) -> None:
        """The life of one worker: copy, play, learn, hand in, until the steps are used up."""
        config, settings, agent = self.config, self.config.agent, self.agent
        assert isinstance(settings, A3CConfig)
        explores, collector = led(agent, config, self.relay), Collector(envs, self.spec)
        rollouts = Rollouts(config, self.spec, explores, collector)
        relabel = GoalChoice(config, self.relay)
        local, progress, number, relabel.ends = shared.workers[worker]
        while True:
            episodes = rollouts.play(number, agent.actor(local), progress)
            batch, _ = relabel(episodes, number)
            scale = local.scale
            if (
                settings.normalize and number <= settings.workers
            ):  # its first batch: nobody has told it a scale yet
                own = Normalizer.of(self.relay.spec, settings)
                own.add(self.relay.of_every_stage(episodes))
                scale = own.scale()
            local = agent.scheduled(local, scale, progress)
            key = jax.random.fold_in(jax.random.key(config.seed), number)
            learned, metrics = self.update(local, batch, key)
            metrics = {
                f"learn/{name}": float(value) for name, value in metrics.items()
            }  # waits until it is computed
            with shared.turns:
                while settings.deterministic and not shared.stop and shared.number != number - 1:
                    shared.turns.wait()
                if shared.stop or shared.step >= config.steps:
                    return
                policy = _moved(
                    shared.learner.policy, local.policy, learned.policy, policy_share(settings)
                )
                critic = _moved(
                    shared.learner.critic, local.critic, learned.critic, 1.0 / settings.workers
                )
                if settings.normalize:
                    shared.normalizer.add(self.relay.of_every_stage(episodes))
                scale = shared.normalizer.scale()
                shared.learner = shared.learner._replace(policy=policy, critic=critic, scale=scale)
                shared.number += 1
                shared.step += episodes.transitions
                shared.dropped += config.episodes_per_cycle - len(episodes)
                # Each keeps its own moments of Adam.
                local = learned._replace(policy=policy, critic=critic, scale=scale)
                progress = shared.step / config.steps
                number += settings.workers  # worker w has the batches w + 1, w + 1 + workers, ...
                shared.workers[worker] = WorkerState(local, progress, number, relabel.ends)
                actor = self.relay.last_stage(agent.actor(shared.learner))
                metrics |= collected(episodes) | self.relay.metrics(episodes)
                metrics["train/dropped"] = float(shared.dropped)
                shared.results.put(HandedIn(metrics, actor, shared.snapshot()))
                shared.turns.notify_all()


def policy_share(settings: A3CConfig) -> float:
    """The share of a worker's change of the policy that counts. Single steps add up. Where a batch
    is worth many, each worker has gone all the way that its batch says, and so has every critic:
    their sum would overshoot, their mean does not."""
    return 1.0 / settings.workers if settings.by_action_values else 1.0


def _moved(shared: Params, before: Params, after: Params, share: float) -> Params:
    """The shared parameters, changed by this share of what a worker has changed on its copy."""
    return jax.tree.map(lambda all_, mine, new: all_ + share * (new - mine), shared, before, after)
