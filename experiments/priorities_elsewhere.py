"""Does prioritising help where an object must be lifted, or slides away? HPER by rank in two
queues, and the same stored pairs drawn uniformly, which is the default there."""

from hindsight.lab.reproduce.experiment import Experiment, Training, Use

SETTINGS = {"agent.precision": "float32", "eval_every": 10, "eval_episodes": 50}

EXPERIMENT = Experiment(
    order=4,
    title="FetchPickAndPlace and FetchSlide: stored pairs by rank and uniformly",
    where="Sec. 4",
    entries=(
        Use("half_hour", "pick", label="FetchPickAndPlace: uniformly"),
        Training(
            "pick-rank",
            "FetchPickAndPlace-v4",
            preset="hper",
            settings=SETTINGS,
            stop_at=1_000_000,
            label="FetchPickAndPlace: by rank (HPER)",
            base="pick",
        ),
        Use("half_hour", "slide", label="FetchSlide: uniformly"),
        Training(
            "slide-rank",
            "FetchSlide-v4",
            preset="hper",
            method="ddpg",
            settings=SETTINGS,
            label="FetchSlide: by rank (HPER)",
            base="slide",
        ),
    ),
    columns=("label", "by_seed", "estimate", "area", "against", "steps", "command"),
)
