"""What an agent must know of its env: sizes, the discount, and the range of returns."""

from __future__ import annotations

from dataclasses import dataclass

from hindsight.envs.contract import Actions, GoalEnvSpec


@dataclass(frozen=True)
class Shapes:
    observation: int
    goal: int
    actions: Actions
    gamma: float
    returns: tuple[float, float] | None = None
    """Smallest and largest possible return; None if the reward is not sparse."""

    @staticmethod
    def of(spec: GoalEnvSpec, gamma: float | None) -> Shapes:
        discount = 1.0 - 1.0 / spec.horizon if gamma is None else gamma
        bounds = spec.reward_bounds
        returns = None if bounds is None else (bounds[0] / (1.0 - discount), bounds[1] / (1.0 - discount))
        return Shapes(spec.observation.dim, spec.goal.dim, spec.actions, discount, returns)
