"""A policy as an ONNX file, and one that acts from such a file.

The graph holds all that the policy does, from the env's own observations to actions in the env's
own range: features, normaliser, network, and the scaling and limits of actions.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hindsight.acting import Actor
from hindsight.envs.contract import Actions
from hindsight.envs.spaces import Features
from hindsight.errors import HindsightError, needs
from hindsight.pixels import layer_sizes
from hindsight.saving.files import read_file, write_aside
from hindsight.training.policy import Policy, act_on, inputs_of
from hindsight.types import Array, Floats

if TYPE_CHECKING:
    import onnx

OPSET, IR_VERSION = 17, 8
"""Of the graph: the first with layer normalisation, so that old runtimes can read it."""
LAYER_NORM_EPSILON = 1e-6
CHECKED = 1000
"""Observations on which an export is compared with its policy."""
TOLERANCE = 1e-4
"""Of the comparison, in units of half the range of an action."""


@dataclass(frozen=True)
class Exported:
    """What was written, and how far it is from the policy on `observations` random ones."""

    path: Path
    opset: int
    observations: int
    largest_difference: float
    """In units of half the range of an action. Discrete actions: of the values they have."""


def export(policy: Policy, path: Path) -> Exported:
    """Write a policy as an ONNX file, once it has been seen to act as the policy does."""
    with needs("onnx"):
        import onnx
        import onnxruntime  # noqa: F401
    model = build(policy)
    onnx.checker.check_model(model, full_check=True)
    content = model.SerializeToString()
    difference = largest_difference(policy, OnnxPolicy(content))
    if not difference <= TOLERANCE:
        raise HindsightError(
            f"nothing was written: the ONNX graph of {policy!r} differs from it by {difference:g}"
        )
    try:
        write_aside(path, content)
    except OSError as error:
        raise HindsightError(f"cannot write {path}: {error.strerror}") from None
    return Exported(path, OPSET, CHECKED, difference)


class OnnxPolicy:
    """A policy from an ONNX file: acts as `Policy` does, with onnxruntime."""

    def __init__(self, content: bytes) -> None:
        with needs("onnx"):
            import onnxruntime
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1  # a policy is small: more threads only wait
        options.log_severity_level = 3
        self._session = onnxruntime.InferenceSession(
            content, options, providers=["CPUExecutionProvider"]
        )
        about = self._session.get_modelmeta().custom_metadata_map
        if "hindsight" not in about:
            raise HindsightError("it was not exported by Hindsight")
        data = json.loads(about["hindsight"])
        self.env = str(data["env"])
        self.method = str(data["method"])
        self.observation, self.goal = (
            Features.from_json(data[key]) for key in ("observation", "goal")
        )
        actions = data["actions"]
        self.actions = Actions(actions["choices"], tuple(actions["low"]), tuple(actions["high"]))

    @staticmethod
    def load(path: Path) -> OnnxPolicy:
        """Raises HindsightError if the file is missing, broken or not ours."""
        if not path.exists():
            raise HindsightError(f"{path} does not exist")
        try:
            return OnnxPolicy(read_file(path))
        except HindsightError as error:
            if "pip install" in str(error):
                raise
            raise HindsightError(f"{path}: {error}") from None
        except Exception as error:  # onnxruntime has one class of error per cause
            reason = " ".join(str(error).split())
            raise HindsightError(f"{path} is no ONNX policy: {reason}") from None

    def __repr__(self) -> str:
        return f"OnnxPolicy({self.env}, trained by {self.method})"

    def __call__(self, observation: Mapping[str, Any]) -> Any:
        """The action for a dict observation, or the actions for a batch of them."""
        return act_on(self, observation, self._run)

    def predict(
        self, observation: Mapping[str, Any], deterministic: bool = True
    ) -> tuple[Any, None]:
        """The action, and no state, as in Stable-Baselines3. It is always the greedy one."""
        return self(observation), None

    def _run(self, inputs: Mapping[str, Array]) -> Array:
        kinds = {name: _dtype(features) for name, features in inputs_of(self).items()}
        fed = {name: values.astype(kinds[name], copy=False) for name, values in inputs.items()}
        actions: Array = self._session.run(["action"], fed)[0]
        return actions


# ---------------------------------------------------------------------------------------- the graph


def build(policy: Policy) -> onnx.ModelProto:
    """The graph: inputs `observation` and `desired_goal` [batch, ...], `achieved_goal` if
    observations do not tell it, and the output `action`."""
    from onnx import TensorProto, helper

    graph = _Graph()
    actor, actions = policy.actor, policy.actions
    inputs = _network_inputs(graph, actor, policy.observation, policy.goal)
    outputs = _network(graph, actor, inputs)
    if actions.discrete:
        graph.add("ArgMax", [outputs], "action", axis=-1, keepdims=0)
        action = helper.make_tensor_value_info("action", TensorProto.INT64, ["batch"])
    else:
        _continuous_action(graph, actor, outputs)
        action = helper.make_tensor_value_info("action", TensorProto.FLOAT, ["batch", actions.dim])
    model = helper.make_model(
        helper.make_graph(
            graph.nodes,
            "policy",
            [_input(name, features) for name, features in inputs_of(policy).items()],
            [action],
            graph.constants,
        ),
        opset_imports=[helper.make_opsetid("", OPSET)],
        ir_version=IR_VERSION,
        producer_name="hindsight",
        producer_version=version("hindsight-rl"),
        doc_string=f"A goal-conditioned policy for {policy.env}",
    )
    about = {
        "env": policy.env,
        "method": policy.settings.get("method", "?"),
        "observation": policy.observation.to_json(),
        "goal": policy.goal.to_json(),
        "actions": asdict(actions),
    }
    helper.set_model_props(model, {"hindsight": json.dumps(about)})
    return model


def in_words(policy: Policy) -> str:
    """The inputs and the output of its graph."""

    def tensor(name: str, features: Features) -> str:
        return f"{name} {_dtype(features)}[{', '.join(map(str, ['batch', *features.shape]))}]"

    actions = policy.actions
    action = "int64[batch]" if actions.discrete else f"float32[batch, {actions.dim}]"
    inputs = [tensor(name, features) for name, features in inputs_of(policy).items()]
    return f"{' and '.join(inputs)} to action {action}"


class _Graph:
    """Nodes and constants, as they are added."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def add(self, kind: str, inputs: list[str], output: str = "", **attributes: Any) -> str:
        """A node; the name of what it computes."""
        from onnx import helper

        name = output or f"{kind.lower()}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, inputs, [name], **attributes))
        return name

    def constant(self, value: Any, dtype: Any = np.float32) -> str:
        from onnx import numpy_helper

        name = f"constant_{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.array(value, dtype), name))
        return name

    def clip(self, name: str, limit: float) -> str:
        if not np.isfinite(limit):
            return name
        return self.add("Clip", [name, self.constant(-limit), self.constant(limit)])

    def scaled(self, name: str, mean: Floats, deviation: Floats) -> str:
        centred = self.add("Sub", [name, self.constant(mean)])
        return self.add("Div", [centred, self.constant(deviation)])


def _dtype(features: Features) -> np.dtype[Any]:
    """Of an input of the graph."""
    return np.dtype(np.int64) if features.categories else features.dtype


def _input(name: str, features: Features) -> Any:
    from onnx import helper

    kind = helper.np_dtype_to_tensor_dtype(_dtype(features))
    return helper.make_tensor_value_info(name, kind, ["batch", *features.shape])


def _features(graph: _Graph, name: str, features: Features) -> str:
    """The same as `Features`, as floats: [batch, dim]."""
    if features.categories:
        depth, values = graph.constant(features.categories, np.int64), graph.constant([0.0, 1.0])
        return graph.add("OneHot", [name, depth, values], axis=-1)
    if features.pixels:
        from onnx import TensorProto

        name = graph.add("Cast", [name], to=TensorProto.FLOAT)
    if len(features.shape) == 1:
        return name
    return graph.add("Reshape", [name, graph.constant([-1, features.own_dim], np.int64)])


def _network_inputs(graph: _Graph, actor: Actor, observation: Features, goal: Features) -> str:
    """The same as `network_inputs` in normalizer.py."""
    shape, scale = actor.shape, actor.scale
    o = _features(graph, "observation", observation)
    if observation.achieved_dim:
        achieved = _features(graph, "achieved_goal", goal)
        o = graph.add("Concat", [o, achieved], axis=-1)
    if not observation.pixels:
        o = graph.clip(o, shape.clip_observation)
    g = _features(graph, "desired_goal", goal)
    parts = [
        graph.scaled(o, scale.observation_mean, scale.observation_deviation),
        graph.scaled(g, scale.goal_mean, scale.goal_deviation),
    ]
    plain = graph.clip(graph.add("Concat", parts, axis=-1), shape.clip_normalized)
    if not shape.fourier_features:
        return plain
    angles = [
        graph.add("Mul", [plain, graph.constant(k)]) for k in range(1, shape.fourier_features + 1)
    ]
    waves = [graph.add(kind, [angle]) for kind in ("Sin", "Cos") for angle in angles]
    return graph.add("Concat", [plain, *waves], axis=-1)


def _encoded(graph: _Graph, actor: Actor, rows: str) -> str:
    """The same as `encode` in pixels.py."""
    images, layers = actor.shape.images, actor.network["params"]
    starts = np.cumsum([0, *(features.dim for features in images)])

    def part(i: int) -> str:
        ends = [graph.constant([end], np.int64) for end in (starts[i], starts[i + 1], -1)]
        return graph.add("Slice", [rows, *ends])

    found = []
    for number, (group, sizes) in enumerate(layer_sizes(images)):
        shapes = [graph.constant([-1, *images[i].image], np.int64) for i in group]
        shaped = [
            graph.add("Reshape", [part(i), shape]) for i, shape in zip(group, shapes, strict=True)
        ]
        image = graph.add("Concat", shaped, axis=-1)
        image = graph.add("Transpose", [image], perm=[0, 3, 1, 2])
        for depth, (_, _, channels) in enumerate(sizes[:-1]):
            layer = layers[f"Conv_{number}_{depth}"]
            kernel = np.asarray(layer["kernel"]).reshape(3, 3, channels, -1).transpose(3, 2, 0, 1)
            weights = [graph.constant(kernel), graph.constant(layer["bias"])]
            image = graph.add("Conv", [image, *weights], strides=[2, 2], pads=[1, 1, 1, 1])
            image = graph.add("Relu", [image])
        image = graph.add("Transpose", [image], perm=[0, 2, 3, 1])
        size = graph.constant([-1, int(np.prod(sizes[-1]))], np.int64)
        found.append(graph.add("Reshape", [image, size]))
    found += [part(i) for i, features in enumerate(images) if not features.pixels]
    return graph.add("Concat", found, axis=-1)


def _network(graph: _Graph, actor: Actor, x: str) -> str:
    """The same as `forward` in acting.py."""
    layers = actor.network["params"]
    last = len(actor.widths) - 1
    if actor.shape.images:
        x = _encoded(graph, actor, x)
    for i in range(last + 1):
        dense = layers[f"Dense_{i}"]
        weights = [graph.constant(dense[name]) for name in ("kernel", "bias")]
        x = graph.add("Gemm", [x, *weights])
        if i == last:
            return x
        norm = layers.get(f"LayerNorm_{i}")
        if norm is not None:
            weights = [graph.constant(norm[name]) for name in ("scale", "bias")]
            x = graph.add("LayerNormalization", [x, *weights], epsilon=LAYER_NORM_EPSILON)
        x = graph.add("Tanh" if actor.shape.tanh_layers else "Relu", [x])
    return x


def _continuous_action(graph: _Graph, actor: Actor, outputs: str) -> None:
    """The same as `Actor.__call__`."""
    actions, head = actor.shape.actions, actor.shape.head
    low, high = np.array(actions.low, np.float32), np.array(actions.high, np.float32)
    if head == "squashed_gaussian":
        ends = [graph.constant([end], np.int64) for end in (0, actions.dim, -1)]
        outputs = graph.add("Slice", [outputs, *ends])
    unit = graph.clip(outputs, 1.0) if head == "gaussian" else graph.add("Tanh", [outputs])
    scaled = graph.add("Mul", [unit, graph.constant((high - low) / 2)])
    action = graph.add("Add", [scaled, graph.constant((low + high) / 2)])
    action = graph.add("Max", [action, graph.constant(low)])
    graph.add("Min", [action, graph.constant(high)], "action")


# ------------------------------------------------------------------------------------- the check


def largest_difference(policy: Policy, exported: OnnxPolicy) -> float:
    """Between the actions of both on random observations, some of them far out."""
    rng = np.random.default_rng(0)
    scale, actions = policy.actor.scale, policy.actions
    own = policy.observation.own_dim  # pixels share one number
    scales = {
        "observation": (scale.observation_mean[:own], scale.observation_deviation[:own]),
        "achieved_goal": (scale.observation_mean[own:], scale.observation_deviation[own:]),
        "desired_goal": (scale.goal_mean, scale.goal_deviation),
    }
    observation = {
        name: _random(features, *scales[name], rng) for name, features in inputs_of(policy).items()
    }
    theirs, ours = exported(observation), policy(observation)
    if not actions.discrete:
        half = (np.array(actions.high) - np.array(actions.low)) / 2
        return float(np.max(np.abs(theirs - ours) / half))
    # Between two actions of nearly the same value, rounding may choose.
    values = policy.actor.outputs(*policy.features(observation))
    rows = np.arange(CHECKED)
    lost = values[rows, ours] - values[rows, theirs]
    return float(np.max(lost / np.maximum(np.abs(values).max(axis=-1), 1.0)))


def _random(features: Features, mean: Floats, deviation: Floats, rng: np.random.Generator) -> Array:
    """Values of a space: the first half as usual in training, the others up to far out."""
    if features.categories:
        return rng.integers(0, features.categories, CHECKED)
    if features.pixels:
        return rng.integers(0, 256, (CHECKED, *features.shape), np.uint8)
    spread = np.where(np.arange(CHECKED) < CHECKED // 2, 1.0, 10.0)[:, None]
    values = mean + deviation * spread * rng.standard_normal((CHECKED, features.dim))
    return values.astype(np.float32).reshape(CHECKED, *features.shape)
