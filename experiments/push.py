"""FetchPush, on which the paper's method scored what an untrained policy scores."""

from typing import Any

from hindsight.lab.reproduce.experiment import Experiment, Training, Use

PUSH = "FetchPush-v4"
EVALUATED: dict[str, Any] = {
    "agent.precision": "float32",
    "eval_every": 10,
    "eval_episodes": 50,
}
"""Curves are compared: more often than presets do, and all in one precision."""

EXPERIMENT = Experiment(
    order=2,
    title="FetchPush: the default, HPER and uniform HER",
    where="ours",
    entries=(
        Use(
            "cheaper",
            "push-bfloat16",
            label="HER, 0.8 from episodes that moved the box (default)",
            seeds=(0, 1, 2, 3, 4),
        ),
        Training("selected", PUSH, settings=EVALUATED, label="the same in float32"),
        Training(
            "her", PUSH, settings=EVALUATED, preset="her", label="HER, uniform, the same else"
        ),
        Training(
            "hper",
            PUSH,
            settings=EVALUATED,
            preset="hper",
            label="HPER, two queues",
            seeds=(0, 1, 2, 3, 4),
        ),
        Training(
            "hper-single", PUSH, settings=EVALUATED, preset="hper-single", label="HPER, one queue"
        ),
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
