"""What strangers wrote is shown, never obeyed; and one bad run does not take a whole report with
it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

import hindsight
from hindsight.cli import main
from hindsight.errors import printable
from hindsight.saving.files import sealed

ESCAPE = "\x1b]0;owned\x07\x1b[2J"


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("runs") / "run"
    settings: dict[str, Any] = {
        "steps": 60,
        "episodes_per_cycle": 2,
        "batch_size": 16,
        "eval_episodes": 2,
    }
    settings |= {"eval_every": 1, "agent.net_arch": (8,), "quiet": True}
    hindsight.train("hindsight/BitFlip-v0", run_dir=path, **settings)
    return path


@pytest.fixture
def runs(whole: Path, tmp_path: Path) -> tuple[Path, Path]:
    """A good run and one to be spoilt, of another seed."""
    good, bad = tmp_path / "good", tmp_path / "bad"
    for path in (good, bad):
        shutil.copytree(whole, path)
    change(bad, seed=1)
    return good, bad


def change(run: Path, **settings: Any) -> None:
    config = json.loads((run / "config.json").read_bytes())
    (run / "config.json").write_text(json.dumps(config | settings))


def spoil_summary(run: Path, **values: Any) -> None:
    summary = json.loads((run / "summary.json").read_bytes())
    del summary["sha256"]
    (run / "summary.json").write_bytes(sealed(summary | values))


def call(capsys: pytest.CaptureFixture[str], *arguments: Any) -> tuple[int, str]:
    with pytest.raises(SystemExit) as stop:
        main([str(a) for a in arguments])
    shown = capsys.readouterr()
    assert "Traceback" not in shown.err
    return int(stop.value.code or 0), shown.out + shown.err


@pytest.mark.parametrize("value", [None, 3, [], "x", {"cpu": None}])
@pytest.mark.parametrize("key", ["machine", "versions"])
def test_one_strange_summary_does_not_kill_a_report(
    key: str,
    value: Any,
    runs: tuple[Path, Path],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    spoil_summary(runs[1], **{key: value})
    code, _ = call(capsys, "report", *runs, "-o", tmp_path / "page.html", "--no-video")
    assert code == 0
    assert "BitFlip" in (tmp_path / "page.html").read_text()


@pytest.mark.parametrize(
    "spoil",
    [
        lambda run: change(run, env=ESCAPE),
        lambda run: change(run, env="hindsight/\ud800"),
        lambda run: change(run, env_kwargs={ESCAPE: 1}),
        lambda run: change(run, env_kwargs={"bits": [[ESCAPE]]}),
        lambda run: change(run, **{ESCAPE: 1}),
        lambda run: spoil_summary(run, status=ESCAPE),
        lambda run: (run / "metrics.jsonl").write_text(json.dumps({ESCAPE: 1}) + "\n"),
        lambda run: (run / "config.json").write_text(ESCAPE),
    ],
)
def test_terminals_are_not_written_to(
    spoil: Any, runs: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spoil(runs[1])
    for command in (
        ["compare", *runs],
        ["report", *runs, "-o", tmp_path / "page.html", "--no-video"],
    ):
        code, text = call(capsys, *command)
        assert code == 1  # the bad one is skipped
        assert "\x1b" not in text
        assert "\x07" not in text
    for name in ("eval", "verify"):
        _, text = call(capsys, name, runs[1], *(["--episodes", "1"] if name == "eval" else []))
        assert "\x1b" not in text


def test_names_of_directories_are_shown_too(
    runs: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / ESCAPE
    runs[1].rename(path)
    change(path, gradient_steps=3)
    for command in (
        ["compare", runs[0], path],
        ["compare", runs[0], tmp_path / f"none{ESCAPE}"],
        ["verify", path],
    ):
        _, text = call(capsys, *command)
        assert "\x1b" not in text


def test_printable() -> None:
    assert printable("plain ü 漢") == "plain ü 漢"
    assert printable("a\x1b[2J\nb\u202e") == "a\\x1b[2J\\nb\\u202e"
