"""A training that ends when it is good enough."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import hindsight
from hindsight.errors import HindsightError

EASY: dict[str, Any] = {
    "env_kwargs": {"bits": 2},
    "quiet": True,
    "eval_every": 1,
    "eval_episodes": 100,
}


@pytest.mark.parametrize("method", ["dqn", "hpg"])
def test_it_ends_at_the_first_evaluation_that_is_good_enough(method: str, tmp_path: Path) -> None:
    run = hindsight.train(
        "hindsight/BitFlip-v0",
        method=method,
        steps=100_000,
        stop_at_success=0.6,
        run_dir=tmp_path / "run",
        **EASY,
    )
    rates = [row["eval/success_rate"] for row in run.metrics if "eval/success_rate" in row]
    assert rates[-1] >= 0.6
    assert all(rate < 0.6 for rate in rates[:-1])
    assert run.summary["status"] == "finished"
    assert run.summary["steps"] < 100_000


def test_few_episodes_say_too_little(tmp_path: Path) -> None:
    with pytest.raises(HindsightError, match="eval_episodes to 100"):
        hindsight.train(
            "hindsight/BitFlip-v0",
            stop_at_success=0.9,
            run_dir=tmp_path / "run",
            **(EASY | {"eval_episodes": 20}),
        )
