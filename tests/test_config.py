from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Iterator
from typing import Any, get_args, get_type_hints

import pytest

import hindsight
from hindsight.agents.dqn import DQNConfig
from hindsight.agents.registry import AGENTS
from hindsight.config import (
    CheckpointConfig,
    OffPolicyConfig,
    OnPolicyConfig,
    config_of,
    from_json,
    refuse_unread,
)
from hindsight.errors import HindsightError
from hindsight.replay.priorities import PriorityConfig
from hindsight.replay.replay import ReplayConfig
from hindsight.schedules import Schedule
from hindsight.settings import Range, check_ranges, flatten, plain, with_settings

CONFIG = OffPolicyConfig(env="X-v0")


@pytest.mark.parametrize(
    "config",
    [
        CONFIG,
        OffPolicyConfig(env="Y-v0", env_kwargs={"bits": 3}, agent=DQNConfig()),
        *(config_of(method, "Z-v0") for method in AGENTS),
    ],
)
def test_survives_json(config: OffPolicyConfig) -> None:
    assert from_json(json.loads(json.dumps(plain(config)))) == config


def test_settings_by_dotted_name_and_nested() -> None:
    changed = with_settings(
        CONFIG, {"seed": 3, "agent.gamma": 0.9, "replay": {"replay_k": "linear(8, 1)"}}
    )
    assert changed.seed == 3
    assert changed.agent.gamma == 0.9
    assert changed.replay.replay_k == Schedule("linear", (8.0, 1.0))
    assert CONFIG.seed == 0


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"agent.gama": 0.9}, "Did you mean 'agent.gamma'"),
        ({"batchsize": 3}, "Did you mean 'batch_size'"),
        ({"agent.gamma": 1.0}, "agent.gamma must be at least 0 and below 1"),
        ({"agent.gamma": "high"}, "agent.gamma must be a float"),
        ({"steps": 0}, "steps must be at least 1"),
        ({"steps": 1.5}, "steps must be a int"),
        ({"batch_size": True}, "batch_size must be a int"),
        ({"replay.moved_share": 1.2}, "replay.moved_share must be between 0 and 1"),
        ({"replay.replay_k": -1}, "replay.replay_k must be at least 0"),
        ({"replay.replay_k": "linear(4, -1)"}, "replay.replay_k must be at least 0"),
        (
            {"replay.goal_rule": "futur"},
            "unknown replay.goal_rule 'futur': choose from future, next_future, final, episode, random",
        ),
        ({"agent.exploration_noise": "linear(1)"}, "takes 2 to 3 numbers"),
        ({"agent.net_arch": []}, "agent.net_arch"),
        ({"agent.net_arch": [0]}, "agent.net_arch"),
        ({"agent.net_arch": [8.5]}, "agent.net_arch"),
        ({"agent.hidden": [8]}, "Did you mean 'agent.net_arch'"),
        ({"updates_per_cycle": 8}, "Did you mean 'gradient_steps'"),
        ({"utd_ratio": 2}, "Did you mean 'updates_per_step'"),
        ({"updates_per_step": 0.0}, "updates_per_step must be more than 0"),
        ({"replay.capacity": 8}, "Did you mean 'replay.buffer_size'"),
        ({"priority.signal": "td_eror"}, "Did you mean 'td_error'"),
    ],
)
def test_bad_settings_say_which_and_why(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(HindsightError, match=message):
        with_settings(CONFIG, settings)


@pytest.mark.parametrize(
    "data",
    [[], {}, {"env": 3}, {"env": "X", "agent": {"method": "nosuch"}}, {"env": "X", "agent": 1}],
)
def test_foreign_json_is_refused(data: Any) -> None:
    with pytest.raises(HindsightError):
        from_json(data)


def test_flatten_names_every_setting() -> None:
    assert {"seed", "agent.net_arch", "replay.goal_rule"} <= set(flatten(CONFIG))


# ----------------------------------------------------------------------------------------- ranges


def ranged(kind: type[Any], prefix: str = "") -> Iterator[tuple[str, str, Range, Any]]:
    """Full name, name, range and default of every ranged setting of a group."""
    defaults = {
        f.name: f.default for f in dataclasses.fields(kind) if f.default is not dataclasses.MISSING
    }
    for name, hint in get_type_hints(kind, include_extras=True).items():
        for allowed in (part for part in get_args(hint)[1:] if isinstance(part, Range)):
            yield prefix + name, name, allowed, defaults[name]


def outside(allowed: Range, default: Any) -> Iterator[Any]:
    """Values that are just not allowed, of the setting's own type."""
    if isinstance(default, tuple):
        yield from ((), (0,), (8, -1), (8, 2.5))
        return
    whole = isinstance(default, int)
    step = 1 if whole else 1e-3
    numbers = [allowed.low - step if allowed.low_included else allowed.low]
    if allowed.high < math.inf:
        numbers.append(allowed.high + step if allowed.high_included else allowed.high)
    if whole:
        yield from (int(x) for x in numbers)
        return
    numbers += [math.nan, math.inf]
    for x in numbers:
        if not isinstance(default, Schedule):
            yield x
        elif math.isfinite(x):  # a schedule refuses other numbers itself
            inside = allowed.high if allowed.high < math.inf else 2.0
            yield Schedule("constant", (x,))
            yield Schedule("linear", (inside, x))


GROUPS = [
    (OffPolicyConfig, ""),
    (OnPolicyConfig, ""),
    (CheckpointConfig, "checkpoint."),
    (ReplayConfig, "replay."),
    (PriorityConfig, "priority."),
]


@pytest.mark.parametrize("method", AGENTS)
def test_every_range_of_every_agent_is_kept(method: str) -> None:
    config = config_of(method, "X-v0")
    names = []
    for full, name, allowed, default in ranged(type(config.agent), "agent."):
        names.append(name)
        for value in outside(allowed, default):
            with pytest.raises(HindsightError, match=rf"setting {full} must be .*got "):
                changed(config, "agent.", name, value)
    assert {
        "net_arch",
        "gamma",
        "clip_observation",
        "clip_normalized",
        "normalizer_epsilon",
    } <= set(names)
    numbers = {
        name
        for name, value in vars(config.agent).items()
        if isinstance(value, int | float | Schedule | tuple) and not isinstance(value, bool)
    }
    assert numbers <= set(names)  # no number without a range


def changed(base: Any, prefix: str, name: str, value: Any) -> Any:
    """A config with one setting changed, past the checks of its type."""
    if not prefix:
        return dataclasses.replace(base, **{name: value})
    group = prefix[:-1]
    return dataclasses.replace(
        base, **{group: dataclasses.replace(getattr(base, group), **{name: value})}
    )


@pytest.mark.parametrize(("kind", "prefix"), GROUPS)
def test_every_range_of_every_other_group_is_kept(kind: Any, prefix: str) -> None:
    base = OnPolicyConfig(env="X-v0") if kind is OnPolicyConfig else CONFIG
    group = getattr(base, prefix[:-1]) if prefix else base
    found = list(ranged(kind, prefix))
    assert found
    for full, name, allowed, default in found:
        for value in outside(allowed, default):
            with pytest.raises(HindsightError, match=rf"setting {full} must be .*got "):
                changed(base, prefix, name, value)
    numbers = {
        name
        for name, value in vars(group).items()
        if isinstance(value, int | float | Schedule | tuple) and not isinstance(value, bool)
    }
    assert numbers <= {name for _, name, _, _ in found}


def test_ranges_in_words() -> None:
    assert str(Range(1)) == "at least 1"
    assert str(Range(0, low_included=False)) == "more than 0"
    assert str(Range(0, 1)) == "between 0 and 1"
    assert str(Range(0, 1, high_included=False)) == "at least 0 and below 1"
    assert [x in Range(0, 1, high_included=False) for x in (0, 0.5, 1, -1e-9, math.nan)] == [
        True,
        True,
        False,
        False,
        False,
    ]
    check_ranges(CONFIG)


# ---------------------------------------------------------------------- settings that nothing reads


PRIORITIES = {
    "updates_per_draw": 3,
    "initial": "largest",
    "shared": 0.5,
    "alpha": 0.5,
    "beta": 0.5,
    "bias_correction": "both",
    "epsilon": 0.1,
    "stratified": False,
}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"replay.moved_power": 1.0, "replay.moved_threshold": 0.0}, "no weight at all"),
        (
            {"priority.sampling": "rank", "priority.fresh": 4, "priority.pairs_per_rank": 12},
            "priority.pairs_per_rank changes nothing",
        ),
    ],
)
def test_settings_that_do_not_go_together(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(HindsightError, match=message):
        with_settings(CONFIG, settings)


@pytest.mark.parametrize("name", PRIORITIES)
def test_settings_of_priorities_need_priorities(name: str) -> None:
    settings = {f"priority.{name}": PRIORITIES[name]}
    with pytest.raises(
        HindsightError, match=rf"priority\.{name} changes nothing, while priority.sampling"
    ):
        with_settings(CONFIG, settings)
    assert with_settings(CONFIG, settings | {"priority.sampling": "rank"})
    fresh = settings | {"priority.fresh": 2}
    if name in ("alpha", "beta", "bias_correction", "epsilon"):  # which fresh priorities read
        assert with_settings(CONFIG, fresh)
    else:
        with pytest.raises(HindsightError, match=rf"priority\.{name} changes nothing"):
            with_settings(CONFIG, fresh)


@pytest.mark.parametrize(
    ("method", "settings", "message", "reads"),
    [
        (
            "ddpg",
            {"replay.goal_numbers": "late"},
            "replay.goal_numbers changes nothing, while replay.goals_chosen is sampled",
            {"replay.goals_chosen": "stored"},
        ),
        (
            "ddpg",
            {"replay.moved_unit": "usual"},
            "replay.moved_unit changes nothing, while replay.moved_power is 0",
            {"replay.moved_power": 1.0},
        ),
        (
            "ddpg",
            {"priority.queues": "two_queues"},
            "two queues need goals chosen when stored",
            {"replay.goals_chosen": "stored"},
        ),
        (
            "hpg",
            {"agent.critic_learning_rate": 0.1},
            "agent.critic_learning_rate changes nothing, without an agent.baseline",
            {"agent.baseline": "td"},
        ),
        (
            "hpg",
            {"agent.critic_updates": 3},
            "agent.critic_updates changes nothing, without an agent.baseline",
            {"agent.baseline": "value"},
        ),
        (
            "hpg",
            {"agent.leave_one_out": False},
            "agent.leave_one_out changes nothing, without an agent.baseline",
            {"agent.baseline": "paper"},
        ),
    ],
)
def test_settings_that_nothing_reads_are_refused(
    method: str, settings: dict[str, Any], message: str, reads: dict[str, Any]
) -> None:
    config = config_of(method, "X-v0")
    with pytest.raises(HindsightError, match=message):
        with_settings(config, settings)
    assert with_settings(config, settings | reads)


def test_settings_that_nothing_reads_are_refused_when_given_but_not_of_presets() -> None:
    trpo = config_of("trpo", "X-v0")
    preset = with_settings(trpo, {"agent.learning_rate": "linear(0.001, 0.0001)"})
    refuse_unread(preset, {"agent.entropy"})
    with pytest.raises(HindsightError, match=r"agent\.learning_rate changes nothing, as trpo"):
        refuse_unread(preset, {"agent.learning_rate"})
    without = with_settings(trpo, {"agent.hindsight": False, "agent.goals": 32})
    refuse_unread(without, {"agent.hindsight", "agent.spread"})
    with pytest.raises(HindsightError, match=r"goals changes nothing, without agent\.hindsight"):
        refuse_unread(without, {"agent.hindsight", "agent.goals"})
    with pytest.raises(HindsightError, match="spread changes nothing"):
        hindsight.train(
            "hindsight/BitFlip-v0", method="trpo", agent={"hindsight": False, "spread": True}
        )
