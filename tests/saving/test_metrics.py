"""The one reader of metrics.jsonl."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hindsight.errors import HindsightError
from hindsight.saving.metrics import read_metrics

ROWS = [{"cycle": i, "step": 10 * i, "time/total": float(i)} for i in range(1, 6)]
TEXT = "".join(json.dumps(row) + "\n" for row in ROWS)


def test_rows_whole_or_the_last_ones_and_never_one_that_is_cut(tmp_path: Path) -> None:
    file = tmp_path / "metrics.jsonl"
    file.write_text(TEXT)
    assert read_metrics(tmp_path) == ROWS
    assert read_metrics(tmp_path, tail=10**6) == ROWS
    assert read_metrics(tmp_path, tail=len(TEXT) // 2) == ROWS[3:]
    file.write_text(TEXT + '{"cycle": 6, "st')
    assert read_metrics(tmp_path) == ROWS


@pytest.mark.parametrize(
    "line", ['{"cycle": 1', "[1]", '{"cycle": 1, "step": 2}', '{"cycle": "x"}', ""]
)
def test_a_broken_line_is_named(tmp_path: Path, line: str) -> None:
    (tmp_path / "metrics.jsonl").write_text(f"{json.dumps(ROWS[0])}\n{line}\n{TEXT}")
    with pytest.raises(
        HindsightError, match=r"metrics\.jsonl is broken: line 2 is not a row of metrics"
    ):
        read_metrics(tmp_path)


def test_a_run_without_metrics_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(HindsightError, match=r"has no metrics\.jsonl"):
        read_metrics(tmp_path)
