"""Envs in worker processes that raise, hang or die: restarted, their episodes dropped and
counted."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hindsight
from conftest import LineEnv
from hindsight.collect import Collector
from hindsight.envs import processes
from hindsight.envs.contract import inspect
from hindsight.envs.processes import EnvsFail, WorkerEnvs
from hindsight.errors import HindsightError
from hindsight.training.run import Run
from hindsight.types import Array, Floats


@pytest.fixture(autouse=True)
def _no_backoff(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "BACKOFF", 0.001)


class Troubled(LineEnv):
    """Fails in the third step of an episode, in the way that a file says, once."""

    def __init__(self, flag: str) -> None:
        super().__init__(ends=False)
        self.flag = Path(flag)

    def step(self, action: Any) -> Any:
        if self.steps == 2 and self.flag.exists():
            mine = self.flag.with_name(str(os.getpid()))
            try:
                self.flag.rename(mine)
            except FileNotFoundError:  # another worker was faster
                return super().step(action)
            trouble = mine.read_text()
            if trouble == "raises":
                raise ZeroDivisionError("the arm fell off")
            if trouble == "hangs":
                time.sleep(1000)
            os.kill(os.getpid(), signal.SIGKILL)
        return super().step(action)


def still(observation: Floats, goal: Floats) -> Array:
    return np.zeros((len(observation), 1), np.float32)


TOLD = {
    "raises": "the arm fell off",
    "dies": "exit code -9",
    "hangs": "has not answered for 6 seconds",
}


@pytest.mark.parametrize(("troubles", "timeout"), [(("raises", "dies"), 60.0), (("hangs",), 6.0)])
def test_failed_workers_are_restarted(
    troubles: tuple[str, ...], timeout: float, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    flag = tmp_path / "flag"
    envs = WorkerEnvs(lambda: Troubled(str(flag)), 2, 12, 2, timeout)
    collector = Collector(envs, inspect(LineEnv(ends=False)))
    try:
        whole = collector.collect(still, [1, 2])
        assert len(whole) == 2
        for trouble in troubles:
            flag.write_text(trouble)
            assert len(collector.collect(still, [1, 2])) == 1  # the other worker's
            error = capfd.readouterr().err
            assert TOLD[trouble] in error
            assert "1 unfinished episodes are dropped" in error
            assert ("Traceback" in error) == (trouble == "raises")
            again = collector.collect(still, [1, 2])
            np.testing.assert_array_equal(again.observation, whole.observation)
    finally:
        envs.close()


class Failing(LineEnv):
    def step(self, action: Any) -> Any:
        raise ZeroDivisionError("the arm fell off")


class NoReset(LineEnv):
    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        raise ZeroDivisionError("no floor")


class NoStart(LineEnv):
    def __init__(self) -> None:
        raise ZeroDivisionError("no arm")


@pytest.mark.parametrize(
    ("env", "told", "times"),
    [(Failing, "fell off", 2), (NoReset, "no floor", 1), (NoStart, "no arm", 1)],
)
def test_envs_that_always_fail_end_it(
    env: Any, told: str, times: int, capfd: pytest.CaptureFixture[str]
) -> None:
    def play() -> None:
        envs = WorkerEnvs(env, 1, 12, 1, max_failures=times)
        try:
            Collector(envs, inspect(LineEnv())).collect(still, [1])
        finally:
            envs.close()

    with pytest.raises(EnvsFail, match=rf"failed {times} times in a row.*{told}") as error:
        play()
    assert "\n" not in str(error.value)
    assert "Traceback" in capfd.readouterr().err


def test_a_mistake_that_the_user_can_put_right_is_shown_at_once() -> None:
    class Broken(LineEnv):
        def step(self, action: Any) -> Any:
            raise HindsightError("ask for the spare part")

    envs = WorkerEnvs(Broken, 1, 12, 1)
    envs.reset([1])
    with pytest.raises(HindsightError, match="spare"):
        envs.step(np.zeros((1, 1), np.float32))
    envs.close()


def test_a_training_counts_what_is_dropped_and_saves_itself_when_envs_keep_failing(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    flag, always = tmp_path / "flag", tmp_path / "always"

    class Sometimes(Troubled):
        def step(self, action: Any) -> Any:
            if always.exists():
                raise ZeroDivisionError("always")
            return super().step(action)

    def trouble(progress: Any) -> None:
        if progress.cycle == 2:
            flag.write_text("raises")
        if progress.cycle == 4:
            always.touch()

    settings: dict[str, Any] = {
        "num_envs": 2,
        "workers": 2,
        "simulator": "processes",
        "episodes_per_cycle": 4,
    }
    settings |= {
        "env_failures": 3,
        "gradient_steps": 2,
        "batch_size": 16,
        "eval_every": 100,
        "agent.net_arch": (8,),
    }
    with pytest.raises(HindsightError, match="failed 3 times in a row"):
        hindsight.train(
            lambda: Sometimes(str(flag)),
            run_dir=tmp_path / "run",
            callbacks=[trouble],
            quiet=True,
            steps=5000,
            max_episode_steps=12,
            **settings,
        )
    run = Run.open(tmp_path / "run")
    assert [row["train/dropped"] for row in run.metrics] == [0, 0, 1, 1]
    assert run.checkpoints.newest()[0].cycle == 4
    assert run.summary["status"] == "failed"
    assert "Traceback" in capfd.readouterr().err
