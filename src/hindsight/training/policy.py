"""A trained policy: call it with a dict observation, save it, load it. Files are safetensors and
JSON: no code runs."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Protocol, get_args

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load as load_tensors

from hindsight.acting import Actor, ActorShape, Head, Params
from hindsight.envs.contract import Actions, GoalEnvSpec
from hindsight.envs.spaces import Features
from hindsight.errors import HindsightError
from hindsight.normalizer import Scale
from hindsight.pixels import images_of
from hindsight.pretrained import run_or_env
from hindsight.saving.files import JSON_LIMIT, is_plain, read_file, tensor_parts, write_aside
from hindsight.saving.tree import State, export_pytree
from hindsight.settings import plain
from hindsight.types import Array, Floats

FORMAT = 2
POLICY = TENSORS, DESCRIPTION = "policy.safetensors", "policy.json"


class Policy:
    """Greedy goal-conditioned policy. `policy(observation)` takes one dict observation or a
    batch of them."""

    def __init__(
        self,
        env: str,
        actor: Actor,
        observation: Features,
        goal: Features,
        settings: Mapping[str, Any],
    ) -> None:
        self.env = env
        self.actor = actor
        self.observation = observation
        self.goal = goal
        self.settings = dict(settings)
        """Of the learner that trained it, as in config.json."""

    @staticmethod
    def of(spec: GoalEnvSpec, actor: Actor, agent: Any) -> Policy:
        """The policy of an actor for an env, trained by an agent with these settings."""
        return Policy(spec.id, actor, spec.observation, spec.goal, plain(agent))

    def __repr__(self) -> str:
        return f"Policy({self.env}, trained by {self.settings.get('method', '?')})"

    @property
    def actions(self) -> Actions:
        """The env's action space."""
        return self.actor.shape.actions

    def check_env(self, spec: GoalEnvSpec, run: str | Path) -> None:
        """Raise HindsightError if the env of its run has changed since."""
        if (self.observation, self.goal) != (spec.observation, spec.goal):
            raise HindsightError(
                f"the policy in {run} was trained on other observations or goals than {spec.id} has"
            )

    def export_state(self) -> State:
        """All its numbers, by name."""
        scale = {name: np.asarray(value) for name, value in self.actor.scale._asdict().items()}
        return {"policy": export_pytree(self.actor.params), "scale": scale}

    def act(self, observation: Floats, goal: Floats) -> Array:
        """Actions for features [n, o] and [n, g]."""
        return self.actor(observation, goal)

    def predict(
        self, observation: Mapping[str, Any], deterministic: bool = True
    ) -> tuple[Any, None]:
        """The action, and no state, as in Stable-Baselines3. Not deterministic: drawn, if the
        policy is stochastic."""
        if deterministic or not self.actor.stochastic:
            return self(observation), None
        rng = np.random.default_rng()
        return self._act(observation, lambda o, g: self.actor.sample(o, g, rng)[0]), None

    def __call__(self, observation: Mapping[str, Any]) -> Any:
        """The action for a dict observation, or the actions for a batch of them. An int if
        actions are discrete."""
        return self._act(observation, self.act)

    def _act(self, observation: Mapping[str, Any], act: Callable[[Floats, Floats], Array]) -> Any:
        return act_on(self, observation, lambda inputs: act(*self.features(inputs)))

    def features(self, inputs: Mapping[str, Array]) -> tuple[Array, Array]:
        """Of observations [n, o] and of desired goals [n, g], by the names of `inputs_of`."""
        achieved = self.goal(inputs["achieved_goal"]) if self.observation.achieved_dim else None
        seen = self.observation(inputs["observation"], achieved)
        return seen, self.goal(inputs["desired_goal"])

    def save(self, directory: Path) -> None:
        """Write the two policy files, each aside and then renamed. The tensors' file bears
        SHA-256 of both."""
        tensors = {f"parameters/{k}": np.asarray(v) for k, v in _flat(self.actor.params).items()}
        tensors |= {
            f"scale/{name}": np.asarray(value) for name, value in self.actor.scale._asdict().items()
        }
        description = {
            "format": FORMAT,
            "env": self.env,
            "agent": self.settings,
            "actor": _described(self.actor.shape),
            "observation": self.observation.to_json(),
            "goal": self.goal.to_json(),
        }
        text = json.dumps(description, indent=2).encode()
        if not is_plain(directory / DESCRIPTION) or read_file(directory / DESCRIPTION) != text:
            write_aside(directory / DESCRIPTION, text)
        write_aside(directory / TENSORS, tensors_file(tensors, text))

    @staticmethod
    def load(directory: Path) -> Policy:
        """The policy saved in a run directory. Raises HindsightError if the files are missing,
        broken or foreign."""
        for name in (TENSORS, DESCRIPTION):
            if not (directory / name).exists():
                raise HindsightError(f"no policy in {directory}: {name} is missing")
        try:
            description = read_file(directory / DESCRIPTION, JSON_LIMIT)
            data = json.loads(description)
            if data["format"] > FORMAT:
                raise HindsightError(
                    f"{directory / DESCRIPTION} is of a newer Hindsight (format "
                    f"{data['format']}): update"
                )
            if data["format"] < FORMAT:
                raise HindsightError(
                    f"{directory / DESCRIPTION} is of an older Hindsight: train it again"
                )
            content = read_file(directory / TENSORS)
            tensors = load_tensors(content)
            if bears_sums(content) and tensors_file(tensors, description) != content:
                raise HindsightError(f"the policy in {directory} is broken: its SHA-256 differs")
            return _assemble(data, tensors)
        except HindsightError:
            raise
        except (
            SafetensorError,
            ValueError,
            LookupError,
            TypeError,
            AttributeError,
            RecursionError,
            OSError,
            OverflowError,
        ) as error:
            raise HindsightError(
                f"the policy in {directory} is broken: {' '.join(str(error).split())}"
            ) from None


class ActsOnDicts(Protocol):
    """What acts on an env's dict observations."""

    env: str
    observation: Features
    goal: Features

    @property
    def actions(self) -> Actions: ...


def inputs_of(policy: ActsOnDicts) -> dict[str, Features]:
    """What a policy reads of a dict observation, by its keys."""
    own = {"observation": replace(policy.observation, achieved_dim=0)}
    achieved = {"achieved_goal": policy.goal} if policy.observation.achieved_dim else {}
    return own | achieved | {"desired_goal": policy.goal}


def act_on(
    policy: ActsOnDicts,
    observation: Mapping[str, Any],
    act: Callable[[Mapping[str, Array]], Array],
) -> Any:
    """The action for one dict observation, or the actions for a batch of them, by a function of
    batches of what the policy reads. An int if actions are discrete."""
    inputs = inputs_of(policy)
    missing = [key for key in inputs if key not in observation]
    if missing:
        raise HindsightError(
            f"the observation lacks {', '.join(missing)}; it needs {', '.join(inputs)}"
        )
    values = {key: np.asarray(observation[key]) for key in inputs}
    single = values["observation"].ndim == len(policy.observation.shape)
    if single:
        values = {key: value[None] for key, value in values.items()}
    if any(values[key].shape[1:] != features.shape for key, features in inputs.items()):
        got = " and ".join(f"{key} {values[key].shape[1:]}" for key in inputs)
        wanted = " and ".join(f"{key} {features.shape}" for key, features in inputs.items())
        raise HindsightError(
            f"this policy of {policy.env} takes {wanted}, got arrays of other shapes: {got}"
        )
    for key, features in inputs.items():
        features.check_dtype(values[key])
    actions = policy.actions.inside(act(values))
    if not single:
        return actions
    return int(actions[0]) if policy.actions.discrete else actions[0]


def tensors_file(tensors: dict[str, Array], description: bytes) -> bytes:
    """A safetensors file that says what its tensors and the description beside it must be."""
    digest = hashlib.sha256(b"".join(tensor_parts(tensors))).hexdigest()
    metadata = {"tensors": digest, "description": hashlib.sha256(description).hexdigest()}
    return b"".join(tensor_parts(tensors, metadata))


def bears_sums(content: bytes) -> bool:
    """Whether a file of tensors says what its SHA-256 must be, as all do that were not made by
    an old version."""
    size = int.from_bytes(content[:8], "little")
    return "tensors" in json.loads(content[8 : 8 + size]).get("__metadata__", {})


def _assemble(data: dict[str, Any], tensors: dict[str, Array]) -> Policy:
    if not all(np.isfinite(tensor).all() for tensor in tensors.values()):
        raise ValueError("its numbers are not finite")
    observation, goal = (Features.from_json(data[key]) for key in ("observation", "goal"))
    if observation.achieved_dim not in (0, goal.dim):
        raise ValueError("the observation does not fit the goal")
    shape = replace(_actor_shape(data["actor"]), images=images_of(observation, goal))
    scale = Scale(**{name: tensors[f"scale/{name}"] for name in Scale._fields})
    sizes = scale.observation_mean.shape, scale.goal_mean.shape
    if sizes != ((observation.scales,), (goal.scales,)):
        raise ValueError("the tensors do not fit the shapes of observation and goal")
    params: Params = {}
    for path, tensor in tensors.items():
        *parents, leaf = path.split("/")
        inner = params
        for parent in parents[1:] if parents[0] == "parameters" else ():
            inner = inner.setdefault(parent, {})
        if parents[0] == "parameters":
            inner[leaf] = tensor
    actor = Actor(shape, params, scale)
    reads = (observation.dim + goal.dim) * (1 + 2 * shape.fourier_features)
    if reads != len(actor.network["params"]["Dense_0"]["kernel"]) and not shape.images:
        raise ValueError("the tensors do not fit the inputs of the network")
    if shape.fourier_features and shape.images:
        raise ValueError("images have no Fourier features")
    with np.errstate(all="ignore"):  # does it act? Tensors that do not fit together show here
        o, g = (np.zeros((2, features.dim), features.dtype) for features in (observation, goal))
        actions = actor(o, g)
        drawn = actor.sample(o, g, np.random.default_rng(0))[0] if actor.stochastic else actions
    expected = (2,) if shape.actions.discrete else (2, shape.actions.dim)
    widths = [*data["agent"]["net_arch"], shape.outputs]
    if not actions.shape == drawn.shape == expected or actor.widths != widths:
        raise ValueError("the tensors do not fit the description of the network")
    return Policy(str(data["env"]), actor, observation, goal, data["agent"])


def _actor_shape(data: dict[str, Any]) -> ActorShape:
    actions = data["actions"]
    if data["head"] not in get_args(Head):
        raise HindsightError(f"unknown head {data['head']!r} of the actor")
    box = (tuple(float(x) for x in actions[name]) for name in ("low", "high"))
    observation, normalized = (
        np.inf if data[name] is None else float(data[name])
        for name in ("clip_observation", "clip_normalized")
    )
    return ActorShape(
        data["head"],
        Actions(int(actions["choices"]), *box),
        bool(data["tanh_layers"]),
        observation,
        normalized,
        int(data["fourier_features"]),
    )


def _described(shape: ActorShape) -> dict[str, Any]:
    """Infinity, which JSON has no word for, as null. Images are those of observation and goal."""
    values = {name: None if value == np.inf else value for name, value in asdict(shape).items()}
    del values["images"]
    return values


def _flat(parameters: Params, prefix: str = "") -> dict[str, Any]:
    """The leaves of nested dicts by their path, sorted."""
    found: dict[str, Any] = {}
    for name, value in sorted(parameters.items()):
        found |= (
            _flat(value, f"{prefix}{name}/") if isinstance(value, dict) else {prefix + name: value}
        )
    return found


def load(run: str | Path) -> Policy:
    """The policy of a run, or the one that comes with the library for an env's id.

    `action = policy(observation)` for one dict observation, or a batch of them.
    """
    return Policy.load(run_or_env(run))
