"""What FetchSlide needs, on the seeds that presets are chosen on. Nothing is reported from these.

The base follows mrl (`futureactual_2_2`): half of the relabels are desired goals of other episodes,
little weight on actions, LayerNorm, less noise. Each of the others takes one thing back.
"""

from typing import Any

from hindsight.lab.reproduce.experiment import Experiment, Training

BASE: dict[str, Any] = {
    "agent.precision": "bfloat16",
    "replay.other_goals": "step(0, 0.5, 0.02)",
    "replay.moved_share": 0.5,
    "agent.action_l2": 0.01,
    "agent.layer_norm": True,
    "agent.exploration_noise": 0.1,
    "agent.random_actions": 0.2,
}
CHANGES: dict[str, tuple[str, dict[str, Any]]] = {
    "all": ("all changes", {}),
    "own-goals": ("but no goals of other episodes", {"replay.other_goals": 0.0}),
    "l2": ("but action_l2 1", {"agent.action_l2": 1.0}),
    "no-norm": ("but no LayerNorm", {"agent.layer_norm": False}),
    "noise": (
        "but noise 0.2 and 0.3 random actions",
        {"agent.exploration_noise": 0.2, "agent.random_actions": 0.3},
    ),
}

EXPERIMENT = Experiment(
    order=15,
    title="What FetchSlide needs",
    where="ours",
    entries=tuple(
        Training(
            name,
            "FetchSlide-v4",
            "her",
            settings=BASE | settings,
            seeds=(10,),
            label=label,
            main=name == "all",
        )
        for name, (label, settings) in CHANGES.items()
    ),
    columns=("label", "by_seed", "area", "best", "moved", "steps", "command"),
    figure="none",
)
