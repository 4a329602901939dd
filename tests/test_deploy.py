"""Policies where they are used: `hindsight.deploy` and the ROS 2 node's controller."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import hindsight.deploy
from benchmarks.startup import fetch_policy
from hindsight.envs.spaces import Features
from hindsight.errors import HindsightError
from hindsight.integrations.onnx import export
from hindsight.training.policy import Policy

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("run")
    fetch_policy().save(path)
    export(fetch_policy(), path / "policy.onnx")
    return path


def observation(seed: int = 0) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    return {"observation": rng.normal(size=25), "desired_goal": rng.normal(size=3)}


@pytest.mark.parametrize("name", ["", "policy.safetensors", "policy.json", "policy.onnx"])
def test_a_run_or_a_file_of_it(name: str, directory: Path) -> None:
    policy = hindsight.deploy.load(directory / name)
    assert policy.env == "FetchPush-v4"
    assert policy.actions.low == (-1.0,) * 4
    np.testing.assert_allclose(policy(observation()), fetch_policy()(observation()), atol=1e-6)


def foreign(path: Path) -> None:
    tensor = onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [1])
    node = onnx.helper.make_node("Identity", ["x"], ["y"])
    result = onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [1])
    graph = onnx.helper.make_graph([node], "other", [tensor], [result])
    opset = [onnx.helper.make_opsetid("", 17)]
    onnx.save(onnx.helper.make_model(graph, opset_imports=opset, ir_version=8), str(path))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "does not exist"),
        (b"", "no ONNX policy"),
        (b"not a graph", "no ONNX policy"),
        (foreign, "was not exported by Hindsight"),
    ],
)
def test_other_files_are_refused_in_one_line(content: Any, message: str, tmp_path: Path) -> None:
    path = tmp_path / "policy.onnx"
    if callable(content):
        content(path)
    elif content is not None:
        path.write_bytes(content)
    with pytest.raises(HindsightError, match=message) as error:
        hindsight.deploy.load(path)
    assert "\n" not in str(error.value)
    assert str(path) in str(error.value)


def test_what_is_no_policy_at_all(tmp_path: Path) -> None:
    with pytest.raises(HindsightError, match="neither a run directory nor a policy file"):
        hindsight.deploy.load(tmp_path / "policy.pt")


ACT = """
import sys
import hindsight.deploy
import numpy as np
policy = hindsight.deploy.load(sys.argv[1])
assert policy({"observation": np.zeros(25), "desired_goal": np.zeros(3)}).shape == (4,)
heavy = {"jax", "flax", "optax", "numba", "mujoco", "gymnasium_robotics", "tyro", "rich", "onnx"}
assert not heavy & set(sys.modules), heavy & set(sys.modules)
"""


@pytest.mark.parametrize("name", ["", "policy.onnx"])
def test_neither_jax_nor_a_simulator_is_imported(name: str, directory: Path) -> None:
    subprocess.run([sys.executable, "-c", ACT, str(directory / name)], check=True)


def test_the_program_of_the_page_acts(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "robots.md").read_text(), re.S)[0]
    monkeypatch.chdir(directory)
    seen = observation()
    names: dict[str, Any] = {"observation": seen["observation"], "goal": seen["desired_goal"]}
    exec(compile(program, "docs/robots.md", "exec"), names)
    assert names["action"].shape == (4,)


# ---------------------------------------------------------------------------------- examples/ros2_node.py


@pytest.fixture(scope="module")
def node() -> Any:
    spec = importlib.util.spec_from_file_location("ros2_node", ROOT / "examples" / "ros2_node.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_the_controller_acts_as_the_policy(node: Any, directory: Path) -> None:
    policy: Policy = fetch_policy()
    controller = node.Controller(hindsight.deploy.load(directory / "policy.onnx"))
    for seed in range(3):
        seen = observation(seed)
        for name, values in seen.items():
            controller.tell(name, values.tolist())
        np.testing.assert_allclose(controller.tick(), policy(seen), atol=1e-6)
        assert controller.why == ""


def test_it_rests_while_it_does_not_know_enough(node: Any) -> None:
    clock = Clock()
    controller = node.Controller(fetch_policy(), max_age=0.1, clock=clock)
    seen = observation()

    def rests(why: str) -> None:
        np.testing.assert_array_equal(controller.tick(), np.zeros(4))
        assert why in controller.why

    rests("no observation")
    controller.tell("observation", seen["observation"])
    rests("no desired_goal")
    controller.tell("desired_goal", seen["desired_goal"])
    assert controller.tick().any()
    clock.now = 0.2
    rests("too old")
    controller.tell("observation", np.full(25, np.nan))
    rests("not finite")
    with pytest.raises(ValueError, match="observation: expected 25 numbers, got 3"):
        controller.tell("observation", np.zeros(3))


@pytest.mark.parametrize("file", [False, True])
def test_it_passes_on_the_achieved_goal_where_the_policy_reads_it(
    node: Any, file: bool, tmp_path: Path
) -> None:
    """As of AntMaze, whose observations do not tell it: 22 numbers, and 3 of the achieved goal."""
    fetch, clock = fetch_policy(), Clock()
    seen = Features((22,), achieved_dim=3)
    policy: Any = Policy("Mine-v0", fetch.actor, seen, fetch.goal, fetch.settings)
    if file:
        export(policy, tmp_path / "policy.onnx")
        policy = hindsight.deploy.load(tmp_path / "policy.onnx")
    controller = node.Controller(policy, max_age=0.1, clock=clock)
    assert list(controller.inputs) == ["observation", "achieved_goal", "desired_goal"]
    row, goal = observation()["observation"], observation()["desired_goal"]
    controller.tell("observation", row[:22])
    controller.tell("desired_goal", goal)
    assert not controller.tick().any()
    assert controller.why == "no achieved_goal yet"
    controller.tell("achieved_goal", row[22:])
    np.testing.assert_allclose(controller.tick(), fetch_policy()(observation()), atol=1e-6)
    clock.now = 0.2
    controller.tell("observation", row[:22])
    assert not controller.tick().any()
    assert controller.why == "the last achieved_goal is too old"


def test_it_changes_its_action_slowly(node: Any) -> None:
    controller = node.Controller(fetch_policy(), max_change=0.01, clock=Clock())
    seen = observation()
    for name, values in seen.items():
        controller.tell(name, values)
    wanted = fetch_policy()(seen)
    actions = np.stack([np.zeros(4), *(controller.tick() for _ in range(200))])
    assert np.abs(np.diff(actions, axis=0)).max() <= 0.01 + 1e-6
    np.testing.assert_allclose(actions[-1], wanted, atol=1e-5)
    controller.tell("observation", np.full(25, np.nan))  # it comes to rest slowly, too
    assert np.abs(controller.tick() - wanted).max() <= 0.01 + 1e-5
