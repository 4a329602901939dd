"""NaN and infinity are never saved, whatever loop brings them: not as a policy, not in a
checkpoint."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from safetensors.numpy import load_file

import hindsight
from conftest import LineEnv
from hindsight.cli import main
from hindsight.errors import HindsightError
from hindsight.training.policy import TENSORS
from hindsight.training.run import Run

QUICK: dict[str, Any] = {
    "quiet": True,
    "num_envs": 2,
    "episodes_per_cycle": 2,
    "eval_every": 1,
    "eval_episodes": 2,
    "agent.net_arch": (8,),
    "checkpoint.minutes": 0.0,
}


ENVS = ("hindsight/BitFlip-v0", "test/Line-v0")
FAST = [("hpg", ENVS[0]), ("trpo", ENVS[1])]
SLOW = [
    (m, env) for m in ("hpg", "a2c", "ppo", "trpo", "a3c") for env in ENVS if (m, env) not in FAST
]


def all_finite(run: Path) -> bool:
    files = [*run.glob(TENSORS), *(run / "checkpoints").glob("*/*.safetensors")]
    return all(np.isfinite(tensor).all() for path in files for tensor in load_file(path).values())


@pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")
@pytest.mark.parametrize(
    ("method", "env"), [*FAST, *(pytest.param(*case, marks=pytest.mark.slow) for case in SLOW)]
)
def test_a_huge_learning_rate(
    method: str, env: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """In JAX, with the collector, and asynchronous. TRPO's policy has no learning rate: its
    critic has."""
    rate = "--agent.learning-rate" if method == "hpg" else "--agent.critic-learning-rate"
    settings = [
        "--steps",
        "2000",
        "--agent.net_arch",
        "8",
        "--eval-episodes",
        "2",
        "--eval-every",
        "2",
    ]
    run = tmp_path / "run"
    with pytest.raises(SystemExit) as stop:
        main(
            [
                "train",
                env,
                "--method",
                method,
                rate,
                "1e39",
                *settings,
                "--run-dir",
                str(run),
                "--quiet",
            ]
        )
    error = capsys.readouterr().err
    assert stop.value.code == 2, error
    assert "Traceback" not in error
    assert Run.open(run).summary["status"] == "failed"
    assert all_finite(run)


@pytest.mark.parametrize("part", ["policy", "critic"])
def test_no_loop_can_forget_to_look(
    part: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Losses are finite, parameters are not."""
    from hindsight.agents.a2c import A2C

    def update(self: A2C, state: Any, *arguments: Any, inner: Any = A2C.update) -> Any:
        state, metrics = inner(self, state, *arguments)
        spoilt = jax.tree.map(lambda x: x * float("nan"), getattr(state, part))
        return state._replace(**{part: spoilt}), {
            name: 0.0 * value + 1.0 for name, value in metrics.items()
        }

    monkeypatch.setattr(A2C, "update", update)
    monkeypatch.setattr("hindsight.training.on_policy.check_losses", lambda *_: None)
    with pytest.raises(HindsightError, match=r"not finite|NaN or infinity"):
        hindsight.train(LineEnv, method="a2c", steps=60, run_dir=tmp_path / "run", **QUICK)
    assert all_finite(tmp_path / "run")
    assert not (tmp_path / "run" / "checkpoints").exists()


def test_a_policy_that_is_not_finite_is_not_loaded(tmp_path: Path) -> None:
    run = hindsight.train(
        "hindsight/BitFlip-v0", method="hpg", steps=100, run_dir=tmp_path / "run", **QUICK
    )
    policy = hindsight.load(run.path)
    policy.actor.params["network"]["params"]["Dense_0"]["bias"][:] = np.inf
    policy.save(run.path)
    with pytest.raises(HindsightError, match="not finite"):
        hindsight.load(run.path)
