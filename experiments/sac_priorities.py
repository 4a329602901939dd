"""Does what priorities do depend on the learner? SAC with stored pairs drawn by rank (HPER) and
uniformly: the one change of `ablation` and of `point_push`, where DDPG learns."""

from hindsight.lab.reproduce.experiment import Experiment, Training

UNIFORM = {"priority.sampling": "uniform"}


def point(slug: str, label: str, uniform: bool) -> Training:
    return Training(
        slug,
        "hindsight/PointPush-v0",
        "hper",
        method="sac",
        settings=UNIFORM if uniform else {},
        seeds=tuple(range(10)),
        label=label,
        episodes=200,
    )


def push(slug: str, label: str, uniform: bool) -> Training:
    return Training(
        slug,
        "FetchPush-v4",
        "hper",
        method="sac",
        settings={"agent.precision": "bfloat16"} | (UNIFORM if uniform else {}),
        seeds=(0, 1, 2, 3, 4),
        stop_at=304_000,
        label=label,
    )


EXPERIMENT = Experiment(
    order=15,
    title="Priorities with SAC: by rank and uniformly",
    where="ours",
    entries=(
        point("point-rank", "PointPush: by rank (HPER)", uniform=False),
        point("point-uniform", "PointPush: uniformly", uniform=True),
        push("push-rank", "Push: by rank (HPER)", uniform=False),
        push("push-uniform", "Push: uniformly", uniform=True),
    ),
    columns=("label", "by_seed", "estimate", "area", "soon", "steps", "command"),
)
