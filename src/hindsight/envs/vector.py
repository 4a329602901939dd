"""The fast simulation of Fetch and Hand as a `gymnasium.vector.VectorEnv`, usable on its own."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from hindsight.envs.make import make
from hindsight.envs.robotics import supports
from hindsight.envs.simulations import Simulations
from hindsight.errors import HindsightError
from hindsight.types import Array


class RobotVectorEnv(VectorEnv[Any, Any, Any]):
    """N Fetch or Hand envs in one process, with the numbers of Gymnasium-Robotics.

    `autoreset_mode` says what happens after an episode's last step, as in Gymnasium: NEXT_STEP
    resets at the next call of `step`, SAME_STEP at once (the last observation is in
    `info["final_obs"]`), DISABLED leaves it to `reset(options={"reset_mask": ...})`. The mode is
    in `metadata["autoreset_mode"]`.
    """

    def __init__(
        self,
        env_id: str,
        num_envs: int = 1,
        *,
        threads: int | None = None,
        autoreset_mode: AutoresetMode = AutoresetMode.NEXT_STEP,
        render_mode: str | None = None,
        **kwargs: Any,
    ) -> None:
        if num_envs < 1:
            raise HindsightError(f"num_envs must be at least 1, got {num_envs}")
        env = make(env_id, render_mode=render_mode, **kwargs)
        if not supports(env.unwrapped):
            raise HindsightError(f"{env_id} has no fast simulation: use gymnasium.make_vec")
        assert env.spec is not None
        self.spec = env.spec
        self.num_envs = num_envs
        self.render_mode = render_mode
        self.metadata = {**env.metadata, "autoreset_mode": autoreset_mode}
        self.single_action_space, self.single_observation_space = (
            env.action_space,
            env.observation_space,
        )
        self.action_space = batch_space(self.single_action_space, num_envs)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.max_episode_steps = int(env.spec.max_episode_steps or 0)
        self.simulations = Simulations(env.unwrapped, num_envs, threads or os.cpu_count() or 1)
        self.diverged = 0
        self._mode = autoreset_mode
        self._ended = np.zeros(num_envs, np.bool_)

    def reset(
        self,
        *,
        seed: int | Sequence[int | None] | None = None,
        options: dict[str, Any] | None = None,
    ) -> tuple[dict[str, Array], dict[str, Any]]:
        """Start episodes in all envs, or where `options["reset_mask"]` says."""
        seeds = [seed] * self.num_envs if seed is None else seed
        seeds = [seeds + i for i in range(self.num_envs)] if isinstance(seeds, int) else list(seeds)
        if len(seeds) != self.num_envs:
            raise HindsightError(f"{len(seeds)} seeds for {self.num_envs} envs")
        mask = np.asarray((options or {}).get("reset_mask", np.ones(self.num_envs)), np.bool_)
        ids = np.flatnonzero(mask)
        self.simulations.reset(ids, [seeds[i] for i in ids])
        self._ended[ids] = False
        return self._observe(), {}

    def step(self, actions: Array) -> tuple[dict[str, Array], Array, Array, Array, dict[str, Any]]:
        """One step in every env; those that diverge are reset, truncated, and marked in
        `info["diverged"]`."""
        actions = np.asarray(actions)
        if self._mode == AutoresetMode.DISABLED and self._ended.any():
            raise HindsightError(
                "an episode has ended: reset it with options={'reset_mask': ...} before stepping"
            )
        resetting = self._ended.copy()  # only in the mode NEXT_STEP can any be left
        running = np.flatnonzero(~resetting)
        diverged = np.zeros(self.num_envs, np.bool_)
        if len(running):
            diverged[running], observation = self.simulations.step(running, actions[running])
        again = np.flatnonzero(resetting | diverged)
        if len(again):
            self.simulations.reset(again, [None] * len(again))
            observation = self._observe()
        self.diverged += int(diverged.sum())
        reward, success = self._judge(observation)
        truncated = (self.simulations.steps >= self.max_episode_steps) | diverged
        reward = np.where(resetting | diverged, 0.0, reward)
        info: dict[str, Any] = {"is_success": success, "_is_success": ~resetting}
        if diverged.any():
            info |= {"diverged": diverged, "_diverged": diverged}
        if self._mode == AutoresetMode.SAME_STEP and truncated.any():
            info |= {
                "final_obs": observation,
                "_final_obs": truncated,
                "final_info": {"is_success": success},
            }
            done = np.flatnonzero(truncated)
            self.simulations.reset(done, [None] * len(done))
            observation = self._observe()
        self._ended = (
            truncated
            if self._mode != AutoresetMode.SAME_STEP
            else np.zeros(self.num_envs, np.bool_)
        )
        return observation, reward, np.zeros(self.num_envs, np.bool_), truncated, info

    def _observe(self) -> dict[str, Array]:
        return self.simulations.observe(np.arange(self.num_envs))

    def _judge(self, observation: dict[str, Array]) -> tuple[Array, Array]:
        template = self.simulations.template
        achieved, desired = observation["achieved_goal"], observation["desired_goal"]
        return template.compute_reward(achieved, desired, {}), template._is_success(
            achieved, desired
        )

    def export_state(self) -> dict[str, Any]:
        """Everything the future depends on, as arrays and plain values."""
        return self.simulations.export_state() | {"ended": self._ended.copy()}

    def restore_state(self, state: dict[str, Any]) -> dict[str, Array]:
        """Go on exactly as where `export_state` was called; the observations are returned."""
        self.simulations.restore_state(state)
        self._ended = np.array(state["ended"], np.bool_)
        return self._observe()

    def render(self) -> tuple[Any, ...] | None:
        """A picture per env, in the mode rgb_array."""
        if self.render_mode is None:
            return None
        return tuple(self.simulations.render(i) for i in range(self.num_envs))

    def close_extras(self, **kwargs: Any) -> None:
        self.simulations.close()
