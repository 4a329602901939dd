"""Where `hindsight tune` looks: ranges and choices of settings, from a JSON file or from the
settings' own fields."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hindsight.config import TrainConfig
from hindsight.errors import HindsightError
from hindsight.saving.files import read_json
from hindsight.settings import Search, flatten, search_space, unknown_setting, with_settings

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution

Space = dict[str, Search]
_FORM = 'write [V1, V2] or {"low": 0.1, "high": 1, "log": true}'


def default_space(config: TrainConfig) -> Space:
    """What stands on the fields, without the settings that this training would not read."""
    found = search_space(config)
    return {name: found[name] for name in found if not _refusals(config, name, found[name])}


def read_space(path: Path, config: TrainConfig) -> Space:
    """The space in a JSON file: an object of settings by dotted name, each a list of choices, or an
    object of `low`, `high` and `log`."""
    if not path.is_file():
        raise HindsightError(f"{path} does not exist")
    space = {name: _search(path, name, data) for name, data in read_json(path).items()}
    for name, search in space.items():
        if name == "seed":
            raise HindsightError(f"{path}: seeds are given by --seeds")
        if name not in flatten(config):
            raise HindsightError(f"{path}: {unknown_setting(name, flatten(config))}")
        for refusal in _refusals(config, name, search):
            raise HindsightError(f"{path}: {refusal}")
    if not space:
        raise HindsightError(f"{path} names no setting")
    return space


def _search(path: Path, name: str, data: Any) -> Search:
    wrong = HindsightError(f"{path}: cannot read {name}: {_FORM}")
    if isinstance(data, list):
        if len(data) < 2 or any(isinstance(value, Mapping) for value in data):
            raise wrong
        return Search(choices=tuple(data))
    if not isinstance(data, Mapping) or not {"low", "high"} <= set(data) <= {"low", "high", "log"}:
        raise wrong
    low, high, log = data["low"], data["high"], data.get("log", False)
    if any(type(x) not in (int, float) for x in (low, high)) or type(log) is not bool:
        raise wrong
    if not low < high or (log and low <= 0):
        raise HindsightError(
            f"{path}: {name}: low must be below high{', and above 0' if log else ''}"
        )
    return Search(low, high, log)


def _refusals(config: TrainConfig, name: str, search: Search) -> list[str]:
    """Why values of a space would be refused, as far as one setting alone tells."""
    found = []
    for value in search.choices or (search.low, search.high):
        try:
            with_settings(config, {name: value})
        except HindsightError as error:
            found.append(str(error))
    return found


def distributions(space: Space, config: TrainConfig) -> dict[str, BaseDistribution]:
    """As Optuna has them. A range of a setting that is a whole number has whole numbers only."""
    from optuna.distributions import CategoricalDistribution as Choice
    from optuna.distributions import FloatDistribution, IntDistribution

    found: dict[str, BaseDistribution] = {}
    for name, search in space.items():
        if search.choices:
            found[name] = Choice([_as_text(value) for value in search.choices])
        elif _is_whole(config, name, search):
            found[name] = IntDistribution(int(search.low), int(search.high), log=search.log)
        else:
            found[name] = FloatDistribution(search.low, search.high, log=search.log)
    return found


def _is_whole(config: TrainConfig, name: str, search: Search) -> bool:
    """Whether the setting takes whole numbers only."""
    try:
        with_settings(config, {name: float(search.low)})
    except HindsightError:
        return True
    return False


def settings_of(params: Mapping[str, Any]) -> dict[str, Any]:
    """The settings that Optuna's parameters are."""
    return {
        name: json.loads(value) if isinstance(value, str) and value.startswith("[") else value
        for name, value in params.items()
    }


def _as_text(value: Any) -> Any:
    """Lists as text, because Optuna's storage takes no lists."""
    return json.dumps(value) if isinstance(value, list | tuple) else value
