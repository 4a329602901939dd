"""One queue, in which TD errors decide how many alternate goals are replayed, against two, in
which replay_k does."""

from hindsight.lab.reproduce.experiment import Experiment, Training, Use

REACH, PUSH = "FetchReach, replay_k 4", "FetchPush, our presets"

EXPERIMENT = Experiment(
    order=7,
    title="single_queue against two_queues",
    where="App. F",
    entries=(
        Use("goal_numbers", "reach-early_doubled", line=REACH, column="single_queue"),
        Training(
            "reach-two",
            "FetchReach-v4",
            preset="paper-normalized",
            settings={
                "priority.queues": "two_queues",
                "agent.target_update_interval": 2,
                "steps": 24_000,
                "eval_every": 1,
                "eval_episodes": 100,
            },
            line=REACH,
            column="two_queues",
        ),
        Use("push", "hper-single", line=PUSH, column="single_queue"),
        Use("push", "hper", line=PUSH, column="two_queues"),
    ),
    line_heading="task",
)
