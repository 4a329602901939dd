"""A trained network that acts, in NumPy: what collectors play with and policies save. It needs no
JAX.

Acting in NumPy never waits for the thread pool that learning keeps busy, and a loaded policy
needs no compilation.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from hindsight.envs.contract import Actions
from hindsight.normalizer import Scale, network_inputs
from hindsight.pixels import Images, encode
from hindsight.types import Array, Floats, Tensor

Params = Any
Head = Literal["tanh", "argmax", "gaussian", "categorical", "squashed_gaussian"]
LOG_2PI = float(np.log(2.0 * np.pi))
LOG_STD = (-20.0, 2.0)
"""Least and largest log deviation of a squashed Gaussian."""


@dataclass(frozen=True)
class ActorShape:
    """All about an actor but its numbers: what a policy file says of it."""

    head: Head
    """How outputs become actions: squashed; the best of some values; or drawn from a distribution.

    Outputs of a squashed Gaussian are means and log deviations, of what tanh then brings into
    the box.
    """
    actions: Actions
    tanh_layers: bool = False
    """Hidden layers are tanh instead of ReLU."""
    clip_observation: float = np.inf
    clip_normalized: float = np.inf
    fourier_features: int = 0
    images: Images = ()

    @property
    def outputs(self) -> int:
        """Of the network, for one row."""
        return self.actions.choices or self.actions.dim * (
            2 if self.head == "squashed_gaussian" else 1
        )


@dataclass(frozen=True)
class Actor:
    """Parameters and normaliser in; actions out, for rows of features."""

    shape: ActorShape
    params: Params
    """Of an MLP; of a Gaussian, {"network": an MLP, "log_std": [a]}; of others to draw from,
    {"network": an MLP}."""
    scale: Scale

    @property
    def stochastic(self) -> bool:
        return self.shape.head in ("gaussian", "categorical", "squashed_gaussian")

    def outputs(self, observation: Floats, goal: Floats) -> Floats:
        """What the network says of features [n, o] and [n, g]."""
        shape = self.shape
        inputs = network_inputs(
            self.scale,
            observation,
            goal,
            shape.clip_observation,
            shape.clip_normalized,
            shape.fourier_features,
        )
        return forward(self.network, inputs, shape.tanh_layers, shape.images)

    @property
    def network(self) -> Params:
        """The parameters of its MLP."""
        return self.params["network"] if self.stochastic else self.params

    @property
    def widths(self) -> list[int]:
        """Of the network's layers, the last one included."""
        layers = self.network["params"]
        number = sum(name.startswith("Dense") for name in layers)
        return [len(layers[f"Dense_{i}"]["bias"]) for i in range(number)]

    def with_last_goal_features(self, fixed: Array) -> Actor:
        """An actor for shorter goals: the last features are always these, and part of the biases
        of its first layer."""
        shape, scale, kept = self.shape, self.scale, len(self.scale.goal_mean) - len(fixed)
        goal = np.concatenate([scale.goal_mean[:kept], fixed]).astype(np.float32)
        clips = (shape.clip_observation, shape.clip_normalized, shape.fourier_features)
        inputs = network_inputs(scale, scale.observation_mean, goal, *clips)
        width = len(scale.observation_mean) + len(goal)  # repeated by Fourier features
        last = np.arange(len(inputs)) % width >= width - len(fixed)
        layers = self.network["params"]
        kernel, bias = layers["Dense_0"]["kernel"], layers["Dense_0"]["bias"]
        first = {"kernel": kernel[~last], "bias": bias + inputs[last] @ kernel[last]}
        network = {**self.network, "params": {**layers, "Dense_0": first}}
        return Actor(
            shape,
            {**self.params, "network": network} if self.stochastic else network,
            scale._replace(
                goal_mean=scale.goal_mean[:kept], goal_deviation=scale.goal_deviation[:kept]
            ),
        )

    def unit(self, observation: Floats, goal: Floats) -> Array:
        """The best continuous actions in [-1, 1]."""
        outputs = self.outputs(observation, goal)
        if self.shape.head == "squashed_gaussian":
            outputs, _ = mean_and_log_std(np, outputs)
        return outputs.clip(-1.0, 1.0) if self.shape.head == "gaussian" else np.tanh(outputs)

    def __call__(self, observation: Floats, goal: Floats) -> Array:
        """The best, or likeliest, actions [n] or [n, a], inside the box."""
        actions = self.shape.actions
        if actions.discrete:
            choice: Array = np.argmax(self.outputs(observation, goal), axis=-1)
            return choice
        return actions.inside(actions.from_unit(self.unit(observation, goal)).astype(np.float32))

    def sample(
        self, observation: Floats, goal: Floats, rng: np.random.Generator
    ) -> tuple[Array, Floats]:
        """Actions drawn from a stochastic policy, and their log-probabilities [n]."""
        output = self.outputs(observation, goal)
        if self.shape.head == "categorical":
            log_probs = output - output.max(axis=-1, keepdims=True)
            log_probs -= np.log(np.exp(log_probs).sum(axis=-1, keepdims=True))
            noise = rng.gumbel(size=output.shape)
            action: Array = np.argmax(log_probs + noise, axis=-1)
            return action, log_probs[np.arange(len(action)), action]
        actions = self.shape.actions
        if self.shape.head == "squashed_gaussian":
            mean, log_std = mean_and_log_std(np, output)
            noise = rng.standard_normal(mean.shape, np.float32)
            before = mean + np.exp(log_std) * noise
            action = actions.inside(actions.from_unit(np.tanh(before)).astype(np.float32))
            return action, squashed_log_prob(np, noise, log_std, before)
        log_std = self.params["log_std"]
        unit = (output + np.exp(log_std) * rng.standard_normal(output.shape)).astype(np.float32)
        action = actions.from_unit(unit).astype(np.float32)
        log_prob: Floats = gaussian_log_prob(np, output, log_std, actions.to_unit(action)).astype(
            np.float32
        )
        return action, log_prob


def gaussian_log_prob(numpy: Any, mean: Tensor, log_std: Tensor, value: Tensor) -> Tensor:
    """Log density of independent Gaussians, summed over the last axis."""
    standard = (value - mean) * numpy.exp(-log_std)
    return numpy.sum(-0.5 * standard**2 - log_std - 0.5 * LOG_2PI, axis=-1)


def mean_and_log_std(numpy: Any, outputs: Tensor) -> tuple[Tensor, Tensor]:
    """Those of a squashed Gaussian [..., a], from what its network says [..., 2a]. NumPy or JAX."""
    mean, log_std = numpy.split(outputs, 2, axis=-1)
    return mean, numpy.clip(log_std, *LOG_STD)


def squashed_log_prob(numpy: Any, noise: Tensor, log_std: Tensor, before: Tensor) -> Tensor:
    """Log density of tanh(before), where before = mean + deviation * noise, summed over the last
    axis.

    It is that of the Gaussian over the slope of tanh, 1 - tanh(x)^2 = 4 / (exp(x) + exp(-x))^2,
    whose logarithm is written so that it stays finite. Passing the noise, and not the mean,
    keeps it exact for the smallest deviations.
    """
    slope = 2.0 * (np.log(2.0) - before - numpy.logaddexp(0.0, -2.0 * before))
    return numpy.sum(-0.5 * noise**2 - log_std - 0.5 * LOG_2PI - slope, axis=-1)


def forward(params: Params, x: Floats, tanh: bool = False, images: Images = ()) -> Floats:
    """What an MLP with these parameters computes for rows x [n, inputs], in NumPy."""
    layers = params["params"]

    def convolved(name: str, patches: Floats) -> Floats:
        sums: Floats = patches @ layers[name]["kernel"] + layers[name]["bias"]
        return np.maximum(sums, 0.0)

    if images:
        x = encode(images, x, convolved)
    last = sum(name.startswith("Dense") for name in layers) - 1
    for i in range(last):
        x = x @ layers[f"Dense_{i}"]["kernel"] + layers[f"Dense_{i}"]["bias"]
        norm = layers.get(f"LayerNorm_{i}")
        if norm is not None:
            centred = x - x.mean(axis=-1, keepdims=True)
            variance = (centred**2).mean(axis=-1, keepdims=True)
            x = centred / np.sqrt(variance + 1e-6) * norm["scale"] + norm["bias"]
        x = np.tanh(x) if tanh else np.maximum(x, 0.0)
    output: Floats = x @ layers[f"Dense_{last}"]["kernel"] + layers[f"Dense_{last}"]["bias"]
    return output


class RandomActions:
    """Replaces a share of the actions by uniformly random ones, each held for `hold` steps on
    average.

    Held actions reach what a new one at every step hardly does: to lift a box, a gripper has to
    stay closed while it rises. The share is the same for any `hold`. Continuous actions [n, a]
    are in units of half their range.
    """

    def __init__(self, actions: Actions, share: float, hold: float = 1.0) -> None:
        self._actions = actions
        self._share = share
        self._continue = 1.0 - 1.0 / hold
        self._start = (
            share * (1.0 - self._continue) / (1.0 - share * self._continue) if share < 1.0 else 1.0
        )
        self._on: Array | None = None
        self._held: Array = np.zeros(0)

    def __call__(self, action: Array, rng: np.random.Generator) -> Array:
        random: Array
        if self._actions.discrete:
            random, draw = (
                rng.integers(0, self._actions.choices, len(action)),
                rng.random(len(action)),
            )
        else:
            random = rng.uniform(-1.0, 1.0, action.shape).astype(np.float32)
            draw = rng.random((len(action), 1))
        if self._on is None or len(self._on) != len(action):
            self._on, self._held = draw < self._share, random
        else:
            continues = self._on & (draw < self._continue)
            starts = np.where(
                self._on, self._continue + (1.0 - self._continue) * self._start, self._start
            )
            self._on, self._held = draw < starts, np.where(continues, self._held, random)
        return np.where(self._on, self._held, action)
