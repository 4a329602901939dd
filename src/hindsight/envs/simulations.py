"""N simulations of a Fetch or Hand task, in parts that advance on threads of their own.

MuJoCo steps without the GIL, so one part's Python (controls, observations) runs while the others are in the physics.
What happens in a simulation does not depend on the part that it is in, nor on the number of threads.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import mujoco
import numpy as np
from gymnasium.utils import seeding

from hindsight.envs.robotics import BAD, DERIVED, Physics, make_task, rows_of
from hindsight.types import Array, Bools, Ints


class Part:
    """Some simulations that one thread advances at a time."""

    def __init__(self, template: Any, num: int) -> None:
        self.template = template
        self.physics = Physics(template.model, template.data, num)
        self.task = make_task(template, self.physics)
        self._warned = self._warnings()

    def reset(self, ids: Ints, rngs: Sequence[np.random.Generator]) -> None:
        self.task.reset(ids, rngs)
        self._warned[ids] = self._warnings()[ids]

    def step(self, ids: Ints, actions: Array) -> tuple[Bools, Array, Array]:
        """One env step: where a simulation has diverged, observations and achieved goals."""
        space, rows = self.template.action_space, rows_of(ids)
        self.task.control(rows, np.clip(actions, space.low, space.high))
        self.physics.batch.step(ids, nstep=self.template.n_substeps)
        self.task.settle(ids)
        broken: Bools = self._warnings()[rows] > self._warned[rows]
        finite: Bools = np.isfinite(self.physics.qpos[rows].sum(axis=1))  # a NaN or infinity stays one in the sum
        return broken | ~finite, *self.observe(ids)

    def observe(self, ids: Ints) -> tuple[Array, Array]:
        observation, achieved = self.task.observe(rows_of(ids))
        return observation, achieved.copy()

    def export_state(self) -> dict[str, Array]:
        physics = self.physics
        derived = {name: getattr(physics, name).copy() for name in DERIVED}
        return {"state": physics.state.copy(), "warning": physics.warning.copy(), **derived}

    def restore_state(self, state: dict[str, Array]) -> None:
        physics = self.physics
        physics.state[:] = state["state"]
        physics.batch.forward()  # brings the views up to date; but warm start and warnings are then a little ahead
        physics.state[:] = state["state"]
        for name in DERIVED:
            getattr(physics, name)[:] = state[name]
        physics.warning[:] = state["warning"]
        self._warned = self._warnings().copy()

    def _warnings(self) -> Array:
        """How often MuJoCo has found each simulation broken, and reset it."""
        warning = self.physics.warning
        counts: Array = warning[:, BAD[0], 1] + warning[:, BAD[1], 1] + warning[:, BAD[2], 1]
        return counts


class Simulations:
    """N simulations with their generators, goals and step counts. `ids` are sorted numbers of some of them."""

    def __init__(self, template: Any, num: int, threads: int = 1) -> None:
        self.template = template
        self.threads = max(1, min(threads, num))
        """How many advance at the same time; may be lowered and raised again between calls."""
        self._starts = np.arange(self.threads) * num // self.threads
        stops = np.append(self._starts[1:], num)
        self.parts = [Part(template, int(b - a)) for a, b in zip(self._starts, stops, strict=True)]
        self.goal = np.zeros((num, *template.observation_space["desired_goal"].shape))
        self.rngs: list[np.random.Generator] = [seeding.np_random()[0] for _ in range(num)]
        self.steps = np.zeros(num, np.int64)
        self._pool = ThreadPoolExecutor(len(self.parts))

    def reset(self, ids: Ints, seeds: Sequence[int | None]) -> None:
        """Start an episode in each simulation; a seed of None goes on with the simulation's generator."""
        for i, seed in zip(ids, seeds, strict=True):
            if seed is not None:
                self.rngs[i] = seeding.np_random(int(seed))[0]
        self._each(ids, lambda part, local, where: part.reset(local, [self.rngs[i] for i in ids[where]]))
        for i in ids:
            self.template.np_random = self.rngs[i]
            part, local = self._at(int(i))
            self.template.data.qpos[:] = part.physics.qpos[local]
            self.goal[i] = self.template._sample_goal()
        self.steps[ids] = 0

    def step(self, ids: Ints, actions: Array) -> tuple[Bools, dict[str, Array]]:
        """One env step in each of the simulations: where one has diverged, and what is observed."""
        results = self._each(ids, lambda part, local, where: part.step(local, actions[where]))
        diverged, observation, achieved = (np.concatenate(column) for column in zip(*results, strict=True))
        self.steps[ids] += 1
        return diverged, self._shown(ids, observation, achieved)

    def observe(self, ids: Ints) -> dict[str, Array]:
        results = self._each(ids, lambda part, local, where: part.observe(local))
        return self._shown(ids, *(np.concatenate(column) for column in zip(*results, strict=True)))

    def _shown(self, ids: Ints, observation: Array, achieved: Array) -> dict[str, Array]:
        return {"observation": observation, "achieved_goal": achieved, "desired_goal": self.goal[ids]}

    def _each(self, ids: Ints, work: Callable[[Part, Ints, slice], Any]) -> list[Any]:
        """What `work(part, numbers in the part, their place in ids)` returns for each part that has some of `ids`."""
        bounds = np.append(np.searchsorted(ids, self._starts), len(ids))
        jobs = [
            (part, ids[a:b] - start, slice(a, b))
            for part, start, a, b in zip(self.parts, self._starts, bounds[:-1], bounds[1:], strict=True)
            if b > a
        ]
        if self.threads == 1 or len(jobs) == 1:
            return [work(*job) for job in jobs]
        others = [self._pool.submit(work, *job) for job in jobs[1:]]
        return [work(*jobs[0]), *(other.result() for other in others)]

    def _at(self, i: int) -> tuple[Part, int]:
        part = int(np.searchsorted(self._starts, i, side="right")) - 1
        return self.parts[part], i - int(self._starts[part])

    def export_state(self) -> dict[str, Any]:
        """Everything the future depends on: physics, what the next control reads of it, generators, goals, counts."""
        states = [part.export_state() for part in self.parts]
        return {
            **{name: np.concatenate([state[name] for state in states]) for name in states[0]},
            "goal": self.goal.copy(),
            "steps": self.steps.copy(),
            "generators": [rng.bit_generator.state for rng in self.rngs],
        }

    def restore_state(self, state: dict[str, Any]) -> None:
        stops = [*self._starts[1:].tolist(), len(self.steps)]
        for part, a, b in zip(self.parts, self._starts.tolist(), stops, strict=True):
            part.restore_state({name: state[name][a:b] for name in ("state", "warning", *DERIVED)})
        self.goal[:], self.steps[:] = state["goal"], state["steps"]
        for rng, saved in zip(self.rngs, state["generators"], strict=True):
            rng.bit_generator.state = saved

    def render(self, i: int) -> Any:
        """A picture of one simulation."""
        template = self.template
        part, local = self._at(i)
        kind = mujoco.mjtState.mjSTATE_INTEGRATION
        mujoco.mj_setState(template.model, template.data, part.physics.state[local], kind)
        template.goal = self.goal[i].copy()
        mujoco.mj_forward(template.model, template.data)
        return template.render()

    def close(self) -> None:
        self._pool.shutdown()
        self.template.close()
