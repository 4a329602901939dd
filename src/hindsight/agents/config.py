"""The settings that all learners share, or all of a kind."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from tyro.conf import Suppress

from hindsight.errors import HindsightError
from hindsight.schedules import Schedule
from hindsight.settings import (
    LEARNING_RATES,
    Count,
    CountOrZero,
    Discount,
    OptionalPositive,
    OptionalShare,
    Positive,
    Precision,
    RateSchedule,
    Search,
    Share,
    Widths,
    refuse_changes,
)


@dataclass(frozen=True)
class AgentConfig:
    """Of every learner."""

    method: Annotated[str, Suppress] = ""
    net_arch: Widths = (256, 256)
    """Widths of the hidden layers."""
    precision: Precision = "float32"
    """Of the matrix products in hidden layers. auto: bfloat16 if the processor has it, else
    float32; a run's config.json says which."""
    gamma: OptionalShare = None
    """Discount."""
    normalize: bool = True
    """Normalise observations and goals by their running mean and deviation (in JAX envs: by
    fixed ones)."""
    clip_observation: Positive = 200.0
    clip_normalized: Positive = 5.0
    normalizer_epsilon: Positive = 0.01
    """Smallest deviation the normaliser divides by."""

    def check(self) -> None:
        """Raise HindsightError naming settings that do not go together, or that nothing would
        read."""

    def unread(self) -> dict[str, str]:
        """Settings that nothing reads beside these others, and why. Presets may have them, so
        `check` does not refuse them; who gives one is told."""
        if self.normalize:
            return {}
        return dict.fromkeys(("clip_normalized", "normalizer_epsilon"), "without agent.normalize")


def unread_hold(random_actions: Schedule) -> dict[str, str]:
    """`random_hold`, if there are no random actions."""
    if max(random_actions.bounds()) > 0:
        return {}
    return {"random_hold": "while agent.random_actions is 0"}


@dataclass(frozen=True)
class OffPolicyAgentConfig(AgentConfig):
    """Of every learner that replays."""

    gamma: Annotated[Discount, Search(0.8, 0.995)] = None
    """Discount; 1 - 1/T of the env's time limit T if not given."""
    tau: Annotated[Share, Search(0.005, 0.2, log=True)] = 0.05
    """How far the target networks move towards the learnt ones at each of their updates."""
    target_update_interval: Count = 10
    """Updates between two updates of the target networks."""


@dataclass(frozen=True)
class QLearningConfig(OffPolicyAgentConfig):
    """Of the learners of Q from TD errors: DQN, DDPG and those after it."""

    loss: Literal["squared", "huber"] = "squared"
    """Of the TD errors, in the critic's loss."""
    clip_target: bool = True
    """Clip targets to the returns that the env's sparse reward allows, as [-1/(1-gamma), 0]."""
    layer_norm: bool = False
    """Normalise every hidden layer."""


@dataclass(frozen=True)
class OnPolicyAgentConfig(AgentConfig):
    """Of every policy gradient."""

    hindsight: bool = True
    """Learn from the goals that the batch achieved; else from the actual ones only, and of the
    settings of goals only skip_achieved and until_reached count."""
    goals: CountOrZero = 64
    """Hindsight goals per batch, drawn from those it achieved; each is applied to every episode.
    0 takes all. With a critic of actions: per episode, drawn from those it achieved itself."""
    within_box: bool = False
    """Only hindsight goals inside the bounding box of the batch's desired goals, or as good as
    inside."""
    actual_goals: bool = False
    """The goals that the batch pursued are goals to learn from, too, reached or not."""
    skip_achieved: bool = False
    """An episode counts only for goals that were not achieved when it began: for objects that
    must move."""
    spread: bool = False
    """Hindsight goals that lie far apart, instead of any: each the farthest from those chosen
    before."""
    until_reached: bool = False
    """An episode counts for a goal until it reaches it, also where the env continues."""
    estimator: Literal["weighted", "per_decision", "product", "step"] = "weighted"
    """Importance weights: self-normalised, per decision, the whole product (Eq. 1), or of the
    step alone (App. D)."""
    leave_one_out: bool = True
    """Subtract a value (and teach it) only where the goal would be among the batch's without the
    episode itself."""
    clamp_log_ratio: OptionalPositive = None
    """Clip the summed log ratios to plus or minus this."""
    rows: CountOrZero = 2048
    """Steps (under a goal) per update, drawn in proportion to what they weigh; 0 takes all of
    them as they are."""
    fourier_features: CountOrZero = 0
    """Also show the networks sin and cos of 1 to this many times the inputs: for mazes, where
    policies jump."""
    gamma: Share = 1.0
    """Discount. Returns are finite sums, so 1 is allowed."""
    learning_rate: Annotated[RateSchedule, LEARNING_RATES] = Schedule.parse(1e-3)
    critic_learning_rate: Annotated[RateSchedule, LEARNING_RATES] = Schedule.parse(1e-3)
    critic_updates: Count = 8
    """Steps of Adam on the critic per batch, if there is one. With several policy_updates each has
    its share of them, rounded up."""
    entropy: Annotated[RateSchedule, Search(1e-5, 1e-2, log=True)] = Schedule.parse(0.0)
    """Weight of the policy's mean entropy in its objective; with a critic of actions, of how near
    the policy stays to the one that it began as."""
    init_std: Positive = 0.5
    """Initial deviation of a Gaussian policy, as a share of half the action range."""

    @property
    def by_action_values(self) -> bool:
        """Whether a critic of actions tells what is learnt."""
        return False

    def unread(self) -> dict[str, str]:
        if self.hindsight:
            return super().unread()
        choice = ("goals", "within_box", "actual_goals", "spread")
        weights = ("estimator", "leave_one_out", "clamp_log_ratio")
        return super().unread() | dict.fromkeys((*choice, *weights), "without agent.hindsight")


@dataclass(frozen=True)
class ActorCriticConfig(OnPolicyAgentConfig):
    """Of the policy gradients with a critic."""

    actual_goals: bool = (
        True  # a critic learns what becomes of goals that were not chosen because they were reached
    )
    critic: Literal["state", "action"] = "state"
    """V(s, g, t), and importance weights for what was done under another goal; or Q(s, a, g), which
    needs none."""
    critic_batch_size: Count = 512
    """Steps (under a goal) per update of a critic of actions."""
    critic_tau: Share = 0.02
    """How far what a critic of actions learns from follows it at each update."""
    policy_updates: Count = 1
    """Steps of the policy per batch, each with actions drawn anew; more than 1 needs a critic of
    actions."""
    gae_lambda: Annotated[Share, Search(0.8, 1.0)] = 0.95
    """Lambda of the advantage estimate: 0 is one step, 1 the whole return."""
    critic_lambda: OptionalShare = None
    """Lambda of what the critic learns; the same if not given."""
    normalize_advantages: bool = True
    """Divide advantages by their deviation over the batch."""

    @property
    def by_action_values(self) -> bool:
        return self.critic == "action"

    def check(self) -> None:
        if not self.by_action_values:
            for_actions = ("critic_batch_size", "critic_tau", "policy_updates")
            instead = "; or set agent.critic action"
            refuse_changes(self, for_actions, "agent.", "with agent.critic state", instead)
            return
        weights = ("estimator", "leave_one_out", "clamp_log_ratio", "gae_lambda", "critic_lambda")
        for_states = (*weights, "within_box", "spread")
        instead = "; or set agent.critic state"
        refuse_changes(self, for_states, "agent.", "with agent.critic action", instead)
        if self.gamma == 1.0:
            raise HindsightError(
                "agent.critic action goes on beyond the time limit: set agent.gamma below 1"
            )
