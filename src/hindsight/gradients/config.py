"""Every setting of the policy-gradient learners and their training, as frozen dataclasses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from hindsight.config import REPLAY_RANGES, ReplayConfig, check_replay
from hindsight.errors import HindsightError
from hindsight.schedules import Schedule
from hindsight.settings import Ranges, RunConfig, check_ranges, flatten, with_settings


@dataclass(frozen=True)
class PolicyGradientConfig:
    """What all policy-gradient learners share."""

    hindsight: bool = True
    """Learn from the goals that the batch achieved; else from the pursued ones only."""
    goals: int = 64
    """Hindsight goals per batch, drawn from those it achieved; each is applied to every episode. 0 takes all."""
    within_box: bool = False
    """Only hindsight goals inside the bounding box of the batch's desired goals, or as good as inside."""
    pursued: bool = False
    """The goals that the batch pursued are goals to learn from, too, reached or not."""
    unmet: bool = False
    """An episode counts only for goals that it did not meet when it began: for objects that must move."""
    spread: bool = False
    """Hindsight goals that lie far apart, instead of any: each the farthest from those chosen before."""
    until_reached: bool = False
    """An episode counts for a goal until it reaches it, also where the env goes on."""
    estimator: Literal["weighted", "per_decision", "product", "step"] = "weighted"
    """Importance weights: self-normalised, per decision, the whole product (Eq. 1), or of the step alone (App. D)."""
    leave_one_out: bool = True
    """Subtract a value (and teach it) only where the goal would be among the batch's without the episode itself."""
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
    critic_updates: int = 8
    """Steps of Adam on the critic per batch, if there is one."""
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
    baseline: Literal["none", "value", "td", "paper"] = "none"
    """None, V(s,g,t), TD errors in the place of rewards, or the paper's Eq. 2 literally."""
    updates: int = 1
    """Steps of Adam per batch; importance weights are computed anew for each, which needs hindsight if it is not 1."""


@dataclass(frozen=True)
class ActorCriticConfig(PolicyGradientConfig):
    """What the learners with a critic share."""

    pursued: bool = True  # a critic learns what becomes of goals that were not chosen because they were reached
    trace: float = 0.95
    """Lambda of the advantage estimate: 0 is one step, 1 the whole return."""
    critic_trace: float | None = None
    """Lambda of what the critic learns; the same if not given."""
    normalize_advantages: bool = True
    """Divide advantages by their deviation over the batch."""
    critic: Literal["episodes", "replayed"] = "episodes"
    """V, learnt from the batch's episodes; or Q, learnt from all stored ones, which are replayed with hindsight."""
    critic_batch: int = 512
    """Transitions per update of a replayed critic."""
    random_actions: Schedule = Schedule.parse(0.0)
    """Share of actions drawn uniformly at random while exploring; a replayed critic can learn from them."""


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
class OnPolicyConfig(RunConfig):
    """A training of a policy-gradient learner. A cycle is one batch of episodes."""

    num_envs: int = 16
    """Episodes simulated side by side."""
    episodes_per_cycle: int = 16
    """Episodes per batch."""
    eval_episodes: int = 256
    """Greedy episodes per evaluation."""
    agent: LearnerConfig = field(default_factory=HPGConfig)
    replay: ReplayConfig = field(default_factory=ReplayConfig)
    """What a replayed critic learns from."""

    def __post_init__(self) -> None:
        check_ranges(self, _RANGES, REPLAY_RANGES)
        check_replay(self.replay)
        agent, unused = self.agent, flatten(ReplayConfig())
        for name, value in flatten(self.replay).items():
            if value != unused[name] and (isinstance(agent, HPGConfig) or agent.critic != "replayed"):
                why = "nothing is replayed without agent.critic replayed"
                raise HindsightError(f"replay.{name} changes nothing, {why}: leave it at {unused[name]}")
        if isinstance(agent, HPGConfig):
            if agent.updates > 1 and not agent.hindsight:
                raise HindsightError("agent.updates above 1 needs importance weights: leave agent.hindsight on")
        elif agent.critic == "replayed":
            if isinstance(agent, A3CConfig):
                raise HindsightError("a3c has no replay: take a2c, ppo or trpo, or agent.critic episodes")
            if agent.gamma == 1.0:
                raise HindsightError("a replayed critic counts no time: it needs an agent.gamma below 1")
        elif agent.random_actions.bounds()[1] > 0:
            raise HindsightError("agent.random_actions have no probabilities: they need agent.critic replayed")


_RANGES = Ranges(
    at_least_1="agent.critic_updates agent.critic_batch agent.updates agent.workers agent.epochs agent.minibatches "
    "agent.conjugate_steps agent.backtracks",
    not_negative="agent.goals agent.rows agent.waves agent.learning_rate agent.critic_learning_rate agent.entropy "
    "agent.damping",
    positive="agent.clamp_log_ratio agent.deviation agent.clip_observation agent.clip_normalized "
    "agent.normalizer_epsilon agent.clip agent.max_kl",
    share="agent.gamma agent.trace agent.critic_trace agent.random_actions",
)


def learner_from_json(data: Mapping[str, Any]) -> LearnerConfig:
    """The learner's settings that `plain` wrote."""
    return from_json({"env": "", "agent": data}).agent


def from_json(data: Mapping[str, Any]) -> OnPolicyConfig:
    """The config that `plain` wrote; unknown names and wrong types are errors."""
    if not isinstance(data.get("env"), str):
        raise HindsightError("not a Hindsight config: it has no 'env'")
    return with_settings(OnPolicyConfig(env=data["env"], agent=LEARNERS[data["agent"]["method"]]()), data)


def is_on_policy(data: Any) -> bool:
    """Does this JSON describe a policy-gradient training or learner?"""
    agent = data.get("agent") if isinstance(data, Mapping) else None
    return isinstance(agent, Mapping) and agent.get("method") in LEARNERS
