"""Estimates of the hindsight policy gradient against the exact one, where it can be computed."""

from hindsight.lab.reproduce.experiment import Experiment, Measurement

BATCHES = {"episodes": 16, "batches": 48}

EXPERIMENT = Experiment(
    order=15,
    title="Which estimate of the policy gradient points where, on bit flip and four rooms",
    where="ours",
    entries=(
        Measurement(
            "four-rooms",
            "estimators",
            minutes=4.0,
            settings={
                "env": "hindsight/FourRooms-v0",
                "learnt_by": "exact gradients",
                "steps": (10, 60, 300, 600),
                "compared": (10, 60),
            }
            | BATCHES,
            label="four rooms",
            seeds=(0, 1, 2, 3, 4),
        ),
        Measurement(
            "four-rooms-hpg",
            "estimators",
            minutes=4.0,
            settings={
                "env": "hindsight/FourRooms-v0",
                "learnt_by": "HPG",
                "steps": (1000, 10_000),
                "compared": (10_000,),
            }
            | BATCHES,
            label="four rooms, where HPG gets stuck",
            seeds=(0, 1, 2, 3, 4),
        ),
        Measurement(
            "bits-8",
            "estimators",
            minutes=2.0,
            settings={
                "env": "hindsight/BitFlip-v0",
                "bits": 8,
                "learnt_by": "exact gradients",
                "steps": (5, 20),
                "compared": (5, 20),
            }
            | BATCHES,
            label="bit flip, 8 bits",
            seeds=(0, 1, 2, 3, 4),
        ),
    ),
    figure="none",
)
