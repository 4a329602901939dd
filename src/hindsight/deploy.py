"""A trained policy where it is used: on a robot, in a service. It needs neither JAX nor an env.

import hindsight.deploy

policy = hindsight.deploy.load("policy.onnx")  # or a run directory
action = policy({"observation": ..., "desired_goal": ...})
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from hindsight.envs.contract import Actions
from hindsight.envs.spaces import Features
from hindsight.errors import HindsightError
from hindsight.pretrained import run_or_env
from hindsight.training.policy import DESCRIPTION, TENSORS, Policy, inputs_of

__all__ = ["DeployedPolicy", "inputs_of", "load"]


class DeployedPolicy(Protocol):
    """What `load` returns: `policy(observation)` is the greedy action."""

    env: str
    observation: Features
    """Of which `shape` is that of one observation."""
    goal: Features

    @property
    def actions(self) -> Actions:
        """`low` and `high` of continuous actions; `choices` of discrete ones."""

    def __call__(self, observation: Mapping[str, Any]) -> Any:
        """The action for a dict with `observation` and `desired_goal`, or the actions for a
        batch. With `achieved_goal`, too, if the env's observations do not tell it."""


def load(path: str | Path) -> DeployedPolicy:
    """The policy in a run directory, of a policy file in one, or in an .onnx file; or the one that
    comes with the library for an env's id."""
    path = run_or_env(path)
    if path.suffix == ".onnx":
        from hindsight.integrations.onnx import OnnxPolicy

        return OnnxPolicy.load(path)
    if path.name in (TENSORS, DESCRIPTION):
        path = path.parent
    if not path.is_dir():
        raise HindsightError(
            f"{path} is neither a run directory nor a policy file ({TENSORS} or .onnx)"
        )
    return Policy.load(path)
