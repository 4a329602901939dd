"""Settings of the policy-gradient learners that work for an env without further options. Measured results are in
docs/policy-gradients.md."""

from __future__ import annotations

from typing import Any

from hindsight.gradients.config import LEARNERS, HPGConfig, OnPolicyConfig, PPOConfig
from hindsight.presets import REPLAY_MOVED
from hindsight.schedules import Schedule
from hindsight.settings import OBJECT_TASKS


def preset(method: str, env: str, discrete: bool, horizon: int) -> OnPolicyConfig:
    """The preset of a method for an env id."""
    settings: dict[str, Any] = {}
    if method == "ppo":
        settings["learning_rate"] = Schedule.parse(3e-4)  # many steps of Adam per batch
    if env.startswith("hindsight/"):
        settings["rows"] = 1024
        steps = 20_000 if horizon <= 10 else 40_000 if horizon <= 16 else 200_000 if "BitFlip" in env else 50_000
        if "BitFlip" in env and method in ("a2c", "a3c"):
            settings["learning_rate"] = Schedule.parse(2e-3)
            steps *= 2
        if "FourRooms" in env:
            # Walls: a policy that only walks towards the goal must not settle too early. Most goals are reached by
            # several episodes of a batch, so the bias that leaving one out removes is small, but not its noise.
            settings |= {"waves": 4, "entropy": Schedule.parse(0.005), "leave_one_out": False}
            steps = 400_000
            if method == "ppo":
                settings |= {"waves": 8, "entropy": Schedule.parse("linear(0.02, 0.002)")}
                settings |= {"learning_rate": Schedule.parse("linear(3e-4, 3e-5)"), "critic_updates": 32}
            if method == "hpg":
                # Batches cost nothing here but their updates: many small ones, of few goals each, and entropy enough
                # to find the way around a wall.
                settings |= {"baseline": "td", "goals": 8, "pursued": True, "critic_updates": 2, "waves": 8}
                settings |= {"learning_rate": Schedule.parse("linear(1e-3, 1e-4)")}
                settings |= {"entropy": Schedule.parse("linear(0.005, 0.0002)")}
                return OnPolicyConfig(env, steps=3_000_000, eval_every=100, agent=HPGConfig(**settings))
        return OnPolicyConfig(env, steps=steps, agent=LEARNERS[method](**settings))
    easy = env.startswith("FetchReach")
    if not discrete:
        settings |= {"gamma": 0.98, "within_box": True}
        if method in ("a2c", "a3c"):  # one small step per batch: here noise costs more than the bias of a baseline
            settings |= {"leave_one_out": False, "pursued": False}
            if method == "a2c":  # nothing bounds its steps once the policy is sharp
                settings["learning_rate"] = Schedule.parse("linear(1e-3, 1e-4)")
        if env.startswith(OBJECT_TASKS):
            # Few episodes of a batch move the object, and goals that are met from the start teach to leave it alone.
            # Products of ratios over 50 steps leave a few episodes per goal, the ratios of single steps leave most;
            # those need advantages, which HPG does not have.
            settings |= {"goals": 32, "spread": True}
            if method != "hpg":
                settings["estimator"] = "step"
            if method == "ppo":  # what a batch says of goals is not enough: replay what moved, as DDPG's preset does
                return _with_replay(env, settings)
            settings |= {"unmet": True, "until_reached": True, "deviation": 1.0}
            if method == "trpo":
                settings["max_kl"] = 2e-3
    return OnPolicyConfig(
        env,
        steps=(128_000 if method in ("a2c", "a3c") else 64_000) if easy else 2_000_000,
        num_envs=32,
        episodes_per_cycle=32 if easy else 64,
        eval_every=5,
        eval_episodes=50,
        agent=LEARNERS[method](**settings),
    )


def _with_replay(env: str, settings: dict[str, Any]) -> OnPolicyConfig:
    """PPO with a replayed critic."""
    settings |= {
        "critic": "replayed",
        "critic_updates": 80,
        "hidden": (256, 256, 256),
        "rows": 16_384,
        "minibatches": 32,
        "learning_rate": Schedule.parse("linear(1e-3, 1e-4)"),
        "entropy": Schedule.parse("linear(0.12, 0.03)"),
        "random_actions": Schedule.parse("linear(0.25, 0.1)"),
    }
    return OnPolicyConfig(
        env,
        steps=1_000_000,
        num_envs=32,
        episodes_per_cycle=32,
        eval_episodes=50,
        agent=PPOConfig(**settings),
        replay=REPLAY_MOVED,
    )
