"""Every setting of a training, as frozen dataclasses. `config.json` of a run holds exactly these."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

from tyro.conf import Suppress

from hindsight.errors import HindsightError, nearest
from hindsight.schedules import Schedule


@dataclass(frozen=True)
class DDPGConfig:
    """Deep deterministic policy gradient, for continuous actions."""

    method: Literal["ddpg"] = "ddpg"
    hidden: tuple[int, ...] = (256, 256, 256)
    """Widths of the hidden layers of actor and critic."""
    layer_norm: bool = False
    """Normalise every hidden layer."""
    gamma: float | None = None
    """Discount; 1 - 1/T of the env's time limit T if not given."""
    actor_learning_rate: Schedule = Schedule.parse(1e-3)
    critic_learning_rate: Schedule = Schedule.parse(1e-3)
    target_average: float = 0.95
    """What the target networks keep of themselves at each averaging."""
    target_every: int = 10
    """Updates between two averagings of the target networks."""
    loss: Literal["squared", "huber"] = "squared"
    """Of the TD errors, in the critic's loss."""
    action_l2: float = 1.0
    """Weight of the mean squared action in the actor's loss."""
    clip_target: bool = True
    """Clip targets to the returns that the env's sparse reward allows, as [-1/(1-gamma), 0]."""
    normalize: bool = True
    """Normalise observations and goals by their running mean and deviation."""
    clip_observation: float = 200.0
    clip_normalized: float = 5.0
    normalizer_epsilon: float = 0.01
    """Smallest deviation the normaliser divides by."""
    noise: Schedule = Schedule.parse(0.2)
    """Deviation of the Gaussian exploration noise, as a share of half the action range."""
    random_actions: Schedule = Schedule.parse(0.3)
    """Share of actions drawn uniformly at random while exploring."""


@dataclass(frozen=True)
class DQNConfig:
    """Deep Q-learning, for discrete actions."""

    method: Literal["dqn"] = "dqn"
    hidden: tuple[int, ...] = (256, 256)
    layer_norm: bool = False
    double: bool = True
    """Choose the next action by the online network and value it by the target network."""
    gamma: float | None = None
    """Discount; 1 - 1/T of the env's time limit T if not given."""
    learning_rate: Schedule = Schedule.parse(1e-3)
    target_average: float = 0.95
    target_every: int = 10
    loss: Literal["squared", "huber"] = "huber"
    clip_target: bool = True
    normalize: bool = True
    clip_observation: float = 200.0
    clip_normalized: float = 5.0
    normalizer_epsilon: float = 0.01
    random_actions: Schedule = Schedule("linear", (0.5, 0.05, 0.5))
    """Share of actions drawn uniformly at random while exploring (epsilon)."""


@dataclass(frozen=True)
class ReplayConfig:
    """What is stored and what is replayed."""

    capacity: int = 1_000_000
    """Stored transitions."""
    goals: Literal["future", "final", "episode", "random"] = "future"
    """Which achieved goals stand in for the desired one."""
    goals_chosen: Literal["sampled", "stored"] = "sampled"
    """When alternate goals are chosen: anew for every batch (HER), or once, when an episode is stored (HPER)."""
    replay_k: Schedule = Schedule.parse(4.0)
    """Alternate goals per actual goal: k/(1+k) of every batch is relabelled. 0 turns hindsight off."""
    goal_numbers: Literal["uniform", "late", "early", "early_doubled"] = "early_doubled"
    """Alternate goals of step t of T, if chosen when stored: k, k t/T, k (1 - t/T), or 2k (T - t)/(T + 1)."""
    drop_met: Schedule = Schedule.parse(0.0)
    """Probability that a relabel whose goal is met before the step is drawn again, or dropped if there is no other."""
    moved_power: float = 0.0
    """Episodes are replayed in proportion to (distance that the achieved goal moved)^power; 0 turns it off."""
    moved_share: float = 0.0
    """Share of every batch from episodes whose achieved goal moved; 0 turns the rule off."""
    moved_threshold: float = 0.01
    """How far it must have moved (in the goal's own unit)."""
    replace_met: Schedule = Schedule.parse(0.0)
    """Probability that a relabel whose goal is met before the step gives way to another episode's desired goal."""


@dataclass(frozen=True)
class PriorityConfig:
    """Which transitions, or pairs of a transition and a goal, are replayed more often than others."""

    index: Literal["none", "proportional", "rank", "rank_heap"] = "none"
    """By |TD error|, by its exact rank, or by its place in a heap (the paper's); none: all alike."""
    alpha: float | None = None
    """How much priorities count, 0 for not at all; 0.6 for proportional and 0.7 for rank if not given."""
    beta: Schedule = Schedule("linear", (0.5, 1.0))
    """How much of the bias is corrected by importance weights."""
    correct: Literal["critic", "both", "none"] = "critic"
    """Whose loss the importance weights go into."""
    queues: Literal["single_queue", "two_queues"] = "single_queue"
    """One queue, or one each for actual and alternate goals, drawn 1 : replay_k (if goals are chosen when stored)."""
    stratified: bool = True
    """Draw one entry from each of batch_size pieces of equal probability."""
    every: int = 10
    """Updates of the learner between two draws: the priorities of a draw are as old as that."""
    new: Literal["td", "largest", "predicted"] = "td"
    """Priority of new entries: their TD errors, the largest stored, or what a small model predicts."""
    epsilon: float = 1e-6
    """Added to |TD error|."""
    floor: float = 0.0
    """Smallest priority; with 1 and agent.loss huber this is loss-adjusted prioritisation."""
    shared: float = 0.0
    """How far the other goals of a transition follow the TD error of the one that was replayed."""
    hardness: float = 0.0
    """Priorities are multiplied by (how hard the goal is)^this: from 0.01 for the highest value to 1 for the lowest."""
    fresh: int = 1
    """Candidates drawn per transition replayed; fresh TD errors choose among them. 1 turns it off."""
    actor: Literal["same", "uniform"] = "same"
    """What the actor learns from: the critic's batch, or one drawn uniformly with goals chosen when sampled."""


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
class TrainConfig:
    """A training of an off-policy learner with hindsight replay."""

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
    updates_per_cycle: int = 40
    """Updates of the learner after each collection."""
    batch_size: int = 256
    """Transitions per update."""
    policy_average: float = 0.0
    """What the evaluated and saved policy keeps of itself per cycle; 0 takes the actor as it is."""
    eval_every: int = 10
    """Cycles between two evaluations."""
    eval_episodes: int = 50
    """Greedy episodes per evaluation."""
    max_episode_steps: int | None = None
    """Time limit, for envs that have none of their own."""
    simulator: Literal["auto", "threads", "processes", "inline"] = "auto"
    """threads: Fetch and Hand only. auto: threads where possible, else processes if a step is slow, else inline."""
    workers: int | None = None
    """Threads or processes that simulate; one per core if not given. Results do not depend on it."""
    overlap: bool = False
    """Simulate the next episodes while learning, with the parameters of one cycle ago."""
    env_timeout: float = 60.0
    """Seconds that envs in a worker process may take for one step or reset, before they count as hung."""
    env_failures: int = 5
    """Failures of worker processes without a whole round of episodes in between, before the run stops."""
    agent: DDPGConfig | DQNConfig = field(default_factory=DDPGConfig)
    replay: ReplayConfig = field(default_factory=ReplayConfig)
    priority: PriorityConfig = field(default_factory=PriorityConfig)
    checkpoint: CheckpointConfig = field(default_factory=CheckpointConfig)

    def __post_init__(self) -> None:
        _check(self)


_AT_LEAST_ONE = (
    "steps",
    "num_envs",
    "episodes_per_cycle",
    "updates_per_cycle",
    "batch_size",
    "eval_every",
    "eval_episodes",
    "max_episode_steps",
    "workers",
    "agent.target_every",
    "replay.capacity",
    "priority.every",
    "priority.fresh",
    "env_failures",
    "checkpoint.keep",
)
_NOT_NEGATIVE = (
    "seed",
    "agent.noise",
    "agent.action_l2",
    "agent.actor_learning_rate",
    "agent.critic_learning_rate",
    "agent.learning_rate",
    "replay.replay_k",
    "replay.moved_threshold",
    "replay.moved_power",
    "priority.alpha",
    "priority.epsilon",
    "priority.floor",
    "priority.hardness",
    "checkpoint.minutes",
)
_POSITIVE = ("env_timeout", "agent.clip_observation", "agent.clip_normalized", "agent.normalizer_epsilon")
_SHARES = (
    "policy_average",
    "agent.target_average",
    "agent.random_actions",
    "replay.moved_share",
    "replay.replace_met",
    "replay.drop_met",
    "priority.beta",
    "priority.shared",
)


def _check(config: TrainConfig) -> None:
    """Raise HindsightError naming the first setting that is out of range."""
    ranges: tuple[tuple[tuple[str, ...], Callable[[float], bool], str], ...] = (
        (_AT_LEAST_ONE, lambda x: x >= 1, "at least 1"),
        (_NOT_NEGATIVE, lambda x: x >= 0, "0 or more"),
        (_POSITIVE, lambda x: x > 0, "more than 0"),
        (_SHARES, lambda x: 0 <= x <= 1, "between 0 and 1"),
        (("agent.gamma",), lambda x: 0 <= x < 1, "at least 0 and below 1"),
    )
    values = flatten(config)
    for names, valid, text in ranges:
        for name in names:
            value = values.get(name)
            numbers = value.bounds() if isinstance(value, Schedule) else (value,)
            if any(x is not None and not (abs(x) < math.inf and valid(x)) for x in numbers):
                raise HindsightError(f"setting {name} must be {text}, got {value}")
    if config.seed >= 2**32:
        raise HindsightError(f"setting seed must be below 2**32, got {config.seed}")
    _check_replay(config.replay, config.priority)
    hidden = config.agent.hidden
    if not hidden or any(type(width) is not int or width < 1 for width in hidden):
        raise HindsightError(f"setting agent.hidden must be one or more positive widths, got {hidden}")


def _check_replay(replay: ReplayConfig, priority: PriorityConfig) -> None:
    """Raise HindsightError naming settings that do not go together."""
    stored, prioritised = replay.goals_chosen == "stored", priority.index != "none"
    refused = (
        (
            stored and replay.goals == "random",
            "goals chosen when stored are those of their own episode: replay.goals cannot be random",
        ),
        (
            stored and replay.replace_met.bounds()[1] > 0,
            "a stored goal is never borrowed: use replay.drop_met, not replace_met",
        ),
        (
            (stored or prioritised) and replay.moved_share > 0,
            "replay.moved_share is for uniform replay: set it to 0 and use replay.moved_power, or take the preset hper",
        ),
        (
            replay.moved_share > 0 and replay.moved_power > 0,
            "replay.moved_share and replay.moved_power are two ways to the same end: choose one of them",
        ),
        (
            priority.queues == "two_queues" and not stored,
            "two queues need goals chosen when stored: set replay.goals_chosen to stored, too",
        ),
    )
    for wrong, text in refused:
        if wrong:
            raise HindsightError(text)


def flatten(config: Any, prefix: str = "") -> dict[str, Any]:
    """All settings by dotted name, as `agent.gamma`."""
    flat: dict[str, Any] = {}
    for f in dataclasses.fields(config):
        value = getattr(config, f.name)
        if dataclasses.is_dataclass(value) and not isinstance(value, Schedule):
            flat |= flatten(value, f"{prefix}{f.name}.")
        else:
            flat[prefix + f.name] = value
    return flat


def with_settings(config: TrainConfig, settings: Mapping[str, Any]) -> TrainConfig:
    """A copy with some settings changed: by dotted name, or nested as {"agent": {"gamma": 0.95}}."""
    flat = flatten(config)
    changes: dict[str, dict[str, Any]] = {group: {} for group in ("", *_GROUPS)}
    for name, value in _dotted(settings).items():
        if name not in flat:
            raise HindsightError(f"unknown setting {name!r}.{nearest(name, flat)}")
        if name == "agent.method" and value != config.agent.method:
            raise HindsightError(
                f"setting agent.method is {config.agent.method} here: pass a config of {value!r} instead"
            )
        group, _, leaf = name.rpartition(".")
        changes[group][leaf] = _typed(name, flat[name], value)
    try:
        return dataclasses.replace(
            config,
            **{group: dataclasses.replace(getattr(config, group), **changes[group]) for group in _GROUPS},
            **changes[""],
        )
    except TypeError as error:
        raise HindsightError(f"bad setting: {error}") from None


def _dotted(settings: Mapping[str, Any]) -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in settings.items():
        if name in _GROUPS and isinstance(value, Mapping):
            flat |= {f"{name}.{leaf}": inner for leaf, inner in value.items()}
        else:
            flat[name] = value
    return flat


def _choices() -> dict[str, tuple[str, ...]]:
    """The values of every setting that has a fixed set of them."""
    groups = {"": TrainConfig, "agent.": DDPGConfig, "replay.": ReplayConfig, "priority.": PriorityConfig}
    groups |= {"checkpoint.": CheckpointConfig}
    choices: dict[str, tuple[str, ...]] = {"agent.method": ("ddpg", "dqn")}
    for prefix, kind in groups.items():
        for name, hint in get_type_hints(kind).items():
            if get_origin(hint) is Literal and prefix + name not in choices:
                choices[prefix + name] = get_args(hint)
    return choices


_GROUPS = ("agent", "replay", "priority", "checkpoint")
_CHOICES = _choices()
_OPTIONAL = {"agent.gamma": float, "max_episode_steps": int, "workers": int, "priority.alpha": float}


def _typed(name: str, old: Any, value: Any) -> Any:
    """`value` as the type of the setting, or an error that names the setting."""
    if name in _CHOICES and value not in _CHOICES[name]:
        raise HindsightError(f"setting {name} must be one of {', '.join(_CHOICES[name])}, got {value!r}")
    if isinstance(old, Schedule):
        return Schedule.parse(value)
    if name in _OPTIONAL and value is None:
        return None
    kind = _OPTIONAL.get(name, type(old))
    if kind is tuple and isinstance(value, list):
        value = tuple(value)
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        value = float(value)
    if type(value) is not kind:
        raise HindsightError(f"setting {name} must be a {kind.__name__}, got {value!r}")
    return value


def plain(value: Any) -> Any:
    """Dataclasses, schedules and tuples as plain JSON values."""
    if isinstance(value, Schedule):
        return value.numbers[0] if value.kind == "constant" else str(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    return list(value) if isinstance(value, tuple) else value


def to_json(config: TrainConfig) -> dict[str, Any]:
    """The config as plain JSON values, nested as the dataclasses are."""
    result: dict[str, Any] = plain(config)
    return result


def agent_from_json(data: Mapping[str, Any]) -> DDPGConfig | DQNConfig:
    """The agent settings that `plain` wrote."""
    return from_json({"env": "", "agent": data}).agent


def from_json(data: Mapping[str, Any]) -> TrainConfig:
    """The config that `to_json` wrote; unknown names and wrong types are errors."""
    if not isinstance(data, Mapping) or not isinstance(data.get("env"), str):
        raise HindsightError("not a Hindsight config: it has no 'env'")
    method = data.get("agent", {}).get("method", "ddpg") if isinstance(data.get("agent", {}), Mapping) else None
    if not isinstance(method, str) or method not in AGENTS:
        raise HindsightError(f"unknown method {method!r}: choose from {', '.join(AGENTS)}")
    return with_settings(TrainConfig(env=data["env"], agent=AGENTS[method]()), data)


AGENTS: dict[str, type[DDPGConfig] | type[DQNConfig]] = {"ddpg": DDPGConfig, "dqn": DQNConfig}
