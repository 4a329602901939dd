"""How many alternate goals each step of an episode gets: as many as others, or more for early or
late steps."""

from typing import Any

from hindsight.lab.reproduce.experiment import Experiment, Training, Use

RULES = {
    "uniform": "uniform: k",
    "early_doubled": "non-uniform, as in the published code: 2k (T-t)/(T+1)",
    "early": "non-uniform, Algorithm 2: k (1-t/T)",
    "late": "non-uniform, Sec. 3.2: k t/T",
}
# Evaluated after every cycle, because the question is how soon.
SOON = {"agent.target_update_interval": 2, "steps": 24_000, "eval_every": 1, "eval_episodes": 100}


def reach(rule: str) -> Training:
    settings: dict[str, Any] = SOON | {"replay.goal_numbers": rule}
    return Training(
        f"reach-{rule}",
        "FetchReach-v4",
        preset="paper-normalized",
        settings=settings,
        line="FetchReach, one queue, replay_k 4",
        column=RULES[rule],
        main=rule in ("uniform", "early_doubled"),
    )


def push(rule: str) -> Training | Use:
    line = "FetchPush, two queues, replay_k 4"
    if rule == "early_doubled":
        return Use("push", "hper", line=line, column=RULES[rule])
    settings = {"replay.goal_numbers": rule}
    return Training(
        f"push-{rule}",
        "FetchPush-v4",
        preset="hper",
        settings=settings,
        line=line,
        column=RULES[rule],
        main=rule == "uniform",
    )


EXPERIMENT = Experiment(
    order=6,
    title="Uniform against non-uniform numbers of alternate goals",
    where="App. E",
    entries=(*(reach(rule) for rule in RULES), *(push(rule) for rule in RULES)),
    line_heading="task",
)
