"""Collectors that play on while the learner learns: Ape-X (Horgan et al., 2018), with hindsight.

Each plays with the newest parameters that there were when it was asked, chooses the goals of its
episodes if they are chosen when stored, and computes the TD errors of its new pairs.

Episodes have numbers, and cycle c learns from those of cycle c, as in lockstep: whoever plays
them, and however late. So every episode is learnt from once; what is under way when a checkpoint
is made is played again by whoever resumes it. Collectors may be some cycles ahead, not more, and
every cycle makes the same updates: the ratio of updates to steps is kept.
"""

from __future__ import annotations

from typing import Any

from hindsight.agents.agent import OffPolicyAgent
from hindsight.config import OffPolicyConfig
from hindsight.distributed.actor import Answer, Published
from hindsight.distributed.collectors import Collectors, Request
from hindsight.envs.contract import GoalEnvSpec
from hindsight.episodes import Episodes
from hindsight.networks import to_numpy
from hindsight.replay.batch import NewPairs
from hindsight.replay.replay import HindsightReplay
from hindsight.saving.tree import State
from hindsight.training.initial_priorities import InitialPriorities
from hindsight.training.rollouts import Rollout, Rollouts

WAITING = 2
"""Requests that a collector may have: the one that it plays, and the next."""
AHEAD = 1
"""Cycles, or rounds of all envs if those are longer, that collectors may be ahead."""


class AsynchronousRollouts(Rollouts):
    """The episodes of each cycle, played ahead by collectors that never wait for each other."""

    def __init__(
        self,
        config: OffPolicyConfig,
        spec: GoalEnvSpec,
        collectors: Collectors,
        agent: OffPolicyAgent,
        replay: HindsightReplay,
        priorities: InitialPriorities,
    ) -> None:
        super().__init__(config, spec, agent, collectors)
        self.collectors = collectors
        self.replay = replay
        self.priorities = priorities
        self.stages = len(spec.relay_goals) + 1 if config.relay else 1
        self.staleness = 0.0
        self._published: Any = None
        self._asked: dict[int, Request] = {}  # by the number of the first episode
        self._again: list[Request] = []  # of collectors that died
        self._arrived: dict[int, Answer] = {}
        self._next: int | None = None  # the first episode that nobody has been asked for

    def take(self, cycle: int, learner: Any, progress: float) -> Rollout:
        """The episodes of a cycle, once all have arrived; meanwhile the next are played."""
        ahead, self._ahead = self._ahead, None
        count = self.config.episodes_per_cycle
        start, end = (cycle - 1) * count, cycle * count
        if self._next is None:
            self._next = start if ahead is None else end
        self._publish(cycle, learner, progress)
        self._ask(end)
        if ahead is not None:
            return Rollout(ahead.result())
        while self._next < end or any(first < end for first in self._waited_for()):
            self._receive()
            self._ask(end)
        return self._rollout(cycle, end)

    def begin(self, cycle: int, learner: Any, progress: float) -> None:
        """They have begun."""

    def _waited_for(self) -> list[int]:
        return [*self._asked, *(request.arguments[0] for request in self._again)]

    def _publish(self, version: int, learner: Any, progress: float) -> None:
        """The newest parameters, into the object store: each node fetches them once."""
        needed = None
        if self.priorities.kind != "largest":
            unused = {name: None for name in learner._fields if name.endswith("optimizer")}
            needed = to_numpy(learner._replace(**unused))
        published = Published(
            version,
            self.agent.actor(learner),
            progress,
            needed,
            to_numpy(self.priorities.state),
            self.replay.seen,
        )
        self._published = self.collectors.ray.put(published)

    def _ask(self, end: int) -> None:
        """Ask whoever has the fewest requests, first for what has to be played again."""
        assert self._next is not None
        count, envs = self.config.episodes_per_cycle, self.config.num_envs
        limit = end + AHEAD * max(count, envs)
        load = [0] * len(self.collectors)
        for request in self._asked.values():
            load[request.collector] += 1
        while min(load) < WAITING and (self._again or self._next < limit):
            i = load.index(min(load))
            if self._again:
                self._again.sort(key=lambda request: request.arguments[0])
                first, number, _ = self._again.pop(0).arguments
            else:
                # Whole episodes of one cycle, as many as the collector has envs.
                first, left = self._next, count - self._next % count
                number = min(self.collectors.rows[i], left)
                self._next += number
            arguments = (first, number, self._published)
            self._asked[first] = self.collectors.ask(i, "explore", arguments, number)
            load[i] += 1

    def _receive(self) -> None:
        """Take in the next answer, or the news that a collector has died."""
        refs = {request.ref: first for first, request in self._asked.items()}
        ready, _ = self.collectors.ray.wait(list(refs), num_returns=1)
        for ref in ready:
            request = self._asked.pop(refs[ref])
            answer = self.collectors.attempt(request)
            if answer is None:
                self._again.append(request)
            else:
                self._arrived[refs[ref]] = answer

    def _rollout(self, cycle: int, end: int) -> Rollout:
        firsts = sorted(first for first in self._arrived if first < end)
        answers = [self._arrived.pop(first) for first in firsts]
        episodes = Episodes.concatenate([answer.episodes for answer in answers])
        sizes = [len(answer.episodes) for answer in answers]
        stale = [(cycle - answer.version) * len(answer.episodes) for answer in answers]
        self.staleness = sum(stale) / max(sum(sizes), 1)
        found = [answer.pairs for answer in answers if answer.pairs is not None]
        staged = [size * self.stages for size in sizes]
        return Rollout(episodes, NewPairs.concatenate(found, staged) if found else None)

    def wait(self) -> None:
        """Nothing to wait for: each collector evaluates after what it plays."""

    def export_state(self) -> State:
        """Nothing: what has not been learnt from is played again."""
        return {}

    def metrics(self) -> dict[str, float]:
        return super().metrics() | {"collectors/staleness": self.staleness}
