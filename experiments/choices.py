"""What presets of SAC, TQC, Slide and the Hand are chosen by, on seeds that no result is reported
from: one setting of a base changed at a time."""

from collections.abc import Mapping
from typing import Any

from hindsight.lab.reproduce.experiment import Experiment, Training

Changes = Mapping[str, tuple[str, dict[str, Any]]]

GAMMA = ("gamma 0.95", {"agent.gamma": 0.95})
PUSH: Changes = {
    "base": ("the base", {}),
    "gamma": GAMMA,
    "random": ("0.3 random actions, as DDPG", {"agent.random_actions": 0.3}),
    "no-bonus": ("entropy rewards the actor only", {"agent.entropy_in_target": False}),
}
MORE: dict[str, Any] = {"gradient_steps": 200, "steps": 150_000}
PICK: Changes = {
    "base": ("the base", {}),
    "gamma": GAMMA,
    "no-random": ("no random actions", {"agent.random_actions": 0.0, "agent.random_hold": 1.0}),
}
ALONE: Changes = {
    "base": ("the base", {}),
    "gamma": GAMMA,
    "met": ("goals that are met already are replayed", {"replay.replace_achieved": 0.0}),
    "batch": ("batches of 256", {"batch_size": 256}),
    "large": ("half the updates, of 1024", {"batch_size": 1024, "gradient_steps": 50}),
    "critic": ("one critic", {"agent.num_critics": 1}),
    "dense": ("twice as many updates per step", MORE),
    "cheap": (
        "all three",
        MORE | {"batch_size": 256, "agent.num_critics": 1},
    ),
}
MET: dict[str, Any] = {"replay.drop_achieved": 0.0}
NO_WEIGHTS: dict[str, Any] = {"priority.bias_correction": "none"}
RANK: Changes = {
    "base": ("the base", {}),
    "no-weights": ("no importance weights", NO_WEIGHTS),
    "met": ("goals that are met already are stored", MET),
    "met-no-weights": ("both", MET | NO_WEIGHTS),
}
SLIDE: Changes = {
    "base": ("the base", {}),
    "gamma": GAMMA,
    "updates": ("twice as many updates", {"gradient_steps": 200}),
    "norm": ("LayerNorm", {"agent.layer_norm": True}),
    "long": ("1,300,000 steps", {"steps": 1_300_000}),
    "mrl": (
        "goals as in mrl",
        {
            "replay.goals_chosen": "sampled",
            "replay.drop_achieved": 0.0,
            "priority.queues": "single_queue",
            "replay.other_goals": "step(0, 0.5, 0.05)",
            "replay.moved_share": 0.5,
        },
    ),
}
# mrl (`futureactual_2_2`): half of the relabels are desired goals of other episodes, little weight
# on actions, LayerNorm, less noise. Each of the others takes one thing back.
MRL: dict[str, Any] = {
    "replay.other_goals": "step(0, 0.5, 0.02)",
    "replay.moved_share": 0.5,
    "agent.action_l2": 0.01,
    "agent.layer_norm": True,
    "agent.exploration_noise": 0.1,
    "agent.random_actions": 0.2,
}
SLIDE_MRL: Changes = {
    "all": ("mrl's settings", MRL),
    "own-goals": ("but no goals of other episodes", MRL | {"replay.other_goals": 0.0}),
    "l2": ("but action_l2 1", MRL | {"agent.action_l2": 1.0}),
    "no-norm": ("but no LayerNorm", MRL | {"agent.layer_norm": False}),
    "noise": (
        "but noise 0.2 and 0.3 random actions",
        MRL | {"agent.exploration_noise": 0.2, "agent.random_actions": 0.3},
    ),
    "moved": ("but all episodes alike", MRL | {"replay.moved_share": 0.0}),
}
BASE: Changes = {"base": ("the base", {})}
TRUNCATED: Changes = {
    "base": ("the base", {}),
    "keep": ("no quantile dropped, not 2 of 25", {"agent.drop_per_critic": 0}),
    "drop": ("5 of 25 quantiles dropped, not 2", {"agent.drop_per_critic": 5}),
}
MILLION = {"steps": 1_000_000}
# name, env, method, preset, settings, what is changed
GROUPS: tuple[tuple[str, str, str, str, dict[str, Any], Changes], ...] = (
    ("push", "FetchPush-v4", "sac", "relay", {}, PUSH),
    ("push", "FetchPush-v4", "tqc", "relay", {}, BASE),
    ("pick", "FetchPickAndPlace-v4", "sac", "relay", {"steps": 400_000}, PICK),
    ("push-default", "FetchPush-v4", "sac", "default", {"steps": 300_000}, ALONE),
    ("pick-default", "FetchPickAndPlace-v4", "sac", "default", {"steps": 600_000}, BASE),
    ("push-hper", "FetchPush-v4", "ddpg", "hper", {"steps": 300_000}, RANK),
    ("slide", "FetchSlide-v4", "sac", "default", {"steps": 500_000}, SLIDE),
    ("slide", "FetchSlide-v4", "tqc", "default", {"steps": 500_000}, TRUNCATED),
    ("slide", "FetchSlide-v4", "ddpg", "her", {}, SLIDE_MRL),
    *(
        (name, env, method, "default", MILLION, BASE)
        for name, env in (
            ("hand-reach", "HandReach-v3"),
            ("rotate-z", "HandManipulateBlockRotateZ-v1"),
        )
        for method in ("ddpg", "sac")
    ),
)

EXPERIMENT = Experiment(
    order=15,
    title="What presets of Fetch and the Hand are chosen by",
    where="ours",
    entries=tuple(
        Training(
            f"{name}-{method}-{slug}",
            env,
            preset,
            method=method,
            settings={"agent.precision": "bfloat16"} | settings | change,
            seeds=(10, 11),
            label=f"{env.partition('-')[0]}, {method.upper()}, `{preset}`: {label}",
        )
        for name, env, method, preset, settings, changes in GROUPS
        for slug, (label, change) in changes.items()
    ),
    columns=("label", "by_seed", "area", "best", "first", "moved", "steps", "command"),
    figure="none",
)
