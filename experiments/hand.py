"""What about an hour on two cores gives with the Shadow Hand, its sparse rewards, SAC and its
default settings."""

from hindsight.lab.reproduce.experiment import Experiment, Training

TASKS = {
    "reach": "HandReach-v3",
    "rotate-z": "HandManipulateBlockRotateZ-v1",
    "block": "HandManipulateBlock-v1",
    "egg": "HandManipulateEgg-v1",
    "pen": "HandManipulatePen-v1",
}

EXPERIMENT = Experiment(
    order=6,
    title="The Shadow Hand in about an hour",
    where="App. B",
    entries=tuple(
        Training(
            name,
            env,
            method="sac",
            settings={"agent.precision": "bfloat16", "steps": 4_000_000},
            seeds=(0, 1),
            label=env.partition("-")[0],
        )
        for name, env in TASKS.items()
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
    note=(
        "In the paper HandManipulateBlock saturates at 0.2, with HER as in OpenAI baselines and 12 "
        "workers."
    ),
)
