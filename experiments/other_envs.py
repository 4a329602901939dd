"""Other people's envs, with no settings at all: what `hindsight train ENV` reaches."""

from hindsight.lab.reproduce.experiment import Experiment, Training

EXPERIMENT = Experiment(
    order=4,
    title="Other people's envs, with the defaults",
    where="ours",
    entries=(
        Training(
            "parking",
            "parking-v0",
            label="`parking-v0`",
            peer="Stable-Baselines3 2.9.2: 0.98 (seed 0), `python -m benchmarks parking`",
            package="highway-env",
        ),
        Training(
            "umaze",
            "PointMaze_UMaze-v3",
            label="`PointMaze_UMaze-v3`",
            package="gymnasium-robotics",
        ),
        Training(
            "medium",
            "PointMaze_Medium-v3",
            label="`PointMaze_Medium-v3`",
            package="gymnasium-robotics",
        ),
        Training("panda-reach", "PandaReach-v3", label="`PandaReach-v3`", package="panda-gym"),
        Training("panda-push", "PandaPush-v3", label="`PandaPush-v3`", package="panda-gym"),
        Training(
            "ant",
            "AntMaze_UMaze-v5",
            label="`AntMaze_UMaze-v5`",
            package="gymnasium-robotics",
            main=False,
        ),
    ),
    columns=("label", "version", "by_seed", "best", "first", "steps", "minutes", "peer", "command"),
)
