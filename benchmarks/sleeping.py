"""Bit flip at the pace of a real robot: every step takes its time, and no core."""

from __future__ import annotations

import time
from typing import Any

from hindsight.envs.bit_flip import BitFlipEnv


class SleepingEnv(BitFlipEnv):
    max_episode_steps = 20

    def __init__(self, seconds: float = 0.0) -> None:
        super().__init__(bits=20)
        self.seconds = seconds

    def step(self, action: Any) -> Any:
        time.sleep(self.seconds)
        return super().step(action)
