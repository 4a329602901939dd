"""A trained policy: call it with a dict observation, save it, load it. Files are safetensors and JSON: no code runs."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import jax
import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load as load_tensors

from hindsight.agents import Agent, agent_of
from hindsight.agents.shapes import Shapes
from hindsight.config import AGENTS, agent_from_json
from hindsight.envs.contract import GOAL_KEYS, Actions, GoalEnvSpec
from hindsight.envs.spaces import Features
from hindsight.errors import HindsightError
from hindsight.gradients.config import LEARNERS, learner_from_json
from hindsight.gradients.learner import Learner
from hindsight.networks import Params
from hindsight.normalizer import Scale
from hindsight.saving.files import JSON_LIMIT, is_plain, read_file, tensor_parts, write_aside
from hindsight.saving.tree import State, export_pytree
from hindsight.settings import plain
from hindsight.types import Array, Floats

FORMAT = 1
TENSORS, DESCRIPTION = "policy.safetensors", "policy.json"


class Policy:
    """Greedy goal-conditioned policy. `policy(observation)` takes one dict observation or a batch of them."""

    def __init__(
        self, env: str, agent: Agent | Learner, parameters: Params, scale: Scale, observation: Features, goal: Features
    ) -> None:
        self.env = env
        self.agent = agent
        self.parameters = parameters
        self.scale = scale
        self.observation = observation
        self.goal = goal

    @staticmethod
    def of(spec: GoalEnvSpec, agent: Agent | Learner, parameters: Params, scale: Scale) -> Policy:
        return Policy(spec.id, agent, parameters, scale, spec.observation, spec.goal)

    def export_state(self) -> State:
        """All its numbers, by name."""
        scale = {name: np.asarray(value) for name, value in self.scale._asdict().items()}
        return {"policy": export_pytree(self.parameters), "scale": scale}

    def act(self, observation: Floats, goal: Floats) -> Array:
        """Actions for features [n, o] and [n, g]."""
        return self.agent.act(self.parameters, self.scale, observation, goal)

    def __call__(self, observation: Mapping[str, Any]) -> Any:
        """The action for a dict observation, or the actions for a batch of them. An int if actions are discrete."""
        missing = [key for key in ("observation", "desired_goal") if key not in observation]
        if missing:
            raise HindsightError(f"the observation lacks {', '.join(missing)}; it needs {', '.join(GOAL_KEYS)}")
        values, goals = np.asarray(observation["observation"]), np.asarray(observation["desired_goal"])
        single = values.ndim == len(self.observation.shape)
        if single:
            values, goals = values[None], goals[None]
        if values.shape[1:] != self.observation.shape or goals.shape[1:] != self.goal.shape:
            raise HindsightError(
                f"this policy of {self.env} takes observations of shape {self.observation.shape} and goals of shape "
                f"{self.goal.shape}, got {values.shape[1:]} and {goals.shape[1:]}"
            )
        actions = self.act(self.observation(values), self.goal(goals))
        if not single:
            return actions
        return int(actions[0]) if self.agent.shapes.actions.discrete else actions[0]

    def save(self, directory: Path) -> None:
        """Write the two policy files, each aside and then renamed. The tensors' file bears SHA-256 of both."""
        tensors = {f"parameters/{k}": np.asarray(v) for k, v in _flat(self.parameters).items()}
        tensors |= {f"scale/{name}": np.asarray(value) for name, value in self.scale._asdict().items()}
        description = {
            "format": FORMAT,
            "env": self.env,
            "agent": plain(self.agent.config),
            "shapes": asdict(self.agent.shapes),
            "observation": asdict(self.observation),
            "goal": asdict(self.goal),
        }
        text = json.dumps(description, indent=2).encode()
        if not is_plain(directory / DESCRIPTION) or read_file(directory / DESCRIPTION) != text:
            write_aside(directory / DESCRIPTION, text)
        write_aside(directory / TENSORS, tensors_file(tensors, text))

    @staticmethod
    def load(directory: Path) -> Policy:
        """The policy saved in a run directory. Raises HindsightError if the files are missing, broken or foreign."""
        for name in (TENSORS, DESCRIPTION):
            if not (directory / name).exists():
                raise HindsightError(f"no policy in {directory}: {name} is missing")
        try:
            description = read_file(directory / DESCRIPTION, JSON_LIMIT)
            data = json.loads(description)
            if data["format"] > FORMAT:
                raise HindsightError(
                    f"{directory / DESCRIPTION} is of a newer Hindsight (format {data['format']}): update"
                )
            content = read_file(directory / TENSORS)
            tensors = load_tensors(content)
            if bears_sums(content) and tensors_file(tensors, description) != content:
                raise HindsightError(f"the policy in {directory} is broken: its SHA-256 differs")
            if data["agent"]["method"] not in (*AGENTS, *LEARNERS):
                raise HindsightError(f"{directory / DESCRIPTION}: unknown method {data['agent']['method']!r}")
            return _assemble(data, tensors)
        except HindsightError:
            raise
        except (SafetensorError, ValueError, KeyError, TypeError, AttributeError, RecursionError, OSError) as error:
            raise HindsightError(f"the policy in {directory} is broken: {' '.join(str(error).split())}") from None


def tensors_file(tensors: dict[str, Array], description: bytes) -> bytes:
    """A safetensors file that says what its tensors and the description beside it must be."""
    digest = hashlib.sha256(b"".join(tensor_parts(tensors))).hexdigest()
    metadata = {"tensors": digest, "description": hashlib.sha256(description).hexdigest()}
    return b"".join(tensor_parts(tensors, metadata))


def bears_sums(content: bytes) -> bool:
    """Whether a file of tensors says what its SHA-256 must be, as all do that were not made by an old version."""
    size = int.from_bytes(content[:8], "little")
    return "tensors" in json.loads(content[8 : 8 + size]).get("__metadata__", {})


def _assemble(data: dict[str, Any], tensors: dict[str, Array]) -> Policy:
    shapes, actions = data["shapes"], data["shapes"]["actions"]
    returns = shapes["returns"]
    sizes = Shapes(
        int(shapes["observation"]),
        int(shapes["goal"]),
        Actions(int(actions["choices"]), tuple(actions["low"]), tuple(actions["high"])),
        float(shapes["gamma"]),
        None if returns is None else (float(returns[0]), float(returns[1])),
    )
    agent: Agent | Learner
    if data["agent"]["method"] in LEARNERS:
        agent = Learner(learner_from_json(data["agent"]), sizes)
    else:
        agent = agent_of(agent_from_json(data["agent"]), sizes)
    expected = jax.eval_shape(lambda: agent.actor_parameters(agent.init(jax.random.key(0))))
    found = {k.removeprefix("parameters/"): v for k, v in tensors.items() if k.startswith("parameters/")}
    if {k: v.shape for k, v in found.items()} != {k: v.shape for k, v in _flat(expected).items()}:
        raise ValueError("the tensors do not fit the description of the network")
    if not all(np.isfinite(tensor).all() for tensor in tensors.values()):
        raise ValueError("its numbers are not finite")
    parameters = jax.tree.unflatten(jax.tree.structure(expected), [found[k] for k in _flat(expected)])
    scale = Scale(**{name: tensors[f"scale/{name}"] for name in Scale._fields})
    observation, goal = (
        Features(tuple(data[key]["shape"]), int(data[key]["categories"])) for key in ("observation", "goal")
    )
    return Policy(str(data["env"]), agent, parameters, scale, observation, goal)


def _flat(parameters: Params) -> dict[str, Any]:
    """The leaves of a parameter tree by their path, in the tree's own order."""
    return {
        jax.tree_util.keystr(path, simple=True, separator="/"): leaf
        for path, leaf in jax.tree.leaves_with_path(parameters)
    }
