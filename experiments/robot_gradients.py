"""Hindsight policy gradients on robot arms, with continuous actions."""

from hindsight.lab.reproduce.experiment import Experiment, Training

REACH, PUSH = "FetchReach-v4", "FetchPush-v4"
LEARNERS = ("a2c", "a3c", "ppo", "trpo", "hpg")

EXPERIMENT = Experiment(
    order=13,
    title="Policy gradients on robot arms",
    where="Sec. 5",
    entries=(
        *(
            Training(f"reach-{method}", REACH, method=method, label=f"FetchReach, {method}")
            for method in LEARNERS
        ),
        *(
            Training(
                f"reach-{method}-none",
                REACH,
                method=method,
                settings={"agent.hindsight": False},
                label=f"FetchReach, {method} without hindsight",
                main=False,
            )
            for method in LEARNERS
        ),
        *(
            Training(
                f"push-{method}-relay",
                PUSH,
                method=method,
                settings={"relay": True},
                label=f"FetchPush, {method}, relay goals",
            )
            for method in ("ppo", "trpo", "a2c")
        ),
        Training("push-ppo", PUSH, method="ppo", label="FetchPush, ppo", main=False),
        *(
            Training(
                f"{name}-ppo-relay",
                env,
                method="ppo",
                settings={"relay": True},
                label=f"{env.partition('-')[0]}, ppo, relay goals",
                seeds=(0,),
                main=False,
            )
            for name, env in (("slide", "FetchSlide-v4"), ("pick", "FetchPickAndPlace-v4"))
        ),
        Training(
            "push-replayed-ac",
            PUSH,
            method="replayed-ac",
            label="FetchPush, replayed-ac (off-policy)",
            seeds=(0, 1),
        ),
    ),
    columns=("label", "by_seed", "estimate", "best", "first", "steps", "minutes", "command"),
    note=(
        "All but replayed-ac are on-policy. The number to reach on FetchPush is 0.97 at 2M steps "
        "(HTRPO, published)."
    ),
)
