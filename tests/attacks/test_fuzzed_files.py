"""A fuzzer: files of a run, edited at random and sealed again, end in one line of error or in
nothing, never in a traceback, a hang or an exhausted memory."""

from __future__ import annotations

import copy
import json
import random
import shutil
import signal
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from safetensors.numpy import load as load_tensors

import hindsight
from hindsight.errors import HindsightError
from hindsight.lab.groups import group
from hindsight.lab.runs import load_run
from hindsight.saving.files import sealed, sum_of
from hindsight.training.policy import DESCRIPTION, TENSORS, tensors_file
from hindsight.training.run import Run
from hindsight.training.verify import verify

SETTINGS: dict[str, Any] = {"quiet": True, "steps": 60, "num_envs": 2, "episodes_per_cycle": 2}
SETTINGS |= {"gradient_steps": 2, "batch_size": 16, "eval_episodes": 2, "eval_every": 1}
SETTINGS |= {"agent.net_arch": (8,), "checkpoint.minutes": 0.0}
VALUES: list[Any] = [None, True, -1, 0, 3, 2**31, 10**30, -(10**30), 1e-300, 1e308, -0.5, "", "x"]
VALUES += ["\ud800", "1", [], [1], ["x"], {}, {"x": 1}, float("nan"), float("inf")]


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("runs") / "run"
    hindsight.train(
        "hindsight/BitFlip-v0", run_dir=path, callbacks=[lambda p: p.cycle == 2], **SETTINGS
    )
    return path


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every (container, key) in a JSON value."""
    for key in list(value) if isinstance(value, dict) else range(len(value)):
        yield value, key
        if isinstance(value[key], dict | list):
            yield from places(value[key])


def edited(value: Any, rng: random.Random) -> Any:
    """A copy with one place replaced, deleted, or with something beside it."""
    found = copy.deepcopy(value)
    container, key = rng.choice(list(places(found)))
    kind = rng.random()
    if kind < 0.8:
        container[key] = rng.choice(VALUES)
    elif kind < 0.9:
        del container[key]
    elif isinstance(container, dict):
        container[f"{key}_"] = rng.choice(VALUES)
    else:
        container.insert(key, rng.choice(VALUES))
    return found


def text(value: Any) -> bytes:
    return json.dumps(value).encode()


def edit_json(path: Path, rng: random.Random) -> None:
    path.write_bytes(text(edited(json.loads(path.read_bytes()), rng)))


def edit_sealed(path: Path, rng: random.Random) -> None:
    content = json.loads(path.read_bytes())
    del content["sha256"]
    path.write_bytes(sealed(edited(content, rng)))


def edit_rows(path: Path, rng: random.Random) -> None:
    rows = [json.loads(line) for line in path.read_bytes().splitlines()]
    rows = edited(rows, rng)
    path.write_bytes(b"".join(text(row) + b"\n" for row in rows))


def edit_policy(run: Path, rng: random.Random) -> None:
    edit_json(run / DESCRIPTION, rng)
    tensors = load_tensors((run / TENSORS).read_bytes())
    (run / TENSORS).write_bytes(tensors_file(tensors, (run / DESCRIPTION).read_bytes()))


def edit_bytes(path: Path, rng: random.Random) -> None:
    content = bytearray(path.read_bytes())
    content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
    path.write_bytes(content)


def in_checkpoint(name: str, edit: Callable[[Path, random.Random], None]) -> Callable[..., None]:
    """An edit of a file of the newest checkpoint, whose manifest then says that it is whole."""

    def change(run: Path, rng: random.Random) -> None:
        newest = max((run / "checkpoints").iterdir())
        edit(newest / name, rng)
        if name != "manifest.json":
            seal(newest / name)

    return change


def seal(path: Path) -> None:
    """Let the manifest of a checkpoint say that this file of it is whole."""
    manifest = json.loads(path.with_name("manifest.json").read_bytes())
    del manifest["sha256"]
    manifest["files"][path.name] = sum_of(path)._asdict()
    path.with_name("manifest.json").write_bytes(sealed(manifest))


EDITS: dict[str, Callable[[Path, random.Random], None]] = {
    "config": lambda run, rng: edit_json(run / "config.json", rng),
    "policy": edit_policy,
    "summary": lambda run, rng: edit_sealed(run / "summary.json", rng),
    "metrics": lambda run, rng: edit_rows(run / "metrics.jsonl", rng),
    "tensors": lambda run, rng: edit_bytes(run / TENSORS, rng),
    "checkpoint config": in_checkpoint("config.json", edit_json),
    "checkpoint state": in_checkpoint("state.json", edit_json),
    "checkpoint metrics": in_checkpoint("metrics.jsonl", edit_rows),
    "manifest": in_checkpoint("manifest.json", edit_sealed),
    "checkpoint tensors": in_checkpoint("learner.safetensors", edit_bytes),
}
READ: list[Callable[[Path], Any]] = [
    hindsight.load,
    verify,
    lambda run: (repr(Run.open(run)), Run.open(run)._repr_html_(), Run.open(run).metrics),
    lambda run: group([load_run(run)]),
]
RUN: list[Callable[[Path], Any]] = [
    lambda run: hindsight.evaluate(run, episodes=2),
    lambda run: hindsight.resume(run, quiet=True, callbacks=[lambda progress: True]),
]


@contextmanager
def limited(seconds: int) -> Iterator[None]:
    """So many seconds of this process's own time, however busy the machine is; ten times as many
    to wait."""

    def late(*_: Any) -> None:
        raise TimeoutError("it hangs")

    timers = ((signal.SIGPROF, signal.ITIMER_PROF, 1), (signal.SIGALRM, signal.ITIMER_REAL, 10))
    before = [signal.signal(name, late) for name, _, _ in timers]
    for _, timer, times in timers:
        signal.setitimer(timer, seconds * times)
    try:
        yield
    finally:
        for (name, timer, _), handler in zip(timers, before, strict=True):
            signal.setitimer(timer, 0)
            signal.signal(name, handler)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("edits", "runs"), [(200, 20), pytest.param(6000, 600, marks=pytest.mark.slow)]
)
def test_edited_files_end_in_one_line(
    edits: int, runs: int, stopped: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """The first `runs` of the edits are also evaluated and resumed."""
    refused = lines = 0
    for number in range(edits):
        rng = random.Random(number)
        kind = list(EDITS)[number % len(EDITS)]
        run = tmp_path / "run"
        shutil.copytree(stopped, run)
        EDITS[kind](run, rng)
        for use in [*READ, *(RUN if number < runs else [])]:
            try:
                with warnings.catch_warnings(), limited(60):
                    warnings.simplefilter("ignore")
                    use(run)
            except HindsightError as error:
                refused += 1
                lines += str(error).count("\n")
            except BaseException as error:
                pytest.fail(f"edit {number} of {kind}: {type(error).__name__}: {error}")
        shutil.rmtree(run)
    assert lines == 0
    assert refused > edits / 4


# What the fuzzer has found on resume, each as a hang or a traceback.
FOUND: list[tuple[str, Any, str | None]] = [
    ("num_envs", 10**30, None),  # no more are made than are played together
    ("steps", 10**30, None),  # a run may ask for much time
    ("agent.net_arch", [2**31], r"agent.net_arch \[2147483648\] would take about 3.3 TB"),
    ("agent.net_arch", [10**30], r"agent.net_arch \[10{30}\] would take about"),
    ("replay.buffer_size", 2**63, r"replay.buffer_size 9223372036854775808 would take about"),
    ("replay.buffer_size", 10**30, r"replay.buffer_size 10{30} would take about"),
]


@pytest.mark.parametrize(("setting", "value", "message"), FOUND)
def test_huge_settings_in_a_checkpoint(
    setting: str, value: Any, message: str | None, stopped: Path, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    shutil.copytree(stopped, run)
    path = max((run / "checkpoints").iterdir()) / "config.json"
    config = json.loads(path.read_bytes())
    *parts, name = setting.split(".")
    place = config
    for part in parts:
        place = place[part]
    assert name in place
    place[name] = value
    path.write_bytes(text(config))
    seal(path)
    with limited(60):
        if message is None:
            RUN[1](run)
            assert Run.open(run).metrics[-1]["cycle"] == 3
            return
        with pytest.raises(HindsightError, match=message) as error:
            RUN[1](run)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("line", [1, 2])
@pytest.mark.parametrize("row", [None, "x", 3, [], {}, {"cycle": None}, {"cycle": "x"}])
def test_rows_of_a_checkpoint_that_are_none(
    line: int, row: Any, stopped: Path, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    shutil.copytree(stopped, run)
    path = max((run / "checkpoints").iterdir()) / "metrics.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    if isinstance(row, dict) and row:
        row = json.loads(lines[line - 1]) | row
    lines[line - 1] = text(row) + b"\n"
    path.write_bytes(b"".join(lines))
    seal(path)
    with pytest.raises(HindsightError, match=f"line {line} is not a row of metrics") as error:
        RUN[1](run)
    assert "\n" not in str(error.value)
