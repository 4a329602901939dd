"""Every policy-gradient learner, with hindsight and without, on bit flip and four rooms."""

from typing import Any

from hindsight.lab.reproduce.experiment import Experiment, Training, Use

WITH, WITHOUT, BIASED = (
    "with hindsight",
    "without hindsight",
    "with hindsight, values of all goals subtracted",
)
LEARNERS = ("hpg", "a2c", "a3c", "ppo", "trpo")
PLAIN_HPG = {
    "eval_every": 10,
    "agent.baseline": "none",
    "agent.goals": 64,
    "agent.actual_goals": False,
    "agent.critic_updates": 8,
    "agent.leave_one_out": True,
    "agent.fourier_features": 4,
    "agent.learning_rate": 1e-3,
    "agent.entropy": 0.005,
}
"""HPG without a baseline: the preset of four rooms is made for many more steps."""


def both(
    slug: str, env: str, line: str, best: float, method: str, **more: Any
) -> tuple[Training, Training]:
    """With hindsight and without."""
    common: dict[str, Any] = {
        "method": method,
        "line": f"{line} | {method}",
        "best_score": best,
        "episodes": 2000,
    }
    settings = more.pop("settings", {})
    common |= {"seeds": (0, 1, 2, 3, 4)} | more
    return (
        Training(f"{slug}-{method}", env, column=WITH, settings=settings, **common),
        Training(
            f"{slug}-{method}-none",
            env,
            column=WITHOUT,
            settings=settings | {"agent.hindsight": False},
            main=False,
            **common,
        ),
    )


def entries() -> list[Training | Use]:
    bits, rooms = "hindsight/BitFlip-v0", "hindsight/FourRooms-v0"
    line = "bit flip, 16 bits"
    found: list[Training | Use] = [
        Use("policy_gradients", "bits-16", line=f"{line} | hpg", column=WITH),
        Use("policy_gradients", "bits-16-none", line=f"{line} | hpg", column=WITHOUT),
    ]
    for method in LEARNERS[1:]:
        found += both("bits", bits, line, 9.00, method, env_kwargs={"bits": 16})
    for method in ("a2c", "ppo", "trpo"):
        biased = Training(
            f"bits-{method}-biased",
            bits,
            column=BIASED,
            settings={"agent.leave_one_out": False, "agent.actual_goals": False},
            main=False,
            method=method,
            line=f"{line} | {method}",
            best_score=9.00,
            episodes=2000,
            env_kwargs={"bits": 16},
        )
        found.append(biased)
    for method in ("ppo", "trpo"):
        found += both(
            "bits-32",
            bits,
            "bit flip, 32 bits",
            17.00,
            method,
            env_kwargs={"bits": 32},
            seeds=(0, 1, 2),
        )
    for method in LEARNERS:
        settings = {"steps": 60_000} | (PLAIN_HPG if method == "hpg" else {})
        found += both("rooms", rooms, "four rooms, 60,000 steps", 18.84, method, settings=settings)
    found += both("rooms-long", rooms, "four rooms, 400,000 steps", 18.84, "ppo")[:1]
    line = "four rooms, 3,000,000 steps"
    found += [
        Use("policy_gradients", "four-rooms", line=f"{line} | hpg", column=WITH),
        Use("policy_gradients", "four-rooms-none", line=f"{line} | hpg", column=WITHOUT),
    ]
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
