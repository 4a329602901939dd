"""The policy and the critic of all policy-gradient learners: categorical for discrete actions, else Gaussian."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from hindsight.agents.shapes import Shapes
from hindsight.gradients.config import LearnerConfig
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
    def _policy(self) -> MLP:
        outputs = self.shapes.actions.choices if self.discrete else self.shapes.actions.dim
        return MLP(self.config.hidden, outputs, tanh=True, output_scale=0.01)  # nearly uniform: ratios start near 1

    @property
    def _critic(self) -> MLP:
        return MLP(self.config.hidden, 1, tanh=True)

    def init_policy(self, key: Tensor) -> Params:
        network = self._policy.init(key, jnp.zeros((1, self._inputs)))
        if self.discrete:
            return {"network": network}
        return {"network": network, "log_deviation": jnp.full(self.shapes.actions.dim, np.log(self.config.deviation))}

    def init_critic(self, key: Tensor) -> Params:
        return self._critic.init(key, jnp.zeros((1, self._inputs + 1)))

    @property
    def _inputs(self) -> int:
        return (self.shapes.observation + self.shapes.goal) * (1 + 2 * self.config.waves)

    def inputs(self, scale: Scale, observation: Tensor, goal: Tensor) -> Tensor:
        """What the networks read [..., i]: observation and goal, normalised, and waves of them. NumPy or JAX, as given."""
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

    def kl(self, old: Tensor, new: Tensor) -> Tensor:
        """KL(old || new) of two distributions, exactly."""
        if self.discrete:
            return jnp.sum(jnp.exp(old) * (old - new), axis=-1)
        (m0, l0), (m1, l1) = jnp.split(old, 2, axis=-1), jnp.split(new, 2, axis=-1)
        return jnp.sum(l1 - l0 + 0.5 * (jnp.exp(2 * (l0 - l1)) + (m0 - m1) ** 2 * jnp.exp(-2 * l1) - 1.0), axis=-1)

    def draw(self, policy: Params, scale: Scale, observation: Tensor, goal: Tensor, key: Tensor) -> tuple[Any, Any]:
        """Actions drawn from the policy and their log-probabilities, in JAX."""
        distribution = self.distribution(policy, self.inputs(scale, observation, goal))
        if self.discrete:
            action = jax.random.categorical(key, distribution)
        else:
            mean, log_deviation = jnp.split(distribution, 2, axis=-1)
            action = self._box(mean + jnp.exp(log_deviation) * jax.random.normal(key, mean.shape))
        return action, self.log_prob(distribution, action)

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
