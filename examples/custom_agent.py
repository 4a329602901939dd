"""A learner of your own, as a subclass: DQN that values the next state by a soft maximum.

python examples/custom_agent.py --steps 10000 --omega 20
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import jax
import jax.numpy as jnp
import tyro
from tyro.conf import Suppress

import hindsight
from hindsight.agents.dqn import DQN, DQNConfig, DQNState
from hindsight.agents.registry import OFF_POLICY
from hindsight.replay import Batch


@dataclass(frozen=True)
class MellowDQNConfig(DQNConfig):
    """Its settings: those of DQN, and one more."""

    method: Annotated[str, Suppress] = "mellow-dqn"
    omega: float = 10.0
    """Large: nearly the maximum. Small: nearly the mean."""


class MellowDQN(DQN):
    """Mellowmax (Asadi and Littman, 2017): log mean exp(omega Q) / omega."""

    config: MellowDQNConfig

    def next_value(self, state: DQNState, batch: Batch) -> jax.Array:
        values = self.values(state.target, state.scale, batch.next_observation, batch.goal)
        total = jax.nn.logsumexp(self.config.omega * values, axis=-1)
        return (total - jnp.log(values.shape[-1])) / self.config.omega


OFF_POLICY["mellow-dqn"] = MellowDQN  # from now on it is a method like any other


def main(steps: int = 10_000, omega: float = 20.0, seed: int = 0) -> float:
    run = hindsight.train(
        "hindsight/BitFlip-v0",
        method="mellow-dqn",
        agent={"omega": omega},
        steps=steps,
        seed=seed,
    )
    result = hindsight.evaluate(run.path)  # replay, priorities, resume, load: all of it works
    print(f"success rate on {result.episodes} fresh episodes: {result.success_rate:.2f}")
    return result.success_rate


if __name__ == "__main__":
    tyro.cli(main)
