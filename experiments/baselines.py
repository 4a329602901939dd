"""Plain HER on the four Fetch and four Hand tasks, and our default settings beside it."""

from hindsight.lab.reproduce.experiment import Experiment, Paper, Training, Use

TASKS = (
    "FetchReach-v4",
    "FetchPush-v4",
    "FetchSlide-v4",
    "FetchPickAndPlace-v4",
    "HandReach-v3",
    "HandManipulateBlock-v1",
    "HandManipulateEgg-v1",
    "HandManipulatePen-v1",
)
# The paper prints no other number of its baselines ("saturation at around 0.2").
PAPER = {"HandManipulateBlock-v1": Paper(0.2)}


def entries() -> list[Training | Use]:
    found: list[Training | Use] = []
    for env in TASKS:
        slug = env.rpartition("-")[0].lower()
        if env == "FetchPush-v4":
            found.append(Use("push", "her", line=env, column="plain HER"))
            found.append(Use("push", "selected", line=env, column="our default"))
            continue
        found.append(
            Training(
                f"{slug}-her", env, preset="her", line=env, column="plain HER", paper=PAPER.get(env)
            )
        )
        if env not in ("FetchReach-v4", "HandReach-v3"):  # there both are the same
            found.append(
                Training(f"{slug}-default", env, line=env, column="our default", main=False)
            )
    return found


EXPERIMENT = Experiment(
    order=9,
    title="HER baselines on the Fetch and Hand tasks",
    where="App. B",
    entries=tuple(entries()),
    line_heading="task",
    note="On FetchReach and HandReach our default is plain HER.",
)
