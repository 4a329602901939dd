"""Settings as frozen dataclasses: ranges stand on the fields; changed by name, written to and
read from JSON."""

from __future__ import annotations

import dataclasses
import math
import types
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from hindsight.errors import HindsightError, nearest
from hindsight.schedules import Schedule


@dataclass(frozen=True)
class Range:
    """What a number may be; the ends of a schedule, and every width of a network, too."""

    low: float
    high: float = math.inf
    low_included: bool = True
    high_included: bool = True

    def __contains__(self, x: float) -> bool:
        above = x >= self.low if self.low_included else x > self.low
        below = x <= self.high if self.high_included else x < self.high
        return abs(x) < math.inf and above and below

    def __str__(self) -> str:
        if self.high == math.inf:
            return f"at least {self.low:g}" if self.low_included else f"more than {self.low:g}"
        if self.low_included and not self.high_included:
            return f"at least {self.low:g} and below {self.high:g}"
        return f"between {self.low:g} and {self.high:g}"


@dataclass(frozen=True)
class Search:
    """Where `hindsight tune` looks for a better value of a setting, unless it is told: between two
    numbers, or among `choices`."""

    low: float = 0.0
    high: float = 0.0
    log: bool = False
    """On a logarithmic scale."""
    choices: tuple[Any, ...] = ()


@dataclass(frozen=True)
class InsteadOf:
    """On a setting that says in another way what the setting `name` says: giving one takes the
    other away."""

    name: str


LEARNING_RATES = Search(1e-4, 1e-2, log=True)

_FROM_ONE, _FROM_ZERO = Range(1), Range(0)
_ABOVE_ZERO, _SHARE, _BELOW_ONE = (
    Range(0, low_included=False),
    Range(0, 1),
    Range(0, 1, high_included=False),
)

Count = Annotated[int, _FROM_ONE]
OptionalCount = Annotated[int | None, _FROM_ONE]
CountOrZero = Annotated[int, _FROM_ZERO]
AtLeastOne = Annotated[float, _FROM_ONE]
NotNegative = Annotated[float, _FROM_ZERO]
Positive = Annotated[float, _ABOVE_ZERO]
OptionalPositive = Annotated[float | None, _ABOVE_ZERO]
Share = Annotated[float, _SHARE]
ShareBelowOne = Annotated[float, _BELOW_ONE]
Exponent = Annotated[float | None, Range(0, 10)]
Threads = Annotated[int, Range(1, 1024)]
OptionalShare = Annotated[float | None, _SHARE]
Discount = Annotated[float | None, _BELOW_ONE]
RateSchedule = Annotated[Schedule, _FROM_ZERO]
ShareSchedule = Annotated[Schedule, _SHARE]
Seed = Annotated[int, Range(0, 2**32, high_included=False)]
Widths = Annotated[tuple[int, ...], _FROM_ONE]
Precision = Literal["auto", "float32", "bfloat16"]


def _annotated(config: Any) -> Mapping[str, Any]:
    """The types of its settings, with their annotations."""
    group: Any = type(config)
    return _annotated_of(group)


@cache  # to work them out takes long
def _annotated_of(group: type) -> Mapping[str, Any]:
    return get_type_hints(group, include_extras=True)


def check_ranges(config: Any, prefix: str = "") -> None:
    """Raise HindsightError naming the first setting, of this group and those inside, that is out
    of range."""
    for name, kind in _annotated(config).items():
        value = getattr(config, name)
        if _is_group(value):
            check_ranges(value, f"{prefix}{name}.")
        for allowed in (part for part in get_args(kind)[1:] if isinstance(part, Range)):
            numbers = list(_numbers(value))
            if any(x not in allowed for x in numbers) or (isinstance(value, tuple) and not numbers):
                what = "one or more widths, each " if isinstance(value, tuple) else ""
                raise HindsightError(f"setting {prefix}{name} must be {what}{allowed}, got {value}")


def search_space(config: Any, prefix: str = "") -> dict[str, Search]:
    """What stands on the fields about where to look, by dotted name."""
    found: dict[str, Search] = {}
    for name, kind in _annotated(config).items():
        value = getattr(config, name)
        if _is_group(value):
            found |= search_space(value, f"{prefix}{name}.")
        for part in get_args(kind)[1:]:
            if isinstance(part, Search):
                found[prefix + name] = part
    return found


def _numbers(value: Any) -> Iterator[float]:
    if isinstance(value, Schedule):
        yield from value.bounds()
    elif isinstance(value, tuple):
        yield from (x if type(x) is int else math.nan for x in value)
    elif value is not None:
        yield value


def refuse_changes(
    config: Any, names: tuple[str, ...], prefix: str, why: str, instead: str = ""
) -> None:
    """Raise HindsightError if one of the settings, which nothing reads, differs from its default.
    `instead`: what else may be done about it."""
    defaults = type(config)()
    for name in names:
        value, default = getattr(config, name), getattr(defaults, name)
        if value != default:
            raise HindsightError(
                f"{prefix}{name} changes nothing, {why}: leave it at {plain(default)}{instead}"
            )


def flatten(config: Any, prefix: str = "") -> dict[str, Any]:
    """All settings by dotted name, as `agent.gamma`."""
    flat: dict[str, Any] = {}
    for name in _names(config):
        value = getattr(config, name)
        flat |= flatten(value, f"{prefix}{name}.") if _is_group(value) else {prefix + name: value}
    return flat


Config = TypeVar("Config")


def with_settings(config: Config, settings: Mapping[str, Any]) -> Config:
    """A copy with some settings changed: by dotted name, or nested as {"agent": {"gamma":
    0.95}}."""
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
            raise unknown_setting(name, flatten(config))
        else:
            nested[name] = value
    return nested


def _changed(config: Any, settings: Mapping[str, Any], prefix: str) -> Any:
    hints = _annotated(config)
    changes: dict[str, Any] = {}
    for name, value in settings.items():
        old = getattr(config, name, None)
        if name not in _names(config):
            raise unknown_setting(prefix + name, flatten(config, prefix))
        changes[name] = (
            _changed(old, value, f"{prefix}{name}.")
            if _is_group(old)
            else _typed(prefix + name, hints[name], value)
        )
    for name, other in _instead(config).items():
        if changes.get(name) is not None and other not in changes:
            changes[other] = None
    return dataclasses.replace(config, **changes)


def _instead(config: Any) -> dict[str, str]:
    """Settings that stand for each other, by name."""
    return {
        name: part.name
        for name, kind in _annotated(config).items()
        for part in get_args(kind)[1:]
        if isinstance(part, InsteadOf)
    }


def check_alternatives(config: Any) -> None:
    """Raise HindsightError unless, of settings that stand for each other, one is given."""
    for name, other in _instead(config).items():
        if (getattr(config, name) is None) == (getattr(config, other) is None):
            raise HindsightError(f"settings {other} and {name} say the same: give one of them")


ELSEWHERE = {
    "lr": "learning_rate",
    "learning_rate": "critic_learning_rate",
    "hidden": "net_arch",
    "policy_kwargs": "net_arch",
    "capacity": "buffer_size",
    "polyak": "tau",
    "target_average": "tau",
    "train_freq": "episodes_per_cycle",
    "updates_per_cycle": "gradient_steps",
    "utd_ratio": "updates_per_step",
    "utd": "updates_per_step",
    "replay_ratio": "updates_per_step",
    "n_sampled_goal": "replay_k",
    "goal_selection_strategy": "goal_rule",
    "total_timesteps": "steps",
    "timesteps": "steps",
    "max_steps": "steps",
    "n_envs": "num_envs",
    "ent_coef": "temperature entropy",
    "n_critics": "num_critics",
    "n_quantiles": "num_quantiles",
    "top_quantiles_to_drop_per_net": "drop_per_critic",
    "clip_range": "clip",
    "n_epochs": "epochs",
    "lam": "gae_lambda",
}
"""What other libraries call a setting, and what it is called here, by one learner or another."""


def unknown_setting(name: str, known: Mapping[str, Any]) -> HindsightError:
    """The error for a name that is no setting, with the one that was probably meant."""
    return HindsightError(f"unknown setting {name!r}.{meant(name, known)}")


def meant(name: str, known: Mapping[str, Any]) -> str:
    """' Did you mean X?': by its last part, by the name that it has elsewhere, or by its
    spelling; or nothing."""
    leaf = name.rpartition(".")[2].replace("-", "_")
    words = [leaf, *ELSEWHERE.get(leaf, "").split()]
    for word in words:
        matches = [full for full in known if full.rpartition(".")[2].endswith(word)]
        if matches:
            return f" Did you mean {matches[0]!r}?"
    return nearest(name, known)


def _names(config: Any) -> list[str]:
    return [field.name for field in dataclasses.fields(config)]


def _is_group(value: Any) -> bool:
    return dataclasses.is_dataclass(value) and not isinstance(value, Schedule | type)


def _typed(name: str, kind: Any, value: Any) -> Any:
    """`value` as the annotated type of the setting, or an error that names the setting."""
    origin, options = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return _typed(name, options[0], value)
    if origin in (Union, types.UnionType):
        return None if value is None else _typed(name, options[0], value)
    if origin is Literal:
        if value not in options:
            raise HindsightError(
                f"setting {name} must be one of {', '.join(options)}, got {value!r}"
            )
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
