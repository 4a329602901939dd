"""What the settings of all trainings share: those of any run, their ranges, and changing them by name."""

from __future__ import annotations

import dataclasses
import math
import types
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from tyro.conf import Suppress

from hindsight.errors import HindsightError, nearest
from hindsight.schedules import Schedule

OBJECT_TASKS = ("FetchPush", "FetchSlide", "FetchPickAndPlace", "HandManipulate")
"""How the ids of tasks begin in which an object must be moved: their presets differ from those of reaching."""


@dataclass(frozen=True)
class CheckpointConfig:
    """When everything is saved, so that the run can go on from there."""

    minutes: float = 5.0
    """A checkpoint is made at the first evaluation after so many minutes, at the latest after twice as many."""
    keep: int = 2
    """How many of the newest are kept, besides the one with the highest success rate."""
    when_failed: Literal["continue", "stop"] = "continue"
    """What to do if something cannot be saved (a full disk, say): say so and go on, or stop."""


@dataclass(frozen=True)
class RunConfig:
    """Settings that every training has, whatever it learns by."""

    env: Annotated[str, Suppress]
    """Gymnasium id of a goal env; `module:Name-v0` imports the module first."""
    env_kwargs: Annotated[dict[str, Any], Suppress] = field(default_factory=dict)
    """Arguments for the env's constructor. On the command line: --env.NAME VALUE."""
    seed: int = 0
    """The same seed gives the same bytes."""
    steps: int = 100_000
    """Env steps to train for."""
    num_envs: int = 8
    """Episodes simulated side by side."""
    episodes_per_cycle: int = 8
    """Episodes collected before each round of updates."""
    eval_every: int = 10
    """Cycles between two evaluations."""
    eval_episodes: int = 50
    """Greedy episodes per evaluation."""
    max_episode_steps: int | None = None
    """Time limit, for envs that have none of their own."""
    simulator: Literal["auto", "jax", "threads", "processes", "inline"] = "auto"
    """threads: Fetch and Hand. jax: bit flip and rooms, by policy gradients. auto: the first of these that is possible,
    else processes if a step is slow, else inline."""
    workers: int | None = None
    """Threads or processes that simulate; one per core if not given. Results do not depend on it."""
    env_timeout: float = 60.0
    """Seconds that envs in a worker process may take for one step or reset, before they count as hung."""
    env_failures: int = 5
    """Failures of worker processes without a whole round of episodes in between, before the run stops."""
    checkpoint: CheckpointConfig = field(default_factory=CheckpointConfig)


@dataclass(frozen=True)
class Ranges:
    """Names of settings, separated by spaces, by the range that their values must lie in."""

    at_least_1: str = ""
    not_negative: str = ""
    positive: str = ""
    share: str = ""
    below_1: str = ""


_RUN = Ranges(
    at_least_1="steps num_envs episodes_per_cycle eval_every eval_episodes max_episode_steps workers env_failures "
    "checkpoint.keep",
    not_negative="seed checkpoint.minutes",
    positive="env_timeout",
)
_WORDS: dict[str, tuple[Callable[[float], bool], str]] = {
    "at_least_1": (lambda x: x >= 1, "at least 1"),
    "not_negative": (lambda x: x >= 0, "0 or more"),
    "positive": (lambda x: x > 0, "more than 0"),
    "share": (lambda x: 0 <= x <= 1, "between 0 and 1"),
    "below_1": (lambda x: 0 <= x < 1, "at least 0 and below 1"),
}


def check_ranges(config: RunConfig, *ranges: Ranges) -> None:
    """Raise HindsightError naming the first setting that is out of range."""
    values = flatten(config)
    for kind, (valid, text) in _WORDS.items():
        for name in " ".join(getattr(part, kind) for part in (_RUN, *ranges)).split():
            value = values.get(name)
            numbers = value.bounds() if isinstance(value, Schedule) else (value,)
            if any(x is not None and not (abs(x) < math.inf and valid(x)) for x in numbers):
                raise HindsightError(f"setting {name} must be {text}, got {value}")
    if config.seed >= 2**32:
        raise HindsightError(f"setting seed must be below 2**32, got {config.seed}")
    hidden = values["agent.hidden"]
    if not hidden or any(type(width) is not int or width < 1 for width in hidden):
        raise HindsightError(f"setting agent.hidden must be one or more positive widths, got {hidden}")


def flatten(config: Any, prefix: str = "") -> dict[str, Any]:
    """All settings by dotted name, as `agent.gamma`."""
    flat: dict[str, Any] = {}
    for name in _names(config):
        value = getattr(config, name)
        flat |= flatten(value, f"{prefix}{name}.") if _is_group(value) else {prefix + name: value}
    return flat


Config = TypeVar("Config")


def with_settings(config: Config, settings: Mapping[str, Any]) -> Config:
    """A copy with some settings changed: by dotted name, or nested as {"agent": {"gamma": 0.95}}."""
    changed: Config = _changed(config, _nested(config, settings), "")
    return changed


def _nested(config: Any, settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings with dotted names turned into groups; unknown names are errors."""
    nested: dict[str, Any] = {}
    for name, value in settings.items():
        group, _, leaf = name.partition(".")
        inner = {leaf: value} if leaf else value
        if _is_group(getattr(config, group, None)) and isinstance(inner, Mapping):
            nested[group] = nested.get(group, {}) | dict(inner)
        elif leaf or group not in _names(config) or _is_group(getattr(config, group)):
            known = flatten(config)
            raise HindsightError(f"unknown setting {name!r}.{nearest(name, known)}")
        else:
            nested[name] = value
    return nested


def _changed(config: Any, settings: Mapping[str, Any], prefix: str) -> Any:
    hints = get_type_hints(type(config))
    changes: dict[str, Any] = {}
    for name, value in settings.items():
        old = getattr(config, name, None)
        if name not in _names(config):
            raise HindsightError(
                f"unknown setting {prefix + name!r}.{nearest(prefix + name, list(flatten(config, prefix)))}"
            )
        changes[name] = (
            _changed(old, value, f"{prefix}{name}.") if _is_group(old) else _typed(prefix + name, hints[name], value)
        )
    return dataclasses.replace(config, **changes)


def _names(config: Any) -> list[str]:
    return [field.name for field in dataclasses.fields(config)]


def _is_group(value: Any) -> bool:
    return dataclasses.is_dataclass(value) and not isinstance(value, Schedule | type)


def _typed(name: str, kind: Any, value: Any) -> Any:
    """`value` as the annotated type of the setting, or an error that names the setting."""
    origin, options = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        return None if value is None else _typed(name, options[0], value)
    if origin is Literal:
        if value not in options:
            raise HindsightError(f"setting {name} must be one of {', '.join(options)}, got {value!r}")
        return value
    if kind is Schedule:
        return Schedule.parse(value)
    kind = origin or kind
    if kind is tuple and isinstance(value, list):
        value = tuple(value)
    if kind is float and type(value) is int:
        value = float(value)
    if type(value) is not kind:
        raise HindsightError(f"setting {name} must be a {kind.__name__}, got {value!r}")
    return value


def plain(value: Any) -> Any:
    """Dataclasses, schedules and tuples as plain JSON values."""
    if isinstance(value, Schedule):
        return value.numbers[0] if value.kind == "constant" else str(value)
    if _is_group(value):
        return {name: plain(getattr(value, name)) for name in _names(value)}
    return list(value) if isinstance(value, tuple) else value
