"""On-policy learners on point push, with and without hindsight, on many seeds."""

from hindsight.lab.reproduce.experiment import Experiment, Training

LEARNERS = ("hpg", "a2c", "a3c", "ppo", "trpo")


def training(method: str, hindsight: bool) -> Training:
    return Training(
        method if hindsight else f"{method}-none",
        "hindsight/PointPush-v0",
        method=method,
        settings={} if hindsight else {"agent.hindsight": False},
        seeds=tuple(range(10)),  # settings were tried on seed 10
        label=method if hindsight else f"{method} without hindsight",
        line=method,
        episodes=200,
    )


EXPERIMENT = Experiment(
    order=13,
    title="PointPush: policy gradients with and without hindsight",
    where="Sec. 5",
    entries=tuple(
        training(method, hindsight) for hindsight in (True, False) for method in LEARNERS
    ),
    columns=("label", "count", "estimate", "area", "soon", "steps", "command"),
    note="All on-policy.",
)
