"""The command of the benchmarks, and that all of them can be imported and have what it calls."""

from __future__ import annotations

from importlib import import_module

import pytest

from benchmarks.__main__ import BENCHMARKS, main
from benchmarks.distributed import asynchronous, lockstep
from benchmarks.training import training


def test_an_unknown_benchmark_is_exit_code_2_and_names_those_there_are(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit) as stop:
        main(["nothing"])
    assert stop.value.code == 2
    assert "learner" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["learner", "--figure", "x.png"])
    assert "learner has no figure" in capsys.readouterr().err


@pytest.mark.parametrize("name", BENCHMARKS)
def test_every_benchmark_can_be_run_and_shown(name: str) -> None:
    module = import_module(f"benchmarks.{name}")
    assert callable(module.run)
    assert callable(module.table)


def test_the_training_does_as_many_updates_as_its_peer() -> None:
    """Its settings were refused: a number per cycle, beside the default number per step."""
    config = training("float32")
    assert config.updates_of_cycle(50) == 640  # 40 per 100 of 32 x 50 steps


def test_the_model_of_collectors_by_hand() -> None:
    """Cycles of 8 episodes; 100 ms of an env, 10 ms of the learner, 20 ms of transport a cycle."""
    parts = {"env": 0.1, "learner": 0.01, "transport": 0.02}
    assert lockstep(parts, 1) == pytest.approx(8 / (0.8 + 0.02 + 0.08))
    assert lockstep(parts, 3) == pytest.approx(8 / (0.3 + 0.02 + 0.08))
    assert lockstep(parts, 64) == pytest.approx(8 / (0.1 + 0.02 + 0.08))
    assert asynchronous(parts, 4) == pytest.approx(40)
    assert asynchronous(parts, 64) == pytest.approx(100)  # the learner saturates
