"""Estimates of the hindsight policy gradient against the exact one, where it can be computed."""

from hindsight.reproduce.experiment import Experiment, Measurement

EXPERIMENT = Experiment(
    order=15,
    title="Which estimate of the policy gradient points where, on four rooms",
    where="ours",
    entries=(
        Measurement(
            "four-rooms",
            "estimators",
            minutes=4.0,
            settings={"exact_steps": (10, 60, 300, 600), "compared": (10, 60), "episodes": 16, "batches": 48},
            seeds=(0, 1, 2, 3, 4),
        ),
    ),
    figure="none",
)
