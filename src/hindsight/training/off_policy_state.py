"""All that off-policy training changes: what a checkpoint of it holds."""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import fields
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from hindsight.agents import make_agent
from hindsight.config import TrainConfig
from hindsight.envs.batch import EnvBatch
from hindsight.envs.contract import GoalEnvSpec
from hindsight.episodes import Episodes
from hindsight.networks import to_numpy
from hindsight.normalizer import Normalizer
from hindsight.replay.replay import HindsightReplay
from hindsight.saving.tree import (
    State,
    all_between,
    between,
    export_generator,
    export_pytree,
    fitting,
    restore_generator,
    restore_pytree,
)
from hindsight.training.clock import Clock
from hindsight.training.new_priorities import NewPriorities

PLAYED = [f.name for f in fields(Episodes) if f.name != "log_prob"]  # which no off-policy learner has


class OffPolicyState:
    """What the training loop reads and writes. Between two cycles, all that the rest of the training depends on."""

    def __init__(self, config: TrainConfig, spec: GoalEnvSpec, envs: EnvBatch) -> None:
        learner, agent = make_agent(config.agent, spec), config.agent
        self.spec = spec
        self.envs = envs
        self.agent: Any = learner.init(jax.random.key(config.seed))
        self.averaged = to_numpy(learner.actor_parameters(self.agent))
        self.normalizer = Normalizer(spec.observation, spec.goal, agent.normalizer_epsilon, agent.clip_observation)
        self.replay = HindsightReplay(spec, config.replay, config.priority)
        self.critic = NewPriorities(config, learner)
        self.rng = np.random.default_rng(config.seed)
        self.ahead: Future[Episodes] | None = None
        """The episodes of the next cycle, if they are collected during this one."""
        self.cycle = self.step = self.dropped = 0
        self.clock = Clock()

    def export_state(self) -> State:
        """Copies of everything; waits for episodes that are being collected."""
        ahead = None
        if self.ahead is not None and self.ahead.exception() is None:
            ahead = self.ahead.result()
        return {
            "counts": {"cycle": self.cycle, "step": self.step, "dropped": self.dropped},
            "agent": export_pytree(self.agent),
            "policy": export_pytree(self.averaged),
            "normalizer": self.normalizer.export_state(),
            "replay": self.replay.export_state(),
            "new_priorities": self.critic.export_state(),
            "rng": export_generator(self.rng),
            "envs": self.envs.export_state(),
            "ahead": {} if ahead is None else {name: getattr(ahead, name) for name in PLAYED},
            "clock": self.clock.export_state(),
        }

    def restore_state(self, state: State) -> None:
        counts = state["counts"]
        self.cycle, self.step, self.dropped = (
            between(counts[name], name, 0, 2**62) for name in ("cycle", "step", "dropped")
        )
        self.agent = jax.tree.map(jnp.array, restore_pytree(self.agent, state["agent"]))
        self.averaged = restore_pytree(self.averaged, state["policy"])
        self.normalizer.restore_state(state["normalizer"])
        self.replay.restore_state(state["replay"])
        self.critic.restore_state(state["new_priorities"])
        restore_generator(self.rng, state["rng"])
        self.envs.restore_state(state["envs"])
        self.ahead = None
        if state["ahead"]:
            self.ahead = Future()
            self.ahead.set_result(self._episodes(state["ahead"]))
        self.clock.restore_state(state["clock"])

    def _episodes(self, state: State) -> Episodes:
        """Saved episodes, if they are of this env."""
        storage, horizon = self.replay.storage, self.spec.horizon
        n = len(state["length"])
        like = {name: getattr(storage, name) for name in ("observation", "achieved_goal", "desired_goal", "action")}
        parts = {name: fitting(state[name], name, (n, *a.shape[1:]), a.dtype) for name, a in like.items()}
        parts["reward"] = fitting(state["reward"], "reward", (n, horizon), np.float32)
        for name in ("terminated", "success"):
            parts[name] = fitting(state[name], name, (n, horizon), np.bool_)
        length = fitting(state["length"], "length", (n,), np.int64)
        return Episodes(**parts, length=all_between(length, "length", 1, horizon))
