"""Training where it is unusual: in threads, two at once, again and again, in a forked process."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import hindsight
from conftest import LineEnv, fingerprint

QUICK: dict[str, Any] = {
    "steps": 150,
    "num_envs": 2,
    "episodes_per_cycle": 2,
    "gradient_steps": 2,
    "batch_size": 16,
    "eval_episodes": 2,
    "eval_every": 1,
    "agent.net_arch": (8,),
    "checkpoint.minutes": 0.0,
}


@pytest.mark.parametrize("env", ["hindsight/BitFlip-v0", LineEnv])
def test_two_at_once_in_threads_are_as_each_alone(env: Any, tmp_path: Path) -> None:
    before = (sys.stdout, sys.stderr, threading.active_count())

    def train(seed: int, where: str) -> dict[str, str]:
        return fingerprint(
            hindsight.train(
                env, seed=seed, run_dir=tmp_path / f"{where}{seed}", quiet=True, **QUICK
            )
        )

    alone = [train(seed, "alone") for seed in (0, 1)]
    with ThreadPoolExecutor(2) as pool:
        together = list(pool.map(train, (0, 1), ("together",) * 2))
    assert together == alone
    assert (sys.stdout, sys.stderr, threading.active_count()) == before


IN_THREADS = """
import sys, threading, hindsight
from hindsight.envs.make import register_robotics
out, err = sys.stdout, sys.stderr
def work(i):
    register_robotics()
    hindsight.train("hindsight/BitFlip-v0", run_dir=f"{sys.argv[1]}/{i}", seed=i, steps=60, eval_episodes=2)
threads = [threading.Thread(target=work, args=(i,)) for i in range(3)]
[t.start() for t in threads], [t.join() for t in threads]
assert sys.stdout is out and sys.stderr is err, (sys.stdout, sys.stderr)
"""


def test_threads_leave_stderr_as_it_was(tmp_path: Path) -> None:
    """With a terminal, where bars are shown, and the first import of Gymnasium-Robotics, which
    is noisy."""
    env = os.environ | {"FORCE_COLOR": "1", "TERM": "xterm"}
    command = [sys.executable, "-c", IN_THREADS, str(tmp_path)]
    result = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    assert all((tmp_path / str(i) / "summary.json").exists() for i in range(3))


FORKED = """
import os, sys, warnings
warnings.simplefilter("ignore")
import hindsight
def train(name):
    hindsight.train("hindsight/BitFlip-v0", run_dir=f"{sys.argv[1]}/{name}", steps=60, eval_episodes=2, quiet=True)
if sys.argv[2] == "after":
    train("parent")
child = os.fork()
if child == 0:
    try:
        train("child")
    except hindsight.HindsightError as error:
        print(error, flush=True)
        os._exit(2)
    os._exit(0)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.mark.parametrize(("when", "code"), [("before", 0), ("after", 2)])
def test_a_fork_after_jax_is_refused(when: str, code: int, tmp_path: Path) -> None:
    command = [sys.executable, "-c", FORKED, str(tmp_path), when]
    result = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert result.returncode == code, result.stderr
    assert ("forked from one that had used JAX" in result.stdout) == (when == "after")
    assert (tmp_path / "child").exists() == (when == "before")


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs /proc")
@pytest.mark.parametrize(
    ("rounds", "env", "simulator"),
    [
        (6, LineEnv, "auto"),
        pytest.param(50, LineEnv, "auto", marks=pytest.mark.slow),
        pytest.param(50, LineEnv, "processes", marks=pytest.mark.slow),
        pytest.param(50, "FetchReach-v4", "threads", marks=pytest.mark.slow),
        pytest.param(50, "FetchReach-v4", "processes", marks=pytest.mark.slow),
    ],
)
def test_many_in_a_row_leave_nothing_open(
    rounds: int, env: Any, simulator: str, tmp_path: Path
) -> None:
    settings = QUICK | {"steps": 40, "simulator": simulator, "workers": 2, "quiet": True}

    def count() -> tuple[int, int]:
        return len(os.listdir("/proc/self/fd")), threading.active_count()

    def resident_megabytes() -> float:
        gc.collect()
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 1e6

    counts, sizes = [], []
    for i in range(rounds):
        hindsight.train(env, run_dir=tmp_path / str(i), **settings)
        counts.append(count())
        sizes.append(resident_megabytes())
    assert len(set(counts[2:])) == 1
    if rounds >= 50:  # the first ones fill the allocator
        assert sizes[-1] < sizes[14] + 10
