"""FetchReach with the paper's own settings, normaliser off: when does it learn, and what decides?

The base is one worker with batches of 512, as in the authors' log. Each variant changes one
thing.
"""

from typing import Any

from hindsight.lab.reproduce import published
from hindsight.lab.reproduce.experiment import Experiment, Training

EPOCH = 10 * 2 * 50  # of one worker: cycles, episodes, time limit


def training(slug: str, line: str, workers: int = 1, epochs: int = 12, **settings: Any) -> Training:
    return Training(
        slug,
        "FetchReach-v4",
        preset=f"paper:{workers}",
        settings={"steps": epochs * workers * EPOCH}
        | {name.replace("__", "."): value for name, value in settings.items()},
        seeds=(0, 1, 2, 3, 4),
        label=line,
        line=line,
        epoch_steps=workers * EPOCH,
        base="workers-12" if workers == 12 and slug != "workers-12" else "",
    )


# What could make twelve workers learn within an epoch or two, as the paper's table says.
TWELVE: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("512", "but batches of 512", {"batch_size": 512}),
    ("alpha-1", "alpha 1, as printed", {"priority__alpha": 1.0}),
    ("each-update", "priorities new at every update", {"priority__updates_per_draw": 1}),
    ("targets", "target networks averaged at every update", {"agent__target_update_interval": 1}),
    ("normalised", "normaliser on", {"agent__normalize": True}),
)
_40 = {"gradient_steps": 40, "agent__target_update_interval": 40}

EXPERIMENT = Experiment(
    order=6,
    title="The paper's settings on FetchReach",
    where="Sec. 4",
    entries=(
        training("base", "one worker, HPER, batches of 512, 50 updates"),
        training("batch-256", "one worker, HPER, batches of 256, 50 updates", batch_size=256),
        training(
            "updates-40", "one worker, HPER, batches of 256, 40 updates", batch_size=256, **_40
        ),
        training(
            "uniform",
            "one worker, uniform, batches of 256, 40 updates",
            batch_size=256,
            priority__sampling="uniform",
            priority__updates_per_draw=10,
            **_40,
        ),
        training("alpha-1", "alpha 1, as printed", priority__alpha=1.0),
        training("each-update", "priorities new at every update", priority__updates_per_draw=1),
        training("exact-rank", "exact ranks instead of a heap", priority__sampling="rank"),
        training(
            "targets", "target networks averaged at every update", agent__target_update_interval=1
        ),
        training("normalised", "normaliser on", agent__normalize=True),
        training("workers-12", "12 workers: batches of 12 x 512", workers=12, epochs=3),
        *(
            training(f"workers-12-{slug}", f"12 workers, {line}", workers=12, epochs=3, **change)
            for slug, line, change in TWELVE
        ),
    ),
    columns=("label", "count", "estimate", "area", "against", "soon", "command"),
    base="base",
    published=(
        published.REACH_512_50,
        published.REACH_256_50,
        published.REACH_256_40,
        published.REACH_UNIFORM_256_40,
    ),
    note=(
        "An epoch is 1,000 steps of one worker, 12,000 of twelve. The authors' logs reach 1.0 "
        "after 6 epochs (batches of 512), 9 (256), never (40 updates of 256), 9 (uniform)."
    ),
)
