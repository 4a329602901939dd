"""DDPG, TD3, SAC and TQC on four Fetch tasks: the same replay, steps and updates, and what is each
learner's own.

Push and PickAndPlace have relay goals, which use knowledge of the task and hide some of what
exploration is worth; with them a training is short.
"""

from typing import Any

from hindsight.lab.reproduce.experiment import Experiment, Training

LEARNERS = ("ddpg", "td3", "sac", "tqc")
SHORT = {"agent.precision": "bfloat16", "eval_every": 20, "eval_episodes": 20}
TASKS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "reach": ("FetchReach-v4", "default", {}),
    "push": ("FetchPush-v4", "relay", SHORT),
    "pick": ("FetchPickAndPlace-v4", "relay", SHORT | {"steps": 400_000}),
    "slide": ("FetchSlide-v4", "default", SHORT | {"steps": 500_000}),
}

EXPERIMENT = Experiment(
    order=15,
    title="Off-policy learners on four Fetch tasks",
    where="ours",
    entries=tuple(
        Training(
            f"{name}-{method}",
            env,
            preset,
            method=method,
            settings=settings,
            line=env.partition("-")[0] + (", relay goals" if preset == "relay" else ""),
            column=method.upper(),
            main=name in ("reach", "push"),
        )
        for name, (env, preset, settings) in TASKS.items()
        for method in LEARNERS
    ),
    line_heading="task",
    note="Presets were chosen with DDPG. TD3's actor learns every second update.",
)
