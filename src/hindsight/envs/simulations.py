"""N simulations of a Fetch or Hand task, stepped together.

MuJoCo's threads advance them without the GIL, each taking the next simulation that waits; what
happens in one does not depend on the thread. Controls and observations are made in between, for
all simulations at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import mujoco
import numpy as np
from gymnasium.utils import seeding

from hindsight.envs.robotics import BAD, DERIVED, Physics, make_task, rows_of
from hindsight.types import Array, Bools, Ints


class Simulations:
    """N simulations with their generators, goals and step counts. `ids` are sorted numbers of
    some of them."""

    def __init__(self, template: Any, num: int, threads: int = 1) -> None:
        self.template = template
        self.physics = Physics(template.model, template.data, num, max(1, min(threads, num)))
        self.task = make_task(template, self.physics)
        self.goal = np.zeros((num, *template.observation_space["desired_goal"].shape))
        self.rngs: list[np.random.Generator] = [seeding.np_random()[0] for _ in range(num)]
        self.steps = np.zeros(num, np.int64)
        self._warned = self._warnings()

    def reset(self, ids: Ints, seeds: Sequence[int | None]) -> None:
        """Start an episode in each simulation; a seed of None goes on with the simulation's
        generator."""
        for i, seed in zip(ids, seeds, strict=True):
            if seed is not None:
                self.rngs[i] = seeding.np_random(int(seed))[0]
        self.task.reset(ids, [self.rngs[i] for i in ids])
        self._warned[ids] = self._warnings()[ids]
        for i in ids:
            self.template.np_random = self.rngs[i]
            self.template.data.qpos[:] = self.physics.qpos[i]
            self.goal[i] = self.template._sample_goal()
        self.steps[ids] = 0

    def step(self, ids: Ints, actions: Array) -> tuple[Bools, dict[str, Array]]:
        """One env step in each of the simulations: where one has diverged, and what is observed."""
        space, rows = self.template.action_space, rows_of(ids)
        self.task.control(rows, np.clip(actions, space.low, space.high))
        self.physics.batch.step(ids, nstep=self.template.n_substeps)
        self.task.settle(ids)
        self.steps[ids] += 1
        broken: Bools = self._warnings()[rows] > self._warned[rows]
        finite: Bools = np.isfinite(
            self.physics.qpos[rows].sum(axis=1)
        )  # a NaN or infinity stays one in the sum
        return broken | ~finite, self.observe(ids)

    def observe(self, ids: Ints) -> dict[str, Array]:
        observation, achieved = self.task.observe(rows_of(ids))
        return {
            "observation": observation,
            "achieved_goal": achieved.copy(),
            "desired_goal": self.goal[ids],
        }

    def export_state(self) -> dict[str, Any]:
        """Everything the future depends on: physics, what the next control reads of it,
        generators, goals, counts."""
        physics = self.physics
        return {
            "state": physics.state.copy(),
            "warning": physics.warning.copy(),
            **{name: getattr(physics, name).copy() for name in DERIVED},
            "goal": self.goal.copy(),
            "steps": self.steps.copy(),
            "generators": [rng.bit_generator.state for rng in self.rngs],
        }

    def restore_state(self, state: dict[str, Any]) -> None:
        physics = self.physics
        physics.state[:] = state["state"]
        physics.batch.forward()  # views up to date; warm start and warnings a little ahead
        physics.state[:] = state["state"]
        for name in DERIVED:
            getattr(physics, name)[:] = state[name]
        physics.warning[:] = state["warning"]
        self._warned = self._warnings().copy()
        self.goal[:], self.steps[:] = state["goal"], state["steps"]
        for rng, saved in zip(self.rngs, state["generators"], strict=True):
            rng.bit_generator.state = saved

    def render(self, i: int) -> Any:
        """A picture of one simulation."""
        template = self.template
        kind = mujoco.mjtState.mjSTATE_INTEGRATION
        mujoco.mj_setState(template.model, template.data, self.physics.state[i], kind)
        template.goal = self.goal[i].copy()
        mujoco.mj_forward(template.model, template.data)
        return template.render()

    def close(self) -> None:
        self.template.close()

    def _warnings(self) -> Array:
        """How often MuJoCo has found each simulation broken, and reset it."""
        warning = self.physics.warning
        counts: Array = warning[:, BAD[0], 1] + warning[:, BAD[1], 1] + warning[:, BAD[2], 1]
        return counts
