"""The goal-env contract: checks an env once, and from then on speaks for its rewards, goals and
time limit."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import gymnasium as gym
import numpy as np

from hindsight.envs.relay_goals import RelayGoal, relay_goals_of
from hindsight.envs.spaces import Features, refuse_channels_first
from hindsight.errors import HindsightError, of_the_env, one_line
from hindsight.types import Array, Bools, Floats, Tensor

GOAL_KEYS = ("observation", "achieved_goal", "desired_goal")
SUCCESS_KEYS = ("is_success", "success")
STILL_EPISODES, STILL_STEPS, SETTLING = 5, 30, 5
"""Of the search for goals that random actions do not change; during the first steps things may
settle."""


@dataclass(frozen=True)
class Actions:
    """The action space: `choices` discrete actions, or a box from `low` to `high` [dim]."""

    choices: int = 0
    low: tuple[float, ...] = ()
    high: tuple[float, ...] = ()

    @property
    def discrete(self) -> bool:
        return self.choices > 0

    @property
    def dim(self) -> int:
        return len(self.low)

    def from_unit(self, unit: Tensor) -> Tensor:
        """Actions in the env's own range, of those in units of half of it, around its middle.
        NumPy or JAX."""
        middle, half = self._range()
        return middle + half * unit

    def to_unit(self, action: Tensor) -> Tensor:
        """The inverse."""
        middle, half = self._range()
        return (action - middle) / half

    def inside(self, action: Array) -> Array:
        """Actions clipped to the box; discrete ones as they are."""
        if self.discrete:
            return action
        return action.clip(np.array(self.low, np.float32), np.array(self.high, np.float32))

    def _range(self) -> tuple[Array, Array]:
        low, high = np.array(self.low, np.float32), np.array(self.high, np.float32)
        return (low + high) / 2, (high - low) / 2


@dataclass(frozen=True)
class GoalEnvSpec:
    """What a learner must know of a goal env: sizes, time limit, and what relabelling
    recomputes."""

    id: str
    observation: Features
    goal: Features
    goal_dtype: np.dtype[Any]
    actions: Actions
    horizon: int
    success_reward: float | None  # of a sparse, two-valued reward; None for any other
    step_seconds: float = field(compare=False)
    goal_reward: Callable[[Array, Array], Floats] = field(compare=False)
    goal_terminated: Callable[[Array, Array], Bools] | None = field(compare=False)
    relay_goals: tuple[RelayGoal, ...] = field(default=(), compare=False)
    stage_weights: tuple[float, ...] = (1.0,)
    """How often episodes of each stage of a relay are replayed. They are stored in groups, one of
    each stage."""
    rewards: tuple[float, float] = (-1.0, 0.0)
    """The smallest and the largest that were seen; of a sparse reward, all there are."""
    largest_observation: float = field(default=1.0, compare=False)
    """The largest number in the observations that were seen, or that the space says there are; 1
    of images."""
    goal_spread: float = field(default=1.0, compare=False)
    """How far the goals that were seen lie apart."""
    moves_by_itself: bool = field(default=True, compare=False)
    """Whether random actions change the achieved goal. If not, it is of something that must be
    touched first."""

    def seen(self, observation: Array, achieved: Array) -> Array:
        """Features [n, o] of what an agent sees: observations [n, ...], and the achieved goals
        [n, ...] if observations do not tell them."""
        return self.observation(observation, self.goal(achieved))

    def reached(self, achieved: Array, desired: Array) -> Bools:
        """Where the goals `desired` [n, ...] are met by `achieved`: the reward is as good as
        that of an exact hit."""
        hit = (
            self.goal_reward(desired, desired)
            if self.success_reward is None
            else self.success_reward
        )
        return self.goal_reward(achieved, desired) >= hit


def inspect(
    env: gym.Env[Any, Any], name: str | None = None, max_episode_steps: int | None = None
) -> GoalEnvSpec:
    """Check `env` against the goal-env contract and describe it. Raises HindsightError saying
    what is missing."""
    name = name or (env.spec.id if env.spec else type(env.unwrapped).__name__)
    spaces = goal_spaces(env.observation_space, name)
    for key in ("observation", "desired_goal"):
        refuse_channels_first(Features.of(spaces[key], f"{name}: {key}"), f"{name}: {key}")
    actions = actions_of(env.action_space, name)
    horizon = _horizon(env, name, max_episode_steps)
    reward = _method(env, "compute_reward")
    if reward is None:
        raise no_reward(name)
    try:
        probed = _probe(env, name)
    except HindsightError:
        raise
    except Exception as error:  # of the env's own code
        raise HindsightError(
            f"{name} fails within a few random steps: {one_line(error)}"
        ) from error
    terminated = _method(env, "compute_terminated")
    goals = probed.achieved, probed.desired
    spec = describe(name, spaces, actions, horizon, reward, terminated, *goals, probed.seconds)
    largest = max(spec.largest_observation, probed.largest_observation)
    played = _play_randomly(env, spec)
    if not _tells_achieved(spec, probed, played):
        spec = replace(spec, observation=replace(spec.observation, achieved_dim=spec.goal.dim))
        largest = max(largest, float(np.abs(spec.goal(probed.achieved)).max()))
    return replace(
        spec,
        relay_goals=relay_goals_of(env, name),
        moves_by_itself=played.moves_by_itself,
        largest_observation=1.0 if spec.observation.pixels else largest,
    )


def describe(
    name: str,
    spaces: gym.spaces.Dict,
    actions: Actions,
    horizon: int,
    compute_reward: Callable[..., Any],
    compute_terminated: Callable[..., Any] | None,
    achieved: Array,
    desired: Array,
    step_seconds: float = 0.0,
) -> GoalEnvSpec:
    """The spec of an env, by what its functions say of goals that were seen in it.

    `achieved` and `desired` [n, ...] are of the same n steps.
    """
    goals = np.concatenate([achieved, desired]).astype(np.float64)
    spread = float((goals.max(axis=0) - goals.min(axis=0)).max(initial=0.0))
    achieved, desired = _goal_pairs(achieved, desired)
    goal_reward = _batched(compute_reward, achieved, desired, np.float32, f"{name}: compute_reward")
    rewards = goal_reward(achieved, desired)
    values = np.unique(rewards)
    sparse = len(values) == 2
    return GoalEnvSpec(
        id=name,
        observation=Features.of(spaces["observation"], f"{name}: observation"),
        goal=Features.of(spaces["desired_goal"], f"{name}: desired_goal"),
        goal_dtype=achieved.dtype,
        actions=actions,
        horizon=horizon,
        success_reward=float(values[-1]) if sparse else None,
        step_seconds=step_seconds,
        goal_reward=goal_reward,
        goal_terminated=_goal_terminated(compute_terminated, achieved, desired, name),
        rewards=(float(values[0]), float(values[-1])),
        largest_observation=_largest(spaces["observation"]),
        goal_spread=spread,
    )


def no_reward(name: str) -> HindsightError:
    """The error for an env that cannot say what reward another goal would have given."""
    return HindsightError(
        f"{name} has no compute_reward(achieved_goal, desired_goal, info), which "
        "relabelling needs: "
        "add it, or unwrap the wrapper that hides it"
    )


def goal_spaces(space: gym.Space[Any], name: str) -> gym.spaces.Dict:
    """The spaces of a goal env's observations, or an error that names what is missing."""
    missing = [
        key
        for key in GOAL_KEYS
        if not isinstance(space, gym.spaces.Dict) or key not in space.spaces
    ]
    if missing:
        raise HindsightError(
            f"{name} is not a goal env: its observations lack {', '.join(missing)}. "
            "Hindsight needs dict observations with observation, achieved_goal and desired_goal"
        )
    assert isinstance(space, gym.spaces.Dict)
    if space["achieved_goal"].shape != space["desired_goal"].shape:
        raise HindsightError(
            f"{name}: achieved_goal has shape {space['achieved_goal'].shape} "
            f"but desired_goal has {space['desired_goal'].shape}; they must agree"
        )
    images = [
        key
        for key in ("achieved_goal", "desired_goal")
        if Features.of(space[key], f"{name}: {key}").pixels
    ]
    if len(images) == 1:
        raise HindsightError(
            f"{name}: only {images[0]} is an image, a uint8 Box from 0 to 255; achieved_goal and "
            "desired_goal must agree"
        )
    return space


def actions_of(space: gym.Space[Any], name: str) -> Actions:
    """The action space, or an error if it is of a kind that no learner has."""
    if isinstance(space, gym.spaces.Discrete):
        if int(space.start) != 0:
            raise HindsightError(
                f"{name}: discrete actions must start at 0, these start at {space.start}"
            )
        return Actions(choices=int(space.n))
    if isinstance(space, gym.spaces.Box):
        low, high = space.low.ravel(), space.high.ravel()
        if len(space.shape) != 1 or not (
            np.isfinite(low).all() and np.isfinite(high).all() and (low < high).all()
        ):
            raise HindsightError(
                f"{name}: continuous actions must be one vector with finite low < high, got "
                f"{space}: give the space the limits that make sense, with "
                "gymnasium.wrappers.TransformAction"
            )
        return Actions(low=tuple(map(float, low)), high=tuple(map(float, high)))
    combinations = ""
    if isinstance(space, gym.spaces.MultiDiscrete | gym.spaces.MultiBinary):
        sizes = space.nvec if isinstance(space, gym.spaces.MultiDiscrete) else np.full(space.n, 2)
        number = np.prod(sizes, dtype=np.float64)
        combinations = f", such as Discrete({number:.0f}) for all combinations,"
    raise HindsightError(
        f"{name}: actions are a {type(space).__name__} space; Discrete and Box are supported: "
        f"make it one of them{combinations} with gymnasium.wrappers.TransformAction"
    )


def _horizon(env: gym.Env[Any, Any], name: str, max_episode_steps: int | None) -> int:
    """The smallest of all time limits: given, registered, of a wrapper, or the env's own."""
    if max_episode_steps is not None and (
        type(max_episode_steps) is not int or max_episode_steps < 1
    ):
        raise HindsightError(
            "setting max_episode_steps must be a whole number of at least 1, got "
            f"{max_episode_steps!r}"
        )
    limits = [max_episode_steps, env.spec.max_episode_steps if env.spec else None]
    inner: Any = env
    while inner is not None:
        limits += [
            vars(inner).get("_max_episode_steps"),
            getattr(type(inner), "max_episode_steps", None),
        ]
        limits.append(vars(inner).get("max_episode_steps"))
        inner = inner.env if isinstance(inner, gym.Wrapper) else None
    config = vars(env.unwrapped).get("config")  # of highway-env
    if isinstance(config, dict) and {"duration", "policy_frequency"} <= set(config):
        limits.append(round(config["duration"] * config["policy_frequency"]))
    known = [int(limit) for limit in limits if isinstance(limit, int) and limit > 0]
    if not known:
        raise HindsightError(f"{name} has no time limit: set max_episode_steps")
    return min(known)


def _method(env: gym.Env[Any, Any], name: str) -> Callable[..., Any] | None:
    """A method of the env, looked for through its wrappers."""
    try:
        method: Callable[..., Any] = env.get_wrapper_attr(name)
    except AttributeError:
        return None
    return method


@dataclass(frozen=True)
class Probed:
    """What a few random steps have shown."""

    achieved: Array  # [n, ...]
    desired: Array
    observations: Array
    seconds: float  # per step
    largest_observation: float


def _largest(space: gym.Space[Any]) -> float:
    """The largest number that a box says there is, in either direction; 0 if it does not say."""
    if not isinstance(space, gym.spaces.Box):
        return 0.0
    limits = np.abs(np.concatenate([space.low.ravel(), space.high.ravel()]).astype(np.float64))
    return float(limits.max(initial=0.0)) if np.isfinite(limits).all() else 0.0


def _probe(env: gym.Env[Any, Any], name: str) -> Probed:
    """Act at random for a few steps."""
    rng = np.random.default_rng(0)
    achieved, desired, observations, seconds = [], [], [], []
    largest = 0.0
    for seed in range(3):
        observation, _ = env.reset(seed=seed)
        check_finite(observation, name)
        largest = max(largest, float(np.abs(observation["observation"]).max(initial=0)))
        goal = np.array(observation["desired_goal"])
        for _ in range(2):
            start = time.perf_counter()
            observation, reward, terminated, truncated, info = env.step(
                _random_action(env.action_space, rng)
            )
            seconds.append(time.perf_counter() - start)
            check_finite(observation, name)
            largest = max(largest, float(np.abs(observation["observation"]).max(initial=0)))
            achieved.append(np.array(observation["achieved_goal"]))
            desired.append(np.array(observation["desired_goal"]))
            observations.append(np.array(observation["observation"]))
            if (desired[-1] != goal).any():
                raise HindsightError(
                    f"{name}: desired_goal changes within an episode; it must stay as reset() "
                    "gave it"
                )
            own = _own_reward(env, observation, info)
            if own is not None and not np.isclose(own, float(reward), atol=1e-5):
                warnings.warn(
                    f"{name}: step() returned reward {float(reward):g} where compute_reward() "
                    f"gives {own:g}; "
                    "learning uses compute_reward()",
                    stacklevel=3,
                )
            if terminated or truncated:
                break
    return Probed(
        np.stack(achieved),
        np.stack(desired),
        np.stack(observations),
        float(np.median(seconds)),
        largest,
    )


@dataclass(frozen=True)
class Played:
    """What a few short episodes of random actions have shown."""

    moves_by_itself: bool
    shown: list[tuple[Array, Array]]
    """Features of observation and achieved goal, [1, o] and [1, g], of each step; not of images."""


def _tells_achieved(spec: GoalEnvSpec, probed: Probed, played: Played) -> bool:
    """Whether every number of the achieved goals is always among those of the observations, at the
    same place. Images are taken to show them."""
    if spec.observation.pixels or spec.goal.pixels:
        return True
    first = spec.observation(probed.observations), spec.goal(probed.achieved)
    seen, goals = (np.concatenate(rows) for rows in zip(first, *played.shown, strict=True))
    return all(np.isclose(seen.T, goal, rtol=1e-4, atol=1e-6).all(axis=1).any() for goal in goals.T)


def _play_randomly(env: gym.Env[Any, Any], spec: GoalEnvSpec) -> Played:
    """A few short episodes. Goals move by themselves if in all but one of them the achieved goal
    moves by a thousandth of how far goals lie apart; then an episode ends."""
    rng, moved = np.random.default_rng(0), 0
    images = spec.observation.pixels or spec.goal.pixels
    shown: list[tuple[Array, Array]] = []
    try:
        for seed in range(STILL_EPISODES):
            env.reset(seed=seed)
            for t in range(STILL_STEPS):
                observation, _, terminated, truncated, _ = env.step(
                    _random_action(env.action_space, rng)
                )
                if t <= SETTLING:
                    start = np.array(observation["achieved_goal"], np.float64)
                if not images:
                    seen, achieved = (np.array(observation[key])[None] for key in GOAL_KEYS[:2])
                    shown.append((spec.observation(seen), spec.goal(achieved)))
                if np.abs(observation["achieved_goal"] - start).max() > 1e-3 * spec.goal_spread:
                    moved += 1
                    break
                if terminated or truncated:
                    break
    except Exception:  # of the env's own code, which fails again where it is told
        moved = STILL_EPISODES
    return Played(moved >= STILL_EPISODES - 1, shown)


def _goal_pairs(achieved: Array, desired: Array) -> tuple[Array, Array]:
    """Goal pairs [m, ...] with hits and misses, of goals achieved and desired [n, ...]."""
    pairs = [*zip(achieved, desired, strict=True), *zip(achieved, achieved, strict=True)]
    pairs += list(zip(desired[1:], desired[:-1], strict=True))
    if achieved[0].dtype.kind == "f":  # near misses along every dimension, at several scales
        unit = np.eye(achieved[0].size, dtype=achieved[0].dtype).reshape(-1, *achieved[0].shape)
        near = [scale * step for scale in (0.02, 0.1, 0.5) for step in unit]
        pairs += [(goal, goal + offset) for goal in (achieved[0], achieved[-1]) for offset in near]
    left, right = zip(*pairs, strict=True)
    return np.stack(left), np.stack(right)


def _own_reward(
    env: gym.Env[Any, Any], observation: dict[str, Array], info: dict[str, Any]
) -> float | None:
    """compute_reward of a single step, or None if it takes batches only."""
    try:
        value = env.get_wrapper_attr("compute_reward")(
            observation["achieved_goal"], observation["desired_goal"], info
        )
        return float(np.asarray(value))
    except Exception:  # any way to fail is possible
        return None


def _random_action(space: gym.Space[Any], rng: np.random.Generator) -> Any:
    if isinstance(space, gym.spaces.Discrete):
        return rng.integers(space.n)
    assert isinstance(space, gym.spaces.Box)
    return rng.uniform(space.low, space.high).astype(space.dtype)


def told_success(info: Mapping[str, Any]) -> Any:
    """What an info says of success; None if it says nothing."""
    return next((info[key] for key in SUCCESS_KEYS if key in info), None)


def check_finite(observation: dict[str, Array], name: str) -> None:
    """Raise if an observation holds a NaN or an infinity."""
    for key in GOAL_KEYS:
        if key not in observation:
            raise HindsightError(
                f"{name}: an observation lacks {key!r}, which the observation space promises"
            )
        if not np.isfinite(observation[key]).all():
            raise HindsightError(f"{name}: NaN or infinity in {key!r} of an observation")


def _batched(
    function: Callable[..., Any], achieved: Array, desired: Array, dtype: Any, label: str
) -> Callable[[Array, Array], Array]:
    """`function(achieved, desired, {})` over batches: one call if it is vectorised, else a loop,
    with a warning."""
    at_once = _try(lambda: np.asarray(function(achieved, desired, {})).astype(dtype))
    pairs = list(zip(achieved, desired, strict=True))
    singles = _try(lambda: np.array([function(a, d, {}) for a, d in pairs], dtype).reshape(-1))
    fits = isinstance(at_once, np.ndarray) and at_once.shape == (len(pairs),)
    if isinstance(singles, Exception) and not fits:
        raise HindsightError(
            f"{label} fails for goals and an empty info, which is all that relabelling has "
            f"({one_line(singles)})"
        )
    if fits and (isinstance(singles, Exception) or np.allclose(at_once, singles)):  # type: ignore[arg-type]
        return _guarded(lambda a, d: np.asarray(function(a, d, {})).astype(dtype), label)
    warnings.warn(
        f"{label} takes single goals only, so it is called once per transition, which is slow: "
        "let it accept arrays [n, ...] and return [n]",
        stacklevel=5,
    )
    return _guarded(
        lambda a, d: np.array(
            [function(x, y, {}) for x, y in zip(a, d, strict=True)], dtype
        ).reshape(-1),
        label,
    )


def _guarded(
    function: Callable[[Array, Array], Array], label: str
) -> Callable[[Array, Array], Array]:
    """The function of an env; what it raises is told in one line. It must answer for each pair."""

    def call(achieved: Array, desired: Array) -> Array:
        with of_the_env(f"{label}()"):
            found = function(achieved, desired)
        if found.shape != (len(achieved),):
            raise HindsightError(
                f"{label}() must return one number per pair of goals, got shape "
                f"{list(found.shape)} for {len(achieved)}"
            )
        return found

    return call


def _try(call: Callable[[], Array]) -> Array | Exception:
    """What the call returns, or how it fails: a foreign function may fail in any way."""
    try:
        return call()
    except Exception as error:
        return error


def _goal_terminated(
    function: Callable[..., Any] | None, achieved: Array, desired: Array, name: str
) -> Callable[[Array, Array], Bools] | None:
    """compute_terminated over batches; None if the env has none. An env that never terminates
    gives all False."""
    if function is None:
        return None
    pairs = list(zip(achieved, desired, strict=True))
    ends = _try(lambda: np.array([np.asarray(function(a, d, {})).all() for a, d in pairs]))
    if isinstance(ends, np.ndarray) and not ends.any():
        return lambda a, d: np.zeros(len(a), np.bool_)
    return _batched(function, achieved, desired, np.bool_, f"{name}: compute_terminated")
