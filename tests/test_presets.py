"""Presets: every combination of env, method and preset makes a config, and says what it should."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import pytest

import hindsight
from conftest import LineEnv
from hindsight.agents.config import ActorCriticConfig
from hindsight.agents.registry import AGENTS, OFF_POLICY, agent_class
from hindsight.api import default_config
from hindsight.commands.train import TrainOptions, read
from hindsight.config import OffPolicyConfig, OnPolicyConfig, TrainConfig, config_of
from hindsight.envs.contract import inspect
from hindsight.errors import HindsightError
from hindsight.presets import (
    TABLE,
    PresetName,
    Task,
    default_method,
    preset_rows,
    preset_settings,
    published_beta,
    reaches,
)
from hindsight.replay.priorities import PriorityConfig
from hindsight.replay.replay import ReplayConfig
from hindsight.schedules import Schedule
from hindsight.settings import flatten, with_settings

# Id, time limit, and whether actions are discrete.
ENVS: list[tuple[str, int, bool]] = [
    ("FetchReach-v4", 50, False),
    ("FetchPush-v4", 50, False),
    ("FetchSlide-v4", 50, False),
    ("FetchPickAndPlace-v4", 50, False),
    ("HandReach-v3", 50, False),
    ("HandManipulateBlock-v1", 100, False),
    ("hindsight/BitFlip-v0", 8, True),
    ("hindsight/BitFlip-v0", 16, True),
    ("hindsight/BitFlip-v0", 32, True),
    ("hindsight/EmptyRoom-v0", 31, True),
    ("hindsight/FourRooms-v0", 31, True),
    ("hindsight/PixelRoom-v0", 31, True),
    ("hindsight/PointPush-v0", 50, False),
    ("parking-v0", 500, False),
    ("PointMaze_UMaze-v3", 300, False),
    ("PointMaze_Medium-v3", 600, False),
    ("AntMaze_UMaze-v5", 700, False),
    ("PandaPush-v3", 50, False),
    ("PandaReach-v3", 50, False),
    ("Unknown-v0", 200, False),
    ("Unknown-v0", 200, True),
]
PRESETS = get_args(PresetName)


def trainings() -> Iterator[tuple[str, int, bool, str, str]]:
    """All that a preset may be asked for."""
    for env, horizon, discrete in ENVS:
        for method in AGENTS:
            fits = agent_class(method).acts in ("any", "discrete" if discrete else "continuous")
            for preset in PRESETS if method in OFF_POLICY else ("default",):
                if fits:
                    yield env, horizon, discrete, method, preset


SPECS = {discrete: inspect(LineEnv(discrete)) for discrete in (False, True)}


def made(
    env: str, method: str, preset: str = "default", horizon: int = 50, discrete: bool = False
) -> Any:
    spec = replace(SPECS[discrete], id=env, horizon=horizon)
    return default_config(method, spec, preset)


@pytest.mark.parametrize(("env", "horizon", "discrete", "method", "preset"), list(trainings()))
def test_presets_fit_together(
    env: str, horizon: int, discrete: bool, method: str, preset: str
) -> None:
    config: TrainConfig = made(env, method, preset, horizon, discrete)
    assert config.env == env
    assert config.agent.method == method
    assert isinstance(config, OffPolicyConfig if method in OFF_POLICY else OnPolicyConfig)
    task = Task(env, horizon, discrete)
    settings = preset_settings(task, method, preset)
    known = {name: value for name, value in settings.items() if name in flatten(config)}
    assert with_settings(config_of(method, env), known) == config
    if isinstance(config, OffPolicyConfig):
        if preset in ("her", "baselines"):
            plain = ReplayConfig(buffer_size=config.replay.buffer_size)
            assert (config.replay, config.priority) == (plain, PriorityConfig())
            # A million for each worker, as far as it is ever filled.
            most = min(8_000_000, max(config.steps, 1_000_000)) if preset == "baselines" else 10**6
            assert config.replay.buffer_size == most
        elif preset == "relay":
            assert config.relay
        elif preset != "default":
            assert config.replay.goals_chosen == "stored"
            assert config.priority.sampling == (
                "rank_heap" if preset.startswith("paper") else "rank"
            )
            two = preset == "hper"
            assert config.priority.queues == ("two_queues" if two else "single_queue")
        assert config.agent.normalize == (preset != "paper")
    if method == default_method(task, preset):
        spec = replace(SPECS[discrete], id=env, horizon=horizon)
        assert default_config(None, spec, preset) == config


def test_every_row_is_for_something_and_names_settings() -> None:
    used = set()
    for env, horizon, discrete, method, preset in trainings():
        for told in ({}, {"dense": True}, {"touched": True}):
            task = Task(env, horizon, discrete, **told)
            used |= {id(row) for row in preset_rows(task, method, preset)}
    assert used == {id(row) for row in TABLE}
    for row in TABLE:
        known = {name for m in AGENTS if m in row.methods for name in flatten(config_of(m, "X-v0"))}
        assert set(row.of(Task("X-v0"), 8)) <= known


def test_unknown_presets_and_those_of_replay_are_refused() -> None:
    with pytest.raises(HindsightError, match="Did you mean 'hper'"):
        preset_settings(Task("X-v0"), "ddpg", "hpr")
    for preset in PRESETS[1:]:
        with pytest.raises(HindsightError, match="one of replay; ppo has only its own"):
            preset_settings(Task("X-v0"), "ppo", preset)


@pytest.mark.parametrize("method", ["ddpg", "td3", "sac", "tqc"])
def test_every_learner_holds_random_actions_where_a_gripper_must_stay_shut(method: str) -> None:
    agent = made("FetchPickAndPlace-v4", method).agent
    assert (agent.random_hold, agent.random_actions(0.0)) == (3.0, 0.3)


def test_the_paper_in_numbers() -> None:
    config = made("FetchPush-v4", "ddpg", "paper", 50)
    assert config.steps == 50 * 50 * 24 * 50  # epochs, cycles, episodes, time limit
    assert (config.episodes_per_cycle, config.gradient_steps, config.batch_size) == (
        24,
        50,
        12 * 512,
    )
    assert made("FetchReach-v4", "ddpg", "paper", 50).steps == 3 * 50 * 24 * 50
    assert made("HandReach-v3", "ddpg", "paper-normalized", 100).steps == 50 * 50 * 24 * 100


def test_the_paper_does_what_its_code_does() -> None:
    for workers in (1, 12):
        config: Any = made("FetchPush-v4", "ddpg", f"paper:{workers}", 50)
        assert config.replay.goal_numbers == "early_doubled_plus_1"
        assert (config.priority.initial, config.priority.updates_per_draw) == ("largest", 1)
        assert config.priority.pairs_per_rank == workers  # a heap for each
        # Twice 0.5 to 1 in 100,000 of 50 x 50 x 50 updates: weights are squared with the errors.
        assert [config.priority.beta(p) for p in (0.0, 0.4, 0.8, 1.0)] == [1.0, 1.5, 2.0, 2.0]
    short = Schedule.parse(published_beta(50_000))
    assert (short(0.0), short(1.0)) == (1.0, 1.5)


def test_averaging_the_gradients_of_workers_is_a_larger_batch() -> None:
    one, sixteen = (made("FetchPush-v4", "ddpg", f"baselines:{n}", 50) for n in (1, 16))
    assert (one.num_envs, one.episodes_per_cycle, one.batch_size) == (2, 2, 256)
    assert (sixteen.num_envs, sixteen.episodes_per_cycle, sixteen.batch_size) == (32, 32, 4096)
    assert sixteen.steps == 20 * 50 * 32 * 50  # epochs, cycles, episodes, time limit
    assert (sixteen.gradient_steps, sixteen.agent.target_update_interval) == (40, 40)
    assert made("FetchPush-v4", "ddpg", "baselines") == made("FetchPush-v4", "ddpg", "baselines:8")


@pytest.mark.parametrize(
    ("preset", "message"),
    [
        ("her:4", "'her' has no workers"),
        ("paper:0", "the number of workers"),
        ("paper:x", "the number of workers"),
        ("papr:3", "Did you mean 'paper'"),
    ],
)
def test_workers_are_for_presets_that_average_them(preset: str, message: str) -> None:
    with pytest.raises(HindsightError, match=message):
        preset_settings(Task("X-v0"), "ddpg", preset)


@pytest.mark.parametrize("method", ["hpg", "a2c", "a3c", "ppo", "trpo"])
def test_policy_gradients_on_objects(method: str) -> None:
    configs = [made(env, method) for env in ("FetchPush-v4", "Maze-v0")]
    push, maze = (config.agent for config in configs)
    no_critic = method == "hpg"
    assert (push.skip_achieved, push.spread, push.until_reached) == (True, no_critic, False)
    assert (maze.skip_achieved, maze.spread, maze.until_reached) == (False, False, False)
    assert [config.relay for config in configs] == [not no_critic, False]
    dense = Task("FetchPushDense-v4", dense=True)  # relay goals need a reward of two values
    assert not preset_settings(dense, method).get("relay", False)
    assert (push.by_action_values, maze.by_action_values) == (not no_critic, False)


@pytest.mark.parametrize("critic", ["state", "action"])
@pytest.mark.parametrize("method", ["a2c", "a3c", "ppo", "trpo"])
def test_the_critic_can_be_switched_alone(method: str, critic: str) -> None:
    """What presets set for one critic, the other would refuse."""
    for env, horizon, discrete in ENVS:
        spec = replace(SPECS[discrete], id=env, horizon=horizon)
        agent = default_config(method, spec, critic=critic).agent
        assert isinstance(agent, ActorCriticConfig)
        assert agent.critic == critic
    own = default_config(method, replace(SPECS[False], id="FetchPush-v4"), critic="action")
    assert own == made("FetchPush-v4", method)


def test_the_critic_can_be_switched_in_a_training(tmp_path: Path) -> None:
    options = TrainOptions("hindsight/PointPush-v0", method="a2c")
    for more in (["--agent.critic", "state"], ["--agent.critic=state"]):
        agent = read(options, more, "hindsight train").config.agent
        assert isinstance(agent, ActorCriticConfig)
        assert (agent.critic, agent.policy_updates, agent.within_box) == ("state", 1, True)
    small = {"critic": "action", "net_arch": (8,), "rows": 8, "critic_updates": 1}
    few: dict[str, Any] = {
        "steps": 1,
        "eval_episodes": 1,
        "quiet": True,
        "run_dir": tmp_path / "run",
    }
    run = hindsight.train(LineEnv, method="a2c", agent=small, **few)
    assert isinstance(run.config.agent, ActorCriticConfig)
    assert not run.config.agent.within_box


def test_the_off_policy_actor_critic_on_objects() -> None:
    push = made("FetchPush-v4", "replayed-ac")
    assert push.replay.moved_share == 0.8
    assert (push.agent.gamma, push.agent.net_arch) == (0.98, (256, 256, 256))
    assert (push.policy_ema, push.overlap) == (0.0, False)


def test_what_was_measured_is_told() -> None:
    assert "success" in reaches(Task("FetchReach-v4"), "ddpg")
    assert "score" in reaches(Task("hindsight/FourRooms-v0", 31, True), "hpg")
    assert reaches(Task("Unknown-v0"), "ddpg") == ""


# ------------------------------------------------------------- by what the inspection of an env tells


def settings_of(**told: Any) -> dict[str, Any]:
    task = Task("Unknown-v0", **told)
    return preset_settings(task, default_method(task))


def test_long_episodes_make_short_cycles_and_cheap_actions() -> None:
    short, long = settings_of(horizon=50), settings_of(horizon=500)
    assert short["updates_per_step"] == long["updates_per_step"] == 0.25
    assert (short["episodes_per_cycle"], long["episodes_per_cycle"]) == (16, 2)
    assert (short["agent.action_l2"], long["agent.action_l2"]) == (1.0, pytest.approx(0.01))
    assert settings_of(horizon=5)["episodes_per_cycle"] == 16


def test_dense_rewards_and_things_to_be_touched() -> None:
    assert default_method(Task("Unknown-v0", dense=True)) == "sac"
    assert default_method(Task("Unknown-v0", dense=True, discrete=True)) == "dqn"
    assert settings_of(dense=True)["agent.gamma"] == 0.95
    assert "agent.gamma" not in settings_of()
    assert settings_of(touched=True)["replay.moved_share"] == 0.8
    assert "replay.moved_share" not in settings_of()
    plain_her = preset_settings(Task("Unknown-v0", touched=True), "ddpg", "her")
    assert "replay.moved_share" not in plain_her


def test_others_code_has_ddpg() -> None:
    """Found when `--preset baselines` of AntMaze trained SAC: nothing of the kind was published."""
    for env in ("AntMaze_UMaze-v5", "FetchSlide-v4"):
        assert default_method(Task(env)) == default_method(Task(env), "hper") == "sac"
        for preset in ("baselines", "baselines:16", "paper:1", "paper-normalized"):
            assert default_method(Task(env), preset) == "ddpg"


def test_what_was_measured_does_not_follow_from_an_inspection() -> None:
    for env, _, discrete in ENVS[:12]:
        plain = preset_settings(Task(env, 100, discrete), default_method(Task(env)))
        told = Task(env, 100, discrete, dense=True, touched=True)
        assert preset_settings(told, default_method(Task(env))) == plain
        assert default_method(told) == default_method(Task(env, discrete=discrete))


def test_the_module_before_an_id_does_not_count() -> None:
    assert preset_settings(Task("module:FetchReach-v4"), "ddpg") == preset_settings(
        Task("FetchReach-v4"), "ddpg"
    )
