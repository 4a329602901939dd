"""Who may write into a run directory, and runs that were killed at the worst moments: all of
them can be finished."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import hindsight
from conftest import LineEnv, fingerprint
from hindsight.cli import main
from hindsight.errors import HindsightError
from hindsight.saving.lock import LOCK, RunLock, is_held
from hindsight.training.off_policy import Progress
from hindsight.training.run import Run
from hindsight.training.verify import verify

pytestmark = pytest.mark.usefixtures("compiles_alone")

QUICK: dict[str, Any] = {
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
BITS = "hindsight/BitFlip-v0"


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A run that was never stopped."""
    return hindsight.train(BITS, run_dir=tmp_path_factory.mktemp("runs") / "run", **QUICK)


# ------------------------------------------------------------------------------------------- locks

HOLD = "import sys, pathlib, hindsight.saving.lock as lock; held = lock.RunLock(pathlib.Path(sys.argv[1])); "


def test_the_lock_is_one_processes(tmp_path: Path) -> None:
    program = HOLD + "print(flush=True); sys.stdin.read()"
    command = [sys.executable, "-c", program, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdout.readline()
        assert is_held(tmp_path)
        with pytest.raises(HindsightError, match="another process"):
            RunLock(tmp_path)
        process.kill()
    with RunLock(tmp_path):
        assert is_held(tmp_path)
        assert is_held(tmp_path)  # asking does not release it
    assert not is_held(tmp_path)


def test_the_checkpoint_is_chosen_after_the_lock(
    whole: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process finishes the run while this one is about to resume it: its last checkpoint
    stays."""
    run = tmp_path / "run"
    hindsight.train(BITS, run_dir=run, callbacks=[lambda p: p.cycle == 2], **QUICK)
    inner = RunLock.__init__

    def late(self: RunLock, directory: Path) -> None:
        if not (run / "elsewhere").exists():
            (run / "elsewhere").touch()
            hindsight.resume(run, quiet=True)
        inner(self, directory)

    monkeypatch.setattr(RunLock, "__init__", late)
    with pytest.raises(HindsightError, match="is finished"):
        hindsight.resume(run, quiet=True)
    assert fingerprint(Run.open(run)) == fingerprint(whole)


def test_a_directory_that_is_moved_while_it_is_trained(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """And another run in its place: the two are not mixed."""
    first, second = tmp_path / "run", tmp_path / "other"
    hindsight.train(LineEnv, run_dir=second, seed=7, callbacks=[lambda p: p.cycle == 2], **QUICK)
    before = {p: p.read_bytes() for p in second.rglob("*") if p.is_file()}

    def swap(progress: Progress) -> None:
        if progress.cycle == 2:
            first.rename(tmp_path / "moved")
            second.rename(first)

    with pytest.raises(HindsightError, match="moved or replaced"):
        hindsight.train(LineEnv, run_dir=first, callbacks=[swap], **(QUICK | {"steps": 150}))
    assert "moved or replaced" in capfd.readouterr().err
    first.rename(second)
    assert before == {p: p.read_bytes() for p in second.rglob("*") if p.is_file()}
    moved = tmp_path / "moved"
    assert all(finding.state != "BROKEN" for finding in verify(moved))
    assert hindsight.resume(moved, env=LineEnv, quiet=True).summary["status"] == "finished"


def test_a_failed_resume_releases_the_lock(tmp_path: Path) -> None:
    run = tmp_path / "run"
    hindsight.train(LineEnv, run_dir=run, callbacks=[lambda p: p.cycle == 2], **QUICK)
    with pytest.raises(HindsightError):
        hindsight.resume(run, quiet=True)  # LineEnv has no id
    (run / "summary.json.part").symlink_to("/nowhere")
    with pytest.raises(HindsightError, match="is a link"):
        hindsight.resume(run, env=LineEnv, quiet=True)
    (run / "summary.json.part").unlink()
    assert not is_held(run)
    assert hindsight.resume(run, env=LineEnv, quiet=True).summary["status"] == "finished"
    assert not is_held(run)


def test_a_lock_that_is_a_link(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("irreplaceable")
    (tmp_path / LOCK).symlink_to(tmp_path / "file")
    with pytest.raises(HindsightError, match="is a link"):
        RunLock(tmp_path)


# -------------------------------------------------------------------------------------- stuck runs


def begin(path: Path) -> None:
    """A run that was killed before its first checkpoint, in its second row of metrics."""
    hindsight.train(BITS, run_dir=path, **QUICK)
    shutil.rmtree(path / "checkpoints")
    (path / "summary.json").unlink()
    rows = (path / "metrics.jsonl").read_bytes().splitlines(keepends=True)
    (path / "metrics.jsonl").write_bytes(rows[0] + rows[1][:20])


def test_killed_before_the_first_checkpoint(whole: Run, tmp_path: Path) -> None:
    begin(tmp_path / "run")
    run = hindsight.resume(tmp_path / "run", quiet=True)
    assert fingerprint(run) == fingerprint(whole)
    assert run.summary["status"] == "finished"
    assert all(finding.state != "BROKEN" for finding in verify(run.path))


@pytest.mark.parametrize("left", [None, "config.json.part"])
def test_killed_before_there_were_settings(left: str | None, tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    if left:
        (tmp_path / "run" / left).write_text("{")
    with pytest.raises(HindsightError, match="train it anew"):
        hindsight.resume(tmp_path / "run")
    assert hindsight.train(BITS, run_dir=tmp_path / "run", **QUICK).summary["status"] == "finished"


def test_killed_between_the_last_checkpoint_and_the_summary(whole: Run, tmp_path: Path) -> None:
    shutil.copytree(whole.path, tmp_path / "run")
    (tmp_path / "run" / "summary.json").unlink()
    with open(tmp_path / "run" / "metrics.jsonl", "ab") as file:
        file.write(b'{"cycle"')
    with pytest.raises(SystemExit) as stop:
        main(["resume", str(tmp_path / "run"), "--quiet"])
    assert stop.value.code == 0
    run = Run.open(tmp_path / "run")
    assert fingerprint(run) == fingerprint(whole)
    same = ("status", "steps", "minutes", "success_rate", "best_success_rate")
    assert {k: run.summary[k] for k in same} == {k: whole.summary[k] for k in same}
    assert all(finding.state != "BROKEN" for finding in verify(run.path))
    with pytest.raises(HindsightError, match="is finished"):
        hindsight.resume(run.path)


def test_a_sweep_finishes_what_was_killed(tmp_path: Path) -> None:
    command = [
        "sweep",
        BITS,
        "--seeds",
        "0",
        "1",
        "--dir",
        str(tmp_path),
        "--no-video",
        "--jobs",
        "2",
        "--steps",
        "60",
    ]
    command += [
        "--eval-episodes",
        "2",
        "--batch-size",
        "16",
        "--agent.net_arch",
        "8",
        "--episodes-per-cycle",
        "2",
    ]
    assert (
        subprocess.run([sys.executable, "-m", "hindsight.cli", *command], check=False).returncode
        == 0
    )
    runs = sorted((tmp_path / "runs").iterdir())
    (runs[0] / "summary.json").unlink()
    shutil.rmtree(runs[1] / "checkpoints")
    (runs[1] / "summary.json").unlink()
    assert (
        subprocess.run([sys.executable, "-m", "hindsight.cli", *command], check=False).returncode
        == 0
    )
    assert [Run.open(path).summary["status"] for path in runs] == ["finished"] * 2


# A process that has imported everything, and forks a training for every kill: JAX has no threads
# yet.
KILLS = """
import json, os, random, signal, sys, time, warnings
from pathlib import Path
import hindsight.api as api
from hindsight.errors import HindsightError
warnings.simplefilter("ignore")
base, kills, learners = Path(sys.argv[1]), int(sys.argv[2]), json.loads(sys.argv[3])
rng = random.Random(1)

def begin_or_resume(path, settings):
    summary = path / "summary.json"
    if summary.exists() and json.loads(summary.read_bytes())["status"] == "finished":
        return  # killed after its last file, before its process had ended: there is nothing to do
    if (path / "config.json").exists():
        api.resume(path, quiet=True)
    else:
        api.train("hindsight/BitFlip-v0", run_dir=path, **settings)

run, done, longest = 0, 0, {}
while done < kills or not (base / str(run) / "summary.json").exists():
    path, kind = base / str(run), run % len(learners)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            begin_or_resume(path, learners[kind])
            code = 0
        finally:
            os._exit(code)
    start, code = time.monotonic(), None
    # The first of each learner shows how long it takes, and is what the others are compared with.
    limit = rng.uniform(0, longest[kind]) if kind in longest and done < kills else 300
    while code is None and time.monotonic() - start < limit:
        time.sleep(0.002)
        ended, status = os.waitpid(child, os.WNOHANG)
        code = os.waitstatus_to_exitcode(status) if ended else None
    if code is None:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        done += 1
        continue
    assert code == 0, f"{path} is stuck: exit code {code}"
    longest[kind] = 1.5 * (time.monotonic() - start)
    status = json.loads((path / "summary.json").read_bytes())["status"]
    assert status == "finished", (path, status)
    run += done < kills
print(done)
"""


LEARNERS: list[dict[str, Any]] = [
    {"method": "dqn"},
    {"method": "dqn", "preset": "hper"},
    {"method": "hpg"},
    {"method": "ppo"},
]


@pytest.mark.parametrize(
    ("kills", "learners"), [(6, 1), pytest.param(500, len(LEARNERS), marks=pytest.mark.slow)]
)
def test_kills_at_any_moment_leave_no_run_stuck(kills: int, learners: int, tmp_path: Path) -> None:
    """From the first import-free moment of a training to its last: each is finished in the end,
    with the same bytes as the first of its learner, which is not killed."""
    quick = QUICK | {"steps": 300}
    settings = [quick | learner for learner in LEARNERS[:learners]]
    for learner in settings[2:]:  # of on-policy learners
        del learner["gradient_steps"], learner["batch_size"]
    command = [sys.executable, "-c", KILLS, str(tmp_path), str(kills), json.dumps(settings)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr[-2000:]
    assert int(result.stdout) == kills
    runs = {int(path.name): Run.open(path) for path in tmp_path.iterdir()}
    assert all(run.summary["status"] == "finished" for run in runs.values())
    prints = {number: fingerprint(run) for number, run in runs.items()}
    assert len(prints) > learners
    assert all(found == prints[number % learners] for number, found in prints.items())
