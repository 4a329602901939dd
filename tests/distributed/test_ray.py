"""Training on a real Ray cluster of three nodes on this machine: the same policy as in one
process, whoever dies."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numbered_env import NumberedEnv

import hindsight
from conftest import without_times
from hindsight.collect import episode_seeds
from hindsight.commands.on_ray import CollectorOptions, RayOption, on_ray
from hindsight.distributed import cluster
from hindsight.distributed.collectors import Collectors
from hindsight.envs.relay_goals import RelayGoal
from hindsight.errors import HindsightError
from hindsight.training.evaluate import TRAINING
from hindsight.training.progress import Progress
from hindsight.training.run import Run

os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"  # 127.0.0.1 only; read by `import ray`

pytestmark = pytest.mark.xdist_group("ray")  # one cluster for all

QUICK: dict[str, Any] = {
    "quiet": True,
    "steps": 400,
    "num_envs": 5,
    "episodes_per_cycle": 12,  # three rounds, the last one shorter
    "gradient_steps": 4,
    "batch_size": 16,
    "eval_episodes": 7,
    "eval_every": 2,
    "agent.net_arch": (16,),
}
HPER = {
    "replay.goals_chosen": "stored",
    "replay.moved_share": 0.0,  # the default where random actions move nothing
    "priority.sampling": "proportional",
    "priority.queues": "two_queues",
    "priority.updates_per_draw": 2,
}
REACH = {
    **QUICK,
    **HPER,
    "num_envs": 4,
    "episodes_per_cycle": 4,
    "overlap": True,
    "steps": 800,
    "eval_every": 1,
    "eval_episodes": 4,
}


@contextmanager
def forks() -> Iterator[None]:
    """JAX warns of forks; what is forked here starts afresh."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "os.fork")
        yield


class Nodes:
    """A head and two more nodes, which are put up again if a test has ended them."""

    def __init__(self) -> None:
        from ray.cluster_utils import Cluster

        self.settings = {"node_ip_address": "127.0.0.1", "object_store_memory": 80_000_000}
        sooner = {"health_check_initial_delay_ms": 1000, "health_check_period_ms": 1000}
        head = {
            "num_cpus": 1,
            "include_dashboard": False,
            "_system_config": sooner,  # a dead node is found in 5 seconds instead of 15
            **self.settings,
        }
        with forks():
            self.cluster = Cluster(initialize_head=True, head_node_args=head)
        self.fill()

    def fill(self) -> None:
        with forks():
            while len(self.cluster.worker_nodes) < 2:
                self.cluster.add_node(num_cpus=2, **self.settings)

    @property
    def address(self) -> str:
        return str(self.cluster.address)

    def used(self, collectors: Collectors) -> list[str]:
        """The nodes of the collectors."""
        from ray._private.state import actors

        found = actors()
        return [found[actor._actor_id.hex()]["Address"]["NodeID"] for actor in collectors._actors]


def test_one_worker_runs_all_of_these(request: pytest.FixtureRequest) -> None:
    """Two clusters at a time took each other's place: with pytest 9.2, xdist does not group tests,
    and `make test` hung."""
    if "PYTEST_XDIST_WORKER" in os.environ:
        assert request.node.nodeid.endswith("@ray")


@pytest.fixture(scope="module")
def session(compiles_alone: None) -> Iterator[Nodes]:
    cluster.imported()
    nodes = Nodes()
    with cluster.connected(nodes.address):
        yield nodes
    nodes.cluster.shutdown()


@pytest.fixture
def nodes(session: Nodes) -> Nodes:
    session.fill()
    return session


def on(nodes: Nodes, collectors: int, asynchronous: bool = False) -> dict[str, Any]:
    return {"ray": nodes.address, "collectors": collectors, "asynchronous": asynchronous}


def learnt(run: Run) -> tuple[bytes, bytes]:
    """Weights, and metrics but for those of the collectors."""
    rows = [
        {name: value for name, value in row.items() if not name.startswith("collectors/")}
        for row in run.metrics
    ]
    return (run.path / "policy.safetensors").read_bytes(), without_times(rows)


def collectors_of(progress: Progress) -> Collectors:
    state: Any = progress.learning
    found = state.parts["envs"]
    assert isinstance(found, Collectors)
    return found


def at_cycle(cycle: int, do: Callable[[Collectors], object]) -> Callable[[Progress], None]:
    def callback(progress: Progress) -> None:
        if progress.cycle == cycle:
            do(collectors_of(progress))

    return callback


def kill(i: int) -> Callable[[Collectors], object]:
    """A collector's process ends, as by `kill -9`."""
    import ray

    return lambda collectors: ray.kill(collectors._actors[i])


def test_lockstep_is_the_local_run_bit_for_bit(tmp_path: Path, nodes: Nodes) -> None:
    """Rounds whose episodes end early, a last round with fewer rows, goals chosen when stored."""
    settings = {**QUICK, **HPER, "env_kwargs": {"bits": 5}, "seed": 3}
    used: set[str] = set()

    def look(collectors: Collectors) -> None:
        used.update(nodes.used(collectors))

    train = partial(hindsight.train, "hindsight/BitFlip-v0", **settings)
    local = train(run_dir=tmp_path / "local")
    one = train(run_dir=tmp_path / "one", **on(nodes, 1))
    four = train(run_dir=tmp_path / "four", callbacks=[at_cycle(1, look)], **on(nodes, 4))
    assert learnt(one) == learnt(local)
    assert learnt(four) == learnt(local)
    assert len(used) == 3
    assert four.metrics[-1]["collectors/number"] == 4
    assert {path.name for path in four.path.iterdir()} == {p.name for p in local.path.iterdir()}


def test_relay_goals_in_lockstep_and_asynchronously(tmp_path: Path, nodes: Nodes) -> None:
    goal = RelayGoal(lambda o: o[:, :2], lambda o: o[:, 2:4], tolerance=0.3)
    train = partial(
        hindsight.train,
        "hindsight/PointPush-v0",
        relay_goals=(goal,),
        preset="hper",
        **QUICK | {"steps": 800},
    )
    local = train(run_dir=tmp_path / "local")
    assert learnt(train(run_dir=tmp_path / "two", **on(nodes, 2))) == learnt(local)
    run = train(run_dir=tmp_path / "asynchronous", **on(nodes, 2, asynchronous=True))
    assert run.metrics[-1]["step"] == local.metrics[-1]["step"]


def stop_at(cycle: int) -> Callable[[Progress], bool]:
    return lambda progress: progress.cycle == cycle


def test_fetch_reach_with_overlap_begun_there_and_ended_here(tmp_path: Path, nodes: Nodes) -> None:
    train = partial(hindsight.train, "FetchReach-v4", **REACH)
    local = train(run_dir=tmp_path / "local")
    run = train(run_dir=tmp_path / "run", callbacks=[stop_at(2)], **on(nodes, 3))
    hindsight.resume(run.path, quiet=True)
    assert learnt(run) == learnt(local)


@pytest.mark.parametrize("history", [False, True], ids=["", "env that remembers"])
def test_a_killed_collector_changes_nothing(
    tmp_path: Path, nodes: Nodes, history: bool, capfd: pytest.CaptureFixture[str]
) -> None:
    """Of a run that was begun here, and is resumed there."""
    make = partial(NumberedEnv, history=history)
    train = partial(hindsight.train, make, **{**QUICK, "steps": 300, "eval_every": 1})
    local = train(run_dir=tmp_path / "local")
    run = train(run_dir=tmp_path / "run", callbacks=[stop_at(1)])
    callbacks = [at_cycle(2, kill(0))]
    hindsight.resume(run.path, env=make, quiet=True, callbacks=callbacks, **on(nodes, 2))
    assert learnt(run) == learnt(local)
    assert run.metrics[-1]["collectors/replaced"] == 1
    assert run.metrics[-1]["collectors/episodes_replayed"] > 0
    shown = capfd.readouterr()
    said = "hindsight: collector 0 died (ActorDiedError): another plays its episodes"
    assert shown.out == ""
    assert shown.err.splitlines() == [said]


def test_a_collector_that_dies_while_it_plays(tmp_path: Path, nodes: Nodes) -> None:
    deadly = str(tmp_path / "has died")
    settings = {**QUICK, "steps": 120}
    local = hindsight.train(NumberedEnv, run_dir=tmp_path / "local", **settings)
    run = hindsight.train(
        partial(NumberedEnv, deadly=deadly), run_dir=tmp_path / "run", **settings, **on(nodes, 2)
    )
    assert learnt(run) == learnt(local)
    assert run.metrics[0]["collectors/replaced"] >= 1


def test_a_collector_that_always_dies_ends_the_run_in_one_line(
    tmp_path: Path, nodes: Nodes
) -> None:
    make = partial(NumberedEnv, deadly=str(tmp_path / "x"), always=True)
    with pytest.raises(HindsightError, match=r"^collector 0 died 2 times in a row") as found:
        hindsight.train(make, run_dir=tmp_path / "run", env_failures=2, **QUICK, **on(nodes, 1))
    assert "\n" not in str(found.value)


def test_a_killed_node_changes_nothing(
    tmp_path: Path, nodes: Nodes, capfd: pytest.CaptureFixture[str]
) -> None:
    settings = {**QUICK, "steps": 300}
    local = hindsight.train(NumberedEnv, run_dir=tmp_path / "local", **settings)
    capfd.readouterr()

    def end_node(collectors: Collectors) -> None:
        used = nodes.used(collectors)
        victim = next(node for node in nodes.cluster.worker_nodes if node.node_id in used)
        nodes.cluster.remove_node(victim, allow_graceful=False)

    callbacks = [at_cycle(2, end_node)]
    run = hindsight.train(
        NumberedEnv, run_dir=tmp_path / "run", callbacks=callbacks, **settings, **on(nodes, 4)
    )
    assert learnt(run) == learnt(local)
    assert run.metrics[-1]["collectors/replaced"] >= 1
    shown = capfd.readouterr()
    assert shown.out == ""
    assert all(line.startswith("hindsight: collector ") for line in shown.err.splitlines())


class Played:
    """Looks which episodes are in the replay, by their seeds."""

    def __init__(self) -> None:
        self.seeds: list[int] = []

    def __call__(self, progress: Progress) -> None:
        state: Any = progress.learning
        storage = state.parts["replay"].storage
        numbers = storage.observation[: storage.size, 0, :2].astype(np.int64)
        self.seeds = sorted((numbers @ [65536, 1]).tolist())

    def check(self, run: Run) -> None:
        """Those of all cycles, each once."""
        count = run.config.episodes_per_cycle * int(run.metrics[-1]["cycle"])
        assert self.seeds == sorted(episode_seeds(run.config.seed, TRAINING, 0, count))


def test_asynchronous_learns_from_every_episode_once(tmp_path: Path, nodes: Nodes) -> None:
    """With a collector killed; ended here, from a checkpoint."""
    settings = {**QUICK, **HPER, "steps": 600, "eval_every": 3}
    played = Played()
    run = hindsight.train(
        NumberedEnv,
        run_dir=tmp_path / "run",
        callbacks=[stop_at(5), at_cycle(2, kill(1))],
        **settings,
        **on(nodes, 2, asynchronous=True),
    )
    assert run.metrics[-1]["collectors/replaced"] == 1
    assert run.metrics[-1]["cycle"] == 5
    stale = [row["collectors/staleness"] for row in run.metrics]
    assert stale[0] == 0.0
    assert max(stale) > 0
    hindsight.resume(run.path, env=NumberedEnv, quiet=True, callbacks=[played])
    assert run.metrics[-1]["cycle"] > 5
    played.check(run)


@pytest.mark.parametrize("asynchronous", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_twenty_kills(tmp_path: Path, nodes: Nodes, asynchronous: bool) -> None:
    settings = {**QUICK, **HPER, "steps": 2500, "eval_every": 5}
    played, killed = Played(), 0
    replaced = 0.0  # before the first kill: Ray may lose one that it starts on a busy machine

    def kill_one(progress: Progress) -> None:
        nonlocal killed, replaced
        if not killed:
            replaced = progress.metrics["collectors/replaced"]
        if killed < 20:
            kill(progress.cycle % 3)(collectors_of(progress))
            killed += 1

    run = hindsight.train(
        NumberedEnv,
        run_dir=tmp_path / "run",
        callbacks=[played, kill_one],
        **settings,
        **on(nodes, 3, asynchronous),
    )
    assert killed == 20
    assert run.metrics[-1]["collectors/replaced"] - replaced == 20
    played.check(run)
    if not asynchronous:
        local = hindsight.train(NumberedEnv, run_dir=tmp_path / "local", **settings)
        assert learnt(run) == learnt(local)


@pytest.mark.slow
def test_ray_started_here_by_the_command_line(tmp_path: Path) -> None:
    """It listens on 127.0.0.1 only, is quiet, and is gone afterwards."""
    done = run_cli(*TRAIN, "--run-dir", str(tmp_path / "run"), "--ray", "--collectors", "2")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert Run.open(tmp_path / "run").metrics[-1]["collectors/number"] == 2


def test_what_does_not_fit_is_refused(tmp_path: Path, nodes: Nodes) -> None:
    train = partial(hindsight.train, "hindsight/BitFlip-v0", run_dir=tmp_path / "run", quiet=True)
    for settings, message in (
        ({"ray": "10.0.0.1"}, "the address of Ray is local, auto, or HOST:PORT"),
        ({"ray": "ray://x:1"}, "the address of Ray is local, auto, or HOST:PORT"),
        ({"collectors": 2}, "collectors changes nothing without ray"),
        ({"asynchronous": True}, "asynchronous changes nothing without ray"),
        ({"ray": nodes.address, "collectors": 0}, "collectors must be at least 1, got 0"),
        (
            {"ray": nodes.address, "collectors": 9, "num_envs": 8},
            "9 collectors have only 8 envs between them",
        ),
        ({"ray": nodes.address, "method": "hpg"}, "Ray collects for off-policy methods"),
    ):
        with pytest.raises(HindsightError, match=message):
            train(**settings)  # type: ignore[arg-type]
    assert not (tmp_path / "run").exists()


def run_cli(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "hindsight.cli", *arguments],
        check=False,
        capture_output=True,
        text=True,
        timeout=240,
        env={**os.environ, **variables},
    )


TRAIN = ["train", "hindsight/BitFlip-v0", "--steps", "100", "--num-envs", "2", "--quiet"]
TRAIN += ["--episodes-per-cycle", "4", "--eval-episodes", "2", "--gradient-steps", "2"]


def test_the_command_line(tmp_path: Path, nodes: Nodes) -> None:
    there = ["--run-dir", str(tmp_path / "run"), "--collectors", "2", "--ray", nodes.address]
    done = run_cli(*TRAIN, *there)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert Run.open(tmp_path / "run").metrics[-1]["collectors/number"] == 2


def test_nobody_listens() -> None:
    with pytest.raises(HindsightError, match=r"^no Ray at 127.0.0.1:1 \(Connection refused\)"):
        cluster._reach("127.0.0.1:1")


def test_one_address() -> None:
    with pytest.raises(HindsightError, match="--ray takes one address, got a:1 b:2"):
        on_ray(RayOption(ray=("a:1", "b:2")), CollectorOptions())


def test_without_the_extra(tmp_path: Path) -> None:
    (tmp_path / "ray.py").write_text("raise ImportError('no')")
    done = run_cli("train", "hindsight/BitFlip-v0", "--ray", PYTHONPATH=str(tmp_path))
    assert done.returncode == 2
    assert done.stderr == "hindsight: Ray is not installed: pip install 'hindsight-rl[ray]'\n"


def test_ray_is_not_imported_unless_asked_for() -> None:
    program = "import sys, hindsight.api, hindsight.cli; sys.exit('ray' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], timeout=120).returncode == 0
