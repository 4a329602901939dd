"""Random actions while exploring, held for some steps."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from hindsight.types import Array, Bools, Floats

Explore = Callable[[Floats, Floats], Array]
"""(observation features [n, o], goal features [n, g]) -> actions, with exploration."""


class RandomActions:
    """Replaces a share of the actions [n, a] by random ones in [-1, 1], each held for `hold` steps on average.

    Held actions reach what a new one at every step hardly does: to lift a box, a gripper has to stay closed while it
    rises. The share is the same for any `hold`.
    """

    def __init__(self, share: float, hold: float) -> None:
        self._share = share
        self._go_on = 1.0 - 1.0 / hold
        self._start = share * (1.0 - self._go_on) / (1.0 - share * self._go_on) if share < 1.0 else 1.0
        self._on: Bools | None = None
        self._held: Array = np.zeros(0)

    def __call__(self, action: Array, rng: np.random.Generator) -> Array:
        random, draw = rng.uniform(-1.0, 1.0, action.shape).astype(np.float32), rng.random((len(action), 1))
        if self._on is None or len(self._on) != len(action):
            self._on, self._held = draw < self._share, random
        else:
            goes_on = self._on & (draw < self._go_on)
            starts = np.where(self._on, self._go_on + (1.0 - self._go_on) * self._start, self._start)
            self._on, self._held = draw < starts, np.where(goes_on, self._held, random)
        return np.where(self._on, self._held, action)
