"""Every setting of a training, as frozen dataclasses. `config.json` of a run holds exactly
these."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from tyro.conf import Suppress

from hindsight.agents.config import AgentConfig, OffPolicyAgentConfig, OnPolicyAgentConfig
from hindsight.agents.ddpg import DDPGConfig
from hindsight.agents.hpg import HPGConfig
from hindsight.agents.registry import OFF_POLICY, config_class
from hindsight.errors import HindsightError
from hindsight.replay.priorities import PriorityConfig
from hindsight.replay.replay import ReplayConfig, check_replay
from hindsight.schedules import Schedule
from hindsight.settings import (
    Count,
    InsteadOf,
    NotNegative,
    OptionalCount,
    OptionalPositive,
    OptionalShare,
    Positive,
    Search,
    Seed,
    Share,
    ShareSchedule,
    check_alternatives,
    check_ranges,
    refuse_changes,
    with_settings,
)

GUIDANCE = Schedule.parse(0.5)
LEAST_EPISODES = 100
"""Of an evaluation that may end a training."""


@dataclass(frozen=True)
class CheckpointConfig:
    """When everything is saved, so that the run can be resumed from there."""

    minutes: NotNegative = 5.0
    """A checkpoint is made at the first evaluation after so many minutes, at the latest after
    twice as many."""
    keep: Count = 2
    """How many of the newest are kept, besides the one with the highest success rate."""
    when_failed: Literal["continue", "stop"] = "continue"
    """What to do if something cannot be saved (a full disk, say): say so and continue, or stop."""


@dataclass(frozen=True)
class TrainConfig:
    """Settings that every training has, whatever it learns by."""

    env: Annotated[str, Suppress]
    """Gymnasium id of a goal env; `module:Name-v0` imports the module first."""
    env_kwargs: Annotated[dict[str, Any], Suppress] = field(default_factory=dict)
    """Arguments for the env's constructor. On the command line: --env.NAME VALUE."""
    seed: Seed = 0
    """The same seed gives a bit-identical policy."""
    steps: Count = 100_000
    """Env steps to train for."""
    num_envs: Count = 8
    """Episodes simulated side by side."""
    episodes_per_cycle: Count = 8
    """Episodes collected before each round of updates."""
    eval_every: Count = 10
    """Cycles between two evaluations."""
    eval_episodes: Count = 50
    """Greedy episodes per evaluation."""
    final_episodes: OptionalCount = None
    """Those of the last evaluation; as many as of the others if not given."""
    stop_at_success: OptionalShare = None
    """End the training when an evaluation has this success rate. One of fewer than 100 episodes is
    confirmed by 100 others first."""
    max_episode_steps: OptionalCount = None
    """Time limit, for envs that have none of their own."""
    simulator: Literal["auto", "jax", "threads", "processes", "inline"] = "auto"
    """threads: Fetch and Hand. jax: bit flip and rooms, by policy gradients. auto: the first of
    these that is possible, else processes if a step is slow, else inline."""
    workers: OptionalCount = None
    """Threads or processes that simulate; one per core if not given. Results do not depend on
    it."""
    env_timeout: Positive = 60.0
    """Seconds that envs in a worker process may take for one step or reset, before they count as
    hung."""
    env_failures: Count = 5
    """Failures of worker processes without a whole round of episodes in between, before the run
    stops."""
    relay: bool = False
    """Learn the stages of the task, too: relay goals that the env declares, or known of Fetch
    (docs/relay-goals.md)."""
    relay_guidance: ShareSchedule = GUIDANCE
    """With relay: probability that, at a step of exploration, the first stage that is not done
    leads."""
    checkpoint: CheckpointConfig = field(default_factory=CheckpointConfig)
    agent: AgentConfig = field(default_factory=AgentConfig)

    def __post_init__(self) -> None:
        check_ranges(self)
        self.agent.check()
        if not self.relay and self.relay_guidance != GUIDANCE:
            raise HindsightError("relay_guidance changes nothing without relay: set relay, too")

    @property
    def last_eval_episodes(self) -> int:
        """Of the evaluation that a training ends with."""
        least = 0 if self.stop_at_success is None else LEAST_EPISODES
        return max(self.final_episodes or self.eval_episodes, least)


@dataclass(frozen=True)
class OffPolicyConfig(TrainConfig):
    """A training of an off-policy learner with hindsight replay."""

    updates_per_step: Annotated[OptionalPositive, InsteadOf("gradient_steps")] = 0.05
    """Updates of the learner per env step. More of them learn from fewer steps, and take longer."""
    gradient_steps: Annotated[OptionalCount, InsteadOf("updates_per_step")] = None
    """Updates per cycle, however many steps that has; instead of updates_per_step."""
    batch_size: Annotated[Count, Search(choices=(128, 256, 512))] = 256
    """Transitions per update."""
    policy_ema: Share = 0.0
    """What the evaluated and saved policy keeps of itself per cycle; 0 takes the actor as it is."""
    overlap: bool = False
    """Simulate the next episodes while learning, with the parameters of one cycle ago."""
    explore_within: OptionalPositive = None
    """While exploring, pursue a point on the straight line to a goal that is farther away than
    this: for goals far beyond what can be reached at first, as in AntMaze."""
    relay_weight: Positive = 1.0
    """With relay: how often an episode of an earlier stage is replayed, per one of the last."""
    dataset: str = ""
    """Fill the replay from a dataset before the first cycle: minari:NAME."""
    collect: bool = True
    """Play episodes. Without, learn from the dataset alone: its episodes count as steps."""
    agent: OffPolicyAgentConfig = field(default_factory=DDPGConfig)
    replay: ReplayConfig = field(default_factory=ReplayConfig)
    priority: PriorityConfig = field(default_factory=PriorityConfig)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_alternatives(self)
        if self.simulator == "jax":
            raise HindsightError(
                "simulator jax is for policy gradients: choose auto, threads, processes or inline"
            )
        if not (self.collect or self.dataset):
            raise HindsightError("without collect there is nothing to learn from: give a dataset")
        if self.relay and self.dataset:
            raise HindsightError("a dataset has no relay goals: leave out one of both")
        check_replay(self.replay, self.priority)
        if self.relay and self.replay.goal_rule == "random":
            raise HindsightError(
                "with relay, replay.goal_rule cannot be random: a goal is of a stage"
            )
        if self.relay and self.explore_within:
            raise HindsightError("relay goals lead exploration already: leave out explore_within")
        if not self.relay and self.relay_weight != 1.0:
            raise HindsightError("relay_weight changes nothing without relay: set relay, too")

    def updates(self, steps: int, before: int = 0) -> int:
        """Updates of a cycle after which there are so many steps, and so many before it."""
        if self.updates_per_step is None:
            assert self.gradient_steps is not None
            return self.gradient_steps
        return round(self.updates_per_step * steps) - round(self.updates_per_step * before)

    def updates_of_cycle(self, horizon: int) -> int:
        """Updates of a cycle whose episodes all last until the time limit: the most there are."""
        return max(self.updates(self.episodes_per_cycle * horizon), 1)


@dataclass(frozen=True)
class OnPolicyConfig(TrainConfig):
    """A training of a policy gradient. A cycle is one batch of episodes."""

    num_envs: Count = 16
    """Episodes simulated side by side."""
    episodes_per_cycle: Count = 16
    """Episodes per batch."""
    eval_episodes: Count = 256
    """Greedy episodes per evaluation."""
    agent: OnPolicyAgentConfig = field(default_factory=HPGConfig)


def config_of(method: str, env: str) -> TrainConfig:
    """The default settings of a method."""
    agent: Any = config_class(method)()
    return (OffPolicyConfig if method in OFF_POLICY else OnPolicyConfig)(env=env, agent=agent)


def refuse_unread(config: TrainConfig, given: Collection[str]) -> None:
    """Raise HindsightError if nothing reads one of the settings that were given, by dotted name,
    and it differs from its default."""
    for name, why in config.agent.unread().items():
        if f"agent.{name}" in given:
            refuse_changes(config.agent, (name,), "agent.", why)


def from_json(data: Any) -> TrainConfig:
    """The config that `plain` wrote; unknown names and wrong types are errors."""
    if not isinstance(data, Mapping) or not isinstance(data.get("env"), str):
        raise HindsightError("not a Hindsight config: it has no 'env'")
    agent = data.get("agent")
    method = agent.get("method") if isinstance(agent, Mapping) else None
    if not isinstance(method, str):
        raise HindsightError("not a Hindsight config: its 'agent' has no 'method'")
    return with_settings(config_of(method, data["env"]), data)
