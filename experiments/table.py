"""The table of Section 4: the paper's settings, and ours, for each of its twelve rows."""

from typing import Any

from hindsight.lab.reproduce.experiment import Experiment, Paper, Training
from hindsight.presets import published_beta

# env, replay_k, batch_size, n_batches, best success rate, best epoch, strategy; as printed
ROWS = (
    ("FetchReach", 4, 512, 50, 1.0, 1, "single_queue"),
    ("FetchReach", 6, 512, 50, 1.0, 1, "single_queue"),
    ("FetchSlide", 4, 512, 50, 0.0167, 26, "single_queue"),
    ("FetchPush", 8, 256, 50, 0.09583, 38, "single_queue"),
    ("FetchPickAndPlace", 8, 256, 50, 0.05833, 18, "single_queue"),
    ("FetchSlide", 8, 512, 50, 0.12083, 20, "single_queue"),
    ("FetchReach", 6, 512, 40, 1.0, 1, "two_queues"),
    ("FetchReach", 8, 512, 40, 1.0, 1, "two_queues"),
    ("FetchPush", 4, 256, 40, 0.09583, 16, "two_queues"),
    ("FetchPush", 6, 256, 40, 0.1125, 45, "two_queues"),
    ("FetchPush", 8, 256, 40, 0.083, 47, "two_queues"),
    ("FetchPush", 8, 512, 40, 0.09583, 1, "two_queues"),
)
NORMALISED = (0, 3, 4, 5)
"""Rows that are run with the normaliser on as well: one per task."""
WORKERS = 12
STEPS = {"FetchReach": 12_000, "FetchPush": 1_000_000}
OTHER_STEPS = 1_300_000


def row(
    number: int, env: str, k: int, batch: int, updates: int, success: float, epoch: int, queues: str
) -> list[Training]:
    """The trainings of one row: with the paper's settings, with its normaliser on, and with
    ours."""
    reach, two = env == "FetchReach", queues == "two_queues"
    epochs, cycles = 3 if reach else 20, 50
    epoch_steps = cycles * 2 * WORKERS * 50
    slug = f"{env.removeprefix('Fetch').lower()}-{queues.partition('_')[0]}-{k}-{batch}"
    own = {"priority.queues": queues, "replay.replay_k": float(k), "gradient_steps": updates}
    if not reach:
        own["agent.precision"] = "bfloat16"
    literal = own | {
        "batch_size": WORKERS * batch,
        "agent.target_update_interval": updates,
        "steps": epochs * epoch_steps,
        "priority.beta": published_beta(epochs * cycles * updates),
    }
    if two:
        literal["replay.goal_numbers"] = "early_doubled"
    ours = own | {"batch_size": batch, "steps": STEPS.get(env, OTHER_STEPS)}

    def training(name: str, column: str, preset: str, settings: dict[str, Any]) -> Training:
        return Training(
            f"{slug}-{name}",
            f"{env}-v4",
            preset,
            method="ddpg" if env == "FetchSlide" and name == "ours" else None,
            settings=settings,
            column=column,
            line=f"{env} | {k} | {batch} | {updates} | {queues}",
            paper=Paper(success, epoch),
            epoch_steps=None if name == "ours" else epoch_steps,
            seeds=(0, 1) if name == "ours" else (0,),
            main=name != "normalised",
        )

    made = [training("paper", "the paper's settings", "paper", literal)]
    if number in NORMALISED:
        made.append(training("normalised", "and the normaliser on", "paper-normalized", literal))
    hper = "hper" if two else "hper-single"
    return [*made, training("ours", "our settings", hper, ours)]


EXPERIMENT = Experiment(
    order=1,
    title="The table: HPER in one queue and two, on four Fetch tasks",
    where="Sec. 4",
    entries=tuple(entry for i, printed in enumerate(ROWS) for entry in row(i, *printed)),
    line_heading="env | replay_k | batch_size | n_batches | strategy",
    note=(
        "The paper's settings: `--preset paper`, the gradients of 12 workers averaged; 3 epochs on "
        "FetchReach, 20 of 50 on the others, and there with products in bfloat16. Epochs count "
        "from 0, as the paper's do. Our settings: "
        "replay_k, batch_size, n_batches and strategy of the row. What differs: `--preset hper` or "
        "`hper-single`, that is the normaliser on, exact ranks, one episode in each of 32 envs per "
        "cycle (8 on FetchReach), target networks averaged every 10 updates, no achieved goals at "
        "first, and on the object tasks an averaged policy, a lower learning rate at the end, and "
        "products in bfloat16; in one queue episodes that moved the object are preferred."
    ),
)
