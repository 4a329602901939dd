"""HER as in OpenAI baselines, held against the curves that the paper's authors published."""

from hindsight.lab.reproduce import published
from hindsight.lab.reproduce.experiment import Experiment, Training

PUSH, PICK_AND_PLACE, SLIDE = "FetchPush-v4", "FetchPickAndPlace-v4", "FetchSlide-v4"


def training(slug: str, env: str, workers: int, epochs: int) -> Training:
    steps = epochs * 50 * 2 * workers * 50
    return Training(
        slug,
        env,
        preset=f"baselines:{workers}",
        settings={
            "steps": steps,
            "replay.buffer_size": max(steps, 1_000_000),
            "agent.precision": "bfloat16",
        },
        seeds=(0,),
        label=f"{env}, {workers} workers",
        line=env,
        epoch_steps=steps // epochs,
    )


EXPERIMENT = Experiment(
    order=5,
    title="HER as in OpenAI baselines, and the published curves",
    where="App. B",
    entries=(
        training("push", PUSH, 8, 20),
        training("pick-and-place", PICK_AND_PLACE, 18, 33),
        training("slide", SLIDE, 18, 50),
    ),
    columns=("label", "by_seed", "estimate", "soon", "steps", "minutes", "command"),
    published=(published.PUSH_8, published.PICK_AND_PLACE_18, published.SLIDE_18),
    note=(
        "N workers: 2N episodes and 40 updates of 256 N transitions per cycle, target networks "
        "averaged once per cycle. Products are in bfloat16, to have it in half of the time. The "
        "published curves are of the -v1 envs."
    ),
)
