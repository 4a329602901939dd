"""The ratio of alternate to actual goals in one queue, which the paper saw fall from about 6 to
about 4."""

from hindsight.lab.reproduce.experiment import Experiment, Training, Use

EXPERIMENT = Experiment(
    order=5,
    title="Alternate goals per actual one, when TD errors decide",
    where="Sec. 3.3, figure 2",
    entries=(
        Use("table", "reach-single-4-512-ours", line="FetchReach", label="FetchReach, replay_k 4"),
        Use("table", "reach-single-6-512-ours", line="FetchReach", label="FetchReach, replay_k 6"),
        Training(
            "reach-long",
            "FetchReach-v4",
            preset="hper-single",
            settings={"replay.replay_k": 6.0, "steps": 60_000},
            line="FetchReach",
            label="FetchReach, replay_k 6, 60,000 steps",
        ),
        Use("push", "hper-single", line="FetchPush", label="FetchPush, replay_k 8, our settings"),
        Use(
            "table",
            "push-single-8-256-paper",
            line="FetchPush",
            label="FetchPush, replay_k 8, the paper's settings",
        ),
    ),
    columns=("label", "by_seed", "ratio", "reached", "steps"),
    figure="ratio",
)
