"""Replay at 1M stored transitions of FetchPush's size: add an episode, sample 256, update 256;
against peers.

Peers: cpprb (proportional), nnabla-rl (rank-based) and Stable-Baselines3's HerReplayBuffer. nnabla
itself has no wheel for every Python; nnabla-rl's buffer is plain Python and runs without it.
"""

from __future__ import annotations

import gc
import math
import sys
import time
import types
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks import peers
from hindsight.envs.contract import Actions, GoalEnvSpec
from hindsight.envs.make import make
from hindsight.envs.spaces import Features
from hindsight.episodes import Episodes
from hindsight.lab.reproduce.measured_tables import speedups
from hindsight.replay.batch import TDErrors
from hindsight.replay.priorities import PriorityConfig
from hindsight.replay.rank_order import RankWeights
from hindsight.replay.replay import ReplayConfig, make_replay
from hindsight.training.run import machine, versions
from hindsight.types import Array, Floats

ENTRIES, BATCH, HORIZON = 1_000_000, 256, 50
OBSERVATION, GOAL, ACTION = 25, 3, 4
ROUNDS = 200


def reward(achieved: Array, desired: Array, info: Any = None) -> Floats:
    """FetchPush's: 0 within 5 cm, else -1."""
    rewards: Floats = -(np.linalg.norm(achieved - desired, axis=-1) > 0.05).astype(np.float32)
    return rewards


SPEC = GoalEnvSpec(
    id="FetchPush-v4",
    observation=Features((OBSERVATION,)),
    goal=Features((GOAL,)),
    goal_dtype=np.dtype(np.float64),
    actions=Actions(0, (-1.0,) * ACTION, (1.0,) * ACTION),
    horizon=HORIZON,
    success_reward=0.0,
    reward_bounds=(-1.0, 0.0),
    step_seconds=0.0,
    goal_reward=reward,
    goal_terminated=None,
)


def random_episodes(n: int, rng: np.random.Generator) -> Episodes:
    achieved = np.cumsum(rng.normal(0, 0.02, (n, HORIZON + 1, GOAL)), axis=1)
    return Episodes(
        observation=rng.standard_normal((n, HORIZON + 1, OBSERVATION), np.float32),
        achieved_goal=achieved,
        desired_goal=rng.normal(0, 0.2, (n, GOAL)),
        action=rng.uniform(-1, 1, (n, HORIZON, ACTION)).astype(np.float32),
        reward=-np.ones((n, HORIZON), np.float32),
        terminated=np.zeros((n, HORIZON), np.bool_),
        success=np.zeros((n, HORIZON), np.bool_),
        length=np.full(n, HORIZON),
    )


def median_us(
    action: Callable[[], Any], before: Callable[[], Any] = lambda: None, rounds: int = ROUNDS
) -> float:
    """Median time of an action in microseconds; `before` runs before each and does not count."""
    times = []
    for _ in range(rounds):
        before()
        start = time.perf_counter()
        action()
        times.append(time.perf_counter() - start)
    return float(np.median(times)) * 1e6


def ours(
    config: ReplayConfig, priority: PriorityConfig, entries: int = ENTRIES
) -> dict[str, float]:
    """Microseconds to add an episode (TD errors given), to sample a batch and to update it."""
    rng = np.random.default_rng(0)
    replay = make_replay(SPEC, config, priority)

    def add(episodes: Episodes) -> None:
        pairs = replay.store(episodes, rng=rng)
        if replay.prioritised:
            replay.read(pairs)  # what TD errors are computed from
            n = len(pairs)
            replay.push(pairs, TDErrors(rng.exponential(1.0, n), np.zeros(n)))
        else:
            replay.push(pairs, None)

    for _ in range(entries // HORIZON // 500):
        add(random_episodes(500, rng))
    sample = replay.sample(1, BATCH, 0.0, rng)
    errors = TDErrors(np.zeros(0), np.zeros(0))

    def draw() -> None:
        nonlocal sample, errors
        sample = replay.sample(1, BATCH, 0.0, rng)
        errors = TDErrors(rng.exponential(1.0, BATCH), np.zeros(BATCH))

    one = random_episodes(1, rng)
    result = {
        "add_episode": median_us(lambda: add(one)),
        "sample": median_us(lambda: replay.sample(1, BATCH, 0.0, rng)),
    }
    if replay.priorities is not None and replay.pairs is not None:
        result["update"] = median_us(lambda: replay.push(sample.pairs, errors), draw)
        queues, pairs = replay.priorities.queues, replay.pairs
        arrays = [a for part in (replay.priorities, pairs) for a in vars(part).values()]
        size = sum(a.nbytes for a in arrays if isinstance(a, np.ndarray)) + sum(
            q.nbytes for q in queues.indexes
        )
        result["bytes_per_pair"] = round(size / (pairs.actual + pairs.alternate), 2)
    return result


def cpprb_proportional() -> dict[str, Any] | None:
    try:
        import cpprb
    except ImportError:
        return None
    from importlib.metadata import version

    rng = np.random.default_rng(0)
    shapes = {"obs": OBSERVATION, "next_obs": OBSERVATION, "goal": GOAL, "act": ACTION, "rew": 1}
    buffer = cpprb.PrioritizedReplayBuffer(
        ENTRIES, {name: {"shape": n} for name, n in shapes.items()}, alpha=0.6
    )

    def steps(n: int) -> dict[str, Array]:
        return {name: rng.standard_normal((n, width), np.float32) for name, width in shapes.items()}

    for _ in range(ENTRIES // 50_000):
        buffer.add(**steps(50_000), priorities=rng.exponential(1.0, 50_000))
    episode, priorities = steps(HORIZON), rng.exponential(1.0, HORIZON)
    sample = buffer.sample(BATCH, beta=0.4)
    new = rng.exponential(1.0, BATCH)

    def draw() -> None:
        nonlocal sample, new
        sample, new = buffer.sample(BATCH, beta=0.4), rng.exponential(1.0, BATCH)

    return {
        "version": version("cpprb"),
        "add_episode": median_us(lambda: buffer.add(**episode, priorities=priorities)),
        "sample": median_us(lambda: buffer.sample(BATCH, beta=0.4)),
        "update": median_us(lambda: buffer.update_priorities(sample["indexes"], new), draw),
    }


def nnabla_rank_based() -> dict[str, Any] | None:
    from importlib.metadata import PackageNotFoundError, version

    try:
        installed = version("nnabla-rl")
    except PackageNotFoundError:
        return None

    class Absent(types.ModuleType):
        def __getattr__(self, name: str) -> Any:
            if name.startswith("__"):
                raise AttributeError(name)
            return type(name, (), {})

    missing = "nnabla" not in sys.modules
    sys.modules.setdefault("nnabla", Absent("nnabla"))  # its type annotations name nn.Variable
    try:
        from nnabla_rl.replay_buffers.prioritized_replay_buffer import (
            RankBasedPrioritizedReplayBuffer,
        )
    except ImportError:
        return None
    finally:
        if missing:
            del sys.modules["nnabla"]
    rng = np.random.default_rng(0)
    buffer = RankBasedPrioritizedReplayBuffer(ENTRIES)
    payload = tuple(np.zeros(n, np.float32) for n in (OBSERVATION, ACTION, 1, OBSERVATION, GOAL))
    for _ in range(ENTRIES):
        buffer.append(payload)
    for i, error in enumerate(rng.exponential(1.0, ENTRIES)):
        buffer._buffer.update_priority(i, float(error))
    buffer._buffer.sort_data()
    new = rng.exponential(1.0, (BATCH, 1))
    start = time.perf_counter()
    buffer.sample(BATCH)
    boundaries = time.perf_counter() - start

    def episode() -> None:
        for _ in range(HORIZON):
            buffer.append(payload)

    def sample() -> None:
        buffer.sample(BATCH)

    def update() -> None:  # it refuses to sample again before
        buffer.update_priorities(new)

    times = {"sample": median_us(sample, before=update, rounds=20)}
    update()
    times |= {
        "update": median_us(update, before=sample, rounds=20),
        "add_episode": median_us(episode, rounds=20),
    }
    return {"version": installed, **times, "first_sample": boundaries * 1e6}


def stable_baselines_her() -> dict[str, Any] | None:
    sb3 = peers.stable_baselines3()
    if sb3 is None:
        return None
    vec = sb3.common.vec_env.DummyVecEnv([lambda: make("FetchPush-v4")])
    buffer = sb3.HerReplayBuffer(ENTRIES, vec.observation_space, vec.action_space, vec)
    rng = np.random.default_rng(0)
    episodes = random_episodes(200, rng)

    def play(i: int) -> None:
        for t in range(HORIZON):
            both = [
                {
                    "observation": episodes.observation[i, s][None],
                    "achieved_goal": episodes.achieved_goal[i, s][None],
                    "desired_goal": episodes.desired_goal[i][None],
                }
                for s in (t, t + 1)
            ]
            last = np.array([t == HORIZON - 1])
            buffer.add(
                *both,
                episodes.action[i, t][None],
                -np.ones(1),
                last,
                [{"TimeLimit.truncated": bool(last[0])}],
            )

    # 10,000 of 1M transitions are filled in: a sample reads only those, which flatters its cache.
    for i in range(len(episodes)):
        play(i)
    return {
        "version": sb3.__version__,
        "add_episode": median_us(lambda: play(0), rounds=20),
        "sample": median_us(lambda: buffer.sample(BATCH)),
    }


def rank_tables(entries: int = ENTRIES) -> dict[str, float]:
    """Seconds to set up the rank distribution for up to `entries` entries: one growing array, or
    one table per size.

    One table per size is what public implementations do, in Python, for every hundredth part of the
    buffer: the probabilities of all ranks, their sum, and the boundaries of the strata.
    """

    def grow() -> None:
        RankWeights(0.7).sums(entries)

    def table(n: int) -> list[int]:
        masses = [math.pow(rank, -0.7) for rank in range(1, n + 1)]
        total = math.fsum(masses)
        boundaries: list[int] = []
        reached = 0.0
        for i, mass in enumerate(masses):
            reached += mass / total
            if reached >= (len(boundaries) + 1) / BATCH:
                boundaries.append(i)
        return boundaries

    grow()
    ours = median_us(grow, rounds=5) / 1e6
    start = time.perf_counter()
    for part in range(1, 101):
        table(entries * part // 100)
    return {"one_array": ours, "hundred_tables": time.perf_counter() - start}


def run(entries: int = ENTRIES, peers: bool = True) -> dict[str, Any]:
    stored = ReplayConfig(goals_chosen="stored", buffer_size=entries)
    sampled = ReplayConfig(buffer_size=entries)
    results: dict[str, Any] = {}
    for name, config, priority in (
        ("HER", sampled, PriorityConfig()),
        ("HER, proportional", sampled, PriorityConfig(sampling="proportional")),
        ("HER, rank", sampled, PriorityConfig(sampling="rank")),
        ("HER, rank_heap", sampled, PriorityConfig(sampling="rank_heap")),
        ("HPER, proportional, single_queue", stored, PriorityConfig(sampling="proportional")),
        ("HPER, rank, single_queue", stored, PriorityConfig(sampling="rank")),
        ("HPER, rank, two_queues", stored, PriorityConfig(sampling="rank", queues="two_queues")),
    ):
        results[name] = ours(config, priority, entries)
        gc.collect()
    return {
        "entries": entries,
        "batch": BATCH,
        "hindsight": results,
        "cpprb": cpprb_proportional() if peers else None,
        "stable_baselines3": stable_baselines_her() if peers else None,
        "rank_distribution": rank_tables(entries),
        "nnabla_rl": nnabla_rank_based() if peers else None,
        "machine": machine(),
        "versions": dict(versions()),
    }


def table(result: dict[str, Any]) -> str:
    lines = [
        f"{result['entries']:,} transitions stored, batch {result['batch']}, medians in "
        "microseconds",
        "",
    ]
    lines.append(f"{'':36}{'add episode':>12}{'sample':>10}{'update':>10}{'bytes/pair':>12}")
    peers = {"cpprb": "cpprb", "stable_baselines3": "Stable-Baselines3", "nnabla_rl": "nnabla-rl"}
    rows = dict(result["hindsight"])
    for key, name in peers.items():
        rows[name if result[key] is None else f"{name} {result[key]['version']}"] = result[key]
    for name, row in rows.items():
        if row is None:
            lines.append(f"{name:36}is not installed: see `make bench`")
            continue
        cells = "".join(f"{row[k]:>{w}.0f}" if k in row else " " * w for k, w in _COLUMNS)
        lines.append(
            f"{name:36}{cells}"
            + (f"{row['bytes_per_pair']:>12.1f}" if "bytes_per_pair" in row else "")
        )
    lines.append("")
    for text, ratio in speedups(result).items():
        lines.append(f"{text}: {ratio:.1f}")
    return "\n".join(lines)


_COLUMNS = (("add_episode", 12), ("sample", 10), ("update", 10))
