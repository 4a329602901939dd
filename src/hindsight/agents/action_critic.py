"""A critic Q(s, a, g) of a stochastic policy: with it no ratio must correct what another goal made
of the actions.

It counts -(1 - gamma) for every step that is not at the goal and goes on beyond the time limit: it
lies in [-1, 0]. Where an episode fails (the robot fell) it is -1: never at the goal again.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from hindsight.agents.losses import td_target
from hindsight.agents.policy_gradient import Rows, StochasticPolicy
from hindsight.networks import MLP, Params
from hindsight.types import Tensor


class ActionCritic(StochasticPolicy):
    @property
    def _action_values(self) -> MLP:
        outputs = self.shapes.actions.choices if self.discrete else 1
        return self.network(
            outputs, output_scale=0.01
        )  # 0 is the best there is: it tries what is new

    def init_action_critic(self, key: Tensor) -> Params:
        inputs = self.num_inputs + (0 if self.discrete else self.shapes.actions.dim)
        return self._action_values.init(key, jnp.zeros((1, inputs)))

    def action_value(self, critic: Params, inputs: Tensor, action: Tensor) -> Tensor:
        """Q(s, a, g) [...], of actions as episodes hold them; what counts is what the env gets."""
        if self.discrete:
            values: Tensor = self._action_values.apply(critic, inputs)
            return jnp.take_along_axis(values, action[..., None], axis=-1)[..., 0]
        return self._continuous_value(critic, inputs, self.shapes.actions.to_unit(action))

    def mean_value(self, critic: Params, inputs: Tensor, distribution: Tensor) -> Tensor:
        """V(s, g) [...] of a policy: the mean over its actions, or, if it is Gaussian, the value
        of its mean action, without its noise."""
        if self.discrete:
            values: Tensor = self._action_values.apply(critic, inputs)
            return jnp.sum(jnp.exp(distribution) * values, axis=-1)
        return self._continuous_value(critic, inputs, jnp.split(distribution, 2, axis=-1)[0])

    def action_target(
        self,
        critic: Params,
        policy: Params,
        next_inputs: Tensor,
        missed: Tensor,
        terminated: Tensor,
    ) -> Tensor:
        """-(1 - gamma) [not at the goal] + gamma V(s', g) [...], of a critic and a policy that do
        not learn from it; -1 where an episode ended elsewhere than at the goal."""
        gamma = self.shapes.gamma
        value = self.mean_value(critic, next_inputs, self.distribution(policy, next_inputs))
        target = td_target((gamma - 1.0) * missed, terminated, value, gamma, (-1.0, 0.0))
        return jax.lax.stop_gradient(jnp.where(missed * terminated > 0, -1.0, target))

    def rows_by_action_values(
        self, policy: Params, critic: Params, inputs: Tensor, weight: Tensor, key: Tensor
    ) -> tuple[Rows, Tensor]:
        """An action drawn anew in each state [R, i], with its advantage Q(s, a, g) - V(s, g); also
        the values V [R]. So nothing depends on what was done there, or under which goal."""
        distribution = self.distribution(policy, inputs)
        action = self.drawn(distribution, key)
        value = self.mean_value(critic, inputs, distribution)
        advantage = self.action_value(critic, inputs, action) - value
        log_prob = self.log_prob(distribution, action)
        return Rows(inputs, action, distribution, log_prob, weight, advantage), value

    def closeness(self, distribution: Tensor) -> Tensor:
        """How near a policy is to the one without any preference, as a negative KL divergence:
        its entropy, but for a constant; of a Gaussian, a mean of 0 and its initial deviation are
        nearest."""
        if self.discrete:
            return self.entropy(distribution)
        start = jnp.full(self.shapes.actions.dim, np.log(self.config.init_std))
        return -self.kl(distribution, jnp.concatenate([jnp.zeros_like(start), start]))

    def _continuous_value(self, critic: Params, inputs: Tensor, unit: Tensor) -> Tensor:
        values: Tensor = self._action_values.apply(
            critic, jnp.concatenate([inputs, jnp.clip(unit, -1.0, 1.0)], axis=-1)
        )
        return values[..., 0]
