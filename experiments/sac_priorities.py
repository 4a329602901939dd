"""Does what priorities do depend on the learner? SAC with stored pairs drawn by rank (HPER) and
uniformly: the one change of `point_push`, and of `ablation` where achieved goals are stored, as in
the paper. There DDPG learns."""

from dataclasses import replace

from hindsight.lab.reproduce.experiment import Experiment, Training

STORED = {"replay.drop_achieved": 0.0}
TASKS = {
    "PointPush": Training(
        "point",
        "hindsight/PointPush-v0",
        "hper",
        settings=STORED,
        seeds=tuple(range(10)),
        episodes=200,
    ),
    "Push": Training(
        "push",
        "FetchPush-v4",
        "hper",
        settings=STORED | {"agent.precision": "bfloat16", "eval_every": 10, "eval_episodes": 50},
        seeds=(0, 1, 2, 3, 4),
        stop_at=304_000,
    ),
}
SAMPLING = {"rank": "by rank (HPER)", "uniform": "uniformly"}

EXPERIMENT = Experiment(
    order=15,
    title="Priorities with SAC: by rank and uniformly",
    where="ours",
    entries=tuple(
        replace(
            task,
            slug=f"{task.slug}-{sampling}",
            method="sac",
            settings={**task.settings, "priority.sampling": sampling},
            label=f"{name}: {label}",
            base="" if sampling == "rank" else f"{task.slug}-rank",
        )
        for name, task in TASKS.items()
        for sampling, label in SAMPLING.items()
    ),
    columns=("label", "by_seed", "estimate", "area", "against", "gap", "soon", "steps", "command"),
)
