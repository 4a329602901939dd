"""The quantity that Appendix D leaves unbounded, computed exactly during a training."""

from hindsight.lab.reproduce.experiment import Experiment, Measurement

EXPERIMENT = Experiment(
    order=14,
    title="The unproven bound of hindsight TRPO, exactly",
    where="App. D",
    entries=(
        Measurement(
            "trpo", "bound", minutes=1.0, settings={"method": "trpo", "bits": 6, "steps": 4000}
        ),
    ),
    figure="bound",
)
