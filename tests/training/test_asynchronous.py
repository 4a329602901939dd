"""What a worker of A3C adds to what all share."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

import hindsight
from conftest import LineEnv
from hindsight.agents.a2c import A3CConfig
from hindsight.config import OnPolicyConfig
from hindsight.envs.contract import inspect
from hindsight.episodes import Episodes
from hindsight.settings import with_settings
from hindsight.training.asynchronous import Asynchronous, Snapshot
from hindsight.training.loops import make_loop
from hindsight.training.rollouts import Rollouts

SMALL: dict[str, Any] = {
    "num_envs": 4,
    "episodes_per_cycle": 4,
    "eval_every": 5,
    "eval_episodes": 2,
    "agent.net_arch": (8,),
    "agent.deterministic": True,
}


def first_change(settings: dict[str, Any], workers: int) -> tuple[Any, Any]:
    """By the first batch that is handed in: of the shared policy, and of the shared critic."""
    spec = inspect(LineEnv(), "test/Line-v0")
    base = OnPolicyConfig(env="X-v0", agent=A3CConfig())
    config = with_settings(base, SMALL | settings | {"agent.workers": workers})
    with ExitStack() as stack:
        loop = make_loop(config, spec, LineEnv, stack)
        assert isinstance(loop, Asynchronous)
        start, training = loop.state.learner, loop.train()
        now = next(training).learning
        training.close()
    assert isinstance(now, Snapshot)
    before, after = (start.policy, start.critic), (now.learner.policy, now.learner.critic)
    policy, critic = jax.tree.map(lambda old, new: np.asarray(new) - np.asarray(old), before, after)
    return policy, critic


@pytest.mark.parametrize(
    ("settings", "share"),
    [
        ({}, 1.0),
        ({"agent.critic": "action", "agent.gamma": 0.9, "agent.policy_updates": 4}, 0.5),
    ],
)
def test_many_steps_of_two_workers_are_averaged(settings: dict[str, Any], share: float) -> None:
    """As the changes of critics always are; single steps of policies add up."""
    (policy, critic), (half_policy, half_critic) = (
        first_change(settings, workers) for workers in (1, 2)
    )
    assert max(np.abs(x).max() for x in jax.tree.leaves(policy)) > 1e-5
    for whole, part, by in ((policy, half_policy, share), (critic, half_critic, 0.5)):
        jax.tree.map(
            lambda a, b, by=by: np.testing.assert_allclose(by * a, b, atol=1e-6), whole, part
        )


def test_dropped_episodes_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    played = Rollouts.play

    def one_less(self: Rollouts, cycle: int, actor: Any, progress: float) -> Episodes:
        return played(self, cycle, actor, progress).select(np.arange(3))

    monkeypatch.setattr(Rollouts, "play", one_less)
    run = hindsight.train(
        LineEnv, method="a3c", steps=150, run_dir=tmp_path / "run", quiet=True, **SMALL
    )
    dropped = [row["train/dropped"] for row in run.metrics]
    assert dropped == [1.0 + i for i in range(len(dropped))]
