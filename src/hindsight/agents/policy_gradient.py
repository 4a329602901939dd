"""What all policy gradients share: the policy (categorical or Gaussian), a critic V(s, g, t),
and how it is fitted."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from hindsight.acting import LOG_2PI, Actor, ActorShape, Head, gaussian_log_prob
from hindsight.agents.agent import Agent, Metrics
from hindsight.agents.config import OnPolicyAgentConfig
from hindsight.agents.goal_batch import GoalBatch, Outcome
from hindsight.agents.hindsight_weights import Estimator, baseline_is_unbiased, log_steps
from hindsight.agents.losses import adam_step
from hindsight.collect import Act
from hindsight.networks import MLP, Params
from hindsight.normalizer import Scale
from hindsight.types import Array, Floats, Tensor


class Rates(NamedTuple):
    """The settings that follow a schedule."""

    policy: Tensor
    critic: Tensor
    entropy: Tensor


class State(NamedTuple):
    """All that learning changes."""

    policy: Params
    critic: Params
    policy_optimizer: Any
    critic_optimizer: Any
    scale: Scale
    rates: Rates


class Rows(NamedTuple):
    """What a policy learns from: R steps, each under one goal, with advantages."""

    inputs: Tensor  # [R, i]
    action: Tensor  # [R] or [R, a]
    distribution: Tensor  # [R, d] of the policy before it learns from them
    log_prob: Tensor  # [R] of the action, by that distribution
    weight: Tensor  # [R]
    advantage: Tensor  # [R]


class CriticBatch(NamedTuple):
    """What a critic of states learns from: R states, each under one goal, and their values."""

    inputs: Tensor  # [R, i]
    time: Tensor  # [R]
    target: Tensor  # [R]
    weight: Tensor  # [R]


class StochasticPolicy(Agent):
    """A categorical policy for discrete actions, else a Gaussian, which acts in units of half
    the action range."""

    config: Any

    def rates(self, progress: float) -> Rates:
        c = self.config
        return Rates(
            c.learning_rate(progress), c.critic_learning_rate(progress), c.entropy(progress)
        )

    @property
    def discrete(self) -> bool:
        return self.shapes.actions.discrete

    @property
    def _policy(self) -> MLP:
        outputs = self.shapes.actions.choices if self.discrete else self.shapes.actions.dim
        return self.network(
            outputs, tanh=True, output_scale=0.01
        )  # nearly uniform: ratios start near 1

    @property
    def num_inputs(self) -> int:
        return (self.shapes.observation + self.shapes.goal) * (1 + 2 * self._fourier_features)

    @property
    def _fourier_features(self) -> int:
        return 0

    def init_policy(self, key: Tensor) -> Params:
        network = self._policy.init(key, jnp.zeros((1, self.num_inputs)))
        if self.discrete:
            return {"network": network}
        return {
            "network": network,
            "log_std": jnp.full(self.shapes.actions.dim, np.log(self.config.init_std)),
        }

    def distribution(self, policy: Params, inputs: Tensor) -> Tensor:
        """The action distribution: log-probabilities [..., choices], or mean and log deviation
        [..., 2a]."""
        output: Tensor = self._policy.apply(policy["network"], inputs)
        if self.discrete:
            return jax.nn.log_softmax(output)
        return jnp.concatenate([output, jnp.broadcast_to(policy["log_std"], output.shape)], axis=-1)

    def log_prob(self, distribution: Tensor, action: Tensor) -> Tensor:
        """log pi(a|s,g) [...] of actions as episodes hold them."""
        if self.discrete:
            chosen = jnp.broadcast_to(action, distribution.shape[:-1])[..., None]
            return jnp.take_along_axis(distribution, chosen, axis=-1)[..., 0]
        mean, log_std = jnp.split(distribution, 2, axis=-1)
        return gaussian_log_prob(jnp, mean, log_std, self.shapes.actions.to_unit(action))

    def entropy(self, distribution: Tensor) -> Tensor:
        if self.discrete:
            return -jnp.sum(jnp.exp(distribution) * distribution, axis=-1)
        return jnp.sum(jnp.split(distribution, 2, axis=-1)[1] + 0.5 * (1.0 + LOG_2PI), axis=-1)

    def kl(self, old: Tensor, new: Tensor) -> Tensor:
        """KL(old || new) of two distributions, exactly."""
        if self.discrete:
            return jnp.sum(jnp.exp(old) * (old - new), axis=-1)
        (m0, l0), (m1, l1) = jnp.split(old, 2, axis=-1), jnp.split(new, 2, axis=-1)
        return jnp.sum(
            l1 - l0 + 0.5 * (jnp.exp(2 * (l0 - l1)) + (m0 - m1) ** 2 * jnp.exp(-2 * l1) - 1.0),
            axis=-1,
        )

    def drawn(self, distribution: Tensor, key: Tensor) -> Tensor:
        """An action of each distribution."""
        if self.discrete:
            return jax.random.categorical(key, distribution)
        mean, log_std = jnp.split(distribution, 2, axis=-1)
        return self.shapes.actions.from_unit(
            mean + jnp.exp(log_std) * jax.random.normal(key, mean.shape)
        )

    def actor_params(self, state: Any) -> Params:
        return state.policy

    def actor_shape(self) -> ActorShape:
        head: Head = "categorical" if self.discrete else "gaussian"
        return self.shapes.actor_shape(head, self.config, True, self._fourier_features)

    def explorer(self, actor: Actor, progress: float, rng: np.random.Generator) -> Act:
        """Actions drawn from the policy, and their log-probabilities."""

        def explore(observation: Floats, goal: Floats) -> tuple[Array, Floats]:
            return actor.sample(observation, goal, rng)

        return explore


class PolicyGradient(StochasticPolicy):
    """A learner from a batch of episodes under goals that they achieved. Its critic is a V that
    knows the time."""

    config: OnPolicyAgentConfig
    sparse_only = True

    @property
    def _fourier_features(self) -> int:
        return self.config.fourier_features

    @property
    def _critic(self) -> MLP:
        return self.network(1, tanh=True)

    def init(self, key: Tensor) -> State:
        first, second = jax.random.split(key)
        policy = self.init_policy(first)
        critic = self.init_critic(second)
        adam, zero = optax.scale_by_adam(), np.float32(0)
        scale = self.shapes.no_scale()
        return State(
            policy, critic, adam.init(policy), adam.init(critic), scale, Rates(zero, zero, zero)
        )

    def init_critic(self, key: Tensor) -> Params:
        return self._critic.init(key, jnp.zeros((1, self.num_inputs + 1)))

    def log_step_ratios(self, log_pi: Tensor, batch: GoalBatch, result: Outcome) -> Tensor:
        """log pi(a_t|s_t,g) / pi(a_t|s_t,g') of each step [G, N, T]. Without hindsight 0: the goals
        are the same, and that probabilities were recorded with the normaliser of then is no reason
        for a ratio."""
        if not self.config.hindsight:
            return jnp.zeros_like(log_pi)
        return log_steps(log_pi, batch.log_prob, result.alive)

    def update(self, state: State, batch: GoalBatch, key: Tensor) -> tuple[State, Metrics]:
        """A new state and metrics, after learning from episodes under goals. To be jitted by the
        caller."""
        raise NotImplementedError

    def value(self, critic: Params, inputs: Tensor, time: Tensor) -> Tensor:
        """V(s, g, t) [...], with time as a share of the horizon [...]."""
        values: Tensor = self._critic.apply(
            critic, jnp.concatenate([inputs, time[..., None]], axis=-1)
        )
        return values[..., 0]

    def goal_inputs(self, scale: Scale, batch: GoalBatch) -> tuple[Tensor, Tensor]:
        """Network inputs [G, N, T+1, i] of every state under every goal, and times [G, N, T+1]
        as shares of the horizon."""
        goals, (episodes, states) = batch.goal.shape[0], batch.observation.shape[:2]
        observation = jnp.broadcast_to(batch.observation, (goals, *batch.observation.shape))
        goal = jnp.broadcast_to(
            batch.goal[:, :, None], (goals, episodes, states, batch.goal.shape[-1])
        )
        time = jnp.broadcast_to(jnp.arange(states) / (states - 1), (goals, episodes, states))
        return self.inputs(scale, observation, goal), time

    @property
    def estimator(self) -> Estimator:
        return self.config.estimator if self.config.hindsight else "plain"

    def may_subtract(self, batch: GoalBatch) -> Tensor:
        """[G, N, 1]: where a value may be subtracted, and learn."""
        if not self.config.leave_one_out:
            return jnp.ones((*batch.hit.shape[:2], 1), bool)
        return baseline_is_unbiased(batch.hit, batch.was_pursued)

    def pursued_entropy(self, policy: Params, scale: Scale, batch: GoalBatch) -> Tensor:
        """Mean entropy of the policy as it explored: in the states of the episodes, under the
        goals they pursued."""
        observation = batch.observation[:, :-1]
        goal = jnp.broadcast_to(
            batch.pursued[:, None], (*observation.shape[:2], batch.pursued.shape[-1])
        )
        entropy = self.entropy(self.distribution(policy, self.inputs(scale, observation, goal)))
        happened = jnp.arange(observation.shape[1]) < batch.length[:, None]
        return jnp.sum(jnp.where(happened, entropy, 0.0)) / jnp.sum(happened)

    def fit_critic(self, state: State, batch: CriticBatch) -> tuple[State, Metrics]:
        """`critic_updates` steps of Adam on the weighted squared error of the critic; also that
        error before them."""

        def loss(critic: Params) -> Tensor:
            error = batch.target - self.value(critic, batch.inputs, batch.time)
            return jnp.sum(batch.weight * error**2)

        def step(state: State, _: None) -> tuple[State, Tensor]:
            error, gradient = jax.value_and_grad(loss)(state.critic)
            critic, optimizer = adam_step(
                state.critic, gradient, state.critic_optimizer, state.rates.critic
            )
            return state._replace(critic=critic, critic_optimizer=optimizer), error

        state, errors = jax.lax.scan(step, state, None, self.config.critic_updates)
        return state, {"critic_loss": errors[0]}


def goal_shares(used: Tensor) -> Tensor:
    """p(g) [G, 1, 1]: uniform over the goals in use."""
    return (used / jnp.maximum(used.sum(), 1))[:, None, None]


def normalized(advantage: Tensor, weight: Tensor) -> Tensor:
    """Advantages divided by their deviation from 0. Not centred: hindsight advantages that are
    all good stay good. Weights sum to 1."""
    return advantage / (jnp.sqrt(jnp.sum(weight * advantage**2)) + 1e-3)
