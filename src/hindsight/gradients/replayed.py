"""A critic Q(s, a, g) that learns from replay, for A2C, PPO and TRPO.

Where an episode hardly ever reaches a goal by chance, a batch of episodes does not tell what goals are worth. All
episodes so far do, replayed with hindsight. The policy then learns by the paper's Appendix D in its first form,

    L(pi) = E_{g, s ~ rho, a ~ pi_g} A^{pi'_g}(s, a),

in replayed states under hindsight goals, with actions drawn anew: no ratio must correct what another goal made of them.
Q counts -(1 - gamma) for every step that is not at the goal and goes on beyond the time limit: it lies in [-1, 0].
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from hindsight.agents.losses import adam_step, td_target
from hindsight.gradients.model import Model
from hindsight.gradients.state import Metrics, Rates, State
from hindsight.networks import Params, average
from hindsight.normalizer import Scale
from hindsight.replay.replay import Batch
from hindsight.types import Tensor

KEPT = 0.995
"""What the target keeps of itself per update."""


def learn(model: Model, state: State, scale: Scale, batches: Batch, rates: Rates) -> tuple[State, Metrics]:
    """One step of Adam on the critic per batch [U, B, ...] of replayed transitions, with rewards of -1 and 0."""
    gamma = model.config.gamma

    def step(state: State, batch: Batch) -> tuple[State, Metrics]:
        after = model.inputs(scale, batch.next_observation, batch.goal)
        inputs = model.inputs(scale, batch.observation, batch.goal)
        follows = model.state_value(state.target, after, model.distribution(state.policy, after))
        target = td_target((1.0 - gamma) * batch.reward, batch.terminated, follows, gamma, (-1.0, 0.0))

        def loss(critic: Params) -> tuple[Tensor, Tensor]:
            value = model.action_value(critic, inputs, batch.action)
            return jnp.mean((target - value) ** 2), jnp.mean(value)

        (error, value), gradient = jax.value_and_grad(loss, has_aux=True)(state.critic)
        critic, optimizer = adam_step(state.critic, gradient, state.critic_optimizer, rates.critic)
        older = average(state.target, critic, KEPT)
        state = state._replace(critic=critic, critic_optimizer=optimizer, target=older)
        return state, {"critic_loss": error, "q_mean": value}

    state, metrics = jax.lax.scan(step, state, batches)
    return state, jax.tree.map(jnp.mean, metrics)
