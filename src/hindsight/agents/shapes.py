"""What an agent must know of its env: sizes, the discount, and the range of returns."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hindsight.acting import ActorShape, Head
from hindsight.agents.config import AgentConfig
from hindsight.envs.contract import Actions, GoalEnvSpec
from hindsight.normalizer import PixelMoments, Scale
from hindsight.pixels import Images, images_of
from hindsight.replay.batch import RewardScale

USUAL_REWARDS = (0.01, 100.0)
"""Between what sizes dense rewards are learnt from as they are."""


@dataclass(frozen=True)
class Shapes:
    observation: int
    goal: int
    actions: Actions
    gamma: float
    returns: tuple[float, float] | None = None
    """Smallest and largest possible return, as it is learnt from; None if the reward is not
    sparse."""
    success_reward: float | None = None
    """Of a sparse reward: that of a step which reaches the goal."""
    reward_scales: tuple[RewardScale, RewardScale] = (RewardScale(), RewardScale())
    """How rewards are learnt from: while reaching a goal ends no episode, and if it does."""
    images: Images = ()

    @staticmethod
    def of(spec: GoalEnvSpec, gamma: float | None) -> Shapes:
        discount = 1.0 - 1.0 / spec.horizon if gamma is None else gamma
        scales, returns = (RewardScale(), RewardScale()), None
        if discount < 1.0:
            scales = _reward_scales(spec, discount)
            if spec.success_reward is not None:
                lows, highs = zip(*(_returns(s, spec, discount) for s in scales), strict=True)
                returns = (min(lows), max(highs))
        return Shapes(
            spec.observation.dim,
            spec.goal.dim,
            spec.actions,
            discount,
            returns,
            spec.success_reward,
            scales,
            images_of(spec.observation, spec.goal),
        )

    def no_scale(self) -> Scale:
        """That of a normaliser that has seen nothing."""
        pixels = [features.pixels for features in self.images] or [False, False]
        moments = [
            (PixelMoments.mean, PixelMoments.deviation) if image else (np.zeros(n), np.ones(n))
            for n, image in zip((self.observation, self.goal), pixels, strict=True)
        ]
        return Scale(*(x.astype(np.float32) for pair in moments for x in pair))

    def actor_shape(
        self,
        head: Head,
        config: AgentConfig,
        tanh_layers: bool = False,
        fourier_features: int = 0,
    ) -> ActorShape:
        clip = config.clip_normalized if config.normalize else np.inf
        return ActorShape(
            head,
            self.actions,
            tanh_layers,
            config.clip_observation,
            clip,
            fourier_features,
            self.images,
        )


def _reward_scales(spec: GoalEnvSpec, gamma: float) -> tuple[RewardScale, RewardScale]:
    """While reaching a goal ends no episode, and if it does.

    Sparse rewards are learnt from as -1 and 0, whatever they are. That is exact: all values are
    less by that of being at the goal, in units of what one step is worth. So rewards of 0 and 1
    with an end at the goal, whose values lie in [0, 1], teach the same as -1 and 0; else the
    weights of actions and entropies would outweigh them. Dense rewards are left alone unless they
    are very small or very large.
    """
    low, high = spec.rewards
    if spec.success_reward is None:
        usual = USUAL_REWARDS[0] <= high - low <= USUAL_REWARDS[1] or high == low
        scale = RewardScale() if usual else RewardScale(unit=high - low)
        return scale, scale
    ending = RewardScale(high, high * (1.0 - gamma) - low, gamma)
    if ending.unit <= 0.0:  # misses pay so well that the goal is better never reached
        ending = RewardScale()
    return RewardScale(high / (1.0 - gamma), high - low, gamma), ending


def _returns(scale: RewardScale, spec: GoalEnvSpec, gamma: float) -> tuple[float, float]:
    """Smallest and largest return of a sparse reward, as it is learnt from."""
    low, high = spec.rewards
    if scale.is_identity:
        return min(low, 0.0) / (1.0 - gamma), max(high, 0.0) / (1.0 - gamma)
    failure = (low - scale.offset) / scale.unit  # of an episode that ends there
    return min(-1.0 / (1.0 - gamma), failure), 0.0
