"""Which way the policy gradient pushes, where it can be computed: on a grid with the structure of
FetchPush."""

from hindsight.lab.reproduce.experiment import Experiment, Measurement

EXPERIMENT = Experiment(
    order=16,
    title="Which way the policy gradient pushes: each part of it against the exact one",
    where="ours",
    entries=(
        Measurement(
            "grid",
            "push_gradient",
            minutes=1.0,
            settings={
                "edge": 2,
                "around": 1,
                "horizon": 8,
                "steps": (0, 10, 20, 40, 60),
                "compared": (0, 20),
                "episodes": 8,
                "batches": 512,
            },
            label="a grid of 5 x 5, 8 steps",
            seeds=(0, 1, 2, 3, 4),
        ),
    ),
    figure="none",
)
