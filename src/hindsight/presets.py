"""Settings that work well for an env without further options. Measured results are in docs/results.md."""

from __future__ import annotations

from hindsight.config import DDPGConfig, DQNConfig, ReplayConfig, TrainConfig
from hindsight.schedules import Schedule

# A lower rate at the end settles the policy: at a constant 1e-3 its success keeps swinging by some hundredths.
_SETTLING = DDPGConfig(
    actor_learning_rate=Schedule("step", (1e-3, 3e-4, 0.7)),
    critic_learning_rate=Schedule("step", (1e-3, 3e-4, 0.7)),
)
# The object's place is the goal, and most early episodes never touch it: replay those that do.
_OBJECT = ReplayConfig(moved_share=0.8, replace_met=Schedule.parse(0.9))


def preset(env: str, discrete: bool, horizon: int) -> TrainConfig:
    """The preset of an env id; ids without one get the settings of their kind of actions."""
    if env.startswith("FetchReach"):
        return TrainConfig(env, steps=10_000, updates_per_cycle=80, eval_every=1, eval_episodes=20)
    if env.startswith(("FetchPush", "FetchPickAndPlace", "FetchSlide", "HandManipulate")):
        steps = 400_000 if env.startswith("FetchPush") else 2_000_000
        return TrainConfig(
            env,
            steps=steps,
            num_envs=32,
            episodes_per_cycle=32,
            updates_per_cycle=100,
            batch_size=512,
            policy_average=0.9,
            overlap=True,
            agent=_SETTLING,
            replay=_OBJECT,
        )
    if discrete:
        return TrainConfig(
            env,
            steps=40_000 if horizon <= 10 else 400_000,
            num_envs=16,
            episodes_per_cycle=16,
            agent=DQNConfig(),
        )
    return TrainConfig(env, steps=500_000, num_envs=16, episodes_per_cycle=16, agent=DDPGConfig())
