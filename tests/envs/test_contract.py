from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from conftest import LineEnv, NaNEnv, SingleGoalEnv
from hindsight.envs import make as make_module
from hindsight.envs.batch import LocalEnvs
from hindsight.envs.contract import inspect
from hindsight.envs.make import check_mujoco, factory, make
from hindsight.envs.spaces import Features
from hindsight.errors import HindsightError


def test_describes_a_third_party_env() -> None:
    spec = inspect(LineEnv())
    assert (spec.observation.dim, spec.goal.dim, spec.horizon) == (1, 1, 12)
    assert spec.actions.low == (-2.0,)
    assert spec.actions.high == (4.0,)
    assert spec.goal_dtype == np.float64
    assert (spec.success_reward, spec.rewards) == (0.0, (-1.0, 0.0))
    assert spec.goal_terminated is None
    assert spec.reached(np.array([[1.0], [2.0]]), np.array([[1.2], [3.0]])).tolist() == [
        True,
        False,
    ]


def test_discrete_actions_and_positive_rewards() -> None:
    class Positive(LineEnv):
        def compute_reward(self, achieved: Any, desired: Any, info: Any) -> Any:
            return super().compute_reward(achieved, desired, info) + 1.0

    spec = inspect(Positive(discrete=True))
    assert spec.actions.choices == 3
    assert (spec.success_reward, spec.rewards) == (1.0, (0.0, 1.0))


def test_single_goal_rewards_are_looped_over_with_a_warning() -> None:
    with pytest.warns(UserWarning, match="slow"):
        spec = inspect(SingleGoalEnv())
    a, d = np.linspace(-1, 1, 9)[:, None], np.zeros((9, 1))
    assert (spec.goal_reward(a, d) == inspect(LineEnv()).goal_reward(a, d)).all()


def test_a_single_goal_reward_that_broadcasts_wrongly_is_not_taken_for_vectorised() -> None:
    class Norm(LineEnv):
        def compute_reward(self, achieved: Any, desired: Any, info: Any) -> Any:
            return (
                0.0 if np.linalg.norm(achieved - desired) < 0.5 else -1.0
            )  # a batch gives one number

    with pytest.warns(UserWarning, match="slow"):
        spec = inspect(Norm())
    assert spec.goal_reward(np.zeros((2, 1)), np.array([[0.0], [3.0]])).tolist() == [0.0, -1.0]


def test_terminated_is_recomputed_and_a_single_goal_one_is_looped_over() -> None:
    class Ends(LineEnv):
        def compute_terminated(self, achieved: Any, desired: Any, info: Any) -> Any:
            return bool(np.linalg.norm(achieved - desired) < 0.5)

    with pytest.warns(UserWarning, match="compute_terminated"):
        spec = inspect(Ends())
    assert spec.goal_terminated is not None
    assert spec.goal_terminated(np.zeros((2, 1)), np.array([[0.0], [3.0]])).tolist() == [
        True,
        False,
    ]


def test_never_terminating_env_returns_one_false_for_any_batch() -> None:
    class Never(LineEnv):
        def compute_terminated(self, achieved: Any, desired: Any, info: Any) -> Any:
            return False

    spec = inspect(Never())
    assert spec.goal_terminated is not None
    assert spec.goal_terminated(np.zeros((4, 1)), np.zeros((4, 1))).tolist() == [False] * 4


def test_compute_reward_is_found_behind_wrappers() -> None:
    assert inspect(gym.wrappers.OrderEnforcing(LineEnv())).actions.dim == 1


def test_warns_when_step_and_compute_reward_disagree() -> None:
    with pytest.warns(UserWarning, match="learning uses compute_reward"):
        inspect(gym.wrappers.TransformReward(LineEnv(), lambda r: 10 * r - 1))


class Switches(gym.Env[Any, Any]):
    """Four switches, all off at first. Observations are the number of their setting."""

    max_episode_steps = 12
    observation_space = gym.spaces.Dict(
        {
            "observation": gym.spaces.Discrete(16),
            "achieved_goal": gym.spaces.MultiBinary(4),
            "desired_goal": gym.spaces.MultiBinary(4),
        }
    )
    action_space = gym.spaces.Discrete(16)  # most do nothing

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, Any]:
        super().reset(seed=seed)
        self.on = np.zeros(4, np.int8)
        self.goal = self.np_random.integers(0, 2, 4).astype(np.int8)
        return self._observe(), {}

    def step(self, action: Any) -> Any:
        if action < 4:
            self.on[action] ^= 1
        reward = float(self.compute_reward(self.on, self.goal, {}))
        return self._observe(), reward, False, False, {}

    def compute_reward(self, achieved: Any, desired: Any, info: Any) -> Any:
        return (achieved == desired).all(axis=-1) - 1.0

    def _observe(self) -> dict[str, Any]:
        number = int(self.on @ [1, 2, 4, 8])
        return {
            "observation": number,
            "achieved_goal": self.on.copy(),
            "desired_goal": self.goal.copy(),
        }


def test_what_has_not_changed_yet_is_not_told_for_that() -> None:
    """A setting's number, one-hot, has each switch only as long as one is on at a time."""
    assert inspect(Switches()).observation == Features((), 16, achieved_dim=4)


class NoReward(LineEnv):
    compute_reward = property()  # type: ignore[assignment]


class NoLimit(LineEnv):
    max_episode_steps = 0


def unequal_goals() -> LineEnv:
    env = LineEnv()
    spaces = dict(env.observation_space.spaces) | {"desired_goal": gym.spaces.Box(-1, 1, (2,))}  # type: ignore[attr-defined]
    env.observation_space = gym.spaces.Dict(spaces)
    return env


def endless_actions() -> LineEnv:
    env = LineEnv()
    env.action_space = gym.spaces.Box(-np.inf, np.inf, (1,))
    return env


def nested_observation() -> LineEnv:
    env = LineEnv()
    spaces = dict(env.observation_space.spaces)  # type: ignore[attr-defined]
    env.observation_space = gym.spaces.Dict(spaces | {"observation": gym.spaces.Text(5)})
    return env


@pytest.mark.parametrize(
    ("env", "message"),
    [
        (lambda: gym.make("CartPole-v1"), "is not a goal env"),
        (NoReward, "no compute_reward"),
        (NoLimit, "set max_episode_steps"),
        (unequal_goals, "must agree"),
        (endless_actions, "finite"),
        (nested_observation, "Text"),
    ],
)
def test_broken_contracts_say_what_is_missing(env: Any, message: str) -> None:
    with pytest.raises(HindsightError, match=message):
        inspect(env())


def test_nan_in_observations() -> None:
    batch = LocalEnvs(NaNEnv, 1, 12)
    batch.reset([0])
    for _ in range(4):
        batch.step(np.zeros((1, 1), np.float32))
    with pytest.raises(HindsightError, match="NaN"):
        batch.step(np.zeros((1, 1), np.float32))


def test_unknown_env_names_the_nearest() -> None:
    with pytest.raises(HindsightError, match="FetchPush-v4"):
        make("FetchPuhs-v4")


def test_too_new_mujoco_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    versions = {"mujoco": "3.12.0", "gymnasium-robotics": "1.4.2"}
    monkeypatch.setattr(make_module.importlib.metadata, "version", versions.__getitem__)
    with pytest.raises(HindsightError, match=r"pip install 'mujoco<3\.12'"):
        check_mujoco()
    with pytest.raises(HindsightError, match=r"mujoco<3\.12"):
        make("FetchReach-v4")


def test_factory_of_an_object_a_function_and_an_id() -> None:
    env = LineEnv()
    assert factory(env)().unwrapped is env
    with pytest.raises(HindsightError, match="made already"):
        factory(env, {"discrete": True})
    assert factory(LineEnv, {"discrete": True})().action_space.n == 3  # type: ignore[attr-defined]
    assert isinstance(factory(LineEnv)(), LineEnv)
    assert factory("hindsight/BitFlip-v0", {"bits": 3})().action_space.n == 3  # type: ignore[attr-defined]


@pytest.mark.parametrize("env_id", ["FetchPush-v4", "HandReach-v3", "HandManipulateBlock-v1"])
def test_robots_keep_the_contract(env_id: str) -> None:
    spec = inspect(make(env_id), env_id)
    assert spec.goal_terminated is not None
    assert not spec.goal_terminated(
        np.zeros((2, *spec.goal.shape)), np.zeros((2, *spec.goal.shape))
    ).any()
    assert (spec.success_reward, spec.rewards) == (0.0, (-1.0, 0.0))
    assert spec.horizon in (50, 100)


def pen_pairs() -> tuple[Any, Any]:
    """Goals, and the same turned about z, which the pen ignores."""
    rng = np.random.default_rng(0)
    goals = np.concatenate([np.zeros((50, 3)), np.tile([1.0, 0, 0, 0], (50, 1))], axis=1)
    angle = rng.uniform(-np.pi, np.pi, 50)
    turned = goals.copy()
    turned[:, 3], turned[:, 6] = np.cos(angle / 2), np.sin(angle / 2)
    return turned, goals


def test_a_reward_that_is_wrong_for_batches_only_near_the_goal_is_looped_over() -> None:
    """Gymnasium-Robotics' HandManipulatePen overwrites `euler[2]`: of a batch, that is the third
    row."""
    make("HandManipulatePen-v1").close()
    env = gym.make("HandManipulatePen-v1")
    with pytest.warns(UserWarning, match="slow"):
        spec = inspect(env, "HandManipulatePen-v1")
    assert (spec.goal_reward(*pen_pairs()) == 0).all()


@pytest.mark.parametrize("env_id", ["HandManipulatePen-v1", "HandManipulatePenRotateDense-v1"])
def test_the_pen_made_by_us_is_right_for_batches(env_id: str) -> None:
    env = make(env_id)
    original = gym.make(env_id).get_wrapper_attr("compute_reward")
    rng = np.random.default_rng(0)
    turned, goals = pen_pairs()
    turned[:, :3] += rng.normal(size=(50, 3), scale=0.01)
    goals[:, 3:] += rng.normal(size=(50, 4), scale=0.1)
    singles = [original(a, d, {}) for a, d in zip(turned, goals, strict=True)]
    assert (inspect(env, env_id).goal_reward(turned, goals) == np.array(singles, np.float32)).all()


def test_the_smallest_time_limit_counts() -> None:
    env = gym.wrappers.TimeLimit(LineEnv(), 7)
    assert inspect(env).horizon == 7
    assert inspect(env, max_episode_steps=5).horizon == 5
    assert inspect(env, max_episode_steps=30).horizon == 7
    with pytest.raises(HindsightError, match="whole number"):
        inspect(env, max_episode_steps="ten")  # type: ignore[arg-type]


def test_rewards_that_take_batches_only() -> None:
    class BatchOnly(LineEnv):
        def step(self, action: Any) -> Any:
            self.x = self.x + action
            self.steps += 1
            return self._observe(), -1.0, False, False, {}

        def compute_reward(self, achieved: Any, desired: Any, info: Any) -> Any:
            return -(np.linalg.norm(achieved - desired, axis=1) > 0.5).astype(np.float32)

    assert inspect(BatchOnly()).goal_reward(
        np.zeros((2, 1)), np.array([[0.0], [3.0]])
    ).tolist() == [0.0, -1.0]


def test_a_reward_that_needs_info_is_refused() -> None:
    class NeedsInfo(LineEnv):
        def compute_reward(self, achieved: Any, desired: Any, info: Any) -> Any:
            return super().compute_reward(achieved, desired, info) - info["cost"]

        def step(self, action: Any) -> Any:
            self.steps += 1
            return self._observe(), -1.0, False, False, {"cost": 0.0}

    with pytest.raises(HindsightError, match="empty info"):
        inspect(NeedsInfo())


def test_moving_goals_and_failing_envs_are_refused() -> None:
    class Moving(LineEnv):
        def _observe(self) -> dict[str, Any]:
            return super()._observe() | {"desired_goal": self.goal + self.steps}

    class Failing(LineEnv):
        def step(self, action: Any) -> Any:
            raise ZeroDivisionError("no\nfloor")

    class Missing(LineEnv):
        def _observe(self) -> dict[str, Any]:
            return {"observation": self.x, "achieved_goal": self.x}

    for env, message in (
        (Moving, "changes within"),
        (Failing, "ZeroDivisionError: no floor"),
        (Missing, "lacks"),
    ):
        with pytest.raises(HindsightError, match=message):
            inspect(env())


def test_discrete_goals_as_python_ints() -> None:
    class Cells(LineEnv):
        def __init__(self) -> None:
            super().__init__(discrete=True)
            cell = gym.spaces.Discrete(21)
            self.observation_space = gym.spaces.Dict(
                {"observation": cell, "achieved_goal": cell, "desired_goal": cell}
            )

        def _observe(self) -> dict[str, Any]:
            here, there = round(float(self.x[0])) + 10, round(float(self.goal[0])) + 10
            return {"observation": here, "achieved_goal": here, "desired_goal": there}

        def compute_reward(self, achieved: Any, desired: Any, info: Any) -> Any:
            return (np.asarray(achieved) == np.asarray(desired)).astype(np.float32) - 1.0

        def step(self, action: Any) -> Any:
            self.x = np.clip(self.x + int(action) - 1, -10, 10)
            self.steps += 1
            seen = self._observe()
            reward = float(self.compute_reward(seen["achieved_goal"], seen["desired_goal"], {}))
            return seen, reward, False, self.steps >= 12, {}

    from hindsight.collect import Collector

    spec = inspect(Cells())
    assert (spec.observation.dim, spec.goal.dim, spec.goal_dtype.kind) == (21, 21, "i")
    episodes = Collector(LocalEnvs(Cells, 2, 12), spec).collect(
        lambda o, g: np.zeros(len(o), np.int64), [1, 2]
    )
    assert episodes.observation.shape == (2, 13, 21)
    assert episodes.achieved_goal.shape == (2, 13)


def test_equal_action_limits_are_refused() -> None:
    env = LineEnv()
    env.action_space = gym.spaces.Box(1.0, 1.0, (1,))
    with pytest.raises(HindsightError, match="low < high"):
        inspect(env)


BOX = gym.spaces.Box(-1, 1, (2,), np.float32)


@pytest.mark.parametrize(
    ("what", "space", "message"),
    [
        (
            "observation",
            gym.spaces.Dict({"a": BOX}),
            "is a Dict space; .* gymnasium.spaces.flatten",
        ),
        (
            "observation",
            gym.spaces.Box(0, 255, (3, 8, 8), np.uint8),
            "is an image of shape .* channels first: put them last",
        ),
        (
            "action",
            gym.spaces.MultiDiscrete([3, 4]),
            r"such as Discrete\(12\) for all combinations",
        ),
        ("action", gym.spaces.MultiBinary(3), r"such as Discrete\(8\) for all combinations"),
        ("action", gym.spaces.Box(-np.inf, np.inf, (2,)), "finite low < high, .*TransformAction"),
        ("action", gym.spaces.Box(-1, 1, (2, 2)), "one vector"),
    ],
)
def test_spaces_that_are_refused_say_what_to_do(what: str, space: Any, message: str) -> None:
    class Odd(LineEnv):
        def __init__(self) -> None:
            super().__init__()
            if what == "action":
                self.action_space = space
            else:
                spaces = dict(self.observation_space.spaces) | {"observation": space}
                self.observation_space = gym.spaces.Dict(spaces)

        def _observe(self) -> dict[str, Any]:
            shown = super()._observe()
            return shown if what == "action" else shown | {"observation": space.sample()}

    with pytest.raises(HindsightError, match=message) as error:
        inspect(Odd())
    assert "\n" not in str(error.value)
