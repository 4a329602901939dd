"""Checkpoints copied to an fsspec address: the same as here, and good to go on from elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import pytest

import hindsight
from conftest import fingerprint
from hindsight.cli import main
from hindsight.errors import HindsightError
from hindsight.saving.mirror import Mirror
from hindsight.saving.saver import SaveFailed
from hindsight.training.progress import Progress
from hindsight.training.run import Run

BITS = "hindsight/BitFlip-v0"
SETTINGS: dict[str, Any] = {
    "quiet": True,
    "steps": 60,
    "num_envs": 2,
    "episodes_per_cycle": 2,
    "gradient_steps": 2,
    "batch_size": 16,
    "eval_episodes": 2,
    "eval_every": 1,
    "agent.net_arch": (8,),
    "checkpoint.minutes": 0.0,
}


def at_third(progress: Progress) -> bool:
    return progress.cycle == 3


@pytest.fixture(params=["file", "memory"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "file":
        yield f"file://{tmp_path}/store/run"
    else:
        yield "memory://store/run"
        fsspec.filesystem("memory").store.clear()


def contents(root: str) -> dict[str, bytes]:
    """Every file of every checkpoint under an address or a directory."""
    store, path = fsspec.core.url_to_fs(root)
    found = [name for name in store.find(path) if "/0" in name]
    return {"/".join(name.split("/")[-2:]): store.cat_file(name) for name in found}


@pytest.fixture(scope="module")
def uncut(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return hindsight.train(BITS, run_dir=tmp_path_factory.mktemp("uncut") / "run", **SETTINGS)


def test_the_copies_are_the_checkpoints_and_a_run_goes_on_from_them_elsewhere(
    address: str, uncut: Run, tmp_path: Path
) -> None:
    run = hindsight.train(
        BITS, run_dir=tmp_path / "run", callbacks=[at_third], checkpoint_to=address, **SETTINGS
    )
    here = contents(str(run.path / "checkpoints"))
    assert here
    assert contents(address) == here

    # a run directory that does not exist yet: all is taken from the address
    resumed = hindsight.resume(tmp_path / "elsewhere", checkpoint_to=address, quiet=True)
    assert resumed.metrics[0] == run.metrics[0]
    assert fingerprint(resumed) == fingerprint(uncut)
    assert contents(address) == contents(str(resumed.path / "checkpoints"))

    # and the run itself, which is behind now, takes the newer ones, and is finished
    again = hindsight.resume(run.path, checkpoint_to=address, quiet=True)
    assert again.summary["status"] == "finished"
    assert fingerprint(again) == fingerprint(uncut)


def test_a_finished_run_can_be_brought_here(address: str, uncut: Run, tmp_path: Path) -> None:
    hindsight.train(BITS, run_dir=tmp_path / "run", checkpoint_to=address, **SETTINGS)
    run = hindsight.resume(tmp_path / "elsewhere", checkpoint_to=address, quiet=True)
    assert run.summary["status"] == "finished"
    assert fingerprint(run) == fingerprint(uncut)
    observation = {"observation": np.zeros(8), "desired_goal": np.ones(8)}
    assert run.policy(observation) == uncut.policy(observation)


def test_a_copy_that_is_broken_or_was_cut_short_is_not_taken(address: str, tmp_path: Path) -> None:
    run = hindsight.train(
        BITS, run_dir=tmp_path / "run", callbacks=[at_third], checkpoint_to=address, **SETTINGS
    )
    mirror = Mirror(address)
    assert mirror.names() == run.checkpoints.names()
    newest, second, *_ = mirror.names()
    store, root = fsspec.core.url_to_fs(address)

    content = store.cat_file(f"{root}/{newest}/state.json")
    store.pipe_file(f"{root}/{newest}/state.json", content.replace(b"1", b"2", 1))
    with pytest.warns(UserWarning, match=r"SHA-256 of state.json differs; skipped"):
        resumed = hindsight.resume(
            tmp_path / "a", checkpoint_to=address, callbacks=[lambda _: True], quiet=True
        )
    assert [row["cycle"] for row in resumed.metrics] == list(range(1, int(second) + 2))

    fsspec.filesystem("file").rm(str(tmp_path / "a"), recursive=True)
    for name in mirror.names():
        store.rm_file(f"{root}/{name}/manifest.json")
    with pytest.raises(HindsightError, match="there are no checkpoints at"):
        hindsight.resume(tmp_path / "a", checkpoint_to=address)
    assert not (tmp_path / "a").exists()


def test_two_runs_do_not_share_an_address(address: str, tmp_path: Path) -> None:
    hindsight.train(
        BITS, run_dir=tmp_path / "run", callbacks=[at_third], checkpoint_to=address, **SETTINGS
    )
    with pytest.raises(HindsightError, match="holds the checkpoints of a run"):
        hindsight.train(BITS, run_dir=tmp_path / "other", checkpoint_to=address, **SETTINGS)
    assert not (tmp_path / "other").exists()


def test_a_store_that_fails_is_told_once_and_costs_nothing_here(
    uncut: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("not a directory")
    address = f"file://{tmp_path}/file/run"
    run = hindsight.train(BITS, run_dir=tmp_path / "run", checkpoint_to=address, **SETTINGS)
    err = capsys.readouterr().err
    assert err.count(f"cannot write to {address}") == 1
    assert run.summary["status"] == "finished"
    assert fingerprint(run) == fingerprint(uncut)
    strict = SETTINGS | {"checkpoint.when_failed": "stop"}
    with pytest.raises(SaveFailed, match="cannot write to file://"):
        hindsight.train(BITS, run_dir=tmp_path / "strict", checkpoint_to=address, **strict)


@pytest.mark.parametrize(
    ("address", "message"),
    [("nosuch://bucket/run", "nosuch"), ("s3://bucket/run", "s3fs")],
)
def test_a_store_that_nobody_knows_is_one_line(
    address: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stop:
        main(["train", BITS, "--run-dir", str(tmp_path / "run"), "--checkpoint-to", address])
    assert stop.value.code == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert message in err
    assert not (tmp_path / "run").exists()


def test_without_fsspec_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fsspec", None)
    with pytest.raises(HindsightError, match=r"pip install 'hindsight-rl\[store\]'"):
        Mirror("memory://run")
