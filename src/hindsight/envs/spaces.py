"""How observations and goals of any supported space become the flat features that networks
read: float32 numbers, or uint8 pixels."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np

from hindsight.errors import HindsightError
from hindsight.types import Array

LARGEST_IMAGE = 2**20
"""Numbers in an image."""


@dataclass(frozen=True)
class Features:
    """Maps a batch of values of one space, [..., *shape], to features [..., dim]: float32 numbers,
    Discrete values one-hot, or the pixels of an image, uint8."""

    shape: tuple[int, ...]
    categories: int = 0
    pixels: bool = False
    """An image (H, W, C), or (H, W) of one channel, of numbers from 0 to 255."""
    achieved_dim: int = 0
    """Features of the achieved goal that follow, in an observation that does not tell it."""

    @staticmethod
    def of(space: gym.Space[Any], name: str) -> Features:
        if isinstance(space, gym.spaces.Box) and _is_image(space):
            _check_image(space.shape, name)
            return Features(tuple(space.shape), pixels=True)
        if isinstance(space, gym.spaces.Box | gym.spaces.MultiBinary | gym.spaces.MultiDiscrete):
            return Features(tuple(space.shape))
        if isinstance(space, gym.spaces.Discrete):
            if int(space.start) != 0:
                raise HindsightError(
                    f"{name} is a Discrete space that does not start at 0: shift it in a wrapper"
                )
            return Features((), int(space.n))
        raise HindsightError(
            f"{name} is a {type(space).__name__} space; Box, MultiBinary, MultiDiscrete and "
            "Discrete are supported: make it a Box in an observation wrapper of your own, with "
            "gymnasium.spaces.flatten(space, value)"
        )

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Features:
        """Of `to_json`, as it is in a file."""
        shape, pixels = tuple(map(int, data["shape"])), bool(data.get("pixels", False))
        if pixels:
            _check_image(shape, "an input of this policy")
        return Features(shape, int(data["categories"]), pixels, int(data.get("achieved", 0)))

    def to_json(self) -> dict[str, Any]:
        return {
            "shape": self.shape,
            "categories": self.categories,
            "pixels": self.pixels,
            "achieved": self.achieved_dim,
        }

    @property
    def dim(self) -> int:
        return self.own_dim + self.achieved_dim

    @property
    def own_dim(self) -> int:
        """Without those of the achieved goal."""
        return self.categories or math.prod(self.shape)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of the features."""
        return np.dtype(np.uint8 if self.pixels else np.float32)

    @property
    def scales(self) -> int:
        """How many numbers normalise the features: one for all pixels."""
        return 1 if self.pixels else self.dim

    @property
    def image(self) -> tuple[int, int, int]:
        """Height, width and channels of an image."""
        height, width, channels = (*self.shape, 1)[:3]
        return height, width, channels

    def __call__(self, values: Array, achieved: Array | None = None) -> Array:
        """Features of values; with those of the achieved goals [..., g] behind them, if these are
        part of an observation."""
        own = self._own(values)
        if not self.achieved_dim:
            return own
        assert achieved is not None
        return np.concatenate([own, achieved], axis=-1)

    def check_dtype(self, values: Array) -> None:
        """Raise HindsightError for values whose fractions would be lost."""
        if self.pixels and values.dtype.kind == "f":
            raise HindsightError(
                f"an image must be uint8, with pixels from 0 to 255, got {values.dtype}"
            )
        if self.categories and values.dtype.kind == "f":
            raise HindsightError(
                f"a value of a Discrete space must be a whole number, got {values.dtype}"
            )

    def _own(self, values: Array) -> Array:
        self.check_dtype(values)
        if self.categories:
            return np.eye(self.categories, dtype=np.float32)[values]
        lead = values.shape[: values.ndim - len(self.shape)]
        return values.reshape(*lead, self.own_dim).astype(self.dtype, copy=False)


def _is_image(space: gym.spaces.Box) -> bool:
    """By the convention of Gymnasium and Stable-Baselines3. Other boxes hold numbers."""
    return (
        len(space.shape) >= 2
        and space.dtype == np.uint8
        and bool((space.low == 0).all() and (space.high == 255).all())
    )


def _check_image(shape: tuple[int, ...], name: str) -> None:
    if len(shape) not in (2, 3) or min(shape) < 1:
        raise HindsightError(
            f"{name} is an image of shape {list(shape)}; height, width and channels are "
            "supported: stack frames as channels"
        )
    if math.prod(shape) > LARGEST_IMAGE:
        raise HindsightError(
            f"{name} is an image of shape {list(shape)}, larger than {LARGEST_IMAGE} numbers: "
            "shrink it with gymnasium.wrappers.ResizeObservation"
        )


def refuse_channels_first(features: Features, name: str) -> None:
    """Raise HindsightError if an image looks like (C, H, W), in which convolutions would mix
    channels and rows."""
    shape = features.shape
    if features.pixels and len(shape) == 3 and shape[0] <= 4 < min(shape[1:]):
        raise HindsightError(
            f"{name} is an image of shape {list(shape)}, with its channels first: put them last, "
            "with numpy.moveaxis(image, 0, -1) in an observation wrapper"
        )
