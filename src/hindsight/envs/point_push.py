"""Point push: a point in the plane pushes a disc to a goal. The smallest task like FetchPush.

The point has to reach the disc first, get behind it, and keep it from slipping off sideways. A disc
that is not pushed stands still. It may be pushed over the edge of the table, where the point cannot
follow. The rules are written once, as pure functions of arrays: for one env, for N, and in JAX.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.utils import seeding

from hindsight.envs.batch import Frame
from hindsight.envs.relay_goals import RelayGoal
from hindsight.errors import HindsightError
from hindsight.saving.tree import State, export_generator, fitting, restore_generator
from hindsight.types import Array, Tensor


@dataclass(frozen=True)
class PointPush:
    """The rules. A state [..., 4] is the point's place and the disc's; a goal [..., 2] is the
    disc's.

    The table reaches from -1 to 1 in both directions. All is float32, in NumPy or in JAX,
    whichever the arrays are of.
    """

    speed: float = 0.05
    """How far an action of 1 moves the point, in each direction."""
    point_radius: float = 0.04
    disc_radius: float = 0.12
    threshold: float = 0.08
    """The goal is reached while the disc is nearer to it than this."""
    disc_range: float = 0.4
    """The disc starts at most this far from the middle, in each direction."""
    point_distance: tuple[float, float] = (0.3, 0.5)
    """Of the point from the disc, at the start."""
    goal_distance: tuple[float, float] = (0.2, 0.5)
    """Of the goal from the disc, at the start."""

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            pair = isinstance(field.default, tuple)
            numbers = list(value) if pair and isinstance(value, tuple | list) else [value]
            valid = all(isinstance(x, int | float) and 0 < x < 1 for x in numbers)
            if not valid or len(numbers) != 1 + pair or numbers != sorted(numbers):
                what = "low and high, both" if pair else "a number"
                raise HindsightError(f"{field.name} must be {what} between 0 and 1, got {value!r}")
            if pair:  # JSON has no tuples
                object.__setattr__(self, field.name, tuple(numbers))
        if self.speed * math.sqrt(2) >= self.reach:
            raise HindsightError(f"a point of speed {self.speed:g} could jump over the disc")
        if self.point_distance[0] <= self.reach:
            raise HindsightError(f"point_distance must be more than both radii, {self.reach:g}")
        if self.disc_range + self.point_distance[1] > 1:
            raise HindsightError("disc_range and point_distance must not add up to more than 1")

    @property
    def reach(self) -> float:
        """The distance of point and disc where they touch."""
        return self.point_radius + self.disc_radius

    def start(self, uniform: Tensor) -> tuple[Tensor, Tensor]:
        """The first state [4] and the goal [2] of one episode, from six numbers between 0 and 1."""
        xp = uniform.__array_namespace__()
        disc = self.disc_range * (2 * uniform[:2] - 1)
        ahead = _ring(xp, uniform[2], uniform[3], self.goal_distance)
        apart = _ring(xp, uniform[4], uniform[5], self.point_distance)
        return xp.concatenate([disc + apart, disc]), disc + ahead

    def step(self, state: Tensor, action: Tensor) -> Tensor:
        """The next state: the point moves, and pushes the disc away from its own centre."""
        xp = state.__array_namespace__()
        point = xp.clip(state[..., :2] + self.speed * xp.clip(action, -1, 1), -1, 1)
        apart = state[..., 2:] - point
        distance = _length(apart)[..., None]
        overlap = xp.maximum(self.reach - distance, 0)
        disc = state[..., 2:] + apart * (overlap / xp.maximum(distance, 1e-6))
        return xp.concatenate([point, disc], axis=-1)

    def observe(self, state: Tensor) -> Tensor:
        """What is observed [..., 6]: point, disc, and the way from the one to the other."""
        xp = state.__array_namespace__()
        return xp.concatenate([state, state[..., 2:] - state[..., :2]], axis=-1)

    def achieved(self, state: Tensor) -> Tensor:
        """The achieved goal [..., 2]: the place of the disc."""
        return state[..., 2:]

    def reached(self, achieved: Tensor, goal: Tensor) -> Tensor:
        return _length(achieved - goal) < self.threshold


def _ring(xp: Any, first: Tensor, second: Tensor, distance: tuple[float, float]) -> Tensor:
    """A vector of any direction with a length in `distance`."""
    angle, (low, high) = 2 * math.pi * first, distance
    return (low + (high - low) * second) * xp.stack([xp.cos(angle), xp.sin(angle)])


def _length(vector: Tensor) -> Tensor:
    """Of vectors [..., 2], in the same few operations everywhere."""
    x, y = vector[..., 0], vector[..., 1]
    return vector.__array_namespace__().sqrt(x * x + y * y)


class PointPushEnv(gym.Env[Any, Any]):
    """Goal env. An action [2] is a velocity; the reward is 0 where the disc is at the goal, else
    -1.

    It never terminates: the time limit is the registered `max_episode_steps`. Its arguments are
    those of `PointPush`.
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 15}

    def __init__(self, render_mode: str | None = None, **rules: Any) -> None:
        known = [field.name for field in fields(PointPush)]
        for name in rules:
            if name not in known:
                raise HindsightError(f"unknown argument {name!r}: choose from {', '.join(known)}")
        self.task = PointPush(**rules)
        self.render_mode = render_mode
        place = gym.spaces.Box(-1 - self.task.reach, 1 + self.task.reach, (2,), np.float32)
        seen = gym.spaces.Box(-2 - self.task.reach, 2 + self.task.reach, (6,), np.float32)
        self.observation_space: gym.spaces.Dict[Any] = gym.spaces.Dict(
            {"observation": seen, "achieved_goal": place, "desired_goal": place}
        )
        self.action_space = gym.spaces.Box(-1, 1, (2,), np.float32)
        self._state, self._goal = self.task.start(np.full(6, 0.5, np.float32))

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Array], dict[str, Any]]:
        super().reset(seed=seed)
        self._state, self._goal = self.task.start(self.np_random.random(6, np.float32))
        return self._observe(), {}

    def step(self, action: Array) -> tuple[dict[str, Array], float, bool, bool, dict[str, Any]]:
        self._state = self.task.step(self._state, np.asarray(action, np.float32))
        reached = bool(self.task.reached(self.task.achieved(self._state), self._goal))
        return self._observe(), float(reached) - 1.0, False, False, {"is_success": reached}

    def compute_reward(self, achieved_goal: Array, desired_goal: Array, info: Any) -> Any:
        """0 where the goals [..., 2] are nearer to each other than the threshold, else -1."""
        achieved, desired = np.asarray(achieved_goal), np.asarray(desired_goal)
        return np.asarray(self.task.reached(achieved, desired), np.float32) - 1.0

    def compute_terminated(self, achieved_goal: Array, desired_goal: Array, info: Any) -> Any:
        return np.zeros(np.shape(achieved_goal)[:-1], np.bool_)

    def compute_truncated(self, achieved_goal: Array, desired_goal: Array, info: Any) -> Any:
        return False  # the time limit is the registered `max_episode_steps`

    @property
    def relay_goals(self) -> tuple[RelayGoal, ...]:
        """The point has to get to the disc first, nearly as far as they touch."""
        return (RelayGoal(lambda o: o[:, :2], lambda o: o[:, 2:4], 1.2 * self.task.reach),)

    def make_env_batch(self, num_envs: int, max_episode_steps: int) -> PointPushEnvs:
        """As many of these envs as one."""
        return PointPushEnvs(self.task, num_envs, max_episode_steps)

    def export_state(self) -> State:
        """All that the rest of the episode depends on, and those after it."""
        generator = export_generator(self.np_random)
        return {"state": self._state.copy(), "goal": self._goal.copy(), "generator": generator}

    def restore_state(self, state: State) -> None:
        self._state = fitting(state["state"], "state", (4,), np.float32).copy()
        self._goal = fitting(state["goal"], "goal", (2,), np.float32).copy()
        restore_generator(self.np_random, state["generator"])

    def render(self) -> Any:
        return picture(self.task, self._state, self._goal)

    def _observe(self) -> dict[str, Array]:
        return {
            "observation": self.task.observe(self._state),
            "achieved_goal": self.task.achieved(self._state).copy(),
            "desired_goal": self._goal.copy(),
        }


class PointPushEnvs:
    """N of them as one `EnvBatch`: every step is a few operations on arrays, whatever N is.

    Episodes are those of `PointPushEnv`, bit for bit.
    """

    def __init__(self, task: PointPush, num_envs: int, max_episode_steps: int) -> None:
        self.task = task
        self.num_envs = num_envs
        self.max_episode_steps = max_episode_steps
        self._state = self._goal = np.zeros((0, 4), np.float32)
        self._steps = 0

    def reset(self, seeds: Sequence[int]) -> Frame:
        # One by one: vectorised, sine and cosine may depend on the neighbours in the last bit.
        drawn = [seeding.np_random(int(seed))[0].random(6, np.float32) for seed in seeds]
        states, goals = zip(*map(self.task.start, drawn), strict=True)
        self._state, self._goal, self._steps = np.stack(states), np.stack(goals), 0
        return self._frame()

    def step(self, actions: Array) -> Frame:
        self._state = self.task.step(self._state, np.asarray(actions, np.float32))
        self._steps += 1
        return self._frame()

    def _frame(self) -> Frame:
        n, achieved = len(self._state), self.task.achieved(self._state)
        reached = self.task.reached(achieved, self._goal)
        none = np.zeros(n, np.bool_)
        late = np.full(n, self._steps >= self.max_episode_steps)
        reward = np.asarray(reached, np.float32) - 1
        seen = self.task.observe(self._state)
        return Frame(seen, achieved, self._goal, reward, none, late, reached, none)

    def export_state(self) -> State:
        """Nothing: every episode starts from its own seed."""
        return {}

    def restore_state(self, state: State) -> None:
        pass

    def close(self) -> None:
        pass


def expert(task: PointPush, observation: Array, goal: Array) -> Array:
    """A scripted policy, [n, 6] and [n, 2] -> actions [n, 2]: round the disc, then to the goal.

    Its success rate bounds the best possible one from below.
    """
    point, disc = observation[..., :2], observation[..., 2:4]
    left = _length(goal - disc)[..., None]
    ahead = (goal - disc) / np.maximum(left, 1e-6)
    distance = np.maximum(_length(point - disc), 1e-6)[..., None]
    outward = (point - disc) / distance
    behind = -(outward * ahead).sum(axis=-1, keepdims=True)  # a cosine: 1 is right behind the disc
    # Behind it: to where the point touches the disc once that is one step nearer to the goal.
    push = disc + ahead * (np.minimum(left, task.speed) - task.reach) - point
    # Near it: round it, by the shorter way, on a circle that does not touch it.
    circle = 1.25 * task.reach
    cross = outward[..., :1] * ahead[..., 1:] - outward[..., 1:] * ahead[..., :1]
    side = np.where(cross < 0, -1, 1)
    along = side * np.concatenate([outward[..., 1:], -outward[..., :1]], axis=-1)
    turn = task.speed * along + (circle - distance) * outward
    # Far from it: to the place behind it, or, where the disc is in the way, to the disc.
    far = distance > circle + task.speed
    place = disc - circle * ahead - point
    move = np.select([behind > 0.8, far & (behind > -0.2), far], [push, place, disc - point], turn)
    action = np.where(left < 0.5 * task.threshold, 0, move) / task.speed
    scaled: Array = action / np.maximum(np.abs(action).max(axis=-1, keepdims=True), 1)
    return scaled


def picture(task: PointPush, state: Array, goal: Array, size: int = 480) -> Array:
    """The table from above: a ring round the goal, as wide as the threshold; disc blue, point
    dark."""
    half = 1 + 2 * task.disc_radius  # the table and a margin
    across = np.linspace(-half, half, size, dtype=np.float32)
    pixels = np.stack(np.meshgrid(across, -across), axis=-1)
    image = np.full((size, size, 3), 214.0)

    def paint(outside: Array, colour: tuple[int, int, int]) -> None:
        """Where the distance to a shape is negative; soft within a pixel."""
        share = np.clip(0.5 - outside * size / (2 * half), 0, 1)[..., None]
        image[:] = image * (1 - share) + np.array(colour) * share

    paint(np.abs(pixels).max(axis=-1) - 1, (245, 245, 245))
    paint(_length(pixels - state[2:]) - task.disc_radius, (82, 142, 196))
    from_goal = _length(pixels - goal)
    paint(np.abs(from_goal - task.threshold) - 0.012, (217, 119, 6))
    paint(from_goal - 0.018, (217, 119, 6))
    paint(_length(pixels - state[:2]) - task.point_radius, (33, 37, 41))
    return image.astype(np.uint8)
