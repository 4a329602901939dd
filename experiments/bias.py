"""Importance weights in the loss of the critic, of critic and actor, or of none."""

from hindsight.lab.reproduce.experiment import Experiment, Training, Use

COLUMNS = {"critic": "critic only", "both": "critic and actor", "none": "none"}
REACH, PUSH = "FetchReach, one queue, replay_k 4", "FetchPush, two queues, replay_k 4"
REACH_SETTINGS = {
    "agent.target_update_interval": 2,
    "steps": 24_000,
    "eval_every": 1,
    "eval_episodes": 100,
}

EXPERIMENT = Experiment(
    order=8,
    title="Bias correction on critic, both or none",
    where="App. A",
    entries=(
        Use("goal_numbers", "reach-early_doubled", line=REACH, column=COLUMNS["critic"]),
        *(
            Training(
                f"reach-{correct}",
                "FetchReach-v4",
                preset="paper-normalized",
                settings=REACH_SETTINGS | {"priority.bias_correction": correct},
                line=REACH,
                column=COLUMNS[correct],
            )
            for correct in ("both", "none")
        ),
        Use("push", "hper", line=PUSH, column=COLUMNS["critic"]),
        *(
            Training(
                f"push-{correct}",
                "FetchPush-v4",
                preset="hper",
                settings={"priority.bias_correction": correct},
                line=PUSH,
                column=COLUMNS[correct],
            )
            for correct in ("both", "none")
        ),
    ),
    line_heading="task",
)
