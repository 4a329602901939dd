"""Measured rows: broken ones and runs of other settings are refused, tables are not stale."""

from __future__ import annotations

import copy
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hindsight import api
from hindsight.errors import HindsightError
from hindsight.lab.reproduce import folder, rows, tables
from hindsight.lab.reproduce.configs import config_of, differences, is_installed
from hindsight.lab.reproduce.experiment import Experiment, Measurement, Training
from hindsight.lab.reproduce.figures import draw
from hindsight.lab.reproduce.import_run import import_run

ROWS = sorted(folder.find().results.glob("*/*.json"))


@pytest.fixture(scope="module")
def row() -> dict[str, Any]:
    return rows.read(folder.find().results / "push" / "hper-seed1.json")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda r: r.update(format=2), "format must be 1, got 2"),
        (lambda r: r.update(kind="guess"), "kind must be training or measurement"),
        (lambda r: r.pop("steps"), "'steps' is missing"),
        (lambda r: r.update(seed="1"), "'seed' cannot be '1'"),
        (lambda r: r.update(seed=True), "'seed' cannot be True"),
        (lambda r: r.update(colour="red"), "unknown key 'colour'"),
        (lambda r: r.update(minutes=-1), "'minutes' cannot be -1"),
        (lambda r: r.update(minutes=None), "'minutes' cannot be None"),
        (lambda r: r["final"].update(episodes=50), "needs 100 episodes or more, got 50"),
        (lambda r: r["final"].update(success_rate=1.5), "a success rate cannot be 1.5"),
        (lambda r: r["best"].update(success_rate=float("nan")), "a success rate cannot be nan"),
        (lambda r: r["best"].update(step=10**9), "cannot be at step"),
        (
            lambda r: r["curve"].extend([[10**6 + i, 1, 1] for i in range(60)]),
            "'curve' must have 1 to 60 points",
        ),
        (lambda r: r["curve"].append([1, 1, 1]), "the steps of 'curve' must rise"),
        (lambda r: r["curve"].append([10**9, 1]), "a point of 'curve' must be 3 numbers"),
        (
            lambda r: r["replay"].update(reached=[["a", 1]]),
            "a point of 'reached' must be 2 numbers",
        ),
        (lambda r: r.update(stopped_at=5), "'stopped_at' must be the last step"),
        (
            lambda r: r["config"].update(wings=2),
            "its config cannot be read: unknown setting 'wings'",
        ),
        (lambda r: r["config"].update(seed=7), "seed 1, but its config has 7"),
    ],
)
def test_broken_rows_are_refused_in_one_line(
    row: dict[str, Any], change: Callable[[dict[str, Any]], Any], message: str, tmp_path: Path
) -> None:
    broken = copy.deepcopy(row)
    change(broken)
    file = tmp_path / "row.json"
    file.write_text(json.dumps(broken))
    with pytest.raises(HindsightError) as error:
        rows.read(file)
    assert message in str(error.value)
    assert str(error.value).startswith(str(file))
    assert "\n" not in str(error.value)


def test_what_is_no_json_is_refused(tmp_path: Path) -> None:
    (tmp_path / "row.json").write_text("{")
    with pytest.raises(HindsightError, match="is not JSON"):
        rows.read(tmp_path / "row.json")


def test_every_measured_row_belongs_to_an_experiment_and_has_its_settings() -> None:
    """So that a changed preset is noticed: its results are those of other settings."""
    here = folder.find()
    entries = {
        (e.home, e.slug): e
        for name in here.experiments
        for e in here.entries(name)
        if e.home == name
    }
    assert ROWS
    for path in ROWS:
        row = rows.read(path)
        entry = entries[path.parent.name, row["slug"]]
        assert path == rows.results_path(here.results, entry, row["seed"])
        assert row["seed"] in entry.seeds
        if isinstance(entry, Training) and is_installed(entry):
            assert not differences(rows.config_in(row), config_of(entry, row["seed"])), path
        assert not any(place in path.read_text() for place in ("/home/", "/tmp/", "/root/"))


def test_tables_in_readme_and_docs_are_not_stale() -> None:
    assert list(tables.stale(folder.find())) == [], "run `make tables`"


def test_all_tables_can_be_made() -> None:
    here = folder.find()
    for name in here.experiments:
        entries = here.entries(name)
        made = tables.table(
            here[name], entries, [rows.rows_of(here.results, entry) for entry in entries]
        )
        empty = tables.table(here[name], entries, [{} for _ in entries])
        assert "not run" in empty.lower()
        widths = {line.count(" | ") for line in made.splitlines() if line.startswith("| ")}
        assert len(widths) <= 1, name
        if name == "table":
            assert (
                "| FetchPush | 6 | 256 | 40 | two_queues | 0.1125 (epoch 45) | not run |" in empty
            )


def test_cells_by_hand() -> None:
    """Two seeds, finals 0.4 and 0.6, best 0.5 at epoch 1 and 0.7 at epoch 2, counted from 0: 0.60
    flatters. Five seeds have a mean."""
    entry = Training(
        "a", "hindsight/BitFlip-v0", line="bits", column="ours", epoch_steps=100, home="x"
    )
    found = {
        seed: {
            "final": {"success_rate": 0.4 + 0.2 * seed},
            "best": {"success_rate": 0.5 + 0.2 * seed, "step": 150 + 100 * seed},
        }
        for seed in (0, 1)
    }
    experiment = Experiment("T", "nowhere", (entry,), line_heading="task")
    assert tables.table(experiment, [entry], [found]).splitlines() == [
        "| task | ours |",
        "|---|---|",
        "| bits | 0.40, 0.60; best 0.60 in epoch 1, 2 (2 seeds) |",
    ]
    many = tables.table(experiment, [entry], [dict.fromkeys(range(5), found[0])])
    assert "| bits | 0.40 [0.40, 0.40]; best 0.50 in epoch 1 (5 seeds) |" in many


def test_rows_of_settings_that_changed_make_no_table(tmp_path: Path, row: dict[str, Any]) -> None:
    here = folder.find()
    file = tmp_path / "experiments" / "push.py"
    (tmp_path / "experiments" / "results" / "push").mkdir(parents=True)
    text = (
        (here.path / "push.py")
        .read_text()
        .replace("EVALUATED: dict[str, Any] = {", 'EVALUATED: dict[str, Any] = {"batch_size": 64, ')
    )
    file.write_text(text)
    for name in ("cheaper", "half_hour"):  # it shows a row of theirs
        shutil.copy(here.path / f"{name}.py", file.parent)
    rows.write(tmp_path / "experiments" / "results" / "push" / "hper-seed1.json", row)
    with pytest.raises(
        HindsightError, match=r"measured with other settings .batch_size: 512, not 64"
    ):
        tables.fill(folder.find(tmp_path), "<!-- table: push -->\n<!-- /table -->")


def test_importing_refuses_runs_of_other_settings(tmp_path: Path) -> None:
    settings = {
        "steps": 16,
        "num_envs": 2,
        "episodes_per_cycle": 2,
        "gradient_steps": 1,
        "batch_size": 4,
        "eval_episodes": 2,
        "agent.net_arch": (8,),
    }
    entry = Training(
        "two", "hindsight/BitFlip-v0", settings=settings, env_kwargs={"bits": 2}, seeds=(0,)
    )
    here = folder.Folder(tmp_path, {"x": Experiment("X", "nowhere", (entry,))})

    def train(name: str, seed: int = 0, **other: Any) -> Path:
        everything = {**settings, **other, "env_kwargs": dict(entry.env_kwargs), "seed": seed}
        run = api.train(entry.env, run_dir=tmp_path / name, quiet=True, **everything)
        return run.path

    with pytest.raises(HindsightError, match=r"is no run of x: .*replay\.replay_k: 2\.0, not 4\.0"):
        import_run(here, "x", train("other", **{"replay.replay_k": 2.0}), False)
    with pytest.raises(HindsightError, match="has seed 3: two has 0"):
        import_run(here, "x", train("seed", 3), False)
    assert not (tmp_path / "results").exists()
    same = train("same", **{"checkpoint.keep": 1, "env_timeout": 9.0})
    row = rows.read(import_run(here, "x", same, True))
    assert (row["slug"], row["steps"] >= 16, row["shared_machine"], len(row["curve"])) == (
        "two",
        True,
        True,
        1,
    )
    (same / "summary.json").unlink()
    with pytest.raises(HindsightError, match="has not ended"):
        import_run(here, "x", same, False)


def test_measurements_are_imported_by_name(tmp_path: Path) -> None:
    entry = Measurement("fast", "replay", 1.0, home="x")
    here = folder.Folder(
        tmp_path, {"x": Experiment("X", "nowhere", (entry,)), "y": Experiment("Y", "nowhere", ())}
    )
    rows.write(tmp_path / "made" / "row.json", rows.measured_row(entry, 0, {"a": 1}, 2.0, False))
    assert rows.read(import_run(here, "x", tmp_path / "made", True))["shared_machine"] is True
    with pytest.raises(HindsightError, match="is no measurement of y, but of x fast"):
        import_run(here, "y", tmp_path / "made", False)


def test_long_curves_are_thinned_and_keep_their_ends() -> None:
    thin = rows._thinned([{"step": float(i)} for i in range(200)])
    assert len(thin) == rows.POINTS
    assert (thin[0]["step"], thin[-1]["step"]) == (0.0, 199.0)


def test_a_figure_of_areas_has_what_has_enough_seeds(tmp_path: Path) -> None:
    entries = [Training(slug, "FetchPush-v4", label=slug) for slug in ("base", "few")]
    experiment = Experiment("Areas", "ours", tuple(entries), base="base", figure="areas")

    def seeds(count: int) -> dict[int, Any]:
        return {i: {"curve": [[100, 0.1, 0.0], [200, 0.2, 0.1 * i]]} for i in range(count)}

    path = tmp_path / "areas.png"
    with pytest.raises(HindsightError, match="no training has 5 seeds yet"):
        draw(experiment, entries, [seeds(4), seeds(4)], path)
    draw(experiment, entries, [seeds(5), seeds(4)], path)
    assert path.stat().st_size > 1000
    assert tables.areas(experiment, seeds(3)) == pytest.approx([0.0, 0.025, 0.05])  # by hand


def test_success_at_a_step_is_held_against_the_base() -> None:
    entries = [Training(slug, "FetchPush-v4", label=slug) for slug in ("base", "later")]
    experiment = Experiment(
        "Steps",
        "ours",
        tuple(entries),
        columns=("label", "gap_at"),
        base="base",
        at_steps=(100, 200),
    )

    def seeds(count: int, at_200: float) -> dict[int, Any]:
        return {i: {"curve": [[100, 0.1, 0.0], [200, 0.2, at_200]]} for i in range(count)}

    made = tables.table(experiment, entries, [seeds(5, 0.25), seeds(5, 0.75)])
    assert "| later | +0.50 [+0.50, +0.50] |" in made
    made = tables.table(experiment, entries, [seeds(5, 0.25), seeds(4, 0.75)])
    assert "| later |  |" in made  # too few
