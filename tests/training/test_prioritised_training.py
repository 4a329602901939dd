"""Every kind of prioritised replay trains, with DDPG and DQN, and the same seed gives the same
bytes."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest

import hindsight
from hindsight.errors import HindsightError
from hindsight.training.run import Run

QUICK: dict[str, Any] = {
    "quiet": True,
    "steps": 160,
    "num_envs": 2,
    "episodes_per_cycle": 4,
    "gradient_steps": 5,
    "batch_size": 16,
    "eval_episodes": 2,
    "agent.net_arch": (16,),
}
STORED = {"replay.goals_chosen": "stored"}
OFTEN = {"priority.updates_per_draw": 2}
METHODS: dict[str, dict[str, Any]] = {
    "prioritised, no hindsight": {
        **OFTEN,
        "priority.sampling": "proportional",
        "replay.replay_k": 0,
    },
    "prioritised HER": {**OFTEN, "priority.sampling": "rank", "priority.shared": 0.5},
    "stored goals, uniform": {**STORED, "priority.queues": "two_queues"},
    "single queue": {
        **STORED,
        **OFTEN,
        "priority.sampling": "rank_heap",
        "replay.replay_k": "linear(8, 2)",
    },
    "two queues": {
        **STORED,
        **OFTEN,
        "priority.sampling": "proportional",
        "priority.queues": "two_queues",
        "replay.drop_achieved": 1.0,
    },
    "fresh uniform": {"priority.fresh": 3, "replay.drop_achieved": 0.5},
    "fresh and all the rest": {
        **STORED,
        **OFTEN,
        "priority.sampling": "rank",
        "priority.queues": "two_queues",
        "priority.initial": "predicted",
        "priority.fresh": 2,
        "priority.bias_correction": "both",
        "priority.shared": 0.3,
        "replay.moved_power": 0.5,
        "agent.loss": "huber",
    },
}


def digest(run: Run) -> tuple[str, list[dict[str, float]]]:
    rows = [{k: v for k, v in row.items() if not k.startswith("time/")} for row in run.metrics]
    return hashlib.sha256((run.path / "policy.safetensors").read_bytes()).hexdigest(), rows


@pytest.mark.parametrize("env", ["test/Line-v0", "hindsight/BitFlip-v0"])
@pytest.mark.parametrize("method", METHODS)
def test_same_seed_same_bytes(method: str, env: str, tmp_path: Path) -> None:
    settings = QUICK | METHODS[method]
    first, second = (
        hindsight.train(env, seed=5, run_dir=tmp_path / name, **settings) for name in ("a", "b")
    )
    assert digest(first) == digest(second)
    row = first.metrics[-1]
    assert 0.0 <= row["replay/duplicates"] < 1.0
    assert sum(row[f"replay/time_quarter_{i}"] for i in (1, 2, 3, 4)) == pytest.approx(1.0)
    if "priority.sampling" in settings:
        assert row["replay/priority_age"] >= 0.0
        assert 0.0 < row["replay/effective_share"] <= 1.0 + 1e-6
    if method == "two queues":
        assert row["replay/alternate_per_actual"] == pytest.approx(
            13 / 3
        )  # of 16, round(16 * 4 / 5) are alternate
    if method == "prioritised, no hindsight":
        assert row["replay/alternate"] == 0.0


@pytest.mark.parametrize("name", ["her", "hper", "hper-single", "paper", "paper-normalized"])
def test_presets_train(name: str, tmp_path: Path) -> None:
    settings = QUICK | ({} if name == "her" else OFTEN)
    run = hindsight.train("hindsight/BitFlip-v0", preset=name, run_dir=tmp_path / name, **settings)
    assert run.config.agent.normalize == (name != "paper")
    assert (run.config.replay.goals_chosen == "stored") == (name != "her")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"priority.queues": "two_queues"}, "stored"),
        ({**STORED, "replay.goal_rule": "random"}, "own episode"),
        ({**STORED, "replay.replay_k": 0.0, "replay.other_goals": 0.5}, "changes nothing"),
        ({"priority.sampling": "rank", "replay.moved_share": 0.5}, "moved_power"),
        ({"priority.sampling": "heap"}, "must be one of uniform, proportional, rank, rank_heap"),
        ({"priority.fresh": 0}, "at least 1"),
        ({"priority.beta": "linear(0.5, 3)"}, "between 0 and 2"),
        ({"preset": "papers"}, "paper"),
    ],
)
def test_settings_that_do_not_fit_are_named(
    settings: dict[str, Any], message: str, tmp_path: Path
) -> None:
    with pytest.raises(HindsightError, match=message):
        hindsight.train("hindsight/BitFlip-v0", run_dir=tmp_path / "run", **settings)
    assert not (tmp_path / "run").exists()
