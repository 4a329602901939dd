"""FetchPush, on which the paper's method scored what an untrained policy scores."""

from hindsight.lab.reproduce.experiment import Experiment, Training

PUSH = "FetchPush-v4"

EXPERIMENT = Experiment(
    order=2,
    title="FetchPush beaten: selected replay and HPER against plain HER",
    where="ours",
    entries=(
        Training("selected", PUSH, label="HER, replay selected (default)"),
        Training("her", PUSH, preset="her", label="plain uniform HER"),
        Training("hper", PUSH, preset="hper", label="HPER, two queues", seeds=(0, 1, 2, 3, 4)),
        Training("hper-single", PUSH, preset="hper-single", label="HPER, one queue"),
    ),
    columns=(
        "label",
        "by_seed",
        "estimate",
        "best",
        "first",
        "reached",
        "ratio",
        "moved",
        "steps",
        "minutes",
        "command",
    ),
)
