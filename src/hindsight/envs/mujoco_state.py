"""The state of a MuJoCo simulation as one vector."""

from __future__ import annotations

from typing import Any

import mujoco
import numpy as np

from hindsight.types import Array

KIND = mujoco.mjtState.mjSTATE_INTEGRATION


def integration_state(model: Any, data: Any) -> Array:
    """All that the next step of a simulation depends on."""
    state = np.empty(mujoco.mj_stateSize(model, KIND))
    mujoco.mj_getState(model, data, state, KIND)
    return state


def set_integration_state(model: Any, data: Any, state: Array) -> None:
    mujoco.mj_setState(model, data, state, KIND)
    mujoco.mj_forward(model, data)
    mujoco.mj_setState(model, data, state, KIND)  # the warm start was then a little ahead
