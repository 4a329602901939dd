"""compare and report on real runs, whole and broken ones; the page in a real browser."""

from __future__ import annotations

import csv
import json
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import hindsight
from hindsight.agents.hpg import HPGConfig
from hindsight.cli import main
from hindsight.config import OnPolicyConfig
from hindsight.lab.runs import load, load_run
from hindsight.saving.lock import RunLock
from hindsight.training.run import Run

QUICK: dict[str, Any] = {
    "env_kwargs": {"bits": 4},
    "steps": 300,
    "eval_episodes": 8,
    "eval_every": 1,
    "quiet": True,
}
QUICK |= {"gradient_steps": 2, "batch_size": 16, "episodes_per_cycle": 8, "num_envs": 8}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with bit flip with and without hindsight, two seeds each, and a policy
    gradient without a policy."""
    directory = tmp_path_factory.mktemp("runs")
    for seed in (0, 1):
        for name, k in (("with", 4.0), ("without", 0.0)):
            path = directory / f"{name}-{seed}"
            hindsight.train(
                "hindsight/BitFlip-v0", seed=seed, run_dir=path, **QUICK, **{"replay.replay_k": k}
            )
    config = OnPolicyConfig("hindsight/BitFlip-v0", {"bits": 4}, eval_episodes=8, agent=HPGConfig())
    gradient = Run.create(
        config, directory / "hpg-0"
    )  # as such a run is after three batches: training it takes long
    learnt = {"learn/effective_sample_size": 0.5, "learn/entropy": -0.2, "learn/largest_ratio": 1.5}
    rows = [
        {"cycle": i, "step": 64 * i, "time/total": i, "eval/success_rate": 0.0, **learnt}
        for i in (1, 2, 3)
    ]
    (gradient.path / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return directory


def call(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as stop:
        main([str(a) for a in arguments])
    captured = capsys.readouterr()
    return int(stop.value.code or 0), captured.out, captured.err


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """The run directory as it is while it is trained."""
    with RunLock(path):
        yield


def all_runs(runs: Path) -> list[Path]:
    return sorted(p for p in runs.iterdir() if p.is_dir())


def test_compare_shows_groups_and_conclusions(
    capsys: pytest.CaptureFixture[str], runs: Path
) -> None:
    code, out, err = call(capsys, "compare", *all_runs(runs))
    assert (code, err) == (0, "")
    for text in (
        "dqn + HER",
        "hpg",
        "0, 1",
        "it flatters",
        "replay.replay_k",
        "One seed claims nothing",
        "Learning speed",
        "the base",
        "fewer than 5 seeds",
    ):
        assert text in out
    assert "“with”" in out


def test_compare_json_holds_the_same(capsys: pytest.CaptureFixture[str], runs: Path) -> None:
    code, out, _ = call(capsys, "compare", *all_runs(runs), "--json")
    data = json.loads(out)
    assert code == 0
    assert [g["label"] for g in data["groups"]] == ["hpg", "with", "without"]
    for g in data["groups"]:
        if g["label"] != "hpg":
            last = [Run.open(r["path"]).summary["success_rate"] for r in g["runs"]]
            assert [r["final"] for r in g["runs"]] == pytest.approx(last)
        assert g["final"]["low"] <= g["final"]["value"] <= g["final"]["high"]
        assert g["eval_episodes"] == 8
        assert g["speed"]["base"] == "hpg"
        assert g["speed"]["improvement"] is None
    assert data["skipped"] == []
    assert {c["verdict"] for c in data["conclusions"]} <= {
        "better",
        "ahead",
        "no difference",
        "too few episodes",
        "one seed",
    }


@pytest.mark.parametrize("command", ["compare", "report"])
def test_an_unknown_base_is_one_line(
    capsys: pytest.CaptureFixture[str], runs: Path, tmp_path: Path, command: str
) -> None:
    options = ["-o", tmp_path / "page.html", "--no-video"] if command == "report" else []
    code, out, err = call(capsys, command, runs / "with-0", "--base", "wiht", *options)
    assert (code, out) == (2, "")
    assert err == "hindsight: no group is called 'wiht'. Did you mean 'with'?\n"


def broken(runs: Path, tmp_path: Path) -> dict[str, tuple[Path, str]]:
    """Directories that are of no use, each with a part of the reason."""
    source = runs / "with-0"
    made: dict[str, tuple[Path, str]] = {"absent": (tmp_path / "absent", "does not exist")}

    def copy(name: str, reason: str) -> Path:
        made[name] = (tmp_path / name, reason)
        return Path(
            shutil.copytree(source, tmp_path / name, ignore=shutil.ignore_patterns("checkpoints"))
        )

    (tmp_path / "empty").mkdir()
    made["empty"] = (tmp_path / "empty", "is empty")
    (tmp_path / "foreign").mkdir()
    (tmp_path / "foreign" / "notes.txt").write_text("mine")
    made["foreign"] = (tmp_path / "foreign", "no config.json")
    (tmp_path / "file").write_text("x")
    made["file"] = (tmp_path / "file", "is no directory")
    (copy("other-json", "config.json") / "config.json").write_text('{"name": "some package"}')
    (copy("cut-config", "config.json") / "config.json").write_text('{"env": ')
    lines = (source / "metrics.jsonl").read_text().splitlines()
    (copy("cut-metrics", "line 2") / "metrics.jsonl").write_text(
        "\n".join([lines[0], lines[1][:30], *lines[2:], ""])
    )
    (copy("no-metrics", "metrics.jsonl") / "metrics.jsonl").unlink()
    (copy("binary-metrics", "line 1") / "metrics.jsonl").write_bytes(b"\x00\xff\n" * 5)
    (copy("no-evaluation", "no evaluation") / "metrics.jsonl").write_text("")
    summary = (source / "summary.json").read_text()
    (copy("other-summary", "SHA-256") / "summary.json").write_text(
        summary.replace('"seed": 0', '"seed": 7')
    )
    (copy("cut-summary", "not JSON") / "summary.json").write_text(summary[:40])
    copy("twin", "counted once")
    return made


@pytest.mark.parametrize("command", ["compare", "report"])
def test_what_cannot_be_used_is_named_and_skipped(
    capsys: pytest.CaptureFixture[str], runs: Path, tmp_path: Path, command: str
) -> None:
    made = broken(runs, tmp_path)
    options = ["-o", tmp_path / "page.html", "--no-video"] if command == "report" else []
    code, _, err = call(
        capsys, command, runs / "with-0", *(path for path, _ in made.values()), *options
    )
    assert code == 1
    lines = err.splitlines()
    assert len(lines) == len(made)
    for path, reason in made.values():
        assert any(
            line.startswith(f"hindsight: skipped {path}: ") and reason in line for line in lines
        ), (path, err)
    if command == "report":
        page = (tmp_path / "page.html").read_text()
        assert all(path.name in page for path, _ in made.values())


def test_nothing_usable_is_exit_code_2(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    code, out, err = call(capsys, "compare", tmp_path)
    assert (code, out) == (2, "")
    assert err.splitlines()[-1].startswith("hindsight: no run to compare")
    assert call(capsys, "report")[0] == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["report", "x", "-o", "page.pdf"], "ends in .html"),
        (["report", "x", "-o", "/no/such/page.html"], "no directory"),
        (["report", "x", "--watch", "--every", "0"], "--every"),
        (["compare"], "which runs"),
    ],
)
def test_mistakes_are_one_line(
    capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    code, _, err = call(capsys, *arguments)
    assert code == 2
    assert err.count("\n") == 1
    assert message in err


def test_states_of_runs(runs: Path, tmp_path: Path) -> None:
    path = Path(shutil.copytree(runs / "with-0", tmp_path / "run"))
    assert load_run(path).state == "finished"
    (path / "summary.json").unlink()
    assert load_run(path).state == "stopped"
    with open(path / "metrics.jsonl", "a") as file:
        file.write('{"cycle": 99, "st')  # being written, or cut by kill -9
    with locked(path):
        found = load_run(path)
        assert found.state == "running"
        assert len(found.rows) == len(load_run(runs / "with-0").rows)
        (path / "metrics.jsonl").unlink()
        assert load_run(path).final is None  # just begun


def test_a_running_run_is_used_marked_and_followed(
    capsys: pytest.CaptureFixture[str], runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, page = Path(shutil.copytree(runs / "with-0", tmp_path / "run-0")), tmp_path / "page.html"
    pages: list[str] = []
    with locked(path):
        assert "running" in call(capsys, "compare", path)[1]
        assert call(capsys, "report", path, "-o", page)[0] == 0
        assert "1 running" in page.read_text()
        assert 'http-equiv="refresh"' not in page.read_text()  # nobody would write it again

    def finish(seconds: float) -> None:
        assert seconds == 3
        pages.append(page.read_text())
        held.close()

    held = RunLock(path)
    monkeypatch.setattr("hindsight.lab.report.time.sleep", finish)
    options = ["-o", page, "--watch", "--every", "3", "--no-video"]
    code, _, err = call(capsys, "report", path, tmp_path / "absent", *options)
    assert (code, err.count("\n")) == (1, 1)  # named once, not with every page
    assert 'http-equiv="refresh" content="3"' in pages[0]
    assert "badge running" in pages[0]
    assert 'http-equiv="refresh"' not in page.read_text()
    assert "badge running" not in page.read_text()
    assert not list(tmp_path.glob("*.part"))


def test_a_policy_that_cannot_be_filmed_is_told_on_the_page(
    capsys: pytest.CaptureFixture[str], runs: Path, tmp_path: Path
) -> None:
    path = Path(shutil.copytree(runs / "with-0", tmp_path / "run-0"))
    (path / "policy.safetensors").write_bytes(b"nothing")
    assert call(capsys, "report", path, "-o", tmp_path / "page.html")[0] == 0
    assert "There is no video: " in (tmp_path / "page.html").read_text()


def test_names_are_escaped(capsys: pytest.CaptureFixture[str], runs: Path, tmp_path: Path) -> None:
    path = Path(shutil.copytree(runs / "with-0", tmp_path / "<script>alert(1)<&\"'-0"))
    call(capsys, "report", path, "-o", tmp_path / "page.html", "--no-video", "--title", "<b>")
    page = (tmp_path / "page.html").read_text()
    assert page.count("<script") == 1  # its own
    assert "<script>alert" not in page
    assert "<b>" not in page


def test_the_same_runs_twice_are_counted_once(runs: Path) -> None:
    found, skipped = load([runs / "with-0", runs / "with-0", runs / ".." / runs.name / "with-0"])
    assert len(found) == 1
    assert [item.reason for item in skipped] == ["is given twice: counted once"] * 2


# ------------------------------------------------------------------------------------- the browser

SIZES = {"phone": (390, 844), "desktop": (1280, 900)}
PLAY = """async () => {
  const video = document.querySelector('video');
  await video.play();
  for (let i = 0; i < 100 && video.currentTime < 0.2; i++)
    await new Promise(r => setTimeout(r, 50));
  return [video.readyState, video.currentTime, video.videoWidth];
}"""
OVERFLOWING = """[...document.querySelectorAll('.scroll:not(.tall)')]
  .filter(box => box.scrollWidth > box.clientWidth).map(box => box.ariaLabel)"""
PLOTS = """() => [...document.querySelectorAll('svg.plot')].map(plot => ({
  x: plot.querySelector('.x-axis').textContent, y: plot.querySelector('.y-axis').textContent,
  name: plot.querySelector('title').textContent, lines: plot.querySelectorAll('polyline').length,
  ticks: plot.querySelectorAll('.x-tick').length,
  data: !!plot.closest('figure').querySelector('details table'),
  inside: [...plot.querySelectorAll('text')].every(t => {
    const a = t.getBoundingClientRect(), b = plot.getBoundingClientRect();
    return a.left >= b.left - 1 && a.right <= b.right + 1
      && a.top >= b.top - 1 && a.bottom <= b.bottom + 1; }),
}))"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    path = next(
        (
            found
            for name in ("chromium", "chromium-browser", "google-chrome")
            if (found := shutil.which(name))
        ),
        None,
    )
    if path is None:
        reason = "there is no Chromium here: as root, `make browser` installs it"
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield opened
        opened.close()


@pytest.fixture(scope="module")
def page_file(runs: Path) -> Path:
    path = runs / "page.html"
    with pytest.raises(SystemExit) as stop:
        main(["report", *map(str, all_runs(runs)), "-o", str(path)])
    assert stop.value.code == 0
    return path


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", SIZES)
def test_the_page_in_a_browser(browser: Any, page_file: Path, size: str, scheme: str) -> None:
    width, height = SIZES[size]
    context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme)
    page = context.new_page()
    problems: list[str] = []
    requests: list[str] = []
    page.on("console", lambda message: problems.append(message.text))
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("request", lambda request: requests.append(request.url))
    page.goto(page_file.as_uri())

    plots = page.evaluate(PLOTS)
    assert {plot["name"] for plot in plots} >= {
        "Success against steps",
        "Success against minutes",
        "Alternate goals per actual goal",
        "Share of r = 0",
        "Effective sample size",
        "Entropy of the policy",
    }
    for plot in plots:
        assert plot["x"] in ("env steps", "minutes of training")
        assert plot["y"]
        assert plot["lines"] >= 1
        assert plot["ticks"] >= 2
        assert plot["data"]
        assert plot["inside"], plot["name"]
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    if size == "desktop":  # on a phone they scroll in their own box
        assert page.evaluate(OVERFLOWING) == []
    ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (sum(map(int, re.findall(r"\d+", ground))) < 150) == (scheme == "dark")

    state, time, video_width = page.evaluate(PLAY)
    assert state >= 2
    assert time >= 0.2
    assert video_width > 0

    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    headings = page.evaluate(
        "[...document.querySelectorAll('h1, h2, h3, h4')].map(h => +h.tagName[1])"
    )
    assert headings[0] == 1
    assert headings.count(1) == 1
    assert all(after <= before + 1 for before, after in pairwise(headings))
    context.close()
    assert problems == []
    assert [url for url in requests if not url.startswith(("file://", "data:"))] == []
    assert sum(url.startswith("file://") for url in requests) == 1


@pytest.fixture
def page(browser: Any, page_file: Path) -> Iterator[Any]:
    """The page on a desktop; it must not complain of anything."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    opened = context.new_page()
    problems: list[str] = []
    opened.on("console", lambda message: problems.append(message.text))
    opened.on("pageerror", lambda error: problems.append(str(error)))
    opened.goto(page_file.as_uri())
    yield opened
    context.close()
    assert problems == []


def chart(page: Any, title: str) -> Any:
    return page.locator("figure.chart", has=page.get_by_role("heading", name=title, exact=True))


def data(figure: Any) -> list[list[str]]:
    """The numbers below a figure: group, x, y, low, high."""
    rows: list[list[str]] = figure.evaluate(
        "f => [...f.querySelectorAll('.data tbody tr')].map("
        "row => [...row.cells].map(cell => cell.textContent.trim()))"
    )
    return rows


def shown(figure: Any) -> list[list[str]]:
    """What the box of values shows: group, x, y with its band."""
    return [
        row.locator("td").all_inner_texts()
        for row in figure.locator(".values tbody tr").all()
        if row.is_visible()
    ]


def numbers(*cells: str) -> list[float]:
    """All numbers in some cells."""
    return [float(n) for cell in cells for n in re.findall(r"[-\d.e]+", cell.replace(",", ""))]


def test_the_pointer_shows_the_values_of_every_line(page: Any) -> None:
    figure = chart(page, "Success against steps")
    plot, box = figure.locator(".plot"), figure.locator(".values")
    assert not box.is_visible()
    rows = data(figure)
    labels = list(dict.fromkeys(row[0] for row in rows))
    assert len(labels) == 3
    plot.scroll_into_view_if_needed()
    size = plot.bounding_box()
    page.mouse.move(size["x"] + 380 / 400 * size["width"], size["y"] + 60)  # the right end
    last = {row[0]: row for row in rows}
    found = {row[0]: row for row in shown(figure)}
    assert set(found) == {"with", "without"}  # hpg ended before
    for label in found:
        assert numbers(*found[label][1:]) == pytest.approx(numbers(*last[label][1:]), rel=0.01)
    page.mouse.move(size["x"] + 60, size["y"] + 60)
    first = min(rows, key=lambda row: float(row[1]))
    assert [first[0], *numbers(*first[1:])] in [[r[0], *numbers(*r[1:])] for r in shown(figure)]
    page.mouse.move(0, 0)
    assert not box.is_visible()


def test_arrow_keys_go_from_value_to_value(page: Any) -> None:
    figure = chart(page, "Success against steps")
    figure.locator(".plot").focus()
    steps = sorted({float(row[1]) for row in data(figure)})
    seen = []
    for _ in range(len(steps) + 2):
        page.keyboard.press("ArrowLeft")
        seen.append(tuple(map(tuple, shown(figure))))
    assert len(set(seen)) > 3
    assert seen[-1] == seen[-2]  # the first
    assert steps[0] in numbers(*(row[1] for row in seen[-1]))
    page.keyboard.press("ArrowRight")
    assert shown(figure) != [list(row) for row in seen[-1]]


def test_the_legend_hides_lines_in_all_figures_of_an_env(page: Any) -> None:
    def visible(group: str) -> set[bool]:
        lines = page.locator(f'polyline[data-group="{group}"], polygon[data-group="{group}"]')
        assert lines.count() > 2
        return {not found for found in lines.evaluate_all("all => all.map(l => l.matches('.off'))")}

    button = chart(page, "Share of r = 0").get_by_role("button", name="without")
    button.click()
    assert button.get_attribute("aria-pressed") == "false"
    assert visible("without") == {False}
    assert visible("with") == {True}
    figure = chart(page, "Success against steps")
    figure.locator(".plot").focus()
    page.keyboard.press("ArrowLeft")
    assert "without" not in [row[0] for row in shown(figure)]
    button.click()
    assert visible("without") == {True}
    button.dblclick()
    assert (visible("without"), visible("with")) == ({True}, {False})
    button.dblclick()
    assert (visible("without"), visible("with")) == ({True}, {True})


def test_the_data_as_csv(page: Any, tmp_path: Path) -> None:
    def downloaded(button: Any) -> tuple[str, list[list[str]]]:
        with page.expect_download() as info:
            button.click()
        path = tmp_path / info.value.suggested_filename
        info.value.save_as(path)
        with open(path, newline="") as file:
            return path.name, list(csv.reader(file))

    figure = chart(page, "Success against steps")
    figure.get_by_text("Data", exact=True).click()
    name, rows = downloaded(figure.get_by_role("button", name="Download as CSV"))
    assert name == "hindsight-BitFlip-v0-with-bits-4-Success-against-steps.csv"
    assert rows[0] == ["env", "figure", "group", "x", "y", "low", "high"]
    where = ["hindsight/BitFlip-v0 with bits 4", "Success against steps"]
    assert rows[1:] == [where + row for row in data(figure)]
    _, everything = downloaded(page.get_by_role("button", name="Download all curves as CSV"))
    assert everything[0] == rows[0]
    assert all(row in everything for row in rows)
    assert len({row[1] for row in everything[1:]}) == page.locator("figure.chart").count()


def test_without_scripts_the_page_says_the_same(browser: Any, page_file: Path) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(page_file.as_uri())
    assert page.get_by_text("Success against steps", exact=True).first.is_visible()
    assert not page.get_by_role("button", name="CSV").first.is_visible()
    assert page.locator(".legend button").first.is_disabled()
    context.close()


def test_only_its_own_script_may_run(page_file: Path, browser: Any, tmp_path: Path) -> None:
    """Whatever a name might smuggle in is refused by the page's own policy."""
    changed = tmp_path / "page.html"
    changed.write_text(
        page_file.read_text().replace("</main>", "<script>window.got = 1</script></main>")
    )
    page = browser.new_page()
    page.goto(changed.as_uri())
    assert page.evaluate("window.got") is None
    page.close()
