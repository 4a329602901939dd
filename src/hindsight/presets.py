"""Settings that work well for an env without further options, as a table. Measured results are in
docs/results.md.

The settings of a training are those of all rows that fit it, later rows over earlier ones, over
the method's defaults.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from hindsight.agents.registry import OFF_POLICY, ON_POLICY
from hindsight.errors import HindsightError, nearest

PresetName = Literal[
    "default", "her", "hper", "hper-single", "relay", "baselines", "paper", "paper-normalized"
]
Settings = Mapping[str, Any]

OURS: tuple[PresetName, ...] = ("default", "her", "hper", "hper-single", "relay")
BEST: tuple[PresetName, ...] = ("default", "relay")
"""What works best, without relay goals and with them."""
PAPER: tuple[PresetName, ...] = ("paper", "paper-normalized")
WORKERS = {"baselines": 8, "paper": 12, "paper-normalized": 12}
"""Presets of others' code, which averages the gradients of so many workers; `paper:1` is the
paper's with one."""
WITH_CRITIC = ("a2c", "a3c", "ppo", "trpo")
OUR_ENVS = ("Fetch", "Hand", "hindsight/")
FETCH_OBJECTS = ("FetchPush", "FetchSlide", "FetchPickAndPlace")
OBJECTS = (*FETCH_OBJECTS, "HandManipulate")
"""How the ids of tasks begin in which an object must be moved."""
VARIANTS = ("Dense", "Diverse", "Full", "Rotate", "Touch")
"""In the ids of tasks that are another task with something changed."""
PUSHED = (*OBJECTS, "hindsight/PointPush")
BY_SAC = ("AntMaze", "FetchSlide")
"""What SAC seems to learn better than DDPG: FetchSlide 0.84 instead of 0.60 to 0.68. Chosen on seed
10 (docs/notes/fetch.md)."""
UPDATES = ("updates_per_step", "gradient_steps")
"""Of these, the last row counts that has one."""


@dataclass(frozen=True)
class Task:
    """What the inspection of an env tells that settings depend on. How fast it is does not count:
    the same command learns the same on every machine (but for `agent.precision auto`)."""

    env: str
    horizon: int = 50
    """Its time limit."""
    discrete: bool = False
    """Its actions."""
    dense: bool = False
    """Its reward."""
    touched: bool = False
    """Whether the goal is of something that must be touched first."""

    @property
    def name(self) -> str:
        """The id without the module that it may begin with."""
        return self.env.rpartition(":")[2]

    @property
    def tuned(self) -> bool:
        """Whether its settings stand in the table by hand, and do not follow from an inspection."""
        return self.name.startswith(OUR_ENVS)


@dataclass(frozen=True)
class Row:
    """Settings, and which trainings they are for."""

    methods: Container[str]
    settings: Settings | Callable[[Task, int], Settings] = field(default_factory=dict)
    """By dotted name; or a function of the task and of the number of workers. Those that a learner
    does not have do not count for it."""
    envs: tuple[str, ...] = ("",)
    """How the env's id begins."""
    presets: tuple[PresetName, ...] = OURS
    horizons: tuple[int, int] = (1, 10**9)
    """Least and largest time limit."""
    continuous: bool | None = None
    """Only for continuous actions, or only for discrete ones."""
    tuned: bool | None = None
    """Only for envs whose settings were measured, or only for others."""
    dense: bool | None = None
    """Only for dense rewards, or only for sparse ones."""
    touched: bool | None = None
    """Only for goals of something that must be touched first, or only for others."""
    critic: Literal["state", "action"] | None = None
    """Only with this `agent.critic`; learners without that setting count as state."""
    reaches: str = ""
    """What was measured with these settings."""
    why: str = ""
    """What in the inspection of an env speaks for them."""

    def fits(self, task: Task, method: str, preset: str) -> bool:
        return (
            method in self.methods
            and preset in self.presets
            and task.name.startswith(self.envs)
            and self.horizons[0] <= task.horizon <= self.horizons[1]
            and self.continuous in (None, not task.discrete)
            and self.tuned in (None, task.tuned)
            and self.dense in (None, task.dense)
            and self.touched in (None, task.touched)
        )

    def of(self, task: Task, workers: int) -> Settings:
        return self.settings(task, workers) if callable(self.settings) else self.settings


# Goals that are achieved already are not stored at first: alternate pairs come only from episodes
# that achieved something. Later some are, because they teach to stay at a goal.
_STORED = {"replay.goals_chosen": "stored", "replay.drop_achieved": "linear(1.0, 0.5)"}
_RANK = _STORED | {"priority.sampling": "rank"}
# A lower rate at the end settles the policy: at a constant 1e-3 its success keeps swinging by some
# hundredths.
_SETTLING = {
    "agent.actor_learning_rate": "step(0.001, 0.0003, 0.7)",
    "agent.critic_learning_rate": "step(0.001, 0.0003, 0.7)",
}
# The object's place is the goal, and most early episodes never touch it: replay those that do.
_MOVED = {"replay.moved_share": 0.8, "replay.replace_achieved": 0.9}
_LONG_ENOUGH = "as many steps as another seed needed"


def _by_length(task: Task, workers: int) -> Settings:
    """Of an env that is not known: about 1000 steps between two rounds of updates, and 20 episodes
    of evaluation per 64 of training, because these may be slow."""
    episodes = min(max(round(1000 / task.horizon), 2), 16)
    return {
        "steps": 500_000,
        "num_envs": episodes,
        "episodes_per_cycle": episodes,
        "updates_per_step": 0.25,
        "eval_every": round(64 / episodes),
        "eval_episodes": 20,
    }


def _light_actions(task: Task, workers: int) -> Settings:
    """Where episodes are long, a single action is worth little: it must not cost more, or the best
    policy would be to do nothing."""
    return {"agent.action_l2": min(1.0, (50 / task.horizon) ** 2)}


def _averaged(
    epochs: int, cycles: int, updates: int, batch_size: int, tests: int
) -> Callable[[Task, int], Settings]:
    """As in OpenAI baselines: an epoch is some cycles, each of 2 episodes by every worker and of
    some updates. Averaging the gradients of N workers is a batch of N x batch_size."""

    def settings(task: Task, workers: int) -> Settings:
        steps = epochs * cycles * 2 * workers * task.horizon
        return {
            "steps": steps,
            # Each worker has its own million. More than is ever stored would be a waste.
            "replay.buffer_size": min(workers * 1_000_000, max(steps, 1_000_000)),
            "num_envs": 2 * workers,
            "episodes_per_cycle": 2 * workers,
            "gradient_steps": updates,
            "batch_size": workers * batch_size,
            "eval_every": cycles,
            "eval_episodes": workers * tests,
            "agent.target_update_interval": updates,
        }

    return settings


def published_beta(updates: int) -> str:
    """Importance weights over so many updates as in the paper's code: beta rises from 0.5 to 1 in
    100,000 updates, and weights multiply errors before they are squared, so it counts twice."""
    share = updates / 100_000
    return f"linear(1, 2, {1 / share:g})" if share > 1 else f"linear(1, {1 + share:g})"


def _paper(epochs: int) -> Callable[[Task, int], Settings]:
    """Section 4 of the paper, with what its published code does and the text does not say.

    Each worker has a heap of its own, which is never sorted. New pairs have the largest priority
    in it, not that of their TD error. Priorities change before the next batch is drawn. In one
    queue each step has one alternate goal more.
    """
    cycles, updates = 50, 50
    averaged = _averaged(epochs, cycles, updates, 512, 20)

    def settings(task: Task, workers: int) -> Settings:
        return {
            **averaged(task, workers),
            "replay.goals_chosen": "stored",
            "replay.goal_numbers": "early_doubled_plus_1",
            "priority.sampling": "rank_heap",
            "priority.pairs_per_rank": workers,
            "priority.initial": "largest",
            "priority.updates_per_draw": 1,
            "priority.beta": published_beta(epochs * cycles * updates),
        }

    return settings


TABLE: tuple[Row, ...] = (
    # ----------------------------------------------------------------------------- any env, replay
    # Ours were measured with as many updates per cycle, however long it is.
    Row(
        OFF_POLICY,
        {"steps": 500_000, "num_envs": 16, "episodes_per_cycle": 16, "gradient_steps": 40},
        tuned=True,
    ),
    Row(
        OFF_POLICY,
        _by_length,
        tuned=False,
        why="about 1000 steps between two rounds of updates",
    ),
    Row(
        ("ddpg", "td3"),
        _light_actions,
        tuned=False,
        why="actions weigh less the longer episodes are, because each does less",
    ),
    Row(
        OFF_POLICY,
        {"updates_per_step": 1.0, "agent.gamma": 0.95},
        tuned=False,
        dense=True,
        why="a dense reward tells the way from near: SAC, with a small gamma, and an update per "
        "step; it tells it of every goal, so goals of other episodes are replayed, too",
    ),
    Row(OFF_POLICY, {"replay.other_goals": 0.5}, tuned=False, dense=True, presets=("default",)),
    Row(
        OFF_POLICY,
        {"policy_ema": 0.9},
        tuned=False,
        why="success swings: the policy is averaged",
    ),
    Row(
        tuple(method for method in OFF_POLICY if method != "dqn"),
        _SETTLING,
        tuned=False,
        why="rates fall at the end, for the same reason",
    ),
    Row(
        OFF_POLICY,
        {"updates_per_step": 0.1, "batch_size": 512},
        tuned=False,
        touched=True,
        why="random actions do not change the achieved goal: it is of something that must be "
        "touched, so episodes that moved it are replayed most",
    ),
    Row(OFF_POLICY, _MOVED, tuned=False, touched=True, presets=("default",)),
    # How long to train: chosen on seed 10.
    *(
        Row(OFF_POLICY, {"steps": steps}, envs=(env,), why=_LONG_ENOUGH, reaches=reaches)
        for env, steps, reaches in (
            ("parking-v0", 50_000, "success 0.99 in less than 15 minutes (3 seeds)"),
            ("PandaReach", 100_000, "success 1.00 in less than 4 minutes (1 seed)"),
            ("PandaPush", 250_000, "success 0.93-0.96 in less than 22 minutes (3 seeds)"),
            ("PointMaze_UMaze", 200_000, "success 0.98-1.00 in less than 18 minutes (3 seeds)"),
            ("PointMaze_Medium", 600_000, "success 0.85-0.89 in less than 31 minutes (2 seeds)"),
        )
    ),
    Row(
        OFF_POLICY,
        {
            "steps": 1_000_000,
            "max_episode_steps": 200,
            "num_envs": 8,
            "episodes_per_cycle": 8,
            "eval_every": 16,
            "explore_within": 1.5,
            "agent.gamma": 0.99,
            "replay.other_goals": 0.0,
        },
        envs=("AntMaze",),
        presets=OURS[:-1],  # relay goals lead exploration themselves
        why="an ant that cannot walk yet explores towards points 1.5 m away, and begins anew after "
        "200 steps: by then it often lies on its back",
    ),
    Row(
        OFF_POLICY,
        {},
        envs=("AntMaze_UMaze",),
        reaches="success 0.11 in less than 69 minutes (1 seed)",
    ),
    Row(("dqn",), {"steps": 400_000}),
    Row(("dqn",), {"steps": 40_000}, horizons=(1, 10)),
    # Values have edges at the walls. Chosen on seed 10: 0.95 after 40,000 steps, without these
    # features after 140,000.
    Row(
        ("dqn",),
        {"steps": 200_000, "eval_episodes": 200, "agent.fourier_features": 4},
        envs=("hindsight/FourRooms",),
        reaches="success 0.99-1.00 in less than 2 minutes (5 seeds)",
    ),
    Row(("dqn",), {"steps": 30_000}, envs=("hindsight/PixelRoom",)),
    Row(
        OFF_POLICY,
        {
            "steps": 10_000,
            "num_envs": 8,
            "episodes_per_cycle": 8,
            "gradient_steps": 80,
            "eval_every": 1,
            "eval_episodes": 20,
        },
        envs=("FetchReach",),
        reaches="success 1.00 in 0.5 minutes (3 seeds)",
    ),
    # Chosen on seeds 10-14 (docs/notes/point-push.md): plain HER is in the middle, and a training
    # takes half a minute.
    Row(
        OFF_POLICY,
        {
            "steps": 512_000,
            "num_envs": 16,
            "episodes_per_cycle": 16,
            "gradient_steps": 40,
            "batch_size": 512,
            "policy_ema": 0.9,
            "eval_every": 32,
            "eval_episodes": 100,
            "agent.net_arch": (64, 64),
        },
        envs=("hindsight/PointPush",),
    ),
    Row(
        OFF_POLICY,
        {"replay.moved_share": 0.8},
        envs=("hindsight/PointPush",),
        presets=BEST,
        reaches="success 0.86-1.00 in less than 0.3 minutes (5 seeds)",
    ),
    # ---------------------------------------------------------------------- moving objects, replay
    Row(
        OFF_POLICY,
        {
            "steps": 2_000_000,
            "num_envs": 32,
            "episodes_per_cycle": 32,
            "gradient_steps": 100,
            "batch_size": 512,
            "policy_ema": 0.9,
            "overlap": True,
            "eval_every": 20,
            "eval_episodes": 20,
            "final_episodes": 100,
        },
        envs=(*OBJECTS, "HandReach"),
    ),
    Row(OFF_POLICY, _SETTLING, envs=(*OBJECTS, "HandReach")),
    # bfloat16 where the processor has it: FetchPush in 2.6 minutes, and no worse that can be told.
    Row(OFF_POLICY, {"agent.precision": "auto"}, envs=(*OBJECTS, "HandReach")),
    Row(OFF_POLICY, _MOVED, envs=OBJECTS, presets=BEST),
    Row(
        OFF_POLICY,
        {"steps": 400_000},
        envs=("FetchPush",),
        reaches="success 0.96-1.00 in 3 minutes, bfloat16 (5 seeds)",
    ),
    Row(OFF_POLICY, {"steps": 500_000}, envs=("FetchPush",), presets=("hper", "hper-single")),
    Row(OFF_POLICY, {"steps": 1_300_000}, envs=("FetchSlide", "FetchPickAndPlace")),
    Row(
        OFF_POLICY,
        _STORED
        | {
            "priority.queues": "two_queues",
            "replay.moved_share": 0.0,
            "replay.replace_achieved": 0.0,
        },
        envs=("FetchSlide", "FetchPickAndPlace"),
        presets=BEST,
    ),
    Row(
        ("ddpg",),
        {},
        envs=("FetchSlide",),
        presets=("default",),
        reaches="success 0.60-0.68 in 29 minutes, float32 (3 seeds)",
    ),
    Row(
        ("sac",),
        {},
        envs=("FetchSlide",),
        presets=("default",),
        reaches="success 0.86 in less than 46 minutes (1 seed)",
    ),
    # To lift the box, the gripper has to stay shut while it rises.
    Row(
        OFF_POLICY,
        {"agent.random_hold": 3.0},
        envs=("FetchPickAndPlace",),
        reaches="success 0.95 in less than 35 minutes (1 seed)",
    ),
    # Chosen on seed 10, in bfloat16 (`hindsight reproduce choices`).
    Row(("sac", "tqc"), {"steps": 300_000}, envs=("FetchPush",), presets=("default",)),
    # SAC and TQC draw all actions from the policy: without random ones nothing would be held.
    # DDPG's share, not yet chosen on seeds 10-14.
    Row(("sac", "tqc"), {"agent.random_actions": 0.3}, envs=("FetchPickAndPlace",)),
    # --------------------------------------------------------------------------------- relay goals
    # docs/relay-goals.md. Chosen on seeds 10 and 11: an update for every eight steps, not sixteen.
    Row(OFF_POLICY, {"relay": True, "relay_weight": 0.25}, presets=("relay",)),
    Row(
        OFF_POLICY,
        {
            "num_envs": 16,
            "episodes_per_cycle": 16,
            "eval_every": 24,
            "eval_episodes": 16,  # one round of the envs
        },
        envs=OBJECTS,
        presets=("relay",),
    ),
    Row(OFF_POLICY, {"steps": 160_000}, envs=("FetchPush",), presets=("relay",)),
    Row(OFF_POLICY, {"steps": 700_000}, envs=("FetchPickAndPlace",), presets=("relay",)),
    # ---------------------------------------------------------------- hindsight prioritised replay
    Row(OFF_POLICY, _RANK | {"priority.queues": "two_queues"}, presets=("hper",)),
    # In one queue the number of pairs decides how often they are replayed: more of them, and first
    # those that moved something.
    Row(
        OFF_POLICY,
        _RANK | {"replay.replay_k": 8.0, "replay.moved_power": 1.0},
        presets=("hper-single",),
    ),
    # ----------------------------------------------- others' settings: OpenAI baselines, the paper
    Row(OFF_POLICY, _averaged(20, 50, 40, 256, 20), presets=("baselines",)),
    Row(OFF_POLICY, _averaged(5, 10, 40, 256, 20), envs=("FetchReach",), presets=("baselines",)),
    Row(OFF_POLICY, _paper(50), presets=PAPER),
    Row(OFF_POLICY, _paper(3), envs=("FetchReach",), presets=PAPER),
    Row(OFF_POLICY, {"agent.normalize": False}, presets=("paper",)),
    # --------------------------------------------------- the off-policy actor-critic moves objects
    Row(
        ("replayed-ac",),
        {
            "steps": 1_000_000,
            "gradient_steps": 80,
            "policy_ema": 0.0,
            "overlap": False,
            "agent.gamma": 0.98,
            "agent.net_arch": (256, 256, 256),
            "agent.rows": 16_384,
            "agent.minibatches": 32,
            "agent.learning_rate": "linear(0.001, 0.0001)",
            "agent.critic_learning_rate": 1e-3,
            "agent.entropy": "linear(0.12, 0.03)",
            "agent.random_actions": "linear(0.25, 0.1)",
        },
        envs=OBJECTS,
    ),
    # ---------------------------------------------------------------------------- policy gradients
    Row(("ppo",), {"agent.learning_rate": 3e-4}),  # many steps of Adam per batch
    Row(
        ON_POLICY,
        {
            "steps": 2_000_000,
            "num_envs": 32,
            "episodes_per_cycle": 64,
            "eval_every": 5,
            "eval_episodes": 50,
        },
    ),
    Row(ON_POLICY, {"agent.gamma": 0.98}, continuous=True),
    Row(WITH_CRITIC, {"agent.gamma": 0.98}, critic="action"),
    Row(ON_POLICY, {"agent.within_box": True}, continuous=True, critic="state"),
    # One small step per batch: here noise costs more than the bias of a baseline.
    Row(
        ("a2c", "a3c"),
        {"agent.leave_one_out": False, "agent.actual_goals": False},
        envs=("FetchReach",),
        critic="state",
    ),
    # Nothing bounds the steps of A2C once the policy is sharp.
    Row(("a2c",), {"agent.learning_rate": "linear(0.001, 0.0001)"}, continuous=True),
    Row(ON_POLICY, {"steps": 64_000, "episodes_per_cycle": 32}, envs=("FetchReach",)),
    Row(("a2c", "a3c"), {"steps": 128_000}, envs=("FetchReach",)),
    # The shared critic takes half of what each of two workers has learnt. With 8 updates seed 10
    # had 0.16 after 48,000 steps, and 0.9 with 16.
    Row(("a3c",), {"agent.critic_updates": 16}, envs=("FetchReach",), critic="state"),
    # At a constant rate success was 1.00 at 24,000 steps and 0.22 at the end (seed 10).
    Row(
        ("hpg",),
        {"agent.learning_rate": "linear(0.001, 0.0001)", "agent.entropy": 0.001},
        envs=("FetchReach",),
    ),
    # Few episodes of a batch move the object, and goals that are met from the start teach to leave
    # it alone.
    Row(
        ("hpg",),
        {
            "agent.goals": 32,
            "agent.spread": True,
            "agent.skip_achieved": True,
            "agent.init_std": 1.0,
        },
        envs=OBJECTS,
    ),
    Row(
        ("hpg",),
        {
            "agent.net_arch": (64, 64),
            "agent.goals": 32,
            "agent.spread": True,
            "agent.skip_achieved": True,
            "agent.init_std": 1.0,
            "agent.learning_rate": 3e-3,
        },
        envs=("hindsight/PointPush",),
    ),
    # Once the policy tells goals apart, ratios between them leave few episodes of a batch. Q needs
    # none (docs/notes/policy-gradient-sign.md). Chosen on seeds 10 to 12.
    Row(WITH_CRITIC, {"agent.critic": "action"}, envs=PUSHED),
    Row(
        WITH_CRITIC,
        {
            "agent.goals": 50,
            "agent.actual_goals": True,
            "agent.skip_achieved": True,
            "agent.critic_updates": 160,
            "agent.entropy": "linear(0.12, 0.03)",
            "agent.learning_rate": "linear(0.001, 0.0001)",
            "agent.policy_updates": 80,
            "agent.rows": 512,
        },
        envs=PUSHED,
        critic="action",
    ),
    Row(
        ("ppo",),
        {
            "agent.policy_updates": 1,
            "agent.rows": 16_384,
            "agent.minibatches": 32,
        },
        envs=PUSHED,
        critic="action",
    ),
    Row(
        ("trpo",),
        {"agent.policy_updates": 10, "agent.rows": 4096},
        envs=PUSHED,
        critic="action",
    ),
    Row(
        ON_POLICY,
        {"steps": 300_000, "num_envs": 64, "eval_every": 8, "eval_episodes": 100},
        envs=("hindsight/PointPush",),
    ),
    Row(WITH_CRITIC, {"agent.net_arch": (256, 256, 256)}, envs=OBJECTS),
    # Without them too few episodes of a batch move the object (seed 10).
    Row(WITH_CRITIC, {"relay": True}, envs=FETCH_OBJECTS, dense=False, critic="action"),
    Row(WITH_CRITIC, {"steps": 1_000_000}, envs=("FetchPush",)),
    # ------------------------------------------------------ policy gradients in bit flip and rooms
    Row(
        ON_POLICY,
        {
            "steps": 50_000,
            "num_envs": 16,
            "episodes_per_cycle": 16,
            "eval_every": 10,
            "eval_episodes": 256,
            "agent.rows": 1024,
        },
        envs=(
            "hindsight/BitFlip",
            "hindsight/EmptyRoom",
            "hindsight/FourRooms",
            "hindsight/PixelRoom",
        ),
    ),
    Row(ON_POLICY, {"steps": 200_000}, envs=("hindsight/BitFlip",)),
    Row(ON_POLICY, {"steps": 40_000}, envs=("hindsight/",), horizons=(11, 16)),
    Row(ON_POLICY, {"steps": 20_000}, envs=("hindsight/",), horizons=(1, 10)),
    Row(("a2c", "a3c"), {"agent.learning_rate": 2e-3}, envs=("hindsight/BitFlip",)),
    Row(("a2c", "a3c"), {"steps": 400_000}, envs=("hindsight/BitFlip",)),
    Row(("a2c", "a3c"), {"steps": 80_000}, envs=("hindsight/BitFlip",), horizons=(11, 16)),
    Row(("a2c", "a3c"), {"steps": 40_000}, envs=("hindsight/BitFlip",), horizons=(1, 10)),
    # Walls: a policy that only walks towards the goal must not settle too early.
    Row(
        ON_POLICY,
        {
            "steps": 400_000,
            "agent.fourier_features": 4,
            "agent.entropy": 0.005,
        },
        envs=("hindsight/FourRooms",),
    ),
    # Most goals are reached by several episodes of a batch, so the bias that leaving one out
    # removes is small, but not its noise.
    Row(ON_POLICY, {"agent.leave_one_out": False}, envs=("hindsight/FourRooms",), critic="state"),
    Row(
        ("ppo",),
        {
            "agent.fourier_features": 8,
            "agent.entropy": "linear(0.02, 0.002)",
            "agent.learning_rate": "linear(0.0003, 3e-05)",
            "agent.critic_updates": 32,
        },
        envs=("hindsight/FourRooms",),
    ),
    # Batches cost nothing here but their updates: many small ones, of few goals each, and entropy
    # enough to find the way around a wall.
    Row(
        ("hpg",),
        {
            "steps": 3_000_000,
            "eval_every": 100,
            "agent.baseline": "td",
            "agent.goals": 8,
            "agent.actual_goals": True,
            "agent.critic_updates": 2,
            "agent.fourier_features": 8,
            "agent.learning_rate": "linear(0.001, 0.0001)",
            "agent.entropy": "linear(0.005, 0.0002)",
        },
        envs=("hindsight/FourRooms",),
        reaches="success 0.99, score 18.6 of 18.84 (5 seeds)",
    ),
)


USUAL_OBSERVATION, USUAL_GOALS = 100.0, 0.01
"""Up to where observations, and from where on distances of goals, fit the default settings."""


def unit_settings(largest_observation: float, goal_spread: float) -> Settings:
    """Settings in the units of an env, where they are so large, or so small, that the defaults
    would clip its observations or drown its goals."""
    found: dict[str, Any] = {}
    if largest_observation > USUAL_OBSERVATION:
        found["agent.clip_observation"] = 10.0 * largest_observation
    if 0 < goal_spread < USUAL_GOALS:
        found["agent.normalizer_epsilon"] = 0.01 * goal_spread
    return found


def default_method(task: Task, preset: str = "default") -> str:
    """What learns if nothing is said. Others' code, whose settings some presets are, has DDPG."""
    if task.discrete:
        return "dqn"
    if preset.partition(":")[0] in WORKERS:
        return "ddpg"
    return "sac" if task.name.startswith(BY_SAC) or (task.dense and not task.tuned) else "ddpg"


def _name_and_workers(preset: str) -> tuple[str, int]:
    """Of `her`, or `baselines:16`."""
    name, colon, number = preset.partition(":")
    if name not in get_args(PresetName):
        raise HindsightError(f"unknown preset {preset!r}.{nearest(name, get_args(PresetName))}")
    if not colon:
        return name, WORKERS.get(name, 1)
    if name not in WORKERS:
        raise HindsightError(f"preset {name!r} has no workers to average: say only {name!r}")
    if not (number.isascii() and number.isdigit() and 1 <= int(number) <= 1000):
        raise HindsightError(
            f"unknown preset {preset!r}: after the colon comes the number of workers, 1 to 1000"
        )
    return name, int(number)


def preset_rows(
    task: Task, method: str, preset: str = "default", critic: str | None = None
) -> list[Row]:
    """The rows of the table that fit a training, with the critic that it has or that is asked
    for."""
    name, _ = _name_and_workers(preset)
    if name != "default" and method in ON_POLICY:
        instead = ": for relay goals use --relay, or relay=True" if name == "relay" else ""
        raise HindsightError(
            f"preset {preset!r} is one of replay; {method} has only its own{instead}"
        )
    rows = [row for row in TABLE if row.fits(task, method, name)]
    for row in rows:
        critic = critic or row.of(task, 1).get("agent.critic")
    return [row for row in rows if row.critic in (None, critic or "state")]


def preset_settings(
    task: Task, method: str, preset: str = "default", critic: str | None = None
) -> dict[str, Any]:
    """The settings of a preset, by dotted name, with another `agent.critic` if one is given.

    default: our settings. her: plain uniform HER. hper and hper-single: hindsight prioritised
    replay in two queues or in one. relay: default, and relay
    goals. baselines: HER as in OpenAI baselines, the gradients of 8 workers averaged. paper: the
    paper's own settings, with 12 workers, its normaliser off as in its published code.
    paper-normalized: with it on.
    `baselines:16`, `paper:1` and so on have another number of workers.
    """
    _, workers = _name_and_workers(preset)
    found: dict[str, Any] = {}
    for row in preset_rows(task, method, preset, critic):
        settings = row.of(task, workers)
        for name, other in (UPDATES, UPDATES[::-1]):
            if name in settings:
                found.pop(other, None)
        found |= settings
    return found | ({"agent.critic": critic} if critic else {})


def reaches(task: Task, method: str) -> str:
    """What was measured with the default preset; empty if nothing was."""
    rows = preset_rows(task, method)
    return next((row.reaches for row in reversed(rows) if row.reaches), "")
