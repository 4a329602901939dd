"""What an agent must know of its env: sizes, the discount, and the range of returns."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hindsight.acting import ActorShape, Head
from hindsight.agents.config import AgentConfig
from hindsight.envs.contract import Actions, GoalEnvSpec
from hindsight.normalizer import Scale


@dataclass(frozen=True)
class Shapes:
    observation: int
    goal: int
    actions: Actions
    gamma: float
    returns: tuple[float, float] | None = None
    """Smallest and largest possible return; None if the reward is not sparse."""
    success_reward: float | None = None
    """Of a sparse reward: that of a step which reaches the goal."""

    @staticmethod
    def of(spec: GoalEnvSpec, gamma: float | None) -> Shapes:
        discount = 1.0 - 1.0 / spec.horizon if gamma is None else gamma
        bounds = spec.reward_bounds
        returns = None
        if bounds is not None and discount < 1.0:
            returns = (bounds[0] / (1.0 - discount), bounds[1] / (1.0 - discount))
        return Shapes(
            spec.observation.dim,
            spec.goal.dim,
            spec.actions,
            discount,
            returns,
            spec.success_reward,
        )

    def no_scale(self) -> Scale:
        """That of a normaliser that has seen nothing."""
        o, g = (np.zeros(n, np.float32) for n in (self.observation, self.goal))
        return Scale(o, o + 1, g, g + 1)

    def actor_shape(
        self,
        head: Head,
        config: AgentConfig,
        tanh_layers: bool = False,
        fourier_features: int = 0,
    ) -> ActorShape:
        clip = config.clip_normalized if config.normalize else np.inf
        return ActorShape(
            head, self.actions, tanh_layers, config.clip_observation, clip, fourier_features
        )
