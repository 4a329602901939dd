"""FetchReach with the paper's own settings, normaliser off: when does it learn, and what decides?

Epochs of 10 cycles, as in the logs that the paper's authors published. The base is one worker with
batches of 512. Each variant changes one thing, but for those that follow a log of older code.
"""

from typing import Any

from hindsight.lab.reproduce import published
from hindsight.lab.reproduce.experiment import Experiment, Training
from hindsight.presets import published_beta

CYCLES, UPDATES = 10, 50
EPOCH = CYCLES * 2 * 50  # steps of one worker: episodes, time limit


def training(slug: str, line: str, workers: int = 1, epochs: int = 12, **settings: Any) -> Training:
    return Training(
        slug,
        "FetchReach-v4",
        preset=f"paper:{workers}",
        settings={
            "steps": epochs * workers * EPOCH,
            "priority.beta": published_beta(epochs * CYCLES * UPDATES),
            "eval_every": CYCLES,
            "eval_episodes": 60,
        }
        | {name.replace("__", "."): value for name, value in settings.items()},
        seeds=(0, 1, 2, 3, 4),
        label=line,
        line=line,
        epoch_steps=workers * EPOCH,
        base="workers-12" if workers == 12 and slug != "workers-12" else "",
    )


ONCE = f"linear(0.5, {0.5 + 0.5 * 12 * CYCLES * UPDATES / 100_000:g})"
# The logs of March are of older code: no importance weights yet, k goals for each step.
MARCH: dict[str, Any] = {
    "batch_size": 256,
    "gradient_steps": 40,
    "agent__target_update_interval": 40,
    "replay__goal_numbers": "uniform",
    "priority__beta": "linear(0.5, 1)",
}
# What could make twelve workers learn sooner, or later.
TWELVE: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("512", "but batches of 512", {"batch_size": 512}),
    ("one-heap", "one heap for all of them", {"priority__pairs_per_rank": 1}),
    ("td-error", "new pairs by their TD error", {"priority__initial": "td_error"}),
    ("normalised", "normaliser on", {"agent__normalize": True}),
)

EXPERIMENT = Experiment(
    order=6,
    title="The paper's settings on FetchReach",
    where="Sec. 4",
    entries=(
        training("base", "one worker, HPER, batches of 512, 50 updates"),
        training("batch-256", "one worker, HPER, batches of 256, 50 updates", batch_size=256),
        training(
            "march",
            "one worker, HPER as of March, batches of 256, 40 updates",
            priority__bias_correction="none",
            **MARCH,
        ),
        training(
            "march-uniform",
            "one worker, uniform, as of March, batches of 256, 40 updates",
            priority__sampling="uniform",
            priority__pairs_per_rank=1,
            priority__initial="td_error",
            priority__updates_per_draw=10,
            **MARCH,
        ),
        training(
            "td-error",
            "new pairs by their TD error, as in Algorithm 2",
            priority__initial="td_error",
        ),
        training(
            "each-50", "priorities new after 50 updates, not each", priority__updates_per_draw=50
        ),
        training("weights-once", "importance weights count once, as in PER", priority__beta=ONCE),
        training("alpha-1", "alpha 1, as printed", priority__alpha=1.0),
        training("exact-rank", "exact ranks instead of a heap", priority__sampling="rank"),
        training("goals", "k goals on average, not one more", replay__goal_numbers="early_doubled"),
        training(
            "targets", "target networks averaged at every update", agent__target_update_interval=1
        ),
        training("normalised", "normaliser on", agent__normalize=True),
        training("workers-12", "12 workers: batches of 12 x 512", workers=12, epochs=6),
        *(
            training(f"workers-12-{slug}", f"12 workers, {line}", workers=12, epochs=6, **change)
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
        published.REACH_12_WORKERS,
    ),
    note=(
        "An epoch is 1,000 steps of one worker, 12,000 of twelve. The authors' logs reach 1.0 "
        "after 6 epochs (batches of 512), 9 (256), never (March), 9 (March, uniform); with twelve "
        "workers after 6, and 0.82 after 2."
    ),
)
