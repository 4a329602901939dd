"""The command of the benchmarks, and that all of them can be imported and have what it calls."""

from __future__ import annotations

from importlib import import_module

import pytest

from benchmarks.__main__ import BENCHMARKS, main


def test_an_unknown_benchmark_is_exit_code_2_and_names_those_there_are(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit) as stop:
        main(["nothing"])
    assert stop.value.code == 2
    assert "learner" in capsys.readouterr().err


@pytest.mark.parametrize("name", BENCHMARKS)
def test_every_benchmark_can_be_run_and_shown(name: str) -> None:
    module = import_module(f"benchmarks.{name}")
    assert callable(module.run)
    assert callable(module.table)
