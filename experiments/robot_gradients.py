"""Hindsight policy gradients on robot arms, with continuous actions."""

from hindsight.lab.reproduce.experiment import Experiment, Published, Training

REACH, PUSH = "FetchReach-v4", "FetchPush-v4"
LEARNERS = ("a2c", "a3c", "ppo", "trpo", "hpg")


def reach(method: str, hindsight: bool) -> Training:
    return Training(
        f"reach-{method}" if hindsight else f"reach-{method}-none",
        REACH,
        method=method,
        settings={} if hindsight else {"agent.hindsight": False},
        label=f"FetchReach, {method}" + ("" if hindsight else " without hindsight"),
        line=f"FetchReach, {method}",
        main=hindsight,
    )


def moves(
    slug: str, env: str, method: str, relay: bool = True, seeds: tuple[int, ...] = (0,)
) -> Training:
    """An object, with relay goals as in the presets, or without."""
    name = env.partition("-")[0]
    return Training(
        slug,
        env,
        method=method,
        settings={"relay": relay},
        label=f"{name}, {method}, {'' if relay else 'no '}relay goals",
        line=name,
        seeds=seeds,
        main=len(seeds) > 1,
    )


EXPERIMENT = Experiment(
    order=13,
    title="Policy gradients on robot arms",
    where="Sec. 5",
    entries=(
        *(reach(method, True) for method in LEARNERS),
        *(reach(method, False) for method in LEARNERS),
        moves("push-ppo-relay", PUSH, "ppo", seeds=(0, 1, 2)),
        moves("push-trpo-relay", PUSH, "trpo"),
        moves("push-a2c-relay", PUSH, "a2c"),
        moves("push-ppo", PUSH, "ppo", relay=False),
        moves("slide-ppo-relay", "FetchSlide-v4", "ppo"),
        moves("pick-ppo-relay", "FetchPickAndPlace-v4", "ppo"),
        Training(
            "push-replayed-ac",
            PUSH,
            method="replayed-ac",
            settings={"agent.precision": "float32"},
            label="FetchPush, replayed-ac (off-policy)",
            line="FetchPush",
            seeds=(0, 1),
        ),
    ),
    columns=("label", "by_seed", "estimate", "best", "first", "steps", "minutes", "command"),
    published=(
        Published(
            "FetchPush",
            "HTRPO, published",
            2_000_000,
            (0.97,),
            "Zhang et al., 2019, Hindsight Trust Region Policy Optimization",
        ),
    ),
    note=(
        "All but replayed-ac are on-policy. The number to reach on FetchPush is 0.97 at 2M steps "
        "(HTRPO, published)."
    ),
)
