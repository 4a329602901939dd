"""A collector in a process of its own, on some machine of the cluster. It holds some of the envs
and plays what it is asked for.

It is never told to remember anything: a new one in its place, given the same envs, plays the same
episodes.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import cloudpickle
import numpy as np
from threadpoolctl import threadpool_limits

from hindsight.acting import Actor
from hindsight.collect import Act, Collector, episode_seeds
from hindsight.envs.batch import make_batch
from hindsight.envs.contract import GoalEnvSpec, inspect
from hindsight.envs.make import EnvFactory
from hindsight.envs.relay_goals import RelayGoal
from hindsight.episodes import Episodes
from hindsight.saving.tree import State
from hindsight.training.evaluate import TRAINING
from hindsight.training.exploration import led
from hindsight.types import Array, Floats

if TYPE_CHECKING:
    from hindsight.agents.agent import OffPolicyAgent
    from hindsight.config import OffPolicyConfig
    from hindsight.replay.batch import NewPairs
    from hindsight.replay.replay import Seen
    from hindsight.training.initial_priorities import InitialPriorities
    from hindsight.training.relay import Relay

EXPLORATION = 3
"""Sets the random numbers of asynchronous exploration apart from others of the same seed."""


class Work(NamedTuple):
    """What a collector is for."""

    config: bytes  # of the training; unpacked, it needs JAX
    env_id: str
    max_episode_steps: int | None
    make_env: EnvFactory
    relay_goals: tuple[RelayGoal, ...]
    how: tuple[str, int, float, int]  # simulator, workers, timeout and failures of the envs

    @staticmethod
    def of(config: OffPolicyConfig, spec: GoalEnvSpec, make_env: EnvFactory) -> Work:
        how = (config.simulator, config.workers or 1, config.env_timeout, config.env_failures)
        packed, limit = cloudpickle.dumps(config), config.max_episode_steps
        return Work(packed, spec.id, limit, make_env, spec.relay_goals, how)

    def packed(self) -> bytes:
        """With the places where Python looks for modules, which must be known before the rest is
        unpacked."""
        packed: bytes = cloudpickle.dumps((sys.path, cloudpickle.dumps(self)))
        return packed

    @staticmethod
    def unpacked(packed: bytes) -> Work:
        path, rest = cloudpickle.loads(packed)
        sys.path += [place for place in path if place not in sys.path]
        work: Work = cloudpickle.loads(rest)
        return work


class Part(NamedTuple):
    """Some rows of a round, to be played as if all rows were here."""

    seeds: Sequence[int]  # of the rows
    first: int
    of: int  # rows of the whole round
    before: tuple[tuple[int, int], ...] = ()  # rounds played with this `act` so far: rows, steps


class Published(NamedTuple):
    """A version of the parameters, in the object store."""

    version: int  # the cycle from which on they are the newest
    actor: Actor
    progress: float
    learner: Any  # what TD errors are computed with; None if nobody asks for them
    predictor: Any
    seen: Seen


class Answer(NamedTuple):
    """Whole episodes, and who played which request with which parameters."""

    number: int  # of the request
    collector: str
    version: int
    episodes: Episodes
    steps: int  # that the policy acted
    envs: State  # what later episodes depend on
    pairs: NewPairs | None = None


class Learning(NamedTuple):
    """What explores and computes TD errors."""

    config: OffPolicyConfig
    relay: Relay
    agent: OffPolicyAgent
    priorities: InitialPriorities


class CollectorActor:
    """The Ray actor."""

    def __init__(self, work: bytes, name: str, rows: int, envs: State | None) -> None:
        self.name = name
        self._given = work, rows, envs
        self._made: Collector | None = None
        self._packed_config = b""
        self._learning: Learning | None = None

    def ready(self) -> State:
        """Make the envs, and say what later episodes depend on."""
        return self._collector().envs.export_state()

    def restore(self, envs: State) -> None:
        self._collector().envs.restore_state(envs)

    def play(self, number: int, version: int, act: Act, part: Part) -> Answer:
        """Rows of a round, bit for bit as they are in a round of all rows."""
        collector = self._collector()
        for rows, steps in part.before:
            _pass(act, rows, steps, collector.spec)
        shared = SharedRound(act, part.first, part.of)
        episodes = collector.play(shared, part.seeds)
        state = collector.envs.export_state()
        return Answer(number, self.name, version, episodes, shared.steps, state)

    def explore(self, number: int, first: int, count: int, published: Published) -> Answer:
        """The episodes from number `first` on, with their goals and TD errors."""
        collector = self._collector()
        config, relay, agent, _ = self._learner()
        rng = np.random.default_rng((config.seed, first, EXPLORATION))
        act = led(agent, config, relay).explorer(published.actor, published.progress, rng)
        seeds = episode_seeds(config.seed, TRAINING, first, count)
        episodes = collector.collect(act, seeds)
        pairs = self._new_pairs(relay.of_every_stage(episodes), published, rng)
        state = collector.envs.export_state()
        return Answer(number, self.name, published.version, episodes, 0, state, pairs)

    def _new_pairs(
        self, episodes: Episodes, published: Published, rng: np.random.Generator
    ) -> NewPairs | None:
        """As the learner's replay would find them, in a replay of these episodes only; None if it
        has to: there are none, or they may pursue goals of other episodes."""
        from hindsight.replay.replay import make_replay

        config, relay, agent, priorities = self._learner()
        room = replace(config.replay, buffer_size=len(episodes) * relay.spec.horizon)
        replay = make_replay(relay.spec, room, config.priority)
        if replay.pairs is None or replay.pairs.borrowed:
            return None
        replay.seen = published.seen
        replay.scale_rewards(agent.reward_scale)
        pairs = replay.store(episodes, published.progress, rng)
        priorities.state = published.predictor
        td = priorities.td_errors(published.learner, replay, pairs)
        return replay.new_pairs(pairs, td)

    def _collector(self) -> Collector:
        """Made when it is first used, so that what goes wrong then is an error of a request."""
        if self._made is None:
            packed, rows, envs = self._given
            os.environ.setdefault("PJRT_NPROC", "1")  # a core each
            os.environ.setdefault("JAX_PLATFORMS", "cpu")
            threadpool_limits(1, user_api="blas")  # as in a training in one process
            work = Work.unpacked(packed)
            spec = inspect(work.make_env(), work.env_id, work.max_episode_steps)
            spec = replace(spec, relay_goals=work.relay_goals)
            batch = make_batch(work.make_env, spec, rows, *work.how)
            if envs is not None:
                batch.restore_state(envs)
            self._packed_config = work.config
            self._made = Collector(batch, spec)
        return self._made

    def _learner(self) -> Learning:
        """Only now JAX is imported."""
        if self._learning is None:
            from hindsight.agents.registry import make_off_policy_agent
            from hindsight.training.initial_priorities import InitialPriorities
            from hindsight.training.relay import Relay

            config = cloudpickle.loads(self._packed_config)
            relay = Relay(self._collector().spec, config)
            agent = make_off_policy_agent(config.agent, relay.spec)
            self._learning = Learning(config, relay, agent, InitialPriorities(config, agent))
        return self._learning


class SharedRound:
    """Acts for some rows of a round as if all were here: noise is drawn for all, and matrix
    products have the same shapes, so that every row gets the same bits."""

    def __init__(self, act: Act, first: int, of: int) -> None:
        self.act = act
        self.first = first
        self.of = of
        self.steps = 0

    def __call__(self, observation: Floats, goal: Floats) -> Array | tuple[Array, Floats]:
        self.steps += 1
        rows = slice(self.first, self.first + len(observation))
        chosen = self.act(self._all(observation, rows), self._all(goal, rows))
        if isinstance(chosen, tuple):
            return chosen[0][rows], chosen[1][rows]
        return chosen[rows]

    def _all(self, features: Floats, rows: slice) -> Floats:
        all_rows = np.zeros((self.of, *features.shape[1:]), features.dtype)
        all_rows[rows] = features
        return all_rows


def _pass(act: Act, rows: int, steps: int, spec: GoalEnvSpec) -> None:
    """Let `act` draw the noise of a round that was played elsewhere."""
    observation, goal = (np.zeros((rows, f.dim), f.dtype) for f in (spec.observation, spec.goal))
    for _ in range(steps):
        act(observation, goal)
