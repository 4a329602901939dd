"""Every setting of a training with replay, as frozen dataclasses. `config.json` of a run holds exactly these."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from hindsight.errors import HindsightError
from hindsight.schedules import Schedule
from hindsight.settings import Ranges, RunConfig, check_ranges, with_settings


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
    random_hold: float = 1.0
    """Steps for which such an action is held, on average."""


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
    moved_unit: Literal["goal", "usual"] = "goal"
    """Distance in the goal's own unit; or, in each direction, by how far goals usually move in it: rare moves first."""
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
class TrainConfig(RunConfig):
    """A training of an off-policy learner with hindsight replay."""

    updates_per_cycle: int = 40
    """Updates of the learner after each collection."""
    batch_size: int = 256
    """Transitions per update."""
    policy_average: float = 0.0
    """What the evaluated and saved policy keeps of itself per cycle; 0 takes the actor as it is."""
    overlap: bool = False
    """Simulate the next episodes while learning, with the parameters of one cycle ago."""
    agent: DDPGConfig | DQNConfig = field(default_factory=DDPGConfig)
    replay: ReplayConfig = field(default_factory=ReplayConfig)
    priority: PriorityConfig = field(default_factory=PriorityConfig)

    def __post_init__(self) -> None:
        check_ranges(self, _RANGES, REPLAY_RANGES)
        if self.simulator == "jax":
            raise HindsightError("simulator jax is for policy gradients: choose auto, threads, processes or inline")
        check_replay(self.replay, self.priority)


_RANGES = Ranges(
    at_least_1="updates_per_cycle batch_size agent.target_every agent.random_hold priority.every priority.fresh",
    not_negative="agent.noise agent.action_l2 agent.actor_learning_rate agent.critic_learning_rate agent.learning_rate "
    "priority.alpha priority.epsilon priority.floor priority.hardness",
    positive="agent.clip_observation agent.clip_normalized agent.normalizer_epsilon",
    share="policy_average agent.target_average agent.random_actions priority.beta priority.shared",
    below_1="agent.gamma",
)
REPLAY_RANGES = Ranges(
    at_least_1="replay.capacity",
    not_negative="replay.replay_k replay.moved_threshold replay.moved_power",
    share="replay.moved_share replay.replace_met replay.drop_met",
)


def check_replay(replay: ReplayConfig, priority: PriorityConfig | None = None) -> None:
    """Raise HindsightError naming settings that do not go together."""
    priority = priority or PriorityConfig()
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
            priority.queues == "two_queues" and not stored,
            "two queues need goals chosen when stored: set replay.goals_chosen to stored, too",
        ),
    )
    for wrong, text in refused:
        if wrong:
            raise HindsightError(text)


def agent_from_json(data: Mapping[str, Any]) -> DDPGConfig | DQNConfig:
    """The agent settings that `plain` wrote."""
    return from_json({"env": "", "agent": data}).agent


def from_json(data: Mapping[str, Any]) -> TrainConfig:
    """The config that `plain` wrote; unknown names and wrong types are errors."""
    if not isinstance(data, Mapping) or not isinstance(data.get("env"), str):
        raise HindsightError("not a Hindsight config: it has no 'env'")
    method = data.get("agent", {}).get("method", "ddpg") if isinstance(data.get("agent", {}), Mapping) else None
    if not isinstance(method, str) or method not in AGENTS:
        raise HindsightError(f"unknown method {method!r}: choose from {', '.join(AGENTS)}")
    return with_settings(TrainConfig(env=data["env"], agent=AGENTS[method]()), data)


AGENTS: dict[str, type[DDPGConfig] | type[DQNConfig]] = {"ddpg": DDPGConfig, "dqn": DQNConfig}
