"""Every setting of the policy-gradient learners and their training, as frozen dataclasses."""

from __future__ import annotations

import dataclasses
import math
import types
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from tyro.conf import Suppress

from hindsight.config import CheckpointConfig, flatten
from hindsight.errors import HindsightError, nearest
from hindsight.schedules import Schedule


@dataclass(frozen=True)
class PolicyGradientConfig:
    """What all policy-gradient learners share."""

    hindsight: bool = True
    """Learn from the goals that the batch achieved; else from the pursued ones only."""
    goals: int = 64
    """Hindsight goals per batch, drawn from those it achieved; each is applied to every episode. 0 takes all."""
    within_box: bool = False
    """Only hindsight goals inside the bounding box of the batch's desired goals."""
    estimator: Literal["weighted", "per_decision", "product", "step"] = "weighted"
    """Importance weights: self-normalised, per decision, the whole product (Eq. 1), or of the step alone (App. D)."""
    clamp_log_ratio: float | None = None
    """Clip the summed log ratios to plus or minus this."""
    rows: int = 2048
    """Steps (under a goal) per update, drawn in proportion to what they weigh; 0 takes all of them as they are."""
    hidden: tuple[int, ...] = (256, 256)
    """Widths of the tanh layers of policy and critic."""
    waves: int = 0
    """Also show the networks sin and cos of 1 to this many times the inputs: for mazes, where policies jump."""
    gamma: float = 1.0
    """Discount. Returns are finite sums, so 1 is allowed."""
    learning_rate: Schedule = Schedule.parse(1e-3)
    critic_learning_rate: Schedule = Schedule.parse(1e-3)
    entropy: Schedule = Schedule.parse(0.0)
    """Weight of the policy's mean entropy in its objective."""
    deviation: float = 0.5
    """Initial deviation of a Gaussian policy, as a share of half the action range."""
    normalize: bool = True
    """Normalise observations and goals by their running mean and deviation (in JAX envs: by fixed ones)."""
    clip_observation: float = 200.0
    clip_normalized: float = 5.0
    normalizer_epsilon: float = 0.01


@dataclass(frozen=True)
class HPGConfig(PolicyGradientConfig):
    """Hindsight policy gradient, the REINFORCE-like one: one step of Adam per batch."""

    method: Literal["hpg"] = "hpg"
    baseline: Literal["none", "value", "paper"] = "none"
    """None, V(s,g,t), or the paper's Eq. 2 literally."""


@dataclass(frozen=True)
class ActorCriticConfig(PolicyGradientConfig):
    """What the learners with a critic share."""

    trace: float = 0.95
    """Lambda of the advantage estimate: 0 is one step, 1 the whole return."""
    critic_updates: int = 8
    """Steps of Adam on the critic per batch."""
    normalize_advantages: bool = True
    """Divide advantages by their deviation over the batch."""


@dataclass(frozen=True)
class A2CConfig(ActorCriticConfig):
    """Advantage actor-critic with hindsight: one step of Adam on the policy per batch."""

    method: Literal["a2c"] = "a2c"


@dataclass(frozen=True)
class A3CConfig(ActorCriticConfig):
    """A2C by asynchronous workers, each with its own copy of the policy and its own envs."""

    method: Literal["a3c"] = "a3c"
    workers: int = 2
    """Threads that play and compute gradients."""
    deterministic: bool = False
    """Workers hand in their gradients in turn, so that the same seed gives the same bytes."""


@dataclass(frozen=True)
class PPOConfig(ActorCriticConfig):
    """Proximal policy optimisation with hindsight: several passes over clipped ratios."""

    method: Literal["ppo"] = "ppo"
    clip: float = 0.2
    """How far the ratio of new to old policy, under the same goal, may gain."""
    epochs: int = 4
    minibatches: int = 4


@dataclass(frozen=True)
class TRPOConfig(ActorCriticConfig):
    """Trust region policy optimisation with hindsight: a natural-gradient step under a KL bound."""

    method: Literal["trpo"] = "trpo"
    max_kl: float = 0.01
    """Bound on the mean KL divergence of an update."""
    kl: Literal["exact", "sampled"] = "exact"
    """From the distributions, or half the squared log ratio of the actions taken."""
    conjugate_steps: int = 10
    damping: float = 0.1
    backtracks: int = 10
    """Halvings of the step that the line search may try."""


LearnerConfig = HPGConfig | A2CConfig | A3CConfig | PPOConfig | TRPOConfig
LEARNERS: dict[str, type[HPGConfig] | type[A2CConfig] | type[A3CConfig] | type[PPOConfig] | type[TRPOConfig]] = {
    "hpg": HPGConfig,
    "a2c": A2CConfig,
    "a3c": A3CConfig,
    "ppo": PPOConfig,
    "trpo": TRPOConfig,
}


@dataclass(frozen=True)
class OnPolicyConfig:
    """A training of a policy-gradient learner. Settings that off-policy training has, too, have the same names."""

    env: Annotated[str, Suppress]
    """Gymnasium id of a goal env; `module:Name-v0` imports the module first."""
    env_kwargs: Annotated[dict[str, Any], Suppress] = field(default_factory=dict)
    """Arguments for the env's constructor. On the command line: --env.NAME VALUE."""
    seed: int = 0
    """The same seed gives the same bytes."""
    steps: int = 100_000
    """Env steps to train for."""
    num_envs: int = 16
    """Episodes simulated side by side."""
    episodes_per_cycle: int = 16
    """Episodes per batch."""
    eval_every: int = 10
    """Batches between two evaluations."""
    eval_episodes: int = 256
    """Greedy episodes per evaluation."""
    max_episode_steps: int | None = None
    """Time limit, for envs that have none of their own."""
    simulator: Literal["auto", "jax", "threads", "processes", "inline"] = "auto"
    """jax: bit flip, rooms. auto: jax or threads where possible, else processes if a step is slow, else inline."""
    workers: int | None = None
    """Threads or processes that simulate; one per core if not given. Results do not depend on it."""
    env_timeout: float = 60.0
    """Seconds that envs in a worker process may take for one step or reset, before they count as hung."""
    env_failures: int = 5
    """Failures of worker processes without a whole round of episodes in between, before the run stops."""
    agent: LearnerConfig = field(default_factory=HPGConfig)
    checkpoint: CheckpointConfig = field(default_factory=CheckpointConfig)

    def __post_init__(self) -> None:
        _check(self)


_RANGES: tuple[tuple[str, Callable[[float], bool], str], ...] = (
    (
        "steps num_envs episodes_per_cycle eval_every eval_episodes max_episode_steps workers env_failures "
        "checkpoint.keep agent.critic_updates agent.workers agent.epochs agent.minibatches agent.conjugate_steps "
        "agent.backtracks",
        lambda x: x >= 1,
        "at least 1",
    ),
    (
        "seed agent.goals agent.rows agent.waves agent.learning_rate agent.critic_learning_rate agent.entropy "
        "agent.damping checkpoint.minutes",
        lambda x: x >= 0,
        "0 or more",
    ),
    (
        "agent.clamp_log_ratio agent.deviation agent.clip_observation agent.clip_normalized agent.normalizer_epsilon "
        "agent.clip agent.max_kl env_timeout",
        lambda x: x > 0,
        "more than 0",
    ),
    ("agent.gamma agent.trace", lambda x: 0 <= x <= 1, "between 0 and 1"),
)


def _check(config: OnPolicyConfig) -> None:
    """Raise HindsightError naming the first setting that is out of range."""
    values = flatten(config)
    for names, valid, text in _RANGES:
        for name in names.split():
            value = values.get(name)
            numbers = value.bounds() if isinstance(value, Schedule) else (value,)
            if any(x is not None and not (abs(x) < math.inf and valid(x)) for x in numbers):
                raise HindsightError(f"setting {name} must be {text}, got {value}")
    if config.seed >= 2**32:
        raise HindsightError(f"setting seed must be below 2**32, got {config.seed}")
    hidden = config.agent.hidden
    if not hidden or any(type(width) is not int or width < 1 for width in hidden):
        raise HindsightError(f"setting agent.hidden must be one or more positive widths, got {hidden}")


def with_settings(config: OnPolicyConfig, settings: Mapping[str, Any]) -> OnPolicyConfig:
    """A copy with some settings changed: by dotted name, or nested as {"agent": {"goals": 100}}."""
    flat: dict[str, Any] = {}
    for name, value in settings.items():
        nested = isinstance(value, Mapping) and name in ("agent", "checkpoint")
        flat |= {f"{name}.{leaf}": inner for leaf, inner in value.items()} if nested else {name: value}
    known = flatten(config)
    changes: dict[str, dict[str, Any]] = {"": {}, "agent": {}, "checkpoint": {}}
    for name, value in flat.items():
        if name not in known:
            raise HindsightError(f"unknown setting {name!r}.{nearest(name, known)}")
        group, _, leaf = name.rpartition(".")
        owner: Any = getattr(config, group) if group else config
        changes[group][leaf] = _typed(name, typing.get_type_hints(type(owner))[leaf], value)
    agent: Any = dataclasses.replace(config.agent, **changes["agent"])
    checkpoint = dataclasses.replace(config.checkpoint, **changes["checkpoint"])
    return dataclasses.replace(config, agent=agent, checkpoint=checkpoint, **changes[""])


def _typed(name: str, kind: Any, value: Any) -> Any:
    """`value` as the annotated type of the setting, or an error that names the setting."""
    origin, options = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
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


def learner_from_json(data: Mapping[str, Any]) -> LearnerConfig:
    """The learner's settings that `plain` wrote."""
    return from_json({"env": "", "agent": data}).agent


def from_json(data: Mapping[str, Any]) -> OnPolicyConfig:
    """The config that `hindsight.config.plain` wrote; unknown names and wrong types are errors."""
    if not isinstance(data.get("env"), str):
        raise HindsightError("not a Hindsight config: it has no 'env'")
    return with_settings(OnPolicyConfig(env=data["env"], agent=LEARNERS[data["agent"]["method"]]()), data)


def is_on_policy(data: Any) -> bool:
    """Does this JSON describe a policy-gradient training or learner?"""
    agent = data.get("agent") if isinstance(data, Mapping) else None
    return isinstance(agent, Mapping) and agent.get("method") in LEARNERS
