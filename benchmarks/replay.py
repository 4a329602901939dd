"""Replay at 1M stored transitions of FetchPush's size: add an episode, sample 256, update 256;
against peers, in turns.

Peers: cpprb (proportional), nnabla-rl (rank-based) and Stable-Baselines3's HerReplayBuffer. nnabla
itself has no wheel for every Python; nnabla-rl's buffer is plain Python and runs without it.
"""

from __future__ import annotations

import math
import sys
import time
import types
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np

from benchmarks import peers
from benchmarks.rates import times_as_fast
from hindsight.envs.contract import Actions, GoalEnvSpec
from hindsight.envs.make import make
from hindsight.envs.spaces import Features
from hindsight.episodes import Episodes
from hindsight.lab.reproduce.measured_tables import PLAYED, speed_lines
from hindsight.replay.batch import TDErrors
from hindsight.replay.priorities import PriorityConfig
from hindsight.replay.rank_order import RankWeights
from hindsight.replay.replay import ReplayConfig, make_replay
from hindsight.training.run import machine, versions
from hindsight.types import Array, Floats

ENTRIES, BATCH, HORIZON = 1_000_000, 256, 50
OBSERVATION, GOAL, ACTION = 25, 3, 4
TURNS, EACH = 25, 10
"""In a turn every player adds, samples and updates so many times."""


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


@dataclass
class Player:
    """A replay that is full, and what to measure of it."""

    add_episode: Callable[[], object]
    sample: Callable[[], object]
    update: Callable[[], object] | None = None
    """Of what was sampled last."""
    facts: dict[str, Any] = field(default_factory=dict)


def ours(config: ReplayConfig, priority: PriorityConfig, entries: int) -> Player:
    """TD errors are given."""
    rng = np.random.default_rng(0)
    replay = make_replay(SPEC, config, priority)
    errors = TDErrors(rng.exponential(1.0, BATCH), np.zeros(BATCH))

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
    one = random_episodes(1, rng)
    sample = replay.sample(1, BATCH, 0.0, rng)

    def draw() -> None:
        nonlocal sample
        sample = replay.sample(1, BATCH, 0.0, rng)

    if replay.priorities is None or replay.pairs is None:
        return Player(lambda: add(one), draw)
    queues, pairs = replay.priorities.queues, replay.pairs
    arrays = [a for part in (replay.priorities, pairs) for a in vars(part).values()]
    size = sum(a.nbytes for a in arrays if isinstance(a, np.ndarray))
    size += sum(index.nbytes for index in queues.indexes)
    facts = {"bytes_per_pair": round(size / (pairs.actual + pairs.alternate), 2)}
    return Player(lambda: add(one), draw, lambda: replay.push(sample.pairs, errors), facts)


def cpprb_proportional(entries: int) -> Player | None:
    try:
        import cpprb
    except ImportError:
        return None
    rng = np.random.default_rng(0)
    shapes = {"obs": OBSERVATION, "next_obs": OBSERVATION, "goal": GOAL, "act": ACTION, "rew": 1}
    buffer = cpprb.PrioritizedReplayBuffer(
        entries, {name: {"shape": n} for name, n in shapes.items()}, alpha=0.6
    )

    def steps(n: int) -> dict[str, Array]:
        return {name: rng.standard_normal((n, width), np.float32) for name, width in shapes.items()}

    for _ in range(entries // 50_000):
        buffer.add(**steps(50_000), priorities=rng.exponential(1.0, 50_000))
    episode, priorities = steps(HORIZON), rng.exponential(1.0, HORIZON)
    sample, new = buffer.sample(BATCH, beta=0.4), rng.exponential(1.0, BATCH)

    def draw() -> None:
        nonlocal sample
        sample = buffer.sample(BATCH, beta=0.4)

    return Player(
        lambda: buffer.add(**episode, priorities=priorities),
        draw,
        lambda: buffer.update_priorities(sample["indexes"], new),
        {"version": version("cpprb")},
    )


def nnabla_rank_based(entries: int) -> Player | None:
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
    buffer = RankBasedPrioritizedReplayBuffer(entries)
    payload = tuple(np.zeros(n, np.float32) for n in (OBSERVATION, ACTION, 1, OBSERVATION, GOAL))
    for _ in range(entries):
        buffer.append(payload)
    for i, error in enumerate(rng.exponential(1.0, entries)):
        buffer._buffer.update_priority(i, float(error))
    buffer._buffer.sort_data()
    new = rng.exponential(1.0, (BATCH, 1))
    buffer.sample(BATCH)  # sets up its boundaries
    buffer.update_priorities(new)  # it refuses to sample again before

    def episode() -> None:
        for _ in range(HORIZON):
            buffer.append(payload)

    return Player(
        episode,
        lambda: buffer.sample(BATCH),
        lambda: buffer.update_priorities(new),
        {"version": installed},
    )


def stable_baselines_her(entries: int) -> Player | None:
    sb3 = peers.stable_baselines3()
    if sb3 is None:
        return None
    vec = sb3.common.vec_env.DummyVecEnv([lambda: make("FetchPush-v4")])
    buffer = sb3.HerReplayBuffer(entries, vec.observation_space, vec.action_space, vec)
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
    return Player(lambda: play(0), lambda: buffer.sample(BATCH), None, {"version": sb3.__version__})


def in_turns(players: Mapping[str, Player], turns: int) -> dict[str, dict[str, Array]]:
    """CPU microseconds [turns] of everything that each does, in another order every turn. The
    first turn warms up."""
    rng = np.random.default_rng(0)
    found = {name: {what: np.zeros(turns + 1) for what in PLAYED} for name in players}
    for turn in range(turns + 1):
        for name in map(str, rng.permutation(list(players))):
            for what in ("add_episode",) * EACH + ("sample", "update") * EACH:
                action = getattr(players[name], what)
                if action is not None:
                    start = time.process_time_ns()
                    action()
                    found[name][what][turn] += (time.process_time_ns() - start) / 1e3 / EACH
    return {
        name: {what: values[1:] for what, values in times.items() if values.any()}
        for name, times in found.items()
    }


def rank_tables(entries: int, turns: int = 3) -> dict[str, Array]:
    """CPU seconds [turns] to set up the rank distribution for up to `entries` entries: one growing
    array, or one table per size.

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

    def tables() -> None:
        for part in range(1, 101):
            table(entries * part // 100)

    grow()
    found = {"one_array": np.zeros(turns), "hundred_tables": np.zeros(turns)}
    for turn in range(turns):
        for name, action, times in (("one_array", grow, 10), ("hundred_tables", tables, 1)):
            start = time.process_time()
            for _ in range(times):
                action()
            found[name][turn] = (time.process_time() - start) / times
    return found


def run(entries: int = ENTRIES, peers: bool = True, turns: int = TURNS) -> dict[str, Any]:
    stored = ReplayConfig(goals_chosen="stored", buffer_size=entries)
    sampled = ReplayConfig(buffer_size=entries)
    players: dict[str, Player | None] = {
        name: ours(config, priority, entries)
        for name, config, priority in (
            ("HER", sampled, PriorityConfig()),
            ("HER, proportional", sampled, PriorityConfig(sampling="proportional")),
            ("HER, rank", sampled, PriorityConfig(sampling="rank")),
            ("HER, rank_heap", sampled, PriorityConfig(sampling="rank_heap")),
            ("HPER, proportional, one queue", stored, PriorityConfig(sampling="proportional")),
            ("HPER, rank, one queue", stored, PriorityConfig(sampling="rank")),
            ("HPER, rank, two queues", stored, PriorityConfig("rank", queues="two_queues")),
        )
    }
    if peers:
        players |= {
            "cpprb, proportional": cpprb_proportional(entries),
            "Stable-Baselines3, HER": stable_baselines_her(entries),
            "nnabla-rl, rank": nnabla_rank_based(entries),
        }
    present = {name: player for name, player in players.items() if player is not None}
    times, ranks = in_turns(present, turns), rank_tables(entries)
    ratios = {
        "setting up ranks: one growing array, not a table per hundredth": times_as_fast(
            1 / ranks["one_array"], 1 / ranks["hundred_tables"]
        )
    }
    for text, peer, mine in (
        ("sample with relabelling: HER, Stable-Baselines3", "Stable-Baselines3, HER", "HER"),
        (
            "proportional sample and update: HER with relabelling, cpprb",
            "cpprb, proportional",
            "HER, proportional",
        ),
        (
            "rank-based sample and update: HER with relabelling, nnabla-rl",
            "nnabla-rl, rank",
            "HER, rank",
        ),
    ):
        if peer in times:
            both = [times[who]["sample"] + times[who].get("update", 0.0) for who in (mine, peer)]
            ratios[text] = times_as_fast(1 / both[0], 1 / both[1])
    return {
        "entries": entries,
        "batch": BATCH,
        "turns": turns,
        "players": {
            name: {what: round(float(np.median(t)), 1) for what, t in times[name].items()}
            | player.facts
            for name, player in present.items()
        },
        "absent": [name for name, player in players.items() if player is None],
        "ratios": ratios,
        "machine": machine(),
        "versions": dict(versions()),
    }


def table(result: dict[str, Any]) -> str:
    lines = speed_lines(result)
    lines += [f"{name}: not installed, see `make bench`" for name in result["absent"]]
    return "\n".join(lines)
