"""The policy and the critic of all policy-gradient learners: categorical for discrete actions, else Gaussian."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from hindsight.agents.shapes import Shapes
from hindsight.gradients.config import HPGConfig, LearnerConfig
from hindsight.networks import MLP, Params, forward
from hindsight.normalizer import Scale, normalize
from hindsight.types import Array, Floats, Tensor

LOG_2PI = float(np.log(2.0 * np.pi))


@dataclass(frozen=True)
class Model:
    """Settings and sizes in; pure functions of parameters out. A Gaussian acts in units of half the action range."""

    config: LearnerConfig
    shapes: Shapes

    @property
    def discrete(self) -> bool:
        return self.shapes.actions.discrete

    @property
    def replayed(self) -> bool:
        """Is the critic a Q that learns from replay, instead of a V that learns from the batch?"""
        return not isinstance(self.config, HPGConfig) and self.config.critic == "replayed"

    @property
    def _policy(self) -> MLP:
        outputs = self.shapes.actions.choices if self.discrete else self.shapes.actions.dim
        return MLP(self.config.hidden, outputs, tanh=True, output_scale=0.01)  # nearly uniform: ratios start near 1

    @property
    def _critic(self) -> MLP:
        if self.replayed:
            outputs = self.shapes.actions.choices if self.discrete else 1
            return MLP(self.config.hidden, outputs, output_scale=0.01)  # 0 is the best there is: it tries what is new
        return MLP(self.config.hidden, 1, tanh=True)

    def init_policy(self, key: Tensor) -> Params:
        network = self._policy.init(key, jnp.zeros((1, self._inputs)))
        if self.discrete:
            return {"network": network}
        return {"network": network, "log_deviation": jnp.full(self.shapes.actions.dim, np.log(self.config.deviation))}

    def init_critic(self, key: Tensor) -> Params:
        more = 1 if not self.replayed else 0 if self.discrete else self.shapes.actions.dim  # time, nothing, the action
        return self._critic.init(key, jnp.zeros((1, self._inputs + more)))

    @property
    def _inputs(self) -> int:
        return (self.shapes.observation + self.shapes.goal) * (1 + 2 * self.config.waves)

    def inputs(self, scale: Scale, observation: Tensor, goal: Tensor) -> Tensor:
        """What the networks read [..., i]: normalised observation and goal, and waves of them, in NumPy or JAX."""
        clip = self.config.clip_normalized if self.config.normalize else np.inf
        plain = normalize(scale, observation, goal, self.config.clip_observation, clip)
        if not self.config.waves:
            return plain
        numpy: Any = np if isinstance(plain, np.ndarray) else jnp
        angles = [np.float32(k) * plain for k in range(1, self.config.waves + 1)]
        return numpy.concatenate([plain, *map(numpy.sin, angles), *map(numpy.cos, angles)], axis=-1)

    def distribution(self, policy: Params, inputs: Tensor) -> Tensor:
        """The action distribution: log-probabilities [..., choices], or mean and log deviation [..., 2a]."""
        output: Tensor = self._policy.apply(policy["network"], inputs)
        if self.discrete:
            return jax.nn.log_softmax(output)
        return jnp.concatenate([output, jnp.broadcast_to(policy["log_deviation"], output.shape)], axis=-1)

    def value(self, critic: Params, inputs: Tensor, time: Tensor) -> Tensor:
        """V(s, g, t) [...], with time as a share of the horizon [...]."""
        values: Tensor = self._critic.apply(critic, jnp.concatenate([inputs, time[..., None]], axis=-1))
        return values[..., 0]

    def action_value(self, critic: Params, inputs: Tensor, action: Tensor) -> Tensor:
        """Q(s, a, g) [...] by a replayed critic, of actions as episodes hold them; what counts is what the env gets."""
        if self.discrete:
            values: Tensor = self._critic.apply(critic, inputs)
            return jnp.take_along_axis(values, action[..., None], axis=-1)[..., 0]
        return self._continuous_value(critic, inputs, self._unit(action))

    def state_value(self, critic: Params, inputs: Tensor, distribution: Tensor) -> Tensor:
        """V(s, g) [...] by a replayed critic, of a policy: the mean over its actions, or, if it is Gaussian, the value
        of its mean action, without its noise."""
        if self.discrete:
            values: Tensor = self._critic.apply(critic, inputs)
            return jnp.sum(jnp.exp(distribution) * values, axis=-1)
        return self._continuous_value(critic, inputs, jnp.split(distribution, 2, axis=-1)[0])

    def _continuous_value(self, critic: Params, inputs: Tensor, unit: Tensor) -> Tensor:
        values: Tensor = self._critic.apply(critic, jnp.concatenate([inputs, jnp.clip(unit, -1.0, 1.0)], axis=-1))
        return values[..., 0]

    def log_prob(self, distribution: Tensor, action: Tensor) -> Tensor:
        """log pi(a|s,g) [...] of actions as episodes hold them."""
        if self.discrete:
            chosen = jnp.broadcast_to(action, distribution.shape[:-1])[..., None]
            return jnp.take_along_axis(distribution, chosen, axis=-1)[..., 0]
        mean, log_deviation = jnp.split(distribution, 2, axis=-1)
        return gaussian_log_prob(jnp, mean, log_deviation, self._unit(action))

    def entropy(self, distribution: Tensor) -> Tensor:
        if self.discrete:
            return -jnp.sum(jnp.exp(distribution) * distribution, axis=-1)
        return jnp.sum(jnp.split(distribution, 2, axis=-1)[1] + 0.5 * (1.0 + LOG_2PI), axis=-1)

    def nearness(self, distribution: Tensor) -> Tensor:
        """How near a policy is to the one without any preference, as a negative KL divergence: its entropy, but for a
        constant; of a Gaussian, a mean of 0 and its initial deviation are nearest."""
        if self.discrete:
            return self.entropy(distribution)
        nowhere = jnp.full(self.shapes.actions.dim, np.log(self.config.deviation))
        return -self.kl(distribution, jnp.concatenate([jnp.zeros_like(nowhere), nowhere]))

    def kl(self, old: Tensor, new: Tensor) -> Tensor:
        """KL(old || new) of two distributions, exactly."""
        if self.discrete:
            return jnp.sum(jnp.exp(old) * (old - new), axis=-1)
        (m0, l0), (m1, l1) = jnp.split(old, 2, axis=-1), jnp.split(new, 2, axis=-1)
        return jnp.sum(l1 - l0 + 0.5 * (jnp.exp(2 * (l0 - l1)) + (m0 - m1) ** 2 * jnp.exp(-2 * l1) - 1.0), axis=-1)

    def draw(self, policy: Params, scale: Scale, observation: Tensor, goal: Tensor, key: Tensor) -> tuple[Any, Any]:
        """Actions drawn from the policy and their log-probabilities, in JAX."""
        distribution = self.distribution(policy, self.inputs(scale, observation, goal))
        action = self.drawn(distribution, key)
        return action, self.log_prob(distribution, action)

    def drawn(self, distribution: Tensor, key: Tensor) -> Tensor:
        """An action of each distribution."""
        if self.discrete:
            return jax.random.categorical(key, distribution)
        mean, log_deviation = jnp.split(distribution, 2, axis=-1)
        return self._box(mean + jnp.exp(log_deviation) * jax.random.normal(key, mean.shape))

    def sample(
        self, policy: Params, scale: Scale, observation: Floats, goal: Floats, rng: np.random.Generator
    ) -> tuple[Array, Floats]:
        """The same in NumPy: actions [n] or [n, a], and log-probabilities [n]."""
        output = forward(policy["network"], self.inputs(scale, observation, goal), tanh=True)
        if self.discrete:
            log_probs = output - output.max(axis=-1, keepdims=True)
            log_probs -= np.log(np.exp(log_probs).sum(axis=-1, keepdims=True))
            noise = rng.gumbel(size=output.shape)
            action: Array = np.argmax(log_probs + noise, axis=-1)
            return action, log_probs[np.arange(len(action)), action]
        log_deviation = policy["log_deviation"]
        unit = (output + np.exp(log_deviation) * rng.standard_normal(output.shape)).astype(np.float32)
        action = self._box(unit).astype(np.float32)
        log_prob: Floats = gaussian_log_prob(np, output, log_deviation, self._unit(action)).astype(np.float32)
        return action, log_prob

    def random_actions(self, progress: float) -> float:
        """The share of actions that are drawn uniformly at random while exploring."""
        return 0.0 if isinstance(self.config, HPGConfig) else self.config.random_actions(progress)

    def mixed(self, action: Array, share: float, rng: np.random.Generator) -> Array:
        """Actions, some of them replaced by uniformly random ones."""
        at_random = rng.random(len(action)) < share
        if self.discrete:
            return np.where(at_random, rng.integers(self.shapes.actions.choices, size=len(action)), action)
        uniform = self._box(rng.uniform(-1.0, 1.0, action.shape)).astype(np.float32)
        return np.where(at_random[:, None], uniform, action)

    def greedy(self, policy: Params, scale: Scale, observation: Floats, goal: Floats) -> Array:
        """The likeliest actions, in NumPy, inside the box."""
        output = forward(policy["network"], self.inputs(scale, observation, goal), tanh=True)
        choice: Array = np.argmax(output, axis=-1) if self.discrete else self._box(output.clip(-1.0, 1.0))
        return choice if self.discrete else choice.astype(np.float32)

    def _range(self) -> tuple[Array, Array]:
        low, high = (np.array(x, np.float32) for x in (self.shapes.actions.low, self.shapes.actions.high))
        return (low + high) / 2, (high - low) / 2

    def _box(self, unit: Tensor) -> Tensor:
        middle, half = self._range()
        return middle + half * unit

    def _unit(self, action: Tensor) -> Tensor:
        middle, half = self._range()
        return (action - middle) / half


def gaussian_log_prob(numpy: Any, mean: Tensor, log_deviation: Tensor, value: Tensor) -> Tensor:
    """Log density of independent Gaussians, summed over the last axis."""
    standard = (value - mean) * numpy.exp(-log_deviation)
    return numpy.sum(-0.5 * standard**2 - log_deviation - 0.5 * LOG_2PI, axis=-1)
