"""Settings that work well for an env without further options. Measured results are in docs/results.md."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal, get_args

from hindsight.config import DDPGConfig, DQNConfig, PriorityConfig, ReplayConfig, TrainConfig
from hindsight.errors import HindsightError, nearest
from hindsight.schedules import Schedule
from hindsight.settings import OBJECT_TASKS

PresetName = Literal["default", "her", "hper", "hper-single", "paper", "paper-normalized"]

# A lower rate at the end settles the policy: at a constant 1e-3 its success keeps swinging by some hundredths.
_SETTLING = DDPGConfig(
    actor_learning_rate=Schedule("step", (1e-3, 3e-4, 0.7)),
    critic_learning_rate=Schedule("step", (1e-3, 3e-4, 0.7)),
)
# The object's place is the goal, and most early episodes never touch it: replay those that do.
REPLAY_MOVED = ReplayConfig(moved_share=0.8, replace_met=Schedule.parse(0.9))


def preset(env: str, discrete: bool, horizon: int, name: str = "default") -> TrainConfig:
    """The preset of an env id; ids without one get the settings of their kind of actions.

    default: what works best. her: the same with plain uniform HER. hper and hper-single: the same with hindsight
    prioritised replay in two queues or in one. paper: the paper's own settings, its normaliser off as in its published
    code. paper-normalized: with it on.
    """
    if name not in get_args(PresetName):
        raise HindsightError(f"unknown preset {name!r}.{nearest(name, get_args(PresetName))}")
    if name.startswith("paper"):
        return _paper(env, discrete, horizon, normalize=name == "paper-normalized")
    config = _default(env, discrete, horizon)
    if name == "her":
        return replace(config, replay=ReplayConfig(), priority=PriorityConfig())
    if name.startswith("hper"):
        steps = 500_000 if env.startswith("FetchPush") else config.steps
        replay, priority = (_HPER, _TWO_QUEUES) if name == "hper" else (_HPER_SINGLE, _SINGLE_QUEUE)
        return replace(config, steps=steps, replay=replay, priority=priority)
    return config


# Goals that are met already are not stored at first: alternate pairs come only from episodes that achieved something.
# Later some are, because they teach to stay at a goal.
_HPER = ReplayConfig(goals_chosen="stored", drop_met=Schedule("linear", (1.0, 0.5)))
_TWO_QUEUES = PriorityConfig(index="rank", queues="two_queues")
# In one queue their number decides how often they are replayed: more of them, and first those that moved something.
_SINGLE_QUEUE = PriorityConfig(index="rank", queues="single_queue")
_HPER_SINGLE = replace(_HPER, replay_k=Schedule.parse(8.0), moved_power=1.0)


def _paper(env: str, discrete: bool, horizon: int, normalize: bool) -> TrainConfig:
    """Section 4 of the paper. An epoch is 10 (FetchReach) or 50 cycles of 2 episodes by each of 12 workers, 50 updates.

    Its success rates are multiples of 1/240 and its baselines ran on 12 workers: so each of them tested 20 episodes.
    """
    epoch = (10 if env.startswith("FetchReach") else 50) * 24 * horizon
    agent = DQNConfig(target_every=50) if discrete else DDPGConfig(target_every=50)
    return TrainConfig(
        env,
        steps=(5 if env.startswith("FetchReach") else 50) * epoch,
        num_envs=24,
        episodes_per_cycle=24,
        updates_per_cycle=50,
        batch_size=512,
        eval_every=epoch // (24 * horizon),
        eval_episodes=240,
        agent=replace(agent, normalize=normalize),
        replay=ReplayConfig(goals_chosen="stored"),
        priority=PriorityConfig(index="rank_heap", every=50),
    )


def _default(env: str, discrete: bool, horizon: int) -> TrainConfig:
    if env.startswith("FetchReach"):
        return TrainConfig(env, steps=10_000, updates_per_cycle=80, eval_every=1, eval_episodes=20)
    if env.startswith(OBJECT_TASKS):
        config = TrainConfig(
            env,
            steps=2_000_000,
            num_envs=32,
            episodes_per_cycle=32,
            updates_per_cycle=100,
            batch_size=512,
            policy_average=0.9,
            overlap=True,
            agent=_SETTLING,
            replay=REPLAY_MOVED,
        )
        if env.startswith("FetchPush"):
            return replace(config, steps=400_000)
        if env.startswith(("FetchSlide", "FetchPickAndPlace")):
            config = replace(config, steps=1_300_000, replay=_HPER, priority=replace(_TWO_QUEUES, index="none"))
        if env.startswith("FetchPickAndPlace"):  # to lift the box, the gripper has to stay shut while it rises
            config = replace(config, agent=replace(_SETTLING, random_hold=3.0))
        return config
    if discrete:
        return TrainConfig(
            env,
            steps=40_000 if horizon <= 10 else 400_000,
            num_envs=16,
            episodes_per_cycle=16,
            agent=DQNConfig(),
        )
    return TrainConfig(env, steps=500_000, num_envs=16, episodes_per_cycle=16, agent=DDPGConfig())
