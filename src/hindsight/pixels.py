"""How networks read pixels: by convolutions, written once for NumPy and JAX.

What a network reads is a row: the observation, the goal, and what comes with them, as an action.
Where the observation or the goal is an image, its part of the row is put in shape again and goes
through layers of 3 x 3 convolutions with stride 2, until neither side is longer than 6. So 8 x 8
pixels take one layer, and 84 x 84 take four. An observation and a goal of one size are read as one
image with the channels of both: what has to change is seen where it is.

A convolution is a matrix product of patches. XLA's own are slow on a CPU where several critics are
computed at once, and NumPy has none.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from hindsight.envs.spaces import Features
from hindsight.types import Tensor

CHANNELS = 32
"""Of every layer."""
SIDE = 6
"""The longest side that an image may have after the last layer."""

Images = tuple[Features, ...]
"""Those of observation and goal if there are pixels among them; else empty."""


def images_of(observation: Features, goal: Features) -> Images:
    return (observation, goal) if observation.pixels or goal.pixels else ()


def encode(images: Images, rows: Tensor, layer: Callable[[str, Tensor], Tensor]) -> Tensor:
    """Rows [..., i] with images in them as rows without [..., j]: what the last layers say of
    each, then the numbers. `layer(name, patches)` is a linear layer of `CHANNELS`, then ReLU."""
    numpy, lead = namespace(rows), rows.shape[:-1]
    starts = np.cumsum([0, *(features.dim for features in images)])
    parts = [
        rows[..., start : start + features.dim]
        for start, features in zip(starts[:-1], images, strict=True)
    ]
    found = []
    for number, (group, sizes) in enumerate(layer_sizes(images)):
        image = numpy.concatenate(
            [parts[i].reshape(*lead, *images[i].image) for i in group], axis=-1
        )
        for depth in range(len(sizes) - 1):
            image = layer(f"Conv_{number}_{depth}", patches(image))
        found.append(image.reshape(*lead, -1))
    found += [part for part, features in zip(parts, images, strict=True) if not features.pixels]
    return numpy.concatenate([*found, rows[..., starts[-1] :]], axis=-1)


def patches(image: Tensor) -> Tensor:
    """The 3 x 3 surroundings of every second pixel [..., H/2, W/2, 9 C], of an image [..., H, W,
    C]; zeros lie around it."""
    numpy = namespace(image)
    height, width = (-(-side // 2) for side in image.shape[-3:-1])
    around = [(0, 0)] * (image.ndim - 3) + [(1, 1), (1, 1), (0, 0)]
    padded = numpy.pad(image, around)
    shifted = [
        padded[..., i : i + 2 * height - 1 : 2, j : j + 2 * width - 1 : 2, :]
        for i in range(3)
        for j in range(3)
    ]
    return numpy.concatenate(shifted, axis=-1)


def encoded_size(images: Images) -> tuple[int, int]:
    """By how many numbers all images of a row are described in the end, and the parameters of
    their layers."""
    described = parameters = 0
    for _, sizes in layer_sizes(images):
        described += int(np.prod(sizes[-1]))
        parameters += sum((9 * channels + 1) * CHANNELS for _, _, channels in sizes[:-1])
    return described, parameters


def layer_sizes(images: Images) -> list[tuple[tuple[int, ...], list[tuple[int, int, int]]]]:
    """For every image that the layers read: which of `images` it is made of, and its size at
    first and after each layer."""
    return [(group, _sizes(images, group)) for group in _together(images)]


def _together(images: Images) -> list[tuple[int, ...]]:
    """Which of them are read as one image."""
    which = [i for i, features in enumerate(images) if features.pixels]
    if len({images[i].image[:2] for i in which}) == 1:
        return [tuple(which)]
    return [(i,) for i in which]


def _sizes(images: Images, group: tuple[int, ...]) -> list[tuple[int, int, int]]:
    height, width, _ = images[group[0]].image
    sizes = [(height, width, sum(images[i].image[2] for i in group))]
    while len(sizes) == 1 or max(height, width) > SIDE:
        height, width = -(-height // 2), -(-width // 2)
        sizes.append((height, width, CHANNELS))
    return sizes


def namespace(*arrays: Tensor) -> Any:
    """NumPy if all are its arrays, else jax.numpy, which acting need not import."""
    if all(isinstance(array, np.ndarray) for array in arrays):
        return np
    import jax.numpy as jnp

    return jnp
