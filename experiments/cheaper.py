"""Ways to make trainings cheaper, one change each: goals of other episodes, bfloat16, relay goals.

Relay goals use knowledge of the task, so their rows say nothing about the others.
"""

from typing import Any

from hindsight.lab.reproduce.experiment import Experiment, Training, Use

PUSH, SLIDE, PICK = "FetchPush-v4", "FetchSlide-v4", "FetchPickAndPlace-v4"
SEEDS = (0, 1, 2, 3, 4)
OTHERS = {"replay.other_goals": "step(0, 0.5, 0.06)"}  # 2 : 2 : 1 after 25k of 400k steps
SLIDE_OTHERS = {"replay.other_goals": "step(0, 0.5, 0.02)"}  # after 25k of 1.3M
BFLOAT16 = {"agent.precision": "bfloat16"}
RELAY = {"relay": True}


def training(
    slug: str,
    env: str,
    label: str,
    settings: dict[str, Any],
    main: bool = True,
    preset: str = "default",
) -> Training:
    return Training(slug, env, preset, settings=settings, seeds=SEEDS, label=label, main=main)


EXPERIMENT = Experiment(
    order=3,
    title="Cheaper trainings: goals of other episodes, bfloat16, relay goals",
    where="ours",
    entries=(
        Use("push", "selected", label="Push: default", seeds=SEEDS),
        training("push-others", PUSH, "Push: and goals of other episodes", OTHERS),
        training("push-bfloat16", PUSH, "Push: and bfloat16", BFLOAT16),
        training("push-relay", PUSH, "Push: and relay goals", RELAY),
        training("push-relay-short", PUSH, "Push: preset relay", BFLOAT16, preset="relay"),
        training("pick-relay-short", PICK, "PickAndPlace: preset relay", BFLOAT16, preset="relay"),
        Use("half_hour", "slide", label="Slide: default", seeds=SEEDS),
        training("slide-others", SLIDE, "Slide: and goals of others", SLIDE_OTHERS, False),
        training("slide-bfloat16", SLIDE, "Slide: and bfloat16", BFLOAT16, False),
        training("slide-relay", SLIDE, "Slide: and relay goals", RELAY, False),
    ),
    columns=(
        "label",
        "by_seed",
        "estimate",
        "first",
        "reached",
        "moved",
        "steps",
        "minutes",
        "command",
    ),
)
