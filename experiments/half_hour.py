"""What FetchSlide and FetchPickAndPlace reach with their default settings, and what they reached
before, in float32."""

from hindsight.lab.reproduce.experiment import Experiment, Training

SEEDS = (0, 1, 2, 3, 4)
BFLOAT16, FLOAT32 = {"agent.precision": "bfloat16"}, {"agent.precision": "float32"}
SLIDE, PICK = "FetchSlide-v4", "FetchPickAndPlace-v4"

EXPERIMENT = Experiment(
    order=3,
    title="FetchSlide and FetchPickAndPlace, a million steps and more",
    where="ours",
    entries=(
        Training(
            "slide-sac", SLIDE, settings=BFLOAT16, seeds=SEEDS, label="FetchSlide: default (SAC)"
        ),
        Training(
            "pick-bfloat16",
            PICK,
            settings=BFLOAT16,
            seeds=SEEDS,
            label="FetchPickAndPlace: default (DDPG)",
        ),
        Training(
            "slide", SLIDE, method="ddpg", settings=FLOAT32, label="FetchSlide: DDPG, float32"
        ),
        Training(
            "pick",
            PICK,
            settings=FLOAT32,
            stop_at=1_000_000,
            label="FetchPickAndPlace: float32, stopped early",
        ),
    ),
    columns=(
        "label",
        "by_seed",
        "estimate",
        "best",
        "first",
        "reached",
        "moved",
        "steps",
        "minutes",
        "command",
    ),
)
