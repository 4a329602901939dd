"""Stable-Baselines3 with Hindsight's replay: `docs/stable-baselines3.md`.

`HindsightReplayBuffer` works with the plain learners of Stable-Baselines3. With priorities, it
needs the `Prioritized` ones.
"""

from __future__ import annotations

from hindsight.errors import needs

with needs("sb3"):
    import sb3_contrib  # noqa: F401
    import stable_baselines3  # noqa: F401

from hindsight.integrations.sb3.buffer import HindsightReplayBuffer, HindsightSamples
from hindsight.integrations.sb3.learners import (
    Prioritized,
    PrioritizedDDPG,
    PrioritizedDQN,
    PrioritizedSAC,
    PrioritizedTD3,
    PrioritizedTQC,
)

__all__ = [
    "HindsightReplayBuffer",
    "HindsightSamples",
    "Prioritized",
    "PrioritizedDDPG",
    "PrioritizedDQN",
    "PrioritizedSAC",
    "PrioritizedTD3",
    "PrioritizedTQC",
]
