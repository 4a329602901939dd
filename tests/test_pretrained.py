"""The policies that come with the library: they load, act, and reach what they state."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

import hindsight
import hindsight.deploy
from hindsight import pretrained
from hindsight.cli import main
from hindsight.commands.pretrain import EPISODES, LIMIT, PRESETS, add
from hindsight.envs.make import make
from hindsight.errors import HindsightError
from hindsight.training.run import Run

ENVS = pretrained.envs()


def call(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as stop:
        main([str(a) for a in arguments])
    captured = capsys.readouterr()
    return int(stop.value.code or 0), captured.out, captured.err


def test_there_are_some() -> None:
    tasks = ("Reach", "Push", "PickAndPlace", "Slide")
    assert {f"Fetch{task}-v4" for task in tasks} <= set(ENVS)


@pytest.mark.parametrize("env", ENVS)
def test_each_loads_is_small_and_says_what_it_reached(env: str) -> None:
    path = pretrained.path_of(env)
    assert (path / "policy.safetensors").stat().st_size <= LIMIT
    assert {file.name for file in path.iterdir()} == {
        "config.json",
        "policy.json",
        "policy.safetensors",
        "results.json",
    }
    assert hindsight.load(env).env == Run.open(path).config.env == env
    results = pretrained.results_of(env)
    assert results["episodes"] == EPISODES
    assert results["success_rate"] > 0.5
    preset = f" --preset {PRESETS[env]}" if env in PRESETS else ""
    seed = Run.open(path).config.seed
    assert results["trained_by"] == f"hindsight train {env}{preset} --seed {seed}"
    assert {"steps", "minutes", "versions", "machine", "reproduced_by", "made_by"} <= set(results)


@pytest.mark.parametrize("env", ENVS)
def test_the_page_says_the_same(env: str) -> None:
    results = pretrained.results_of(env)
    cells = [env, results["method"].upper(), f"{results['success_rate']:.3f}"]
    cells += [f"`{results['trained_by']}`", f"{results['steps']:,}"]
    page = (Path(__file__).parent.parent / "docs" / "pretrained.md").read_text()
    assert f"| {' | '.join(cells)} |" in page


def test_load_by_id_acts() -> None:
    env = make("FetchReach-v4")
    observation, _ = env.reset(seed=0)
    for load in (hindsight.load, hindsight.deploy.load):
        assert load("FetchReach-v4")(observation) in env.action_space


def test_a_directory_of_that_name_comes_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "FetchReach-v4").mkdir()
    with pytest.raises(HindsightError, match="no policy in FetchReach-v4"):
        hindsight.load("FetchReach-v4")


def test_eval_says_what_is_stated(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = call(capsys, "eval", "FetchReach-v4", "--pretrained", "--episodes", 20)
    assert code == 0
    assert out.splitlines()[0].startswith("success rate 1.000")
    stated = pretrained.results_of("FetchReach-v4")["success_rate"]
    assert out.splitlines()[1] == f"stated: {stated:.3f} on {EPISODES:,} episodes"


def test_export_by_id(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert call(capsys, "export", "FetchReach-v4", "--pretrained")[0] == 0
    assert os.listdir(tmp_path) == ["FetchReach-v4.onnx"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["eval", "FetchReach-v4"], "FetchReach-v4 --pretrained"),
        (["watch", "FetchReach-v4"], "FetchReach-v4 --pretrained"),
        (["export", "FetchReach-v4"], "FetchReach-v4 --pretrained"),
        (["eval", "FetchReach-v3", "--pretrained"], "Did you mean 'FetchReach-v4'? There are: "),
    ],
)
def test_mistakes_are_one_line(
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    code, _, error = call(capsys, *arguments)
    assert code == 2
    assert error.count("\n") == 1
    assert message in error


def test_a_finished_run_is_put_into_the_library(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings: dict[str, Any] = {"steps": 200, "eval_episodes": 4, "gradient_steps": 2}
    settings |= {"simulator": "inline", "num_envs": 4}
    run = hindsight.train("test/Line-v0", run_dir=tmp_path / "run", quiet=True, **settings)
    (tmp_path / "library" / "test").mkdir(parents=True)
    path = add(run.path, tmp_path / "library", episodes=10)
    results = json.loads((path / "results.json").read_text())
    assert results["success_rate"] == hindsight.evaluate(path, 10).success_rate
    assert results["steps"] == run.summary["steps"]
    assert results["trained_by"].startswith(
        "hindsight train test/Line-v0 --steps 200 --num-envs 4 "
    )
    (run.path / "summary.json").write_text(json.dumps({"status": "stopped"}))
    with pytest.raises(HindsightError, match="not finished"):
        add(run.path, tmp_path / "library")


@pytest.mark.slow
@pytest.mark.parametrize("env", ENVS)
def test_eval_reproduces_what_is_stated(env: str) -> None:
    """The same episodes: exactly so on the machine that made it, nearly so on others."""
    stated = pretrained.results_of(env)
    result = hindsight.evaluate(env, stated["episodes"])
    assert result.success_rate == pytest.approx(stated["success_rate"], abs=0.02)


@pytest.mark.slow
def test_watch_by_id(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DISPLAY", raising=False)
    code, out, _ = call(capsys, "watch", "FetchReach-v4", "--pretrained", "--episodes", 1)
    assert (code, out) == (0, "video: FetchReach-v4.mp4\n")
    assert (tmp_path / "FetchReach-v4.mp4").stat().st_size > 1000
