"""The programs in the documentation run, and do what the text says."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from hindsight.agents.registry import OFF_POLICY
from hindsight.config import config_of
from hindsight.settings import flatten

DOCS = Path(__file__).parent.parent / "docs"


def test_the_replay_example_learns(capsys: pytest.CaptureFixture[str]) -> None:
    program = re.findall(r"```python\n(.*?)```", (DOCS / "replay.md").read_text(), re.S)[0]
    names: dict[str, Any] = {"__name__": "example"}
    exec(compile(program, "docs/replay.md", "exec"), names)
    first, last = (float(x) for x in re.findall(r"0?\d\.\d\d", capsys.readouterr().out))
    assert first < 0.5
    assert last > 0.9


@pytest.mark.parametrize("method", OFF_POLICY)
def test_the_page_of_off_policy_learners_names_settings_that_they_have(method: str) -> None:
    sections = re.split(r"^## ", (DOCS / "algorithms-off-policy.md").read_text(), flags=re.M)
    section = next(text for text in sections if text.partition("\n")[0].lower() == method)
    names = re.findall(r"--(agent\.[a-z0-9-]+)", section)
    assert names
    assert {name.replace("-", "_") for name in names} <= set(flatten(config_of(method, "")))
    assert "**TD error**" in section
