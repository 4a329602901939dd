"""What FetchSlide and FetchPickAndPlace reach in a million steps and more."""

from hindsight.lab.reproduce.experiment import Experiment, Training

FLOAT32 = {"agent.precision": "float32"}

EXPERIMENT = Experiment(
    order=3,
    title="FetchSlide and FetchPickAndPlace, a million steps and more",
    where="ours",
    entries=(
        Training("slide", "FetchSlide-v4", settings=FLOAT32, label="FetchSlide"),
        Training(
            "pick",
            "FetchPickAndPlace-v4",
            settings=FLOAT32,
            stop_at=1_000_000,
            label="FetchPickAndPlace",
        ),
    ),
    columns=("label", "by_seed", "best", "reached", "moved", "steps", "minutes", "command"),
)
