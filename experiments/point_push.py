"""Every question about prioritised hindsight on the smallest task with the structure of Push, on
many seeds.

The base is the paper's method: hindsight prioritised replay in two queues by rank, goals stored as
they come, importance weights in the critic's loss. Each variant changes the one thing that it is
named for; where that needs another base, or two changes, `of` says what to hold it against.
"""

from typing import Any

from hindsight.lab.reproduce.experiment import Experiment, Training
from hindsight.presets import published_beta

SEEDS = (*range(10), *range(15, 25))  # the task was chosen on 10-14
BASE: dict[str, Any] = {"replay.drop_achieved": 0.0}
UNIFORM = {"priority.sampling": "uniform"}
PROPORTIONAL = {"priority.sampling": "proportional"}
NO_WEIGHTS = {"priority.bias_correction": "none"}
LATE = {"replay.goal_numbers": "late"}
FRESH = {"priority.fresh": 4}
TWICE = published_beta(25_600)
CODE: dict[str, Any] = {
    "priority.queues": "single_queue",
    "priority.sampling": "rank_heap",
    "priority.initial": "largest",
    "priority.updates_per_draw": 1,
    "priority.beta": TWICE,
    "replay.goal_numbers": "early_doubled_plus_1",
}
BASELINES = {
    "steps": 512_000,
    "eval_every": 32,
    "eval_episodes": 100,
    "agent.net_arch": (64, 64),
}
"""Steps, evaluations and networks as in the others."""


def training(
    slug: str,
    label: str,
    settings: dict[str, Any] | None = None,
    of: str = "",
    main: bool = True,
    preset: str = "hper",
) -> Training:
    return Training(
        slug,
        "hindsight/PointPush-v0",
        preset=preset,
        settings=(BASE if preset == "hper" else {}) | (settings or {}),
        seeds=SEEDS,
        label=label,
        episodes=200,
        main=main,
        base=of,
    )


def more(slug: str, label: str, settings: dict[str, Any], of: str = "") -> Training:
    """Run after the questions of the paper."""
    return training(slug, label, settings, of, main=False)


EXPERIMENT = Experiment(
    order=4,
    title="Does prioritising hindsight help? PointPush, one change at a time",
    where="Sec. 3 and 5, App. A, E, F",
    entries=(
        training("base", "HPER: two queues, by rank (the base)"),
        training("uniform", "pairs drawn uniformly", UNIFORM),
        training("single", "one queue", {"priority.queues": "single_queue"}),
        training("proportional", "proportional instead of by rank", PROPORTIONAL),
        training("heap", "by place in a heap", {"priority.sampling": "rank_heap"}),
        # How many goals for which step.
        training("uniform-numbers", "goals: k", {"replay.goal_numbers": "uniform"}),
        training("early", "goals: k (1 - t/T), Algorithm 2", {"replay.goal_numbers": "early"}),
        training("late", "goals: k t/T, Section 3.2", LATE),
        # Importance weights.
        training("bias-none", "no importance weights", NO_WEIGHTS),
        training(
            "bias-both",
            "importance weights for the actor, too",
            {"priority.bias_correction": "both"},
        ),
        # What the paper's code does, and its text does not say (docs/replay.md).
        training("largest", "new pairs have the largest priority", {"priority.initial": "largest"}),
        training(
            "weights-twice",
            "importance weights count twice, annealed over 100,000 updates",
            {"priority.beta": TWICE},
        ),
        training("code", "all of it, in one queue", CODE),
        # Is it still worth it where the rest is as good as it gets?
        training("late-uniform", "goals k t/T, uniformly", LATE | UNIFORM, "late"),
        training("late-bias-none", "goals k t/T, no weights", LATE | NO_WEIGHTS, "bias-none"),
        # Without priorities, goals chosen when sampled.
        training("her", "HER with our settings", preset="her"),
        training("moved", "HER, 0.8 from episodes that moved the disc", of="her", preset="default"),
        training("none", "no hindsight", {"replay.replay_k": 0.0}, of="her", preset="her"),
        # Annealing.
        training("k-8", "replay_k 8", {"replay.replay_k": 8.0}),
        training("k-linear", "replay_k from 8 to 1", {"replay.replay_k": "linear(8, 1)"}),
        training(
            "k-converge",
            "replay_k 8/(1 + t/0.25)",
            {"replay.replay_k": "search_then_converge(8, 0.25)"},
        ),
        more("batch-256", "batches of 256 instead of 512", {"batch_size": 256}),
        more(
            "dropped",
            "goals already achieved dropped at first",
            {"replay.drop_achieved": "linear(1.0, 0.5)"},
        ),
        more("alpha-1", "alpha 1 instead of 0.7", {"priority.alpha": 1.0}),
        # Heuristics.
        more("fresh", "priorities fresh when sampled, of 4 candidates by rank", FRESH),
        more(
            "fresh-uniform", "the same, of uniform candidates (LaBER)", FRESH | UNIFORM, "uniform"
        ),
        more(
            "suggested",
            "a model suggests 1 of 4 uniform candidates",
            FRESH | UNIFORM | {"priority.chosen_by": "model"},
            "uniform",
        ),
        more("predicted", "new pairs have a predicted priority", {"priority.initial": "predicted"}),
        more("shared", "other goals of a transition follow by half", {"priority.shared": 0.5}),
        more("sweep", "the step before follows by half (sweeping)", {"priority.sweep": 0.5}),
        more(
            "next-future",
            "half of the goals are the next state",
            {"replay.goal_rule": "next_future"},
        ),
        more(
            "proportional-none",
            "proportional, no weights",
            PROPORTIONAL | NO_WEIGHTS,
            "proportional",
        ),
        more(
            "others", "half of the goals are desired goals of others", {"replay.other_goals": 0.5}
        ),
        more(
            "energy",
            "uniformly, episodes by distance moved",
            UNIFORM | {"replay.moved_power": 1.0},
            "uniform",
        ),
        more(
            "energy-bias-none",
            "by rank, no weights, episodes by distance moved",
            NO_WEIGHTS | {"replay.moved_power": 1.0},
            "bias-none",
        ),
        training(
            "her-energy",
            "HER, episodes by distance moved (EBP)",
            {"replay.moved_power": 1.0},
            "her",
            main=False,
            preset="her",
        ),
        training(
            "baselines",
            "HER as in OpenAI baselines, 8 workers",
            BASELINES,
            main=False,
            preset="baselines",
        ),
    ),
    columns=("label", "count", "estimate", "area", "against", "gap", "soon", "swing"),
    base="base",
    figure="areas",
    note=(
        "Each is held against the base, or against the row that `of` names in "
        "experiments/point_push.py. Proportional priorities have their usual alpha, 0.6. Task and "
        "settings of `her` were chosen on seeds 10-14, which are not among these."
    ),
)
