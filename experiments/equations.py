"""The paper's Eq. 1 and Eq. 2, trained beside the other estimators of the policy gradient.

Each differs from `hpg` as it is preset in nothing but the estimator; Eq. 2 also in its baseline,
which is subtracted under every goal, as printed (`leave_one_out` off).
"""

from typing import Any

from hindsight.lab.reproduce.experiment import Experiment, Training, Use

SEEDS = (0, 1, 2, 3, 4)
NAMES = {
    "weighted": "per decision, weighted (the default)",
    "per-decision": "per decision",
    "product": "Eq. 1: the whole product",
    "paper": "Eq. 2: the whole product, minus V of every later state",
    "none": "no hindsight",
}
CHANGES: dict[str, dict[str, Any]] = {
    "per-decision": {"agent.estimator": "per_decision"},
    "product": {"agent.estimator": "product"},
    "paper": {
        "agent.estimator": "product",
        "agent.baseline": "paper",
        "agent.leave_one_out": False,
    },
}
# env, arguments, best score, the experiment with the default and without hindsight, their slugs
TASKS: dict[str, tuple[str, dict[str, Any], float | None, str, dict[str, str]]] = {
    "bit flip, 16 bits": (
        "hindsight/BitFlip-v0",
        {"bits": 16},
        9.00,
        "policy_gradients",
        {"weighted": "bits-16", "none": "bits-16-none"},
    ),
    "empty room": (
        "hindsight/EmptyRoom-v0",
        {},
        21.92,
        "policy_gradients",
        {"weighted": "empty-room", "none": "empty-room-none"},
    ),
    "point push": (
        "hindsight/PointPush-v0",
        {},
        None,
        "point_push_gradients",
        {"weighted": "hpg", "none": "hpg-none"},
    ),
}


def entries() -> list[Training | Use]:
    found: list[Training | Use] = []
    for task, (env, kwargs, best, home, slugs) in TASKS.items():
        for name, label in NAMES.items():
            label = f"{task}: {label}"
            if name in slugs:
                found.append(Use(home, slugs[name], label=label, line=task, seeds=SEEDS))
                continue
            found.append(
                Training(
                    f"{task.partition(',')[0].replace(' ', '-')}-{name}",
                    env,
                    method="hpg",
                    settings=CHANGES[name],
                    env_kwargs=kwargs,
                    seeds=SEEDS,
                    label=label,
                    line=task,
                    episodes=2000 if best else 200,
                    best_score=best,
                )
            )
    return found


EXPERIMENT = Experiment(
    order=13,
    title="The paper's Eq. 1 and Eq. 2, trained",
    where="Sec. 2.3, Eq. 1, 2",
    entries=tuple(entries()),
    columns=("label", "count", "estimate", "area", "soon", "steps", "command"),
    figure="none",
    note=(
        "All on-policy, `hpg`. In bit flip and rooms the only reward comes with the goal, at the "
        "end: there Eq. 1 and per decision are the same."
    ),
)
