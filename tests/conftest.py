"""Goal envs that break or stretch the contract, builders of random episodes, and what makes two
runs the same."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from hindsight.envs.contract import GoalEnvSpec, inspect
from hindsight.episodes import Episodes
from hindsight.saving.tree import split
from hindsight.training.run import Run

# MuJoCo reads it when it is imported, which a test may do before the library does.
os.environ.setdefault("MUJOCO_GL", "glfw" if os.environ.get("DISPLAY") else "egl")


# An older way of XLA to make programs: it takes half of the time, and what it makes a tenth more.
# `make test-slow` does without.
os.environ.setdefault("XLA_FLAGS", "--xla_cpu_use_fusion_emitters=false")

QUICK = ("agents", "lab")
"""Folders of tests whose programs are compiled for a few calls."""


def pytest_configure() -> None:
    """No property test is timed."""
    import hypothesis  # not above: env processes import this file, too

    hypothesis.settings.register_profile("untimed", deadline=None)
    hypothesis.settings.load_profile("untimed")


@pytest.fixture(scope="session", autouse=True)
def _compiled_once(tmp_path_factory: pytest.TempPathFactory) -> None:
    """What one test made JAX compile, later ones read, and so do the processes that they start.
    With a largest size, JAX locks the directory while it writes."""
    import jax  # not above, either

    directory = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        directory = directory.parent  # of all workers
    settings = {
        "jax_compilation_cache_dir": str(directory / "compiled"),
        "jax_compilation_cache_max_size": 2**30,
        "jax_persistent_cache_min_compile_time_secs": 0.2,
    }
    for name, value in settings.items():
        jax.config.update(name, value)
        os.environ[name.upper()] = str(value)


@pytest.fixture(scope="module", autouse=True)
def _compiled_quickly(request: pytest.FixtureRequest) -> Iterator[None]:
    """Where a program is compiled for a few calls, little time goes into making it fast. Those of
    whole trainings are compiled as users have them."""
    import jax

    name = "jax_disable_most_optimizations"
    jax.config.update(name, request.path.parent.name in QUICK)
    yield
    jax.config.update(name, False)


@pytest.fixture(scope="module")
def compiles_alone() -> Iterator[None]:
    """For processes that are killed at any moment: they leave no half of a file to others."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("JAX_COMPILATION_CACHE_DIR")
        yield


class LineEnv(gym.Env[Any, Any]):
    """A third-party goal env: a point on a line moves by the action; the goal is a place. Ends on
    success.

    Deliberately not like ours: it calls success `success`, and has no compute_terminated.
    """

    metadata = {"render_modes": []}
    max_episode_steps = 12

    def __init__(self, discrete: bool = False, ends: bool = True) -> None:
        self.ends = ends
        box = gym.spaces.Box(-10, 10, (1,), np.float64)
        self.observation_space = gym.spaces.Dict(
            {"observation": box, "achieved_goal": box, "desired_goal": box}
        )
        self.action_space = (
            gym.spaces.Discrete(3) if discrete else gym.spaces.Box(-2.0, 4.0, (1,), np.float32)
        )

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, Any]:
        super().reset(seed=seed)
        self.x = self.np_random.uniform(-1, 1, 1)
        self.goal = self.np_random.uniform(-5, 5, 1)
        self.steps = 0
        return self._observe(), {}

    def step(self, action: Any) -> Any:
        move = (
            float(action) - 1
            if isinstance(self.action_space, gym.spaces.Discrete)
            else float(action[0])
        )
        self.x = np.clip(self.x + move, -10, 10)
        self.steps += 1
        reward = float(np.asarray(self.compute_reward(self.x, self.goal, {})))
        success = reward == 0.0
        truncated = self.steps >= self.max_episode_steps
        return self._observe(), reward, bool(success and self.ends), truncated, {"success": success}

    def compute_reward(self, achieved: Any, desired: Any, info: Any) -> Any:
        return (np.abs(achieved - desired)[..., 0] < 0.5).astype(np.float64) - 1.0

    def _observe(self) -> dict[str, Any]:
        return {
            "observation": self.x.copy(),
            "achieved_goal": self.x.copy(),
            "desired_goal": self.goal.copy(),
        }


class SingleGoalEnv(LineEnv):
    """compute_reward takes one pair of goals at a time."""

    def compute_reward(self, achieved: Any, desired: Any, info: Any) -> Any:
        return 0.0 if abs(float(achieved[0]) - float(desired[0])) < 0.5 else -1.0


class NaNEnv(LineEnv):
    """Its observations turn NaN after a few steps."""

    def _observe(self) -> dict[str, Any]:
        observation = super()._observe()
        if self.steps > 4:
            observation["observation"][:] = np.nan
        return observation


gym.register("test/Line-v0", LineEnv)
gym.register("test/NaN-v0", NaNEnv)


@pytest.fixture
def line_spec() -> GoalEnvSpec:
    return inspect(LineEnv())


def random_episodes(
    rng: np.random.Generator, count: int, horizon: int, spec: GoalEnvSpec, mark: float = 0.0
) -> Episodes:
    """Episodes of unequal length whose observations spell out where they come from: [mark +
    episode, t]."""
    length = rng.integers(1, horizon + 1, count)
    goal_shape = spec.goal.shape
    observation = np.zeros((count, horizon + 1, spec.observation.dim), np.float32)
    observation[..., 0] = (mark + np.arange(count))[:, None]
    if spec.observation.dim > 1:
        observation[..., 1] = np.arange(horizon + 1)
    achieved = rng.uniform(-3, 3, (count, horizon + 1, *goal_shape)).astype(spec.goal_dtype)
    desired = rng.uniform(-3, 3, (count, *goal_shape)).astype(spec.goal_dtype)
    action = (
        rng.integers(0, spec.actions.choices, (count, horizon))
        if spec.actions.discrete
        else rng.uniform(-1, 1, (count, horizon, spec.actions.dim)).astype(np.float32)
    )
    flat = lambda x: x.reshape(-1, *goal_shape)  # noqa: E731
    repeated = np.repeat(desired[:, None], horizon, axis=1)
    reward = spec.goal_reward(flat(achieved[:, 1:]), flat(repeated)).reshape(count, horizon)
    terminated = np.zeros((count, horizon), np.bool_)
    return Episodes(observation, achieved, desired, action, reward, terminated, reward == 0, length)


def without_times(rows: list[dict[str, float]]) -> bytes:
    """Metric rows without wall times, which differ between two runs of the same seed."""
    return json.dumps(
        [{k: v for k, v in row.items() if not k.startswith("time/")} for row in rows]
    ).encode()


def written(path: Path) -> tuple[str, str]:
    """SHA-256 of the weights in a run directory, and of its metrics without wall times."""
    rows = [json.loads(line) for line in (path / "metrics.jsonl").read_text().splitlines()]
    assert len(rows) > 1
    weights = (path / "policy.safetensors").read_bytes()
    return hashlib.sha256(weights).hexdigest(), hashlib.sha256(without_times(rows)).hexdigest()


def fingerprint(run: Run) -> dict[str, str]:
    """SHA-256 of all that the last checkpoint holds, part by part, and of the metric rows, both
    without wall times."""
    checkpoint, skipped = run.checkpoints.newest()
    assert not skipped
    tensors, values = split(checkpoint.load())
    values.pop("clock")
    parts = {name: tensor.tobytes() for name, tensor in tensors.items()}
    parts |= {"values": json.dumps(values).encode(), "rows": without_times(run.metrics)}
    parts["policy file"] = (run.path / "policy.safetensors").read_bytes()
    return {name: hashlib.sha256(part).hexdigest() for name, part in parts.items()}
