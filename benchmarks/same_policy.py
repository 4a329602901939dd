"""SHA-256 of the policies of short seeded trainings: does a change of code change what is learnt?

Run it from two checkouts, each with its own environment, on one machine and the same cores, and
compare the two files:

    taskset -c 0 .venv/bin/python -m benchmarks.same_policy before.json

Policies that differ are learnt differently, if only in the last bit.
"""

from __future__ import annotations

import hashlib
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load_file

import hindsight

BITS, ROOM, ROOMS = "hindsight/BitFlip-v0", "hindsight/EmptyRoom-v0", "hindsight/FourRooms-v0"
REACH = "FetchReach-v4"
SEED = 3
OFF_POLICY: dict[str, Any] = {
    "num_envs": 4,
    "episodes_per_cycle": 4,
    "gradient_steps": 12,
    "batch_size": 64,
    "eval_every": 3,
    "eval_episodes": 8,
    "agent.net_arch": (32, 32),
}
ON_POLICY: dict[str, Any] = {
    "num_envs": 8,
    "episodes_per_cycle": 8,
    "eval_every": 2,
    "eval_episodes": 8,
    "agent.net_arch": (32, 32),
}
STORED = {"replay.goals_chosen": "stored", "replay.drop_achieved": "linear(1.0, 0.5)"}
RANK = STORED | {"priority.sampling": "rank", "priority.updates_per_draw": 4}
REPLAYS: dict[str, dict[str, Any]] = {
    "her": {},
    "none": {"replay.replay_k": 0.0},
    "selected": {"replay.moved_share": 0.8, "replay.replace_achieved": 0.9},
    "episode": {"replay.goal_rule": "episode", "replay.replay_k": "linear(8, 1)"},
    "moved-power": {"replay.moved_power": 1.0, "replay.moved_unit": "usual"},
    "stored-uniform": STORED | {"priority.queues": "two_queues"},
    "per": {"priority.sampling": "proportional", "priority.updates_per_draw": 4},
    "hper": RANK | {"priority.queues": "two_queues"},
    "hper-single": RANK | {"replay.replay_k": 8.0, "replay.moved_power": 1.0},
    "heap": RANK | {"priority.sampling": "rank_heap", "replay.goal_numbers": "uniform"},
    "fresh": RANK | {"priority.fresh": 4},
    "fresh-her": {"priority.fresh": 4},
    "predicted": RANK | {"priority.initial": "predicted"},
    "largest": RANK | {"priority.initial": "largest", "priority.bias_correction": "both"},
    "heuristics": RANK | {"priority.shared": 0.3, "priority.sweep": 0.5},
}


def cases() -> dict[str, dict[str, Any]]:
    """Arguments of `hindsight.train`, by name."""
    found: dict[str, dict[str, Any]] = {}
    for name, replay in REPLAYS.items():
        for method in ("ddpg", "td3"):
            reach = {"env": REACH, "method": method, "steps": 1200}
            found[f"{method} {name}"] = reach | OFF_POLICY | replay
        bits = {"env": BITS, "env_kwargs": {"bits": 8}, "steps": 400}
        found[f"dqn {name}"] = bits | OFF_POLICY | replay
    overlap = {"overlap": True, "policy_ema": 0.9, "agent.random_hold": 3.0}
    found["ddpg overlap"] = {"env": REACH, "steps": 1200} | OFF_POLICY | overlap
    found["dqn room"] = {"env": ROOM, "steps": 1000} | OFF_POLICY
    for env, kwargs in ((REACH, {}), (BITS, {"bits": 8})):
        replayed: dict[str, Any] = {"env": env, "env_kwargs": kwargs, "method": "replayed-ac"}
        found[f"replayed-ac {env}"] = replayed | {"steps": 1200} | OFF_POLICY
    for method in ("hpg", "a2c", "ppo", "trpo", "a3c"):
        common: dict[str, Any] = {"method": method} | ON_POLICY
        common |= {"agent.deterministic": True} if method == "a3c" else {}
        flips = common | {"env": BITS, "env_kwargs": {"bits": 8}, "steps": 600}
        found[f"{method} bits"] = flips
        found[f"{method} bits, no hindsight"] = flips | {"agent.hindsight": False}
        found[f"{method} room"] = common | {"env": ROOM, "steps": 2000}
        found[f"{method} reach"] = common | {"env": REACH, "steps": 2400}
        inline = {"env": ROOMS, "steps": 1500, "simulator": "inline", "agent.fourier_features": 2}
        found[f"{method} inline"] = common | inline
    for baseline in ("value", "td", "paper"):
        settings = {"env": ROOM, "method": "hpg", "steps": 2000, "agent.baseline": baseline}
        found[f"hpg {baseline}"] = settings | ON_POLICY
    return found


def digest(run: Path) -> str:
    """Of the tensors of a policy, whatever they are called."""
    tensors = load_file(run / "policy.safetensors").values()
    sums = (
        hashlib.sha256(np.ascontiguousarray(tensor).tobytes()).hexdigest() for tensor in tensors
    )
    return hashlib.sha256("".join(sorted(sums)).encode()).hexdigest()


def main(output: Path) -> None:
    found = {}
    for name, case in cases().items():
        settings = dict(case)
        env = settings.pop("env")
        with tempfile.TemporaryDirectory() as directory:
            path = Path(directory) / "run"
            run = hindsight.train(env, run_dir=path, quiet=True, seed=SEED, **settings)
            found[name] = digest(run.path)
        print(f"{name:32} {found[name][:16]}", flush=True)
        output.write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
