"""The table of Section 4: the paper's settings, and ours, for each of its twelve rows."""

from typing import Any

from hindsight.lab.reproduce.experiment import Experiment, Paper, Training, Use

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


PAPER, NORMALISED, OURS = "the paper's settings", "and the normaliser on", "our settings"


def row(
    env: str, k: int, batch: int, updates: int, success: float, epoch: int, queues: str
) -> tuple[Training | Use, ...]:
    """The trainings of one row: with the paper's settings, on FetchReach also with its
    normaliser on, and with ours."""
    reach, task, paper = (
        env == "FetchReach",
        env.removeprefix("Fetch").lower(),
        Paper(success, epoch),
    )
    line = f"{env} | {k} | {batch} | {updates} | {queues}"
    slug = f"{task}-{queues.partition('_')[0]}-{k}-{batch}"
    same = {"priority.queues": queues, "replay.replay_k": float(k), "gradient_steps": updates}
    literal = same | {"batch_size": batch, "agent.target_update_interval": updates}
    literal |= {"steps": 24_000} if reach else {}
    common: dict[str, Any] = {
        "line": line,
        "paper": paper,
        "epoch_steps": 12_000 if reach else 60_000,
    }
    printed = Training(
        f"{slug}-paper", f"{env}-v4", "paper", settings=literal, column=PAPER, **common
    )
    if reach:
        preset, sooner = (
            "paper-normalized",
            same | {"agent.target_update_interval": 2, "steps": 12_000},
        )
        return (
            printed,
            Training(
                f"{slug}-normalised",
                "FetchReach-v4",
                preset,
                None,
                literal,
                column=NORMALISED,
                main=False,
                **common,
            ),
            Training(f"{slug}-ours", "FetchReach-v4", preset, None, sooner, column=OURS, **common),
        )
    if env == "FetchPush":
        return printed, Use(
            "push", "hper-single" if "single" in queues else "hper", "", line, OURS, paper
        )
    if (env, k) == ("FetchSlide", 8):
        return printed, Use("table", "slide-ours", "", line, OURS, paper)
    return printed, Training(f"{task}-ours", f"{env}-v4", "hper-single", line=line, column=OURS)


EXPERIMENT = Experiment(
    order=1,
    title="The table: HPER in one queue and two, on four Fetch tasks",
    where="Sec. 4",
    entries=tuple(entry for printed in ROWS for entry in row(*printed)),
    line_heading="env | replay_k | batch_size | n_batches | strategy",
    note=(
        "Our settings on Push, Slide and PickAndPlace are the presets `hper` and "
        "`hper-single`, which have their own "
        "replay_k and batch size; on FetchReach the row's own, with target networks averaged "
        "every 2 updates."
    ),
)
