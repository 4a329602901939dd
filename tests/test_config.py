from __future__ import annotations

import json
from typing import Any, get_args

import pytest

from hindsight.config import DQNConfig, PriorityConfig, ReplayConfig, TrainConfig, from_json
from hindsight.errors import HindsightError
from hindsight.gradients.config import LEARNERS
from hindsight.gradients.presets import preset as gradient_preset
from hindsight.presets import PresetName, preset
from hindsight.schedules import Schedule
from hindsight.settings import flatten, plain, with_settings

CONFIG = TrainConfig(env="X-v0")


@pytest.mark.parametrize("config", [CONFIG, TrainConfig(env="Y-v0", env_kwargs={"bits": 3}, agent=DQNConfig())])
def test_survives_json(config: TrainConfig) -> None:
    assert from_json(json.loads(json.dumps(plain(config)))) == config


@pytest.mark.parametrize("name", get_args(PresetName))
@pytest.mark.parametrize("task", ["Reach", "Push", "Slide", "PickAndPlace", "X"])
def test_presets_fit_together(task: str, name: str) -> None:
    config = preset(f"Fetch{task}-v4", discrete=False, horizon=50, name=name)
    assert config.env == f"Fetch{task}-v4"
    if name == "her":
        assert (config.replay, config.priority) == (ReplayConfig(), PriorityConfig())


@pytest.mark.parametrize("method", LEARNERS)
def test_policy_gradients_on_objects(method: str) -> None:
    push, maze = (gradient_preset(method, env, False, 50).agent for env in ("FetchPush-v4", "Maze-v0"))
    if method == "ppo":  # whose hindsight goals are those of replay
        assert push.critic == "replayed"
    else:
        assert (push.unmet, push.spread, push.until_reached) == (True, True, True)
    assert (maze.unmet, maze.spread, maze.until_reached) == (False, False, False)
    assert push.estimator == ("weighted" if method == "hpg" else "step")


def test_settings_by_dotted_name_and_nested() -> None:
    changed = with_settings(CONFIG, {"seed": 3, "agent.gamma": 0.9, "replay": {"replay_k": "linear(8, 1)"}})
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
        ({"replay.replay_k": -1}, "replay.replay_k must be 0 or more"),
        ({"replay.replay_k": "linear(4, -1)"}, "replay.replay_k must be 0 or more"),
        ({"replay.goals": "futur"}, "replay.goals must be one of future, final, episode, random"),
        ({"agent.noise": "linear(1)"}, "takes 2 to 3 numbers"),
        ({"agent.hidden": []}, "agent.hidden"),
        ({"agent.hidden": [0]}, "agent.hidden"),
    ],
)
def test_bad_settings_say_which_and_why(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(HindsightError, match=message):
        with_settings(CONFIG, settings)


@pytest.mark.parametrize(
    "data", [[], {}, {"env": 3}, {"env": "X", "agent": {"method": "sac"}}, {"env": "X", "agent": 1}]
)
def test_foreign_json_is_refused(data: Any) -> None:
    with pytest.raises(HindsightError):
        from_json(data)


def test_flatten_names_every_setting() -> None:
    assert {"seed", "agent.hidden", "replay.goals"} <= set(flatten(CONFIG))
