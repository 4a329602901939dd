"""The table of Section 4: the paper's settings, and ours, for each of its twelve rows."""

from hindsight.reproduce.experiment import Experiment, Paper, Training, Use

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


def entries() -> list[Training | Use]:
    found: list[Training | Use] = []
    used: set[str] = set()
    for env, k, batch, updates, success, epoch, queues in ROWS:
        line = f"{env} | {k} | {batch} | {updates} | {queues}"
        short = env.removeprefix("Fetch").lower()
        slug = f"{short}-{queues.removesuffix('_queue').removesuffix('_queues')}-{k}-{batch}"
        reach = env == "FetchReach"
        row = {"priority.queues": queues, "replay.replay_k": float(k), "updates_per_cycle": updates}
        literal = row | {"batch_size": batch, "agent.target_every": updates} | ({"steps": 24_000} if reach else {})
        paper, epoch_steps = Paper(success, epoch), 12_000 if reach else 60_000

        def training(name: str, preset: str, settings: dict[str, object], column: str, main: bool = True) -> Training:
            return Training(
                f"{slug}-{name}",  # noqa: B023  (called at once)
                f"{env}-v4",  # noqa: B023
                preset=preset,
                settings=settings,
                main=main,
                line=line,  # noqa: B023
                column=column,
                paper=paper,  # noqa: B023
                epoch_steps=epoch_steps if preset.startswith("paper") else None,  # noqa: B023
            )

        found.append(training("paper", "paper", literal, "the paper's settings"))
        if reach:
            found.append(training("normalised", "paper-normalized", literal, "and the normaliser on", main=False))
            ours = row | {"agent.target_every": 2, "steps": 12_000}
            found.append(training("ours", "paper-normalized", ours, "our settings"))
        elif env == "FetchPush":
            single = queues == "single_queue"
            found.append(
                Use("push", "hper-single" if single else "hper", line=line, column="our settings", paper=paper)
            )
        elif env in used:
            found.append(Use("table", f"{short}-ours", line=line, column="our settings", paper=paper))
        else:
            used.add(env)
            ours_too = Training(f"{short}-ours", f"{env}-v4", preset="hper-single", line=line, column="our settings")
            found.append(ours_too)
    return found


EXPERIMENT = Experiment(
    order=1,
    title="The table: HPER in one queue and two, on four Fetch tasks",
    where="Sec. 4",
    entries=tuple(entries()),
    line_heading="env | replay_k | batch_size | n_batches | strategy",
    note=(
        "Our settings on Push, Slide and PickAndPlace are the presets `hper` and `hper-single`, which have their own "
        "replay_k and batch size; on FetchReach the row's own, with target networks averaged every 2 updates."
    ),
)
