"""A policy as an ONNX file acts as the policy does, whatever trained it."""

from __future__ import annotations

import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import hindsight.deploy
from conftest import LineEnv
from hindsight.acting import Actor, ActorShape, Head
from hindsight.agents.registry import AGENTS, agent_class, config_class, make_agent
from hindsight.cli import main
from hindsight.envs.contract import Actions, inspect
from hindsight.envs.spaces import Features
from hindsight.errors import HindsightError
from hindsight.integrations.onnx import OPSET, OnnxPolicy, build, export, largest_difference
from hindsight.normalizer import Scale
from hindsight.training.policy import Policy, inputs_of

BOX, CHOICES = Actions(0, (-2.0, 0.0), (4.0, 1.0)), Actions(choices=3)
OBSERVATION, GOAL = Features((5,)), Features((2,))
HEADS: dict[str, tuple[Head, Actions]] = {
    "deterministic": ("tanh", BOX),
    "gaussian": ("gaussian", BOX),
    "squashed": ("squashed_gaussian", BOX),
    "values": ("argmax", CHOICES),
    "categorical": ("categorical", CHOICES),
}


def make_policy(
    head: Head = "tanh",
    actions: Actions = BOX,
    observation: Features = OBSERVATION,
    goal: Features = GOAL,
    layer_norm: bool = False,
    **shape: Any,
) -> Policy:
    """A policy with random numbers everywhere, the normaliser included."""
    rng = np.random.default_rng(0)
    described = ActorShape(head, actions, **shape)

    def numbers(*size: int) -> Any:
        return rng.normal(size=size).astype(np.float32)

    inputs = (observation.dim + goal.dim) * (1 + 2 * described.fourier_features)
    sizes = [inputs, 16, 12, described.outputs]
    layers: dict[str, Any] = {}
    for i, (n, m) in enumerate(pairwise(sizes)):
        layers[f"Dense_{i}"] = {"kernel": numbers(n, m) / np.float32(n**0.5), "bias": numbers(m)}
        if layer_norm and m != sizes[-1]:
            layers[f"LayerNorm_{i}"] = {"scale": numbers(m), "bias": numbers(m)}
    params: Any = {"params": layers}
    if head in ("gaussian", "categorical", "squashed_gaussian"):
        params = {"network": params}
    if head == "gaussian":
        params["log_std"] = numbers(actions.dim)
    scale = Scale(*(f(numbers(n)) for n in (observation.dim, goal.dim) for f in (np.copy, np.exp)))
    settings = {"method": "some", "net_arch": sizes[1:-1]}
    return Policy("test/Any-v0", Actor(described, params, scale), observation, goal, settings)


def random_observations(policy: Policy, count: int) -> dict[str, Any]:
    rng = np.random.default_rng(1)

    def values(features: Features) -> Any:
        if features.categories:
            return rng.integers(0, features.categories, count)
        return rng.normal(0, 2, (count, *features.shape))  # float64, as envs give it

    return {name: values(features) for name, features in inputs_of(policy).items()}


def assert_same_actions(policy: Policy, path: Path) -> None:
    loaded = hindsight.deploy.load(path)
    batch = random_observations(policy, 200)
    expected, actions = policy(batch), loaded(batch)
    assert actions.dtype == expected.dtype
    np.testing.assert_allclose(actions, expected, atol=1e-5)
    for i in range(5):
        single = {name: value[i] for name, value in batch.items()}
        assert type(loaded(single)) is type(policy(single))
        np.testing.assert_allclose(loaded(single), policy(single), atol=1e-5)


@pytest.mark.parametrize("method", AGENTS)
@pytest.mark.parametrize("discrete", [False, True])
def test_every_agent_has_one_of_the_heads_that_are_tested(method: str, discrete: bool) -> None:
    if agent_class(method).acts not in ("any", "discrete" if discrete else "continuous"):
        return
    agent = make_agent(config_class(method)(), inspect(LineEnv(discrete)))
    assert (agent.actor_shape().head, discrete) in {(h, a.discrete) for h, a in HEADS.values()}


@pytest.mark.parametrize("name", HEADS)
def test_every_head(name: str, tmp_path: Path) -> None:
    head, actions = HEADS[name]
    policy = make_policy(head, actions)
    done = export(policy, tmp_path / "policy.onnx")
    assert (done.opset, done.observations) == (OPSET, 1000)
    assert done.largest_difference < 1e-5
    assert_same_actions(policy, done.path)


@pytest.mark.parametrize(
    "options",
    [
        {"layer_norm": True},
        {"tanh_layers": True},
        {"clip_observation": 1.5, "clip_normalized": 0.5},
        {"fourier_features": 3},
        {"observation": Features((2, 3)), "goal": Features((1, 2))},
        {"observation": Features((), 7), "goal": Features((), 7)},
        {"observation": Features((4,)), "goal": Features((), 3)},
        {"observation": Features((2, 3), achieved_dim=2), "clip_observation": 1.5},
        {"observation": Features((4,), achieved_dim=3), "goal": Features((), 3)},
    ],
    ids=[
        "layer norm",
        "tanh",
        "clipped",
        "fourier",
        "shaped",
        "discrete",
        "mixed",
        "achieved",
        "achieved one-hot",
    ],
)
def test_every_network_and_space(options: dict[str, Any], tmp_path: Path) -> None:
    policy = make_policy(**options)
    assert_same_actions(policy, export(policy, tmp_path / "policy.onnx").path)


def test_what_the_policy_refuses_the_file_does_too(tmp_path: Path) -> None:
    policy = make_policy(observation=Features((), 7))
    file = OnnxPolicy.load(export(policy, tmp_path / "policy.onnx").path)
    for acting in (policy, file):
        with pytest.raises(HindsightError, match="must be a whole number, got float64"):
            acting({"observation": np.float64(1.7), "desired_goal": np.zeros(2)})
        with pytest.raises(HindsightError, match=r"lacks .*; it needs observation, desired_goal$"):
            acting({"desired_goal": np.zeros(2)})


def test_inputs_are_named_and_the_file_says_what_it_is(tmp_path: Path) -> None:
    model = onnx.load(str(export(make_policy(), tmp_path / "policy.onnx").path))
    assert [value.name for value in model.graph.input] == ["observation", "desired_goal"]
    without = build(make_policy(observation=Features((5,), achieved_dim=2)))  # the achieved goal
    names = [value.name for value in without.graph.input]
    assert names == ["observation", "achieved_goal", "desired_goal"]
    assert [value.name for value in model.graph.output] == ["action"]
    assert [opset.version for opset in model.opset_import] == [OPSET]
    loaded = OnnxPolicy.load(tmp_path / "policy.onnx")
    assert repr(loaded) == "OnnxPolicy(test/Any-v0, trained by some)"
    assert loaded.actions == BOX
    assert (loaded.observation.shape, loaded.goal.shape) == ((5,), (2,))


@pytest.mark.parametrize("name", ["deterministic", "values"])
def test_a_graph_that_acts_otherwise_is_not_written(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    head, actions = HEADS[name]
    policy, other = make_policy(head, actions), make_policy(head, actions, tanh_layers=True)
    assert largest_difference(policy, OnnxPolicy(build(other).SerializeToString())) > 0.01
    monkeypatch.setattr("hindsight.integrations.onnx.build", lambda _: build(other))
    with pytest.raises(HindsightError, match="nothing was written"):
        export(policy, tmp_path / "policy.onnx")
    assert not list(tmp_path.iterdir())


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_policy().save(tmp_path)
    with pytest.raises(SystemExit) as stop:
        main(["export", str(tmp_path), "-o", str(tmp_path / "a.onnx")])
    assert not stop.value.code
    shown = capsys.readouterr().out
    for part in ("a.onnx", f"opset {OPSET}", "observation float32[batch, 5]", "1,000 observations"):
        assert part in shown
    with pytest.raises(SystemExit):
        main(["export", str(tmp_path)])
    assert (tmp_path / "policy.onnx").read_bytes() == (tmp_path / "a.onnx").read_bytes()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["/no/such/run"], "no policy in /no/such/run"),
        ([".", "-o", "policy.pt"], "something.onnx"),
    ],
)
def test_mistakes_are_one_line(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stop:
        main(["export", *arguments])
    shown = capsys.readouterr().err
    assert stop.value.code == 2
    assert message in shown
    assert len(shown.splitlines()) == 1


WITHOUT = """
import sys
sys.modules[sys.argv[1]] = None  # as if it were not installed
from hindsight.cli import main
main(sys.argv[2:])
"""


@pytest.mark.parametrize("library", ["onnx", "onnxruntime"])
def test_what_is_not_installed_is_named(library: str, tmp_path: Path) -> None:
    make_policy().save(tmp_path)
    command = [sys.executable, "-c", WITHOUT, library, "export", str(tmp_path)]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == 2
    expected = f"hindsight: {library} is not installed: pip install 'hindsight-rl[onnx]'\n"
    assert result.stderr == expected
