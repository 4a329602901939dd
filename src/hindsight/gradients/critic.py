"""The critic's update, for all learners that have one."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from hindsight.agents.losses import adam_step
from hindsight.gradients.model import Model
from hindsight.gradients.state import Metrics, Rates, State
from hindsight.networks import Params
from hindsight.types import Tensor


class Lessons(NamedTuple):
    """R states, each under one goal, and what they are worth."""

    inputs: Tensor  # [R, i]
    time: Tensor  # [R]
    target: Tensor  # [R]
    weight: Tensor  # [R]


def fit_critic(model: Model, state: State, lessons: Lessons, rates: Rates) -> tuple[State, Metrics]:
    """`critic_updates` steps of Adam on the weighted squared error of the critic; also that error before them."""

    def loss(critic: Params) -> Tensor:
        error = lessons.target - model.value(critic, lessons.inputs, lessons.time)
        return jnp.sum(lessons.weight * error**2)

    def step(state: State, _: None) -> tuple[State, Tensor]:
        error, gradient = jax.value_and_grad(loss)(state.critic)
        critic, optimizer = adam_step(state.critic, gradient, state.critic_optimizer, rates.critic)
        return state._replace(critic=critic, critic_optimizer=optimizer), error

    state, errors = jax.lax.scan(step, state, None, model.config.critic_updates)
    return state, {"critic_loss": errors[0]}
