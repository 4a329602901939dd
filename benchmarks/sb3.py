"""Stable-Baselines3 with its own HER buffer and with ours: time per sampled batch and per
update."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from benchmarks import peers
from benchmarks.rates import compared
from hindsight.envs.make import make
from hindsight.errors import HindsightError
from hindsight.training.run import machine, versions

ENV = "FetchPush-v4"
BUFFER = 1_000_000
STEPS = 20_000
"""Filled in, of FetchPush's size."""
BATCH = 256
HORIZON = 50
TURNS = 15
SAMPLES, UPDATES = HORIZON, 5
"""In a turn. Before it, each buffer gets an episode, as if there were an update per step."""
HPER = {
    "replay": {"goals_chosen": "stored"},
    "priority": {"sampling": "rank", "queues": "two_queues"},
}


def run() -> dict[str, Any]:
    sb3 = peers.stable_baselines3()
    if sb3 is None:
        raise HindsightError("Stable-Baselines3 is not installed: see `make bench`")
    import torch as th

    from hindsight.integrations.sb3 import HindsightReplayBuffer, PrioritizedSAC

    th.set_num_threads(1)
    learners = {
        "HerReplayBuffer": _learner(sb3.SAC, sb3.HerReplayBuffer, {}),
        "HER": _learner(sb3.SAC, HindsightReplayBuffer, {}),
        "HER, proportional": _learner(
            PrioritizedSAC, HindsightReplayBuffer, {"priority": {"sampling": "proportional"}}
        ),
        "HPER, two queues": _learner(PrioritizedSAC, HindsightReplayBuffer, HPER),
    }
    steps = episodes_of_fetch_push(np.random.default_rng(0))
    for _ in range(STEPS // HORIZON):
        episode = next(steps)
        for model in learners.values():
            add(model, episode)
    added = in_turns(learners, lambda model, episode: add(model, episode), steps)
    samples = in_turns(
        learners,
        lambda model, _: [model.replay_buffer.sample(BATCH) for _ in range(SAMPLES)],
        steps,
        add,
    )
    updates = in_turns(learners, lambda model, _: model.train(UPDATES, BATCH), steps, add)
    return {
        "version": sb3.__version__,
        "add": _against(added, 1),
        "sample": _against(samples, SAMPLES),
        "update": _against(updates, UPDATES),
        "machine": machine(),
        "versions": dict(versions()),
    }


def _learner(kind: Any, buffer: Any, settings: dict[str, Any]) -> Any:
    """SAC as it comes, which learns nothing before it is told to."""
    from stable_baselines3.common.logger import Logger

    model = kind(
        "MultiInputPolicy",
        make(ENV),
        replay_buffer_class=buffer,
        replay_buffer_kwargs=settings,
        buffer_size=BUFFER,
        device="cpu",
        seed=0,
    )
    model.set_logger(Logger(None, []))
    return model


def episodes_of_fetch_push(rng: np.random.Generator) -> Iterator[list[tuple[Any, ...]]]:
    """Random episodes of FetchPush's size, as Stable-Baselines3 passes them on, step by step."""
    spaces: Any = make(ENV).observation_space

    def observation(goal: Any) -> dict[str, Any]:
        return {
            "observation": rng.standard_normal((1, *spaces["observation"].shape)),
            "achieved_goal": rng.uniform(-1, 1, (1, 3)),
            "desired_goal": goal,
        }

    while True:
        goal = rng.uniform(-1, 1, (1, 3))
        seen = [observation(goal) for _ in range(HORIZON + 1)]
        steps = []
        for t in range(HORIZON):
            action = rng.uniform(-1, 1, (1, 4)).astype(np.float32)
            last = t == HORIZON - 1
            infos = [{"TimeLimit.truncated": last, "is_success": False}]
            steps.append((seen[t], seen[t + 1], action, -np.ones(1), np.array([last]), infos))
        yield steps


def add(model: Any, episode: list[tuple[Any, ...]]) -> None:
    for step in episode:
        model.replay_buffer.add(*step)


def in_turns(
    learners: dict[str, Any],
    play: Callable[[Any, Any], Any],
    episodes: Iterator[Any],
    before: Callable[[Any, Any], None] = lambda model, episode: None,
) -> dict[str, Any]:
    """CPU seconds [turns] of each, in another order every turn. The first turn warms up."""
    rng = np.random.default_rng(0)
    seconds: dict[str, list[float]] = {name: [] for name in learners}
    for turn in range(TURNS + 1):
        episode = next(episodes)
        for name in map(str, rng.permutation(list(learners))):
            before(learners[name], episode)
            start = time.process_time()
            play(learners[name], episode)
            if turn:
                seconds[name].append(time.process_time() - start)
    return {name: np.array(values) for name, values in seconds.items()}


def _against(seconds: dict[str, Any], count: int) -> dict[str, Any]:
    """Microseconds of each, and how many times as fast as Stable-Baselines3's buffer it is."""
    theirs = count / seconds["HerReplayBuffer"]
    rows = {}
    for name, values in seconds.items():
        ratio = compared(count / values, theirs)
        rows[name] = {
            "microseconds": round(float(np.median(values)) / count * 1e6),
            "times_as_fast": ratio["hindsight_is"],
            "middle_half_of_turns": ratio["middle_half_of_turns"],
        }
    return rows


def table(result: dict[str, Any]) -> str:
    lines = [
        f"SAC of Stable-Baselines3 {result['version']}, {ENV}, batch {BATCH}, {STEPS:,} of "
        f"{BUFFER:,} transitions filled in, {TURNS} turns, one thread",
    ]
    for what, text in (
        ("add", "adding an episode of 50"),
        ("sample", "sampling a batch"),
        ("update", "an update, sampling included"),
    ):
        lines += ["", f"{text:36}{'microseconds':>14}{'times as fast':>15}{'half of turns':>20}"]
        for name, row in result[what].items():
            low, high = row["middle_half_of_turns"]
            lines.append(
                f"{name:36}{row['microseconds']:>14,}{row['times_as_fast']:>15.2f}"
                f"{f'{low:.2f} to {high:.2f}':>20}"
            )
    return "\n".join(lines)
