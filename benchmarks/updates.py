"""Time per update of SAC and TQC, ours against sbx and Stable-Baselines3: the same sizes, the same
episodes, sampling and relabelling included, on one core."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from benchmarks import peers
from benchmarks.rates import compared
from benchmarks.sb3 import ENV, HORIZON, add, episodes_of_fetch_push, in_turns
from hindsight.agents.registry import config_class, make_off_policy_agent
from hindsight.collect import record
from hindsight.envs.contract import inspect
from hindsight.envs.make import make
from hindsight.errors import HindsightError
from hindsight.normalizer import Normalizer
from hindsight.replay.priorities import PriorityConfig
from hindsight.replay.replay import ReplayConfig, make_replay
from hindsight.settings import with_settings
from hindsight.training.run import machine, versions

METHODS = ("sac", "tqc")
BATCH, HIDDEN, CRITICS, QUANTILES, DROPPED = 256, (256, 256, 256), 2, 25, 2
BUFFER, STEPS = 1_000_000, 5_000
UPDATES = 20
"""In a turn."""


class Ours:
    """A learner and its replay, with HER."""

    def __init__(self, method: str) -> None:
        self.spec = inspect(make(ENV))
        settings: dict[str, Any] = {
            "net_arch": HIDDEN,
            "num_critics": CRITICS,
            "target_update_interval": 1,
        }
        if method == "tqc":
            settings |= {"num_quantiles": QUANTILES, "drop_per_critic": DROPPED}
        config = with_settings(config_class(method)(), settings)
        self.agent = make_off_policy_agent(config, self.spec)
        self.replay = make_replay(self.spec, ReplayConfig(buffer_size=BUFFER), PriorityConfig())
        self.replay.scale_rewards(self.agent.reward_scale)
        self.normalizer = Normalizer.of(self.spec, config)
        self.state = self.agent.init(jax.random.key(0))
        self.key, self.rng = jax.random.key(1), np.random.default_rng(0)

    def add(self, episode: list[tuple[Any, ...]]) -> None:
        seen = [step[0] for step in episode] + [episode[-1][1]]
        observations = [{key: values[0] for key, values in o.items()} for o in seen]
        actions = [step[2][0] for step in episode]
        stored = record(self.spec, observations, actions, False)
        self.normalizer.add(stored)
        self.replay.store(stored)
        self.state = self.agent.scheduled(self.state, self.normalizer.scale(), 0.0)

    def train(self, updates: int, batch_size: int) -> None:
        sample = self.replay.sample(updates, batch_size, 0.0, self.rng)
        self.state, td, _ = self.agent.learn(self.state, sample.batch, self.key)
        td.error.block_until_ready()


def peers_of(method: str) -> dict[str, Any]:
    """The learners of Stable-Baselines3 (TQC is in its contrib package) and of sbx."""
    package = peers.stable_baselines3()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            import sb3_contrib
            import sbx
    except ImportError:
        raise HindsightError("sbx or sb3-contrib is not installed: see `make bench`") from None
    from stable_baselines3.common.logger import Logger

    assert package is not None
    policy: dict[str, Any] = {"net_arch": list(HIDDEN), "n_critics": CRITICS}
    kinds = {"Stable-Baselines3": package.SAC, "sbx": sbx.SAC}
    settings: dict[str, Any] = {}
    if method == "tqc":
        kinds = {"Stable-Baselines3": sb3_contrib.TQC, "sbx": sbx.TQC}
        policy["n_quantiles"] = QUANTILES
        settings["top_quantiles_to_drop_per_net"] = DROPPED
    models = {
        name: kind(
            "MultiInputPolicy",
            make(ENV),
            replay_buffer_class=package.HerReplayBuffer,
            buffer_size=BUFFER,
            batch_size=BATCH,
            policy_kwargs=dict(policy),
            device="cpu",
            seed=0,
            **settings,
        )
        for name, kind in kinds.items()
    }
    for model in models.values():
        model.set_logger(Logger(None, []))
    return models


def run() -> dict[str, Any]:
    if peers.stable_baselines3() is None:
        raise HindsightError("Stable-Baselines3 is not installed: see `make bench`")
    import torch

    os.sched_setaffinity(0, [min(os.sched_getaffinity(0))])
    torch.set_num_threads(1)
    return {
        "methods": {method: compare(method) for method in METHODS},
        "machine": machine(),
        "versions": dict(versions()) | _peer_versions(),
    }


def _peer_versions() -> dict[str, str]:
    from importlib.metadata import version

    return {name: version(name) for name in ("stable-baselines3", "sb3-contrib", "sbx-rl")}


def compare(method: str) -> dict[str, Any]:
    """Milliseconds per update, and how many times as fast ours is in the same turn."""
    ours = Ours(method)
    players: dict[str, Any] = {"Hindsight": ours} | peers_of(method)
    episodes = episodes_of_fetch_push(np.random.default_rng(0))

    def take_in(player: Any, episode: Any) -> None:
        ours.add(episode) if player is ours else add(player, episode)

    for _ in range(STEPS // HORIZON):
        episode = next(episodes)
        for player in players.values():
            take_in(player, episode)
    train: Callable[[Any, Any], None] = lambda player, _: player.train(UPDATES, BATCH)  # noqa: E731
    seconds = in_turns(players, train, episodes, take_in)
    rows = {}
    for name, values in seconds.items():
        ratio = compared(UPDATES / seconds["Hindsight"], UPDATES / values)
        rows[name] = {
            "milliseconds": round(float(np.median(values)) / UPDATES * 1e3, 3),
            "hindsight_is": ratio["hindsight_is"],
            "middle_half_of_turns": ratio["middle_half_of_turns"],
        }
    return rows


def table(result: dict[str, Any]) -> str:
    found = result["versions"]
    lines = [
        f"{ENV}, batch {BATCH}, hidden {list(HIDDEN)}, {CRITICS} critics, TQC with {QUANTILES} "
        f"quantiles each; {UPDATES} updates per turn, CPU time on one core",
        ", ".join(
            f"{name} {found[name]}" for name in ("stable-baselines3", "sb3-contrib", "sbx-rl")
        ),
    ]
    for method, rows in result["methods"].items():
        lines += ["", f"{method:20}{'ms per update':>15}{'ours is':>10}{'half of turns':>18}"]
        for name, row in rows.items():
            low, high = row["middle_half_of_turns"]
            lines.append(
                f"{name:20}{row['milliseconds']:>15.2f}{row['hindsight_is']:>10.2f}"
                f"{f'{low:.2f} to {high:.2f}':>18}"
            )
    return "\n".join(lines)
