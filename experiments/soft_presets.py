"""What SAC and TQC need on Fetch: one setting changed at a time, on the seeds that presets are
chosen on. Nothing is reported from these."""

from typing import Any

from hindsight.lab.reproduce.experiment import Experiment, Training

CHANGES: dict[str, tuple[str, dict[str, Any]]] = {
    "base": ("none", {}),
    "gamma": ("gamma 0.95", {"agent.gamma": 0.95}),
    "random": ("0.3 random actions, as DDPG", {"agent.random_actions": 0.3}),
    "no-bonus": ("entropy rewards the actor only", {"agent.entropy_in_target": False}),
}

EXPERIMENT = Experiment(
    order=15,
    title="Presets of SAC and TQC on FetchPush with relay goals",
    where="ours",
    entries=tuple(
        Training(
            f"{method}-{name}",
            "FetchPush-v4",
            "relay",
            method=method,
            settings={"agent.precision": "bfloat16"} | settings,
            seeds=(10, 11),
            label=f"{method.upper()}: {label}",
        )
        for method in ("sac", "tqc")
        for name, (label, settings) in CHANGES.items()
    ),
    columns=("label", "by_seed", "estimate", "area", "first", "moved", "steps", "command"),
    figure="none",
)
