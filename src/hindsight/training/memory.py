"""How much memory a training would take: more than is free is refused, before anything is
allocated."""

from __future__ import annotations

import contextlib
import os
import resource
from itertools import pairwise
from pathlib import Path

import numpy as np

from hindsight.agents.a2c import A3CConfig
from hindsight.agents.config import ActorCriticConfig
from hindsight.config import OffPolicyConfig, OnPolicyConfig, TrainConfig
from hindsight.envs.contract import GoalEnvSpec
from hindsight.envs.spaces import Features
from hindsight.errors import HindsightError
from hindsight.pixels import encoded_size, images_of
from hindsight.settings import flatten, plain
from hindsight.training.on_policy import goals_of_stages
from hindsight.training.relay import Relay

ENV = 50_000
"""Bytes of an env without a MuJoCo model of its own, generously: ours take 1 to 5 kB (resident, of
500), Fetch and Hand on threads 10 to 12 kB (of 5,000), where they share a model."""
PAIR = 20
"""Bytes of a pair of a transition and a goal, with its priority."""
WORKERS = "agent.workers"
NUMBERS = 12
"""Per parameter: of a network, another and their targets, each with what Adam keeps."""


def check_memory(
    config: TrainConfig, spec: GoalEnvSpec, in_jax: bool = False, model: int = 0
) -> None:
    """Raise HindsightError, naming the setting that takes the most, if a training takes more
    memory than is free. `model`: see `own_model_bytes` in `envs/batch.py`."""
    needs, room = needed(config, spec, in_jax, model), free_memory()
    if sum(needs.values()) > room:
        one = {name: size for name, size in needs.items() if name != WORKERS}
        name = max(one, key=lambda name: one[name]) if sum(one.values()) > room else WORKERS
        raise HindsightError(
            f"setting {name} {plain(flatten(config)[name])} would take about "
            f"{_shown(needs[name])} of memory, of {_shown(room)} that are free: choose a smaller "
            "one"
        )


def needed(
    config: TrainConfig, spec: GoalEnvSpec, in_jax: bool = False, model: int = 0
) -> dict[str, float]:
    """Bytes that a training takes, roughly and at the least, by the setting that decides."""
    episode = float(spec.horizon * transition_bytes(spec))
    needs = {
        # As they are collected, and put together.
        "episodes_per_cycle": 2 * config.episodes_per_cycle * episode,
        "eval_episodes": 2 * max(config.eval_episodes, config.last_eval_episodes) * episode,
        "num_envs": envs_made(config) * (ENV + model + episode),
        "agent.net_arch": 4.0 * NUMBERS * _parameters(config, spec),
    }
    if isinstance(config, OffPolicyConfig):
        return needs | _replay(config, spec)
    assert isinstance(config, OnPolicyConfig)
    for name, size in _goal_batch(config, spec, in_jax).items():
        needs[name] = needs.get(name, 0.0) + size
    if isinstance(config.agent, A3CConfig):  # all but the evaluation once more for each
        one = sum(needs.values()) - needs["eval_episodes"]
        needs[WORKERS] = (config.agent.workers - 1) * one
    return needs


def envs_made(config: TrainConfig) -> int:
    """No more than are ever played together."""
    return min(config.num_envs, max(config.episodes_per_cycle, config.eval_episodes))


def transition_bytes(spec: GoalEnvSpec) -> int:
    """Of a step as it is stored."""
    goal = int(np.prod(spec.goal.shape, dtype=np.int64)) * spec.goal_dtype.itemsize
    return _bytes(spec.observation) + goal + max(8, 4 * spec.actions.dim) + 2


def _goal_batch(config: OnPolicyConfig, spec: GoalEnvSpec, in_jax: bool) -> dict[str, float]:
    """What a policy gradient learns from: a row of inputs, and what a network makes of it, for
    every step under every goal of every stage; with a critic of actions only for those that are
    drawn."""
    relay = Relay(spec, config)
    spec, counts = relay.spec, goals_of_stages(config.agent, len(relay.stages))
    agent, episodes, horizon = config.agent, config.episodes_per_cycle, spec.horizon
    steps = episodes * horizon
    row = 4.0 * _inputs(config, spec) + 4 * max(agent.net_arch) + 40
    goals = sum((count or steps) + episodes * agent.actual_goals for count in counts)
    if agent.by_action_values:  # they are of each episode's own
        goals = sum(min(count or horizon, horizon) + agent.actual_goals for count in counts)
    if not agent.hindsight:
        goals = len(counts)
    most = "agent.goals" if agent.goals > episodes else "episodes_per_cycle"
    if not isinstance(agent, ActorCriticConfig) or not agent.by_action_values:
        equal = 5.0 * steps**2 if in_jax and agent.hindsight else 0.0  # which achieved goals are
        return {most: row * goals * steps + equal}
    # Of every step under every goal: what it achieves and wants, whether it hits, and its chance.
    all_steps = (2.0 * _bytes(spec.goal) + 20) * goals * steps
    rows = agent.rows or goals * steps
    drawn = "agent.rows" if rows >= agent.critic_batch_size else "agent.critic_batch_size"
    return {most: all_steps, drawn: row * max(rows, agent.critic_batch_size)}


def _replay(config: OffPolicyConfig, spec: GoalEnvSpec) -> dict[str, float]:
    replay, priority = config.replay, config.priority
    # Pages of the store that are never written take no memory. But one that is larger than the
    # machine's cannot be made at all.
    store = float(replay.buffer_size * transition_bytes(spec))
    if store <= free_memory():
        played = config.steps + config.episodes_per_cycle * spec.horizon
        store = float(min(replay.buffer_size, played) * transition_bytes(spec))
    stored, prioritised = replay.goals_chosen == "stored", priority.sampling != "uniform"
    pairs = float(replay.buffer_size * PAIR) if stored or prioritised else 0.0
    updates = config.updates_of_cycle(spec.horizon)
    if prioritised:
        updates = min(updates, priority.updates_per_draw)
    # Two observations, a goal and an action per row, here and in JAX, and its address; and what a
    # network makes of it.
    numbers = 2 * _bytes(spec.observation) + _bytes(spec.goal) + 4 * spec.actions.dim
    row = 2 * numbers + 64
    rows = float(config.batch_size * priority.fresh)
    given = "gradient_steps" if config.updates_per_step is None else "updates_per_step"
    largest = "batch_size" if config.batch_size >= updates else given
    return {
        "replay.buffer_size": store + pairs,
        "replay.replay_k": pairs * replay.replay_k.bounds()[1] if stored else 0.0,
        "priority.fresh" if priority.fresh > config.batch_size else largest: rows
        * (updates * row + 4 * sum(config.agent.net_arch)),
    }


def _bytes(features: Features) -> int:
    return features.dim * features.dtype.itemsize


def _inputs(config: TrainConfig, spec: GoalEnvSpec) -> int:
    fourier = int(getattr(config.agent, "fourier_features", 0))
    return (spec.observation.dim + spec.goal.dim) * (1 + 2 * fourier)


def _parameters(config: TrainConfig, spec: GoalEnvSpec) -> float:
    outputs = spec.actions.choices or spec.actions.dim
    images = images_of(spec.observation, spec.goal)
    described, convolutions = encoded_size(images)
    pixels = sum(features.dim for features in images if features.pixels)
    inputs = _inputs(config, spec) - pixels + described
    widths = [inputs + outputs, *config.agent.net_arch, outputs]
    return float(convolutions + sum(a * b for a, b in pairwise(widths)))


def free_memory() -> float:
    """Bytes that this process may have: of the machine, less what others hold (where Linux tells),
    of its container, or by its limit."""
    limits = [float(os.sysconf("SC_PAGE_SIZE")) * os.sysconf("SC_PHYS_PAGES")]
    with contextlib.suppress(OSError):
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                limits.append(1024.0 * int(line.split()[1]))
    with contextlib.suppress(OSError, ValueError):  # "max" where there is none
        limits.append(float(Path("/sys/fs/cgroup/memory.max").read_text()))
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    if limit != resource.RLIM_INFINITY:
        limits.append(float(limit))
    return min(limits)


def _shown(size: float) -> str:
    units = ["B", "kB", "MB", "GB", "TB", "PB"]
    while size >= 1000 and len(units) > 1:
        size, units = size / 1000, units[1:]
    return f"{size:.3g} {units[0]}"
