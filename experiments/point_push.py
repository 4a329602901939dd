"""Every question about prioritised hindsight on the smallest task with the structure of Push, on
many seeds.

The base is hindsight prioritised replay in two queues by rank. Each variant changes the one
thing that it is named for.
"""

from typing import Any

from hindsight.lab.reproduce.experiment import Experiment, Training

SEEDS = (*range(10), *range(15, 25))  # the task was chosen on 10-14


def training(slug: str, label: str, preset: str = "hper", **settings: Any) -> Training:
    return Training(
        slug,
        "hindsight/PointPush-v0",
        preset=preset,
        settings={name.replace("__", "."): value for name, value in settings.items()},
        seeds=SEEDS,
        label=label,
        episodes=200,
    )


EXPERIMENT = Experiment(
    order=4,
    title="Does prioritising hindsight help? PointPush, one change at a time",
    where="Sec. 3 and 5, App. A, E, F",
    entries=(
        training("base", "HPER: two queues, by rank (the base)"),
        training("uniform", "pairs drawn uniformly", priority__sampling="uniform"),
        training("single", "one queue", priority__queues="single_queue"),
        training("her", "plain HER: goals chosen when sampled, no priorities", "her"),
        training("moved", "HER, 0.8 of a batch from episodes that moved the disc", "default"),
        training("none", "no hindsight", "her", replay__replay_k=0.0),
        training(
            "proportional", "proportional instead of by rank", priority__sampling="proportional"
        ),
        training("heap", "by place in a heap, as in the paper", priority__sampling="rank_heap"),
        training("uniform-numbers", "as many goals for every step", replay__goal_numbers="uniform"),
        training("early", "goals as in Algorithm 2: k (1 - t/T)", replay__goal_numbers="early"),
        training("late", "goals as in Section 3.2: k t/T", replay__goal_numbers="late"),
        training(
            "bias-both", "importance weights for critic and actor", priority__bias_correction="both"
        ),
        training("bias-none", "no importance weights", priority__bias_correction="none"),
        training(
            "late-bias-none",
            "two changes: goals k t/T, no importance weights",
            replay__goal_numbers="late",
            priority__bias_correction="none",
        ),
        training(
            "late-uniform",
            "two changes: goals k t/T, pairs drawn uniformly",
            replay__goal_numbers="late",
            priority__sampling="uniform",
        ),
        training("achieved", "goals already achieved are stored", replay__drop_achieved=0.0),
        training("k-8", "replay_k 8", replay__replay_k=8.0),
        training("k-linear", "replay_k from 8 to 1", replay__replay_k="linear(8, 1)"),
        training(
            "k-converge",
            "replay_k 8/(1 + t/0.25)",
            replay__replay_k="search_then_converge(8, 0.25)",
        ),
        training("alpha-1", "by rank with alpha 1 instead of 0.7", priority__alpha=1.0),
        training("fresh", "priorities fresh when sampled, 4 candidates each", priority__fresh=4),
        training(
            "fresh-proportional",
            "the same, proportional instead of by rank",
            priority__fresh=4,
            priority__sampling="proportional",
        ),
        training(
            "suggested",
            "a small model suggests 1 of 4 candidates",
            priority__fresh=4,
            priority__chosen_by="model",
        ),
        training(
            "actor-uniform",
            "the actor learns from a uniform batch (LA3P)",
            priority__actor_batch="uniform",
        ),
        training(
            "largest", "new pairs begin with the largest priority", priority__initial="largest"
        ),
        training(
            "predicted", "new pairs begin with a predicted priority", priority__initial="predicted"
        ),
        training("shared", "other goals of a transition follow by half", priority__shared=0.5),
        training("hardness", "hard goals first", priority__hardness=1.0),
        training(
            "hard-goals", "goals first that are hard for many states", priority__hard_goals=1.0
        ),
        training("sweep", "the step before follows by half (sweeping)", priority__sweep=0.5),
        training(
            "reducible",
            "by the loss that the target networks do not have (ReLo)",
            priority__signal="reducible",
        ),
        training(
            "next-future", "half of the goals are the next state", replay__goal_rule="next_future"
        ),
        training(
            "lap",
            "loss-adjusted: proportional, at least 1, Huber loss, no weights",
            priority__sampling="proportional",
            priority__floor=1.0,
            priority__bias_correction="none",
            agent__loss="huber",
        ),
        training(
            "others", "half of the goals are desired goals of others", replay__other_goals=0.5
        ),
        training("energy", "episodes by how far the disc moved", replay__moved_power=1.0),
    ),
    columns=("label", "count", "estimate", "area", "against", "soon"),
    base="base",
    figure="none",
    note="Task and settings of `her` were chosen on seeds 10-14, which are not among these.",
)
