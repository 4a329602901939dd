"""What the bytes depend on: not on the number of cores, from the command line; and what has
changed is told."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest

import hindsight
from conftest import LineEnv, written
from hindsight.training.conditions import conditions, jax_threads

PINNED = "import os; os.sched_setaffinity(0, {cores}); from hindsight.cli import main; main()"
TRAIN = [
    "train",
    "hindsight/BitFlip-v0",
    "--steps",
    "1000",
    "--eval-every",
    "2",
    "--eval-episodes",
    "2",
    "--quiet",
    "--run-dir",
]


def call(program: str, *arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
    env = {
        name: value for name, value in os.environ.items() if name not in ("NPROC", "PJRT_NPROC")
    } | more
    return subprocess.run(
        [sys.executable, "-c", program, *arguments], env=env, capture_output=True, text=True
    )


@pytest.mark.skipif(
    not hasattr(os, "sched_getaffinity") or len(os.sched_getaffinity(0)) < 2,
    reason="needs two cores",
)
@pytest.mark.parametrize("method", [[], pytest.param(["--method", "ppo"], marks=pytest.mark.slow)])
def test_the_number_of_cores_does_not_matter(method: list[str], tmp_path: Path) -> None:
    cores = sorted(os.sched_getaffinity(0))
    for count in (1, 2):
        program = PINNED.format(cores=cores[:count])
        result = call(program, *TRAIN, str(tmp_path / str(count)), *method)
        assert result.returncode == 0, result.stderr
    assert written(tmp_path / "1") == written(tmp_path / "2")


def test_another_number_of_threads_is_told(tmp_path: Path) -> None:
    program = "import sys, hindsight; hindsight.resume(sys.argv[1], quiet=True, callbacks=[lambda p: True])"
    begun = "import sys, hindsight; hindsight.train('hindsight/BitFlip-v0', run_dir=sys.argv[1], quiet=True, "
    begun += "steps=5000, eval_episodes=2, callbacks=[lambda p: True])"
    assert call(begun, str(tmp_path / "run"), PJRT_NPROC="1").returncode == 0
    shutil.copytree(tmp_path / "run", tmp_path / "same")
    result = call(program, str(tmp_path / "run"), NPROC="2")
    assert result.returncode == 0
    assert "JAX threads 1 (now 2): it may go on a little differently" in result.stderr
    assert "differently" not in call(program, str(tmp_path / "same"), PJRT_NPROC="1").stderr


def test_64_bits_are_told(tmp_path: Path) -> None:
    """Training works with them, and going on with or without them is refused or told, in one
    line."""
    import jax

    settings: dict[str, Any] = {
        "quiet": True,
        "steps": 60,
        "eval_episodes": 2,
        "agent.net_arch": (8,),
    }
    settings |= {"num_envs": 2, "episodes_per_cycle": 2, "gradient_steps": 2, "batch_size": 16}
    run = hindsight.train(
        LineEnv, run_dir=tmp_path / "run", callbacks=[lambda p: p.cycle == 1], **settings
    )
    assert conditions()["JAX bits"] == "32"
    before = jax.config.jax_enable_x64
    jax.config.update("jax_enable_x64", True)
    try:
        assert conditions()["JAX bits"] == "64"
        with pytest.warns(UserWarning, match=r"JAX bits 32 \(now 64\)"):
            hindsight.resume(run.path, env=LineEnv, quiet=True)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            wide = hindsight.train(LineEnv, run_dir=tmp_path / "wide", **settings)
        assert wide.summary["status"] == "finished"
    finally:
        jax.config.update("jax_enable_x64", before)
    hindsight.load(wide.path)


def test_threads_are_read_as_xla_reads_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NPROC", "7")
    assert jax_threads() == 7
    monkeypatch.setenv("PJRT_NPROC", "3")
    assert jax_threads() == 3
    monkeypatch.setenv("PJRT_NPROC", "many")
    assert jax_threads() == 7
