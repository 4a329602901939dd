"""What SAC and TQC need on Fetch: one setting changed at a time, on the seeds that presets are
chosen on. Nothing is reported from these."""

from typing import Any

from hindsight.lab.reproduce.experiment import Experiment, Training

BFLOAT16 = {"agent.precision": "bfloat16"}
GAMMA = {"agent.gamma": 0.95}
PUSH: dict[str, tuple[str, dict[str, Any]]] = {
    "base": ("none", {}),
    "gamma": ("gamma 0.95", GAMMA),
    "random": ("0.3 random actions, as DDPG", {"agent.random_actions": 0.3}),
    "no-bonus": ("entropy rewards the actor only", {"agent.entropy_in_target": False}),
}
SLIDE: dict[str, tuple[str, dict[str, Any]]] = {
    "base": ("none", {}),
    "gamma": ("gamma 0.95", GAMMA),
    "updates": ("twice as many updates", {"gradient_steps": 200}),
    "norm": ("LayerNorm", {"agent.layer_norm": True}),
    "sampled": (
        "goals chosen when sampled, half of them of other episodes, half of the batch moved (mrl)",
        {
            "replay.goals_chosen": "sampled",
            "replay.drop_achieved": 0.0,
            "priority.queues": "single_queue",
            "replay.other_goals": "step(0, 0.5, 0.05)",
            "replay.moved_share": 0.5,
        },
    ),
}


def push(method: str, name: str) -> Training:
    label, settings = PUSH[name]
    return Training(
        f"{method}-{name}",
        "FetchPush-v4",
        "relay",
        method=method,
        settings=BFLOAT16 | settings,
        seeds=(10, 11),
        label=f"Push with relay goals, {method.upper()}: {label}",
    )


def slide(method: str, name: str) -> Training:
    label, settings = SLIDE[name]
    return Training(
        f"slide-{method}-{name}",
        "FetchSlide-v4",
        method=method,
        settings=BFLOAT16 | {"steps": 500_000} | settings,
        seeds=(10, 11),
        label=f"Slide, {method.upper()}: {label}",
    )


EXPERIMENT = Experiment(
    order=15,
    title="Presets of SAC and TQC on FetchPush with relay goals, and on FetchSlide",
    where="ours",
    entries=(
        *(push(method, name) for method in ("sac", "tqc") for name in PUSH),
        *(slide("sac", name) for name in SLIDE),
        slide("tqc", "base"),
    ),
    columns=("label", "by_seed", "estimate", "area", "first", "moved", "steps", "command"),
    figure="none",
)
