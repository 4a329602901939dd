"""The programs in examples/ run, with few steps."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import gymnasium as gym
import pytest

from hindsight.agents.registry import OFF_POLICY
from hindsight.replay import SIGNALS

EXAMPLES = Path(__file__).parent.parent / "examples"


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """In an empty directory; what examples register is forgotten afterwards."""
    monkeypatch.chdir(tmp_path)
    registries = (OFF_POLICY, SIGNALS, gym.registry)
    before = [dict(registry) for registry in registries]
    yield
    for registry, entries in zip(registries, before, strict=True):
        registry.clear()  # type: ignore[attr-defined]
        registry.update(entries)  # type: ignore[attr-defined]


def example(name: str, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, name, module)
    spec.loader.exec_module(module)
    return module


def test_first_run(monkeypatch: pytest.MonkeyPatch) -> None:
    assert 0 <= example("first_run", monkeypatch).main(steps=300) <= 1


def test_own_env(monkeypatch: pytest.MonkeyPatch) -> None:
    assert 0 <= example("own_env", monkeypatch).main(steps=500) <= 1


def test_custom_priority(monkeypatch: pytest.MonkeyPatch) -> None:
    found = example("custom_priority", monkeypatch).main(steps=300)
    assert list(found) == ["td_error", "surprise"]


def test_custom_agent(monkeypatch: pytest.MonkeyPatch) -> None:
    assert 0 <= example("custom_agent", monkeypatch).main(steps=300) <= 1


def test_track_wandb(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_MODE", "offline")
    example("track_wandb", monkeypatch).main(steps=300)
    assert list(tmp_path.glob("wandb/offline-run-*"))


@pytest.mark.slow
def test_examples_learn(monkeypatch: pytest.MonkeyPatch) -> None:
    assert example("first_run", monkeypatch).main() > 0.9
    assert example("own_env", monkeypatch).main() > 0.9
    assert example("custom_agent", monkeypatch).main() > 0.9


@pytest.mark.slow
def test_the_notebook(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Its cells one after the other, in a kernel of their own."""
    monkeypatch.setenv("STEPS", "300")
    notebook = shutil.copy(EXAMPLES / "notebook.ipynb", tmp_path)
    target = tmp_path / "executed.ipynb"
    command = ["-m", "jupyter", "execute", notebook, "--output", str(target)]
    subprocess.run([sys.executable, *command], check=True, capture_output=True)
    assert "BitFlip" in target.read_text()


def test_every_example_is_listed() -> None:
    listed = (EXAMPLES.parent / "docs" / "examples.md").read_text()
    for path in EXAMPLES.iterdir():
        if path.suffix in (".py", ".ipynb"):
            assert f"`{path.name}`" in listed, path.name
