"""How observations and goals of any supported space become the flat float32 features that
networks read."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np

from hindsight.errors import HindsightError
from hindsight.types import Array, Floats


@dataclass(frozen=True)
class Features:
    """Maps a batch of values of one space, [..., *shape], to float32 features [..., dim].
    Discrete values one-hot."""

    shape: tuple[int, ...]
    categories: int = 0

    @staticmethod
    def of(space: gym.Space[Any], name: str) -> Features:
        _refuse_images(space, name)
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

    @property
    def dim(self) -> int:
        return self.categories or math.prod(self.shape)

    def __call__(self, values: Array) -> Floats:
        if self.categories:
            return np.eye(self.categories, dtype=np.float32)[values]
        lead = values.shape[: values.ndim - len(self.shape)]
        return values.reshape(*lead, self.dim).astype(np.float32, copy=False)


def _refuse_images(space: gym.Space[Any], name: str) -> None:
    """Pictures would be read as thousands of numbers without a place."""
    shape = space.shape or ()
    if isinstance(space, gym.spaces.Box) and len(shape) >= 2 and space.dtype == np.uint8:
        raise HindsightError(
            f"{name} is an image of shape {list(shape)}, and images are not supported: give the "
            "env numbers instead, such as positions, or what a network of yours makes of the image"
        )
