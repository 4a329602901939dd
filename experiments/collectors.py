"""Does a training whose episodes are played by asynchronous collectors on Ray learn the same?"""

from hindsight.lab.reproduce.experiment import Experiment, Training, Use

EXPERIMENT = Experiment(
    order=12,
    title="FetchPush by HPER, episodes played on Ray",
    where="ours",
    entries=(
        Use("push", "hper", label="in one process", seeds=(0, 1)),
        Training(
            "push-2",
            "FetchPush-v4",
            preset="hper",
            settings={"agent.precision": "float32"},
            collectors=2,
            seeds=(0, 1),
            label="two asynchronous collectors",
        ),
    ),
    columns=("label", "by_seed", "first", "best", "steps", "minutes", "command"),
)
