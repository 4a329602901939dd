"""Relay goals: every stage's episodes and rewards, who leads, the last stage's policy, and whole
trainings."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hindsight
from conftest import fingerprint, random_episodes
from hindsight.acting import Actor, ActorShape
from hindsight.agents.config import OnPolicyAgentConfig
from hindsight.agents.ddpg import DDPG, DDPGConfig
from hindsight.agents.shapes import Shapes
from hindsight.config import OffPolicyConfig, OnPolicyConfig, config_of
from hindsight.envs.contract import GoalEnvSpec, inspect
from hindsight.envs.make import make
from hindsight.envs.relay_goals import RelayGoal
from hindsight.episodes import Episodes
from hindsight.errors import HindsightError
from hindsight.goals import DESIRED
from hindsight.replay.priorities import PriorityConfig
from hindsight.replay.replay import ReplayConfig, make_replay
from hindsight.schedules import Schedule
from hindsight.settings import with_settings
from hindsight.training.on_policy import GoalChoice, goals_of_stages
from hindsight.training.relay import Relay

POINT = "hindsight/PointPush-v0"
REACH = RelayGoal(lambda o: o[:, :2], lambda o: o[:, 2:4], tolerance=0.2)
TOUCH = RelayGoal(lambda o: o[:, 4:], lambda o: 0 * o[:, 4:], tolerance=0.18, handover=0.17)
WIDE = RelayGoal(lambda o: o[:, :4], lambda o: o[:, [2, 3, 2, 3]], tolerance=0.3)
QUICK: dict[str, Any] = {
    "quiet": True,
    "num_envs": 2,
    "episodes_per_cycle": 2,
    "gradient_steps": 3,
    "batch_size": 32,
    "eval_episodes": 2,
    "eval_every": 2,
    "agent.net_arch": (16,),
    "steps": 600,
    "checkpoint.minutes": 0.0,
}

ON_POLICY_QUICK = [
    "quiet",
    "num_envs",
    "episodes_per_cycle",
    "eval_episodes",
    "eval_every",
    "agent.net_arch",
    "steps",
    "checkpoint.minutes",
]


def relay_of(*goals: RelayGoal, weight: float = 1.0, **changes: Any) -> Relay:
    spec = replace(inspect(make(POINT)), relay_goals=goals, **changes)
    return Relay(spec, OffPolicyConfig(POINT, relay=True, relay_weight=weight))


def episodes_of(relay: Relay, count: int, seed: int = 0) -> Episodes:
    rng = np.random.default_rng(seed)
    episodes = random_episodes(rng, count, relay.task.horizon, relay.task)
    observation = rng.uniform(-0.5, 0.5, episodes.observation.shape).astype(np.float32)
    return replace(episodes, observation=observation)


def test_every_stage_has_its_goals_and_rewards() -> None:
    relay = relay_of(REACH, WIDE)
    episodes = episodes_of(relay, 4)
    staged = relay.of_every_stage(episodes)
    assert len(staged) == 12
    assert relay.spec.goal.dim == 4 + 3  # the longest goal, and the stage
    assert (staged.observation == np.repeat(episodes.observation, 3, axis=0)).all()
    assert (staged.action == np.repeat(episodes.action, 3, axis=0)).all()
    o = episodes.observation
    first, wide, task = (staged.select(np.arange(i, 12, 3)) for i in range(3))
    for i, stage in enumerate((first, wide, task)):
        assert (stage.achieved_goal[..., 4:] == np.eye(3)[i]).all()
        assert (stage.desired_goal[..., 4:] == np.eye(3)[i]).all()
    assert (first.achieved_goal[..., :2] == o[..., :2]).all()
    assert (first.achieved_goal[..., 2:4] == 0).all()
    assert (first.desired_goal[:, :2] == o[:, 0, 2:4]).all()
    apart = np.linalg.norm(o[:, 1:, :2] - o[:, :1, 2:4], axis=-1)
    assert (first.reward == np.where(apart < 0.2, 0.0, -1.0)).all()
    assert (first.success == (apart < 0.2)).all()
    assert (wide.achieved_goal[..., :4] == o[..., :4]).all()
    assert (task.achieved_goal[..., :2] == episodes.achieved_goal).all()
    assert (task.reward == episodes.reward).all()
    assert (task.success == episodes.success).all()


@settings(max_examples=40)
@given(
    seed=st.integers(0, 2**32 - 1),
    slots=st.integers(2, 9),
    chosen=st.sampled_from(["sampled", "stored"]),
    sampling=st.sampled_from(["uniform", "rank"]),
)
def test_goals_never_change_their_stage(seed: int, slots: int, chosen: Any, sampling: Any) -> None:
    """Not by relabelling, not by goals of other episodes, whatever was overwritten."""
    relay, rng = relay_of(REACH), np.random.default_rng(seed)
    config = ReplayConfig(
        buffer_size=slots * relay.task.horizon,
        goals_chosen=chosen,
        other_goals=Schedule.parse(0.5),
        replace_achieved=Schedule.parse(0.9),
        replay_k=Schedule.parse(2.0),
    )
    replay = make_replay(relay.spec, config, PriorityConfig(sampling=sampling))
    for _ in range(3):
        staged = relay.of_every_stage(episodes_of(relay, int(rng.integers(1, 4)), seed))
        replay.push(replay.store(staged, 0.0, rng), None)
        sample = replay.sample(2, 40, 0.0, rng)
        at = sample.addresses
        assert (np.argmax(sample.batch.goal[..., -2:], axis=-1) == at.slot % 2).all()
        borrowed = (at.goal_slot != at.slot) & (at.goal_time == DESIRED)
        assert (at.goal_slot[borrowed] % 2 == at.slot[borrowed] % 2).all()


@pytest.mark.parametrize("moved", [{}, {"moved_share": 0.5}, {"moved_power": 1.0}])
@pytest.mark.parametrize("chosen", ["sampled", "stored"])
def test_earlier_stages_are_replayed_by_their_weight(chosen: Any, moved: Any) -> None:
    if chosen == "stored" and "moved_share" in moved:
        return
    relay, rng = relay_of(REACH, weight=0.25), np.random.default_rng(0)
    config = ReplayConfig(
        buffer_size=100 * relay.task.horizon,
        goals_chosen=chosen,
        replay_k=Schedule.parse(1),
        **moved,
    )
    replay = make_replay(relay.spec, config)
    episodes = episodes_of(relay, 20)
    square = np.abs(episodes.observation[..., :2])  # both stages move alike
    episodes = replace(
        episodes,
        achieved_goal=square,
        observation=np.concatenate([square, episodes.observation[..., 2:]], axis=-1),
    )
    replay.push(replay.store(relay.of_every_stage(episodes), 0.0, rng), None)
    at = replay.sample(10, 1000, 0.0, rng).addresses
    assert (at.slot % 2 == 0).mean() == pytest.approx(0.2, abs=0.02)


def test_success_at_the_task_ends_no_earlier_stage() -> None:
    relay = relay_of(REACH, goal_terminated=lambda a, d: np.linalg.norm(a - d, axis=-1) < 0.08)
    episodes = episodes_of(relay, 2)
    ended = np.zeros_like(episodes.terminated)
    ended[:, 5] = True
    success = ended.copy()
    success[1] = False  # the second one ended in a failure
    staged = relay.of_every_stage(replace(episodes, terminated=ended, success=success))
    assert staged.terminated.any(axis=1).tolist() == [False, True, True, True]
    terminated = relay.spec.goal_terminated
    assert terminated is not None
    goals = staged.desired_goal
    assert terminated(goals, goals).tolist() == [False, True, False, True]


def test_a_penalty_for_failing_counts_in_every_stage() -> None:
    """The env gave -6 for the step in which it failed: -1 of the goal, -5 for that."""
    relay = relay_of(REACH)
    episodes = episodes_of(relay, 1)
    observation = episodes.observation.copy()
    observation[..., :4] = 0.0  # the first stage is done all the time
    ended, reward = np.zeros_like(episodes.terminated), np.full_like(episodes.reward, -1.0)
    ended[0, 4], reward[0, 4] = True, -6.0
    failing = replace(
        episodes,
        observation=observation,
        desired_goal=episodes.desired_goal + 9.0,
        reward=reward,
        terminated=ended,
        success=np.zeros_like(ended),
        length=np.array([5]),
    )
    first, task = relay.by_stage(failing)
    assert first.reward[0, :5].tolist() == [0.0, 0.0, 0.0, 0.0, -5.0]
    assert task.reward[0, :5].tolist() == [-1.0, -1.0, -1.0, -1.0, -6.0]
    assert first.failed().all()  # it is no success that the first stage was done
    replay = make_replay(relay.spec, ReplayConfig(buffer_size=100 * relay.task.horizon))
    replay.store(relay.of_every_stage(failing), 0.0, np.random.default_rng(0))
    assert replay.failure_reward[:2].tolist() == [-5.0, -5.0]


def test_the_goal_of_an_early_stage_ends_no_episode() -> None:
    """Not when it is a hindsight goal, either, where the env is seen to end at its own goals."""
    relay = relay_of(REACH, goal_terminated=None)
    episodes = episodes_of(relay, 6)
    ended = np.zeros_like(episodes.terminated)
    ended[np.arange(6), episodes.length - 1] = True
    episodes = replace(episodes, terminated=ended, success=ended)
    replay = make_replay(relay.spec, ReplayConfig(buffer_size=12 * relay.task.horizon))
    rng = np.random.default_rng(0)
    replay.store(relay.of_every_stage(episodes), 0.0, rng)
    assert replay.ends_on_success
    sample = replay.sample(20, 200, 0.0, rng)
    at, batch = sample.addresses, sample.batch
    hit = (batch.reward == 0) & at.alternate
    early = at.slot % 2 == 0
    assert (hit & early).any()
    assert not batch.terminated[at.alternate & early].any()
    assert batch.terminated[hit & ~early].all()


def test_early_stages_are_missed_for_what_the_env_gives() -> None:
    point = inspect(make(POINT))
    relay = relay_of(
        REACH,
        goal_reward=lambda a, d: point.goal_reward(a, d) + np.float32(2.0),
        success_reward=2.0,
        rewards=(1.0, 2.0),
    )
    assert set(relay.by_stage(episodes_of(relay, 4))[0].reward.ravel().tolist()) == {1.0, 2.0}


def test_the_first_stage_that_is_not_done_leads() -> None:
    relay = relay_of(REACH, TOUCH)
    o = np.zeros((4, 6), np.float32)
    o[:, 0] = [0.5, 0.1, 0.1, 0.5]  # distance to the disc: done below 0.2
    o[:, 4] = [0.0, 0.5, 0.1, 0.5]  # the second goal: done below 0.17
    assert relay.stages.first_undone(o).tolist() == [0, 1, 2, 0]
    goal = np.full((4, 2), 0.7, np.float32)
    for guidance, stages in ((1.0, [0, 1, 2, 0]), (0.0, [1, 2, 2, 1])):
        relay.guidance = Schedule.parse(guidance)
        seen = relay.leading(o, goal, 0.0, np.random.default_rng(0))
        assert seen[:, 2:].argmax(axis=1).tolist() == stages
        assert (seen[np.array(stages) == 2, :2] == np.float32(0.7)).all()
        assert (seen[np.array(stages) < 2, :2] == 0.0).all()  # where the disc is


@pytest.mark.parametrize("fourier", [0, 3])
@pytest.mark.parametrize("goals", [(REACH,), (WIDE, REACH)])
def test_the_policy_is_the_last_stage_of_the_actor(goals: Any, fourier: int) -> None:
    relay, rng = relay_of(*goals), np.random.default_rng(0)
    o, g = 6, relay.spec.goal.dim
    inputs = (o + g) * (1 + 2 * fourier)
    widths = [inputs, 16, 2]
    layers = {
        f"Dense_{i}": {
            "kernel": rng.standard_normal((a, b)).astype(np.float32),
            "bias": rng.standard_normal(b).astype(np.float32),
        }
        for i, (a, b) in enumerate(pairwise(widths))
    }
    numbers = rng.uniform(0.5, 2.0, 2 * (o + g)).astype(np.float32)
    scale = hindsight.normalizer.Scale(*np.split(numbers, [o, 2 * o, 2 * o + g]))  # type: ignore[attr-defined]
    shape = ActorShape("tanh", relay.task.actions, clip_normalized=5.0, fourier_features=fourier)
    actor = Actor(shape, {"params": layers}, scale)
    observation = rng.uniform(-1, 1, (20, o)).astype(np.float32)
    goal = rng.uniform(-1, 1, (20, 2)).astype(np.float32)
    last = np.full(20, len(goals))
    staged = actor(observation, relay.stages.features(observation, goal, last))
    assert relay.last_stage(actor)(observation, goal) == pytest.approx(staged, abs=1e-4)


@pytest.mark.parametrize("preset", ["her", "hper"])
def test_resumed_is_the_same_as_uncut(preset: str, tmp_path: Path) -> None:
    def stop(progress: Any) -> bool:
        return bool(progress.cycle == 3)

    options = QUICK | {"preset": preset, "relay": True, "overlap": True, "seed": 3}
    whole = hindsight.train(POINT, run_dir=tmp_path / "whole", **options)
    hindsight.train(POINT, run_dir=tmp_path / "cut", callbacks=[stop], **options)
    cut = hindsight.resume(tmp_path / "cut", quiet=True)
    assert fingerprint(cut) == fingerprint(whole)
    policy, env = hindsight.load(cut.path), make(POINT)
    observation, _ = env.reset(seed=0)
    assert env.action_space.contains(policy(observation))
    assert hindsight.evaluate(cut.path, 2).episodes == 2
    assert 0 <= cut.metrics[-1]["train/stage_1"] <= 1


@pytest.mark.slow
@pytest.mark.parametrize("method", ["td3", "sac", "tqc", "replayed-ac"])
def test_every_agent_learns_stages(method: str, tmp_path: Path) -> None:
    run = hindsight.train(
        "FetchPush-v4",
        method=method,
        relay=True,
        run_dir=tmp_path / "run",
        **QUICK | {"steps": 200},
    )
    assert run.policy.goal.shape == (3,)


def test_a_batch_has_goals_of_every_stage() -> None:
    """As many of each, each met or not by what its own stage achieves; all pairs by hand."""
    spec = replace(inspect(make(POINT)), relay_goals=(REACH,))
    config = with_settings(config_of("trpo", POINT), {"relay": True, "agent.goals": 6})
    assert isinstance(config, OnPolicyConfig)
    relay = Relay(spec, config)
    episodes = episodes_of(relay, 4)
    episodes = replace(episodes, log_prob=np.zeros(episodes.reward.shape, np.float32))
    batch, inside = GoalChoice(config, relay)(episodes, 1)
    assert inside == 1.0
    chosen, stage = np.asarray(batch.goal)[:, 0], np.asarray(batch.goal)[:, 0, -2:].argmax(axis=1)
    # 3 hindsight goals and 4 pursued ones of the first stage, then the same of the task
    assert stage.tolist() == [0] * 7 + [1] * 7
    assert np.asarray(batch.was_pursued).tolist() == ([False] * 3 + [True] * 4) * 2
    for goal, of, hit in zip(chosen, stage, np.asarray(batch.hit), strict=True):
        place = episodes.observation[:, 1:, :2] if of == 0 else episodes.achieved_goal[:, 1:]
        tolerance = REACH.tolerance if of == 0 else 0.08
        near = np.linalg.norm(place - goal[:2], axis=-1) < tolerance
        np.testing.assert_array_equal(hit, near & episodes.real)


def test_of_an_episodes_own_goals_an_early_stage_has_an_eighth() -> None:
    """Most episodes teach the early stages, and few the last one."""
    spec = replace(inspect(make(POINT)), relay_goals=(REACH, TOUCH))
    by_q = {"agent": {"critic": "action", "gamma": 0.9, "goals": 20}}
    config = with_settings(config_of("ppo", POINT), {"relay": True} | by_q)
    assert isinstance(config, OnPolicyConfig)
    relay = Relay(spec, config)
    episodes = episodes_of(relay, 4)
    episodes = replace(episodes, log_prob=np.zeros(episodes.reward.shape, np.float32))
    batch, _ = GoalChoice(config, relay)(episodes, 1)
    stage = np.asarray(batch.goal)[..., -3:].argmax(axis=-1)  # [G, N]
    # 20 / 8, rounded up, of each early stage and the one pursued; then all 20 and that
    assert (stage == np.array([0] * 4 + [1] * 4 + [2] * 21)[:, None]).all()
    own = [False] * 3 + [True]
    assert np.asarray(batch.was_pursued).tolist() == own + own + [False] * 20 + [True]
    by_v, few = config_of("ppo", POINT).agent, with_settings(config, {"agent.goals": 0}).agent
    assert isinstance(by_v, OnPolicyAgentConfig)
    assert goals_of_stages(config.agent, 1) == [20]
    assert goals_of_stages(by_v, 3) == [22, 22, 22]
    assert goals_of_stages(few, 3) == [0, 0, 0]  # all there are, in every stage


@pytest.mark.parametrize("method", ["hpg", "a3c"])
def test_policy_gradients_learn_stages(method: str, tmp_path: Path) -> None:
    options = {name: value for name, value in QUICK.items() if name in ON_POLICY_QUICK}
    options |= {"method": method, "relay": True, "agent.goals": 4, "seed": 3}
    if method == "a3c":
        options |= {"agent.deterministic": True, "agent.workers": 2}
    whole = hindsight.train(POINT, run_dir=tmp_path / "whole", **options)
    stop = [lambda progress: progress.cycle == 3]
    hindsight.train(POINT, run_dir=tmp_path / "cut", callbacks=stop, **options)
    assert fingerprint(hindsight.resume(tmp_path / "cut", quiet=True)) == fingerprint(whole)
    assert whole.policy.goal.shape == (2,)
    assert all(0 <= row["train/stage_1"] <= 1 for row in whole.metrics)


def test_goals_of_the_user_are_given_again_on_resume(tmp_path: Path) -> None:
    options = QUICK | {"seed": 3, "relay_goals": [TOUCH]}
    whole = hindsight.train(POINT, run_dir=tmp_path / "whole", **options)
    stop = [lambda progress: progress.cycle == 3]
    hindsight.train(POINT, run_dir=tmp_path / "cut", callbacks=stop, **options)
    resumed = hindsight.resume(tmp_path / "cut", relay_goals=[TOUCH], quiet=True)
    assert fingerprint(resumed) == fingerprint(whole)
    own = hindsight.train(POINT, run_dir=tmp_path / "own", relay=True, **QUICK | {"seed": 3})
    assert fingerprint(own) != fingerprint(whole)


@pytest.mark.parametrize(
    ("env", "settings", "message"),
    [
        ("FetchReach-v4", {"relay": True}, "FetchReach-v4 has no relay goals: give the env"),
        ("FetchPushDense-v4", {"relay": True}, "reward of two values"),
        (POINT, {"relay_guidance": 0.3}, "relay_guidance changes nothing without relay"),
        (POINT, {"relay_weight": 0.3}, "relay_weight changes nothing without relay"),
        (POINT, {"relay": True, "replay.goal_rule": "random"}, "goal_rule cannot be random"),
        (POINT, {"relay_goals": [3]}, "must be a list of hindsight.RelayGoal"),
        (POINT, {"relay_goals": [replace(REACH, desired=lambda o: o[:, :3])]}, r"must be \[n, g\]"),
        (POINT, {"relay_goals": [replace(REACH, desired=lambda o: o[:, 9])]}, "fails for obs"),
        (POINT, {"relay": True, "replay.buffer_size": 60}, "smaller than one episode"),
    ],
)
def test_what_does_not_fit_is_one_line(
    env: str, settings: dict[str, Any], message: str, tmp_path: Path
) -> None:
    with pytest.raises(HindsightError, match=message) as error:
        hindsight.train(env, run_dir=tmp_path / "run", **QUICK | settings)
    assert "\n" not in str(error.value)
    assert not (tmp_path / "run").exists()


def test_known_of_fetch() -> None:
    spec: GoalEnvSpec = inspect(make("FetchPush-v4"))
    observation, _ = make("FetchPush-v4").reset(seed=0)
    row = observation["observation"][None].astype(np.float32)
    (goal,) = spec.relay_goals
    assert goal.desired(row)[0] == pytest.approx(observation["achieved_goal"], abs=1e-6)
    assert not inspect(make("FetchReach-v4")).relay_goals


def test_shapes_of_a_relay_are_those_of_its_spec() -> None:
    relay = relay_of(REACH)
    agent = DDPG(DDPGConfig(), Shapes.of(relay.spec, None))
    assert agent.shapes.goal == 4
    assert agent.shapes.returns == Shapes.of(relay.task, None).returns
