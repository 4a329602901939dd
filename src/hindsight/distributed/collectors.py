"""Collectors that are Ray actors, as one: `collect` plays what a collector in this process would,
bit for bit, each of them some rows of every round.

One that dies, or whose node dies, is replaced. What it had been asked for and had not answered is
asked again: every request has a number, and is answered once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hindsight.acting import Actor
from hindsight.collect import ATTEMPTS, Act, all_failed
from hindsight.config import OffPolicyConfig
from hindsight.distributed.actor import Answer, CollectorActor, Part, Work
from hindsight.envs.contract import GoalEnvSpec
from hindsight.envs.make import EnvFactory
from hindsight.episodes import Episodes
from hindsight.errors import HindsightError, say
from hindsight.saving.tree import State

START_SECONDS = 60.0
"""After which a collector that has not started is mentioned: the cluster may have no CPU free."""


@dataclass
class Request:
    """Something that a collector has been asked for, and how to ask again."""

    number: int
    collector: int
    life: int
    """Which of the actors that have been this collector was asked."""
    method: str
    arguments: tuple[Any, ...]
    episodes: int
    ref: Any


class Collectors:
    """N collectors with `num_envs` envs between them. `ray` is the connected module."""

    def __init__(
        self,
        ray: Any,
        config: OffPolicyConfig,
        spec: GoalEnvSpec,
        make_env: EnvFactory,
        count: int,
    ) -> None:
        self.ray = ray
        self.config = config
        self.spec = spec
        self.rows = [len(part) for part in np.array_split(np.arange(config.num_envs), count)]
        self.first = [0, *np.cumsum(self.rows)[:-1].tolist()]
        self.replaced = self.replayed = self.received = 0
        self._work = ray.put(Work.of(config, spec, make_env).packed())
        self._kind = ray.remote(CollectorActor)
        self._lives = [0] * count
        self._failures = [0] * count  # since its last answer
        self._numbers = self._versions = 0
        self._states: list[State | None] = [None] * count
        self._actors = [self._start(i, cpus=1) for i in range(count)]
        try:
            self._states = self._until_ready()
        except BaseException:
            self.close()
            raise

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def envs(self) -> Collectors:
        """Their envs, as a checkpoint keeps them."""
        return self

    # -------------------------------------------------------------------------------- in lockstep

    def collect(self, act: Act, seeds: Sequence[int]) -> Episodes:
        """One episode per seed, as `Collector.collect` plays them."""
        shared, size = self.ray.put(act), self.config.num_envs
        self._versions += 1
        rounds = [seeds[i : i + size] for i in range(0, len(seeds), size)]
        before: list[tuple[int, int]] = []
        for _ in range(ATTEMPTS):
            parts: list[Episodes] = []
            if isinstance(act, Actor):  # it draws nothing: no round depends on another
                asked = [self._ask_round(shared, round_, ()) for round_ in rounds]
                parts = [self.answer(r).episodes for requests in asked for r in requests]
            else:
                for round_ in rounds:
                    requests = self._ask_round(shared, round_, tuple(before))
                    answers = [self.answer(request) for request in requests]
                    before.append((len(round_), max(answer.steps for answer in answers)))
                    parts += [answer.episodes for answer in answers]
            episodes = Episodes.concatenate(parts)
            if len(episodes):
                return episodes
        raise all_failed(self.spec, seeds)

    def _ask_round(
        self, act: Any, seeds: Sequence[int], before: tuple[tuple[int, int], ...]
    ) -> list[Request]:
        """A round, divided among the collectors that hold its rows."""
        requests = []
        for i, (first, rows) in enumerate(zip(self.first, self.rows, strict=True)):
            mine = seeds[first : first + rows]
            if len(mine):
                part = Part(mine, first, len(seeds), before)
                arguments = (self._versions, act, part)
                requests.append(self.ask(i, "play", arguments, len(mine)))
        return requests

    # ------------------------------------------------------------------------ requests and answers

    def ask(self, i: int, method: str, arguments: tuple[Any, ...], episodes: int) -> Request:
        """Ask collector i; it plays what it is asked for in turn."""
        self._numbers += 1
        request = Request(self._numbers, i, 0, method, arguments, episodes, None)
        self._send(request)
        return request

    def _send(self, request: Request) -> None:
        method = getattr(self._actors[request.collector], request.method)
        request.life = self._lives[request.collector]
        request.ref = method.remote(request.number, *request.arguments)

    def answer(self, request: Request) -> Answer:
        """The answer to a request, which is sent again to whoever replaces a collector that
        died."""
        while True:
            answer = self.attempt(request)
            if answer is not None:
                return answer
            self._send(request)

    def attempt(self, request: Request) -> Answer | None:
        """The answer to a request; None if its collector died, and has been replaced."""
        i = request.collector
        answer = self._got(i, request.life, request.ref)
        if answer is None:
            self.replayed += request.episodes
            return None
        assert isinstance(answer, Answer)
        assert answer.number == request.number, "an answer to another request"
        self._failures[i] = 0
        self._states[i] = answer.envs
        self.received += _bytes(answer)
        return answer

    def _got(self, i: int, life: int, ref: Any) -> Any:
        """What a call to collector i returned; None if it died, and has been replaced."""
        errors = self.ray.exceptions
        gone = (errors.RayActorError, errors.ObjectLostError, errors.WorkerCrashedError)
        try:
            return self.ray.get(ref)
        except gone as error:
            if life == self._lives[i]:
                self._replace(i, error)
            return None
        except errors.RayTaskError as error:
            if isinstance(error.cause, HindsightError):
                raise HindsightError(str(error.cause)) from None
            raise

    # ------------------------------------------------------------------------------ life and death

    def _start(self, i: int, cpus: float) -> Any:
        options = self._kind.options(
            num_cpus=cpus, max_restarts=0, max_task_retries=0, scheduling_strategy="SPREAD"
        )
        name = f"{i}.{self._lives[i]}"
        return options.remote(self._work, name, self.rows[i], self._states[i])

    def _replace(self, i: int, error: Exception) -> None:
        """A new actor in place of one that died: anywhere, at once, even if no CPU is free."""
        self.ray.kill(self._actors[i])  # in case it lives, where we cannot reach it
        self._failures[i] += 1
        self.replaced += 1
        if self._failures[i] >= self.config.env_failures:
            raise HindsightError(
                f"collector {i} died {self._failures[i]} times in a row; the last time: "
                f"{' '.join(str(error).split())[:200]}"
            )
        say(f"collector {i} died ({type(error).__name__}): another plays its episodes")
        self._lives[i] += 1
        self._actors[i] = self._start(i, cpus=0)

    def _until_ready(self) -> list[State | None]:
        states: list[State | None] = []
        for i in range(len(self)):
            state = None
            while state is None:
                ref, life = self._actors[i].ready.remote(), self._lives[i]
                if not self.ray.wait([ref], timeout=START_SECONDS)[0]:
                    say(f"collector {i} of {len(self)} has no free CPU in the cluster yet; waiting")
                state = self._got(i, life, ref)
            states.append(state)
        return states

    def close(self) -> None:
        for actor in self._actors:
            self.ray.kill(actor)

    # -------------------------------------------------------------------------------------- saving

    def export_state(self) -> State:
        """What the envs keep from one episode to the next, as envs in one process export it."""
        return joined([state or {} for state in self._states], self.first)

    def restore_state(self, state: State) -> None:
        for i, (first, rows) in enumerate(zip(self.first, self.rows, strict=True)):
            self._states[i] = part = share(state, first, rows)
            ref, life = self._actors[i].restore.remote(part), self._lives[i]
            self._got(i, life, ref)  # one that dies is given the same when it is replaced

    def metrics(self) -> dict[str, float]:
        return {
            "collectors/number": float(len(self)),
            "collectors/replaced": float(self.replaced),
            "collectors/episodes_replayed": float(self.replayed),
            "collectors/megabytes": self.received / 1e6,
        }


def joined(parts: Sequence[State], first: Sequence[int]) -> State:
    """States of parts of the envs as one: by env (`env_0`, ...), or rows of arrays and lists."""
    whole: State = {}
    for part, start in zip(parts, first, strict=True):
        for name, value in part.items():
            if name.startswith("env_"):
                whole[f"env_{start + int(name[4:])}"] = value
            elif isinstance(value, np.ndarray):
                whole[name] = np.concatenate([whole[name], value]) if name in whole else value
            else:
                whole[name] = [*whole.get(name, []), *value]
    return whole


def share(state: State, first: int, rows: int) -> State:
    """The part of a state that belongs to some of the envs."""
    part: State = {}
    for name, value in state.items():
        if not name.startswith("env_"):
            part[name] = value[first : first + rows]
        elif first <= int(name[4:]) < first + rows:
            part[f"env_{int(name[4:]) - first}"] = value
    return part


def _bytes(value: Any) -> int:
    """Of all arrays in an answer."""
    if isinstance(value, np.ndarray):
        return value.nbytes
    if isinstance(value, Episodes):
        return sum(map(_bytes, vars(value).values()))
    if isinstance(value, dict):
        return sum(map(_bytes, value.values()))
    return sum(map(_bytes, value)) if isinstance(value, tuple | list) else 0
