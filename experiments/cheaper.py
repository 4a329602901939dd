"""Ways to make trainings cheaper, one change each: goals of other episodes, bfloat16, relay goals.

Relay goals use knowledge of the task, so their rows say nothing about the others.
"""

from typing import Any

from hindsight.lab.reproduce.experiment import Experiment, Training, Use

PUSH, SLIDE, PICK = "FetchPush-v4", "FetchSlide-v4", "FetchPickAndPlace-v4"
SEEDS = (0, 1, 2, 3, 4)
# With achieved goals as they come: to replace them would bring others' goals, too, and to drop them
# would thin the own ones.
OWN = {"replay.replace_achieved": 0.0}
OTHERS = OWN | {"replay.other_goals": "step(0, 0.5, 0.06)"}  # 2 : 2 : 1 after 25k of 400k steps
SLIDE_OWN = {"replay.drop_achieved": 0.0}
SLIDE_OTHERS = SLIDE_OWN | {"replay.other_goals": "step(0, 0.5, 0.02)"}  # after 25k of 1.3M
BFLOAT16 = {"agent.precision": "bfloat16"}
RELAY = {"relay": True}
SLIDE_RELAY = RELAY | {"replay.buffer_size": 2_000_000}  # two stages: as many env steps as without


def training(
    slug: str,
    env: str,
    label: str,
    settings: dict[str, Any],
    of: str = "",
    preset: str = "default",
) -> Training:
    """`of`: the row that it changes one thing of."""
    main = env != SLIDE
    return Training(
        slug,
        env,
        preset,
        method="ddpg" if env == SLIDE else None,
        settings=BFLOAT16 | settings,
        seeds=SEEDS,
        label=label,
        main=main,
        base=of,
    )


EXPERIMENT = Experiment(
    order=3,
    title="Cheaper trainings: goals of other episodes, bfloat16, relay goals",
    where="ours",
    entries=(
        Use("push", "selected", label="Push: default in float32", seeds=SEEDS),
        training("push-bfloat16", PUSH, "Push: default (bfloat16)", {}, "selected"),
        training("push-relay", PUSH, "Push: and relay goals", RELAY, "push-bfloat16"),
        training("push-own", PUSH, "Push: achieved goals not replaced", OWN, "push-bfloat16"),
        training("push-others", PUSH, "Push: so, goals of others", OTHERS, "push-own"),
        training("push-relay-short", PUSH, "Push: preset relay", {}, preset="relay"),
        training("pick-relay-short", PICK, "PickAndPlace: preset relay", {}, preset="relay"),
        Use("half_hour", "slide", label="Slide: default in float32", seeds=SEEDS),
        training("slide-bfloat16", SLIDE, "Slide: default (bfloat16)", {}, "slide"),
        training("slide-relay", SLIDE, "Slide: and relay goals", SLIDE_RELAY, "slide-bfloat16"),
        training(
            "slide-own", SLIDE, "Slide: achieved goals not dropped", SLIDE_OWN, "slide-bfloat16"
        ),
        training("slide-others", SLIDE, "Slide: so, goals of others", SLIDE_OTHERS, "slide-own"),
    ),
    columns=(
        "label",
        "by_seed",
        "estimate",
        "against",
        "gap",
        "first",
        "reached",
        "moved",
        "steps",
        "minutes",
        "command",
    ),
)
