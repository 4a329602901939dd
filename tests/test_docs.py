"""The programs in the documentation run, and do what the text says."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

DOCS = Path(__file__).parent.parent / "docs"


def test_the_replay_example_learns(capsys: pytest.CaptureFixture[str]) -> None:
    program = re.findall(r"```python\n(.*?)```", (DOCS / "replay.md").read_text(), re.S)[0]
    names: dict[str, Any] = {"__name__": "example"}
    exec(compile(program, "docs/replay.md", "exec"), names)
    first, last = (float(x) for x in re.findall(r"0?\d\.\d\d", capsys.readouterr().out))
    assert first < 0.5
    assert last > 0.9
