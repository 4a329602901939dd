"""What FetchSlide and FetchPickAndPlace reach in about half an hour on two cores."""

from hindsight.reproduce.experiment import Experiment, Training

# Goals chosen when stored, none that is met already at first, pairs drawn uniformly.
UNMET = {"priority.index": "none"}
SLIDE, PICK = "FetchSlide-v4", "FetchPickAndPlace-v4"

EXPERIMENT = Experiment(
    order=3,
    title="FetchSlide and FetchPickAndPlace in half an hour",
    where="ours",
    entries=(
        Training("slide", SLIDE, "hper", settings=UNMET | {"steps": 1_300_000}, label="FetchSlide"),
        Training(
            "pick",
            PICK,
            "hper",
            settings=UNMET | {"steps": 1_500_000},
            stop_at=700_000,
            label="FetchPickAndPlace",
        ),
    ),
    columns=("label", "by_seed", "best", "reached", "moved", "steps", "minutes", "command"),
)
