"""Hindsight policy gradients on robot arms, with continuous actions."""

from hindsight.lab.reproduce.experiment import Experiment, Training

REACH, PUSH = "FetchReach-v4", "FetchPush-v4"
LEARNERS = ("a2c", "a3c", "ppo", "trpo")

EXPERIMENT = Experiment(
    order=13,
    title="Policy gradients on robot arms",
    where="Sec. 5",
    entries=(
        *(Training(f"reach-{method}", REACH, method=method, label=f"FetchReach, {method}") for method in LEARNERS),
        Training(
            "reach-ppo-none",
            REACH,
            method="ppo",
            settings={"agent.hindsight": False},
            label="FetchReach, ppo without hindsight",
            main=False,
        ),
        Training("push-ppo", PUSH, method="ppo", label="FetchPush, ppo with a replayed critic", seeds=(0, 1)),
        Training("push-trpo", PUSH, method="trpo", label="FetchPush, trpo", seeds=(0,), main=False),
    ),
    columns=("label", "by_seed", "estimate", "best", "first", "steps", "minutes", "command"),
    note="The number to reach on FetchPush is the 0.97 at 2M steps that HTRPO published.",
)
