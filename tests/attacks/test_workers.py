"""Worker processes: their envs are closed, none survives its parent, and late answers confuse
nobody."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hindsight
from conftest import LineEnv
from hindsight.envs.processes import WorkerEnvs
from hindsight.errors import HindsightError

pytestmark = pytest.mark.usefixtures("compiles_alone")

QUICK: dict[str, Any] = {
    "quiet": True,
    "steps": 60,
    "num_envs": 2,
    "workers": 1,
    "episodes_per_cycle": 2,
    "gradient_steps": 2,
    "batch_size": 16,
    "eval_episodes": 2,
    "eval_every": 1,
    "agent.net_arch": (8,),
    "checkpoint.minutes": 0.0,
}


class Closing(LineEnv):
    def __init__(self, directory: str) -> None:
        super().__init__()
        self.directory = Path(directory)

    def close(self) -> None:
        (self.directory / str(id(self))).touch()


def test_envs_are_closed(tmp_path: Path) -> None:
    envs = WorkerEnvs(lambda: Closing(str(tmp_path)), 3, 12, 2)
    envs.reset([1, 2, 3])
    envs.close()
    assert len(list(tmp_path.iterdir())) == 3


# Env, and a process that it has started, each leave their number in a file; the fifth step never
# ends.
HANGING = """
import os, subprocess, sys, time
from pathlib import Path
import numpy as np
from conftest import LineEnv
from hindsight.envs import worker
from hindsight.envs.processes import WorkerEnvs
place, how, timeout = Path(sys.argv[1]), sys.argv[2], float(sys.argv[3])

class Hanging(LineEnv):
    def __init__(self):
        super().__init__(ends=False)
        # Where the GIL is held the system ends the worker, but not what that has started.
        self.simulator = subprocess.Popen(["sleep", "0" if how == "holds the GIL" else "1000"])
        (place / str(os.getpid())).touch()
        if how != "holds the GIL":
            (place / str(self.simulator.pid)).touch()
    def step(self, action):
        if self.steps == 2 and how != "not":
            (place / "hangs").touch()
            if how == "holds the GIL":
                __import__("re").match(r"(a+)+$", "a" * 60 + "b")
            time.sleep(1000)
        return super().step(action)
    def close(self):
        self.simulator.kill()
        self.simulator.wait()

envs = WorkerEnvs(Hanging, 2, 12, 2, timeout)
envs.reset([1, 2])
for _ in range(3):
    if how == "not" and _ == 2:
        (place / "hangs").touch()
        time.sleep(1000)
    envs.step(np.zeros((2, 1), np.float32))
"""


def alive(number: str) -> bool:
    try:
        return Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")
@pytest.mark.parametrize(
    ("how", "timeout", "within"),
    [
        ("not", 60.0, 10),
        ("sleeps", 600.0, 15),
        pytest.param("holds the GIL", 5.0, 40, marks=pytest.mark.slow),
    ],
)
def test_no_worker_survives_its_parent(
    how: str, timeout: float, within: float, tmp_path: Path
) -> None:
    tests = Path(__file__).parents[1]
    env = os.environ | {"PYTHONPATH": os.pathsep.join([str(tests), *sys.path])}
    parent = subprocess.Popen(
        [sys.executable, "-c", HANGING, str(tmp_path), how, str(timeout)], env=env
    )
    while not (tmp_path / "hangs").exists():
        time.sleep(0.05)
        assert parent.poll() is None
    time.sleep(0.5)
    numbers = [path.name for path in tmp_path.iterdir() if path.name.isdigit()]
    assert len(numbers) == (2 if how == "holds the GIL" else 4)
    parent.kill()
    parent.wait()
    deadline = time.monotonic() + within
    while any(map(alive, numbers)) and time.monotonic() < deadline:
        time.sleep(0.1)
    left = [number for number in numbers if alive(number)]
    for number in left:
        os.kill(int(number), signal.SIGKILL)
    assert not left


class Slow(LineEnv):
    """Its state takes longer to tell than the time-out allows, once."""

    def export_state(self) -> dict[str, Any]:
        if not hasattr(self, "told"):
            self.told = True
            time.sleep(3)
        return {"x": self.x}

    def restore_state(self, state: dict[str, Any]) -> None:
        self.x = state["x"]


def test_a_late_answer_is_not_taken_for_another(capfd: pytest.CaptureFixture[str]) -> None:
    envs = WorkerEnvs(Slow, 1, 12, 1, timeout=1.0)
    try:
        first = envs.reset([1])
        assert envs.export_state() == {}
        assert "has not told the state of its envs" in capfd.readouterr().err
        time.sleep(3)
        again = envs.reset([1])
        np.testing.assert_array_equal(first.observation, again.observation)
        assert set(envs.export_state()) == {"env_0"}
    finally:
        envs.close()


class Counting(LineEnv):
    """Keeps something in the types that NumPy gives."""

    def __init__(self) -> None:
        super().__init__()
        self.count = np.int64(0)

    def reset(self, **options: Any) -> Any:
        self.count += 1
        return super().reset(**options)

    def export_state(self) -> dict[str, Any]:
        return {
            "count": self.count,
            "deep": {"flag": np.bool_(True), "list": (np.float32(0.5), [np.int8(3)])},
        }

    def restore_state(self, state: dict[str, Any]) -> None:
        assert state["deep"] == {"flag": True, "list": [0.5, [3]]}
        self.count = np.int64(state["count"])


@pytest.mark.parametrize("simulator", ["inline", "processes"])
def test_numbers_of_numpy_are_saved(simulator: str, tmp_path: Path) -> None:
    settings = QUICK | {"simulator": simulator}
    run = hindsight.train(
        Counting, run_dir=tmp_path / "run", callbacks=[lambda p: p.cycle == 2], **settings
    )
    state = run.checkpoints.newest()[0].load()["envs"]
    assert state["env_0"]["count"] >= 2
    assert hindsight.resume(run.path, env=Counting, quiet=True).summary["status"] == "finished"


WRONG: dict[str, Callable[[], Any]] = {
    "a set": lambda: {"x": {1}},
    "a key": lambda: {"x": {3: 4}},
    "a slash": lambda: {"x/y": 4},
    "objects": lambda: {"x": np.array([None])},
    "arrays in a list": lambda: {"x": [np.zeros(3)]},
    "no dict": lambda: 3,
}


@pytest.mark.parametrize("what", WRONG)
def test_what_cannot_be_saved_is_named(what: str, tmp_path: Path) -> None:
    class Wrong(LineEnv):
        def export_state(self) -> Any:
            return WRONG[what]()

    with pytest.raises(HindsightError, match=r"export_state\(\)") as error:
        hindsight.train(Wrong, run_dir=tmp_path / "run", simulator="inline", **QUICK)
    assert "\n" not in str(error.value)
    assert json.loads((tmp_path / "run" / "summary.json").read_bytes())["status"] == "failed"
