"""Every policy-gradient learner, with hindsight and without, on 16 bits and four rooms."""

from typing import Any

from hindsight.reproduce.experiment import Experiment, Training, Use

BITS, ROOMS = "bit flip, 16 bits", "four rooms"


def entries() -> list[Training | Use]:
    found: list[Training | Use] = []
    for slug, env, task, best, kwargs in (
        ("bits", "hindsight/BitFlip-v0", BITS, 9.00, {"bits": 16}),
        ("rooms", "hindsight/FourRooms-v0", ROOMS, 18.84, {}),
    ):
        for method in ("hpg", "a2c", "a3c", "ppo", "trpo"):
            line = f"{task} | {method}"
            if method == "hpg":
                measured = "bits-16" if slug == "bits" else "four-rooms"
                found.append(Use("policy_gradients", measured, line=line, column="with hindsight"))
                found.append(Use("policy_gradients", f"{measured}-none", line=line, column="without hindsight"))
                continue
            common: dict[str, Any] = {
                "method": method,
                "env_kwargs": kwargs,
                "line": line,
                "best_score": best,
                "episodes": 2000,
                "seeds": (0, 1, 2, 3, 4),
            }
            without = {"agent.hindsight": False}
            found.append(Training(f"{slug}-{method}", env, column="with hindsight", **common))
            found.append(
                Training(
                    f"{slug}-{method}-none", env, column="without hindsight", settings=without, main=False, **common
                )
            )
    return found


EXPERIMENT = Experiment(
    order=12,
    title="HPG, A2C, A3C, PPO and TRPO with and without hindsight",
    where="Sec. 2.3 and 5",
    entries=tuple(entries()),
    line_heading="env | learner",
    cell="score",
    figure="score",
)
