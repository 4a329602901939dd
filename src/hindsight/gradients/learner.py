"""The learner of a config: what training loops and policies use of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hindsight.agents.shapes import Shapes
from hindsight.envs.contract import GoalEnvSpec
from hindsight.errors import HindsightError
from hindsight.gradients import a2c, hpg, ppo, replayed, trpo
from hindsight.gradients.batch import GoalBatch
from hindsight.gradients.config import LearnerConfig
from hindsight.gradients.model import Model
from hindsight.gradients.state import Metrics, Rates, State, init
from hindsight.networks import Params
from hindsight.normalizer import Scale
from hindsight.replay.replay import Batch
from hindsight.types import Array, Floats, Tensor

UPDATES: dict[str, Any] = {
    "hpg": hpg.update,
    "a2c": a2c.update,
    "a3c": a2c.update,  # of one worker: what is asynchronous about A3C is in the training loop
    "ppo": ppo.update,
    "trpo": trpo.update,
}


@dataclass(frozen=True)
class Learner:
    """Settings and env sizes in; pure functions of `State` out."""

    config: LearnerConfig
    shapes: Shapes

    @property
    def model(self) -> Model:
        return Model(self.config, self.shapes)

    def init(self, key: Tensor) -> State:
        return init(self.model, key)

    def update(
        self, state: State, scale: Scale, batch: GoalBatch | Batch, rates: Rates, key: Tensor
    ) -> tuple[State, Metrics]:
        """A new state and metrics, after learning from episodes under goals, or, with a replayed critic, from replayed
        states [R, ...]. To be jitted by the caller."""
        result: tuple[State, Metrics] = UPDATES[self.config.method](self.model, state, scale, batch, rates, key)
        return result

    def replay(self, state: State, scale: Scale, batches: Batch, rates: Rates) -> tuple[State, Metrics]:
        """The same after a replayed critic has learnt from batches [U, B, ...] with rewards of -1 and 0."""
        return replayed.learn(self.model, state, scale, batches, rates)

    def rates(self, progress: float) -> Rates:
        c = self.config
        return Rates(c.learning_rate(progress), c.critic_learning_rate(progress), c.entropy(progress))

    def actor_parameters(self, state: State) -> Params:
        return state.policy

    def act(self, actor: Params, scale: Scale, observation: Floats, goal: Floats) -> Array:
        """Greedy actions, by parameters in NumPy."""
        return self.model.greedy(actor, scale, observation, goal)


def make_learner(config: LearnerConfig, spec: GoalEnvSpec) -> Learner:
    """The learner of a config for an env."""
    if spec.success_reward is None:
        raise HindsightError(f"{config.method} learns from goals reached or not; the reward of {spec.id} is not sparse")
    return Learner(config, Shapes(spec.observation.dim, spec.goal.dim, spec.actions, config.gamma))
