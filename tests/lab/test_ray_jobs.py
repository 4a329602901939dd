"""Jobs on a real Ray cluster on this machine: nodes that die, files that are gathered, Ctrl-C."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from conftest import without_times
from hindsight.training.run import Run

pytest.importorskip("ray")
pytestmark = pytest.mark.xdist_group("ray")

PROGRAM = Path(__file__).with_name("counting_jobs.py")


Found = dict[str, dict[str, Any]]


@pytest.fixture(scope="session")
def found(tmp_path_factory: pytest.TempPathFactory) -> Found:
    """In a process of its own: Ray is one per process."""
    directory = tmp_path_factory.mktemp("cluster")
    command = [sys.executable, str(PROGRAM), str(directory)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, cwd=directory)
    assert done.returncode == 0, done.stdout + done.stderr
    result: Found = json.loads(done.stdout.splitlines()[-1])
    return result


@pytest.mark.parametrize("what", ["shared", "gathered"])
def test_jobs_of_a_node_that_dies_go_on_elsewhere(what: str, found: Found) -> None:
    """Their run directories are seen by all nodes, or are gathered from their nodes."""
    here = found[what]
    assert here["states"] == {f"count{number}": "done" for number in range(4)}
    assert here["counted"] == [24] * 4
    assert here["lost"] >= 1
    begun_again = [begun for begun in here["begun"] if len(begun) > 1]
    assert begun_again
    # from what was saved, not from the start
    assert all(int(count) >= 6 for begun in begun_again for count in begun[1:])
    assert here["logs"] == [1] * 4
    assert not any(name.startswith(".seen") for name in here["files"])


def test_ctrl_c_stops_all_jobs_saved(found: Found) -> None:
    here = found["stopped"]
    assert here["stopped"]
    assert set(here["states"].values()) <= {"interrupted", "pending"}
    assert all(12 <= count < 10_000 for count in here["counted"][:3])


SWEEP = """
import sys, threading, time
from pathlib import Path
from counting_jobs import NODE, cluster_of_three
from hindsight.cli import main
from hindsight.distributed.cluster import imported

imported()
nodes = cluster_of_three()
directory = Path(sys.argv[1])

def when_half_done():
    while len(list(directory.glob("runs/*/summary.json"))) < 4:
        time.sleep(0.1)
    nodes.remove_node(next(iter(nodes.worker_nodes)), allow_graceful=False)
    print("killed", flush=True)

threading.Thread(target=when_half_done, daemon=True).start()
try:
    main([*sys.argv[2:], "--dir", sys.argv[1], "--ray", nodes.address, "--cores", "1"])
finally:
    nodes.shutdown()
"""


@pytest.mark.slow
def test_a_sweep_of_twelve_trainings_finishes_though_a_node_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", str(tmp_path / "compiled"))
    monkeypatch.setenv("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
    monkeypatch.setenv("PYTHONPATH", str(PROGRAM.parent))
    bits = ["hindsight/BitFlip-v0", "--env.bits", "4", "--steps", "2000"]
    quick = ["--gradient-steps", "2", "--batch-size", "16", "--eval-episodes", "8"]
    vary = ["--vary", "replay.replay_k=0,4,8", "--seeds", "10", "11", "12", "13", "--no-video"]
    command = [sys.executable, "-c", SWEEP, str(tmp_path / "sweep"), "sweep", *bits, *quick, *vary]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "killed" in done.stdout
    assert "its node was lost; it is run again" in done.stdout
    runs = sorted((tmp_path / "sweep" / "runs").iterdir())
    assert len(runs) == 12
    for path in runs:
        assert Run.open(path).summary["status"] == "finished", path
    # the same policies as on this machine alone
    repeat = ["-m", "hindsight.cli", "train", "--config", str(runs[-1] / "config.json"), "--quiet"]
    repeat += ["--run-dir", str(tmp_path / "alone")]
    subprocess.run([sys.executable, *repeat], check=True, timeout=300, cwd=tmp_path)
    alone, swept = Run.open(tmp_path / "alone"), Run.open(runs[-1])
    assert without_times(alone.metrics) == without_times(swept.metrics)
    again = subprocess.run(command, capture_output=True, text=True, timeout=300, cwd=tmp_path)
    assert again.stdout.count("was finished") == 12
