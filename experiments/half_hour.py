"""What FetchSlide and FetchPickAndPlace reach in about half an hour on two cores."""

from hindsight.lab.reproduce.experiment import Experiment, Training

EXPERIMENT = Experiment(
    order=3,
    title="FetchSlide and FetchPickAndPlace in half an hour",
    where="ours",
    entries=(
        Training("slide", "FetchSlide-v4", label="FetchSlide"),
        Training("pick", "FetchPickAndPlace-v4", stop_at=1_000_000, label="FetchPickAndPlace"),
    ),
    columns=("label", "by_seed", "best", "reached", "moved", "steps", "minutes", "command"),
)
