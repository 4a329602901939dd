"""The command line: parses, calls, and turns every HindsightError into one line and exit code 2."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import re
import sys
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NoReturn

import tyro

from hindsight.errors import HindsightError, nearest, printable, say
from hindsight.options import needs_report, parse, take_env_kwargs
from hindsight.training.conditions import fix_threads
from hindsight.training.signals import StopSignals

if TYPE_CHECKING:
    from hindsight.training.run import Run

# ---------------------------------------------------------------------------------------------------------- commands


def train(arguments: Sequence[str]) -> int:
    with StopSignals() as stop:  # before JAX is imported, which loses a KeyboardInterrupt now and then
        from hindsight import api
        from hindsight.commands.train import read

        wanted = read(arguments)
        stop.check()
        run = api.train_config(wanted.config, wanted.spec, wanted.make_env, wanted.run_dir, quiet=wanted.quiet)
        return _finish(run, wanted.quiet)


def _finish(run: Run, quiet: bool) -> int:
    """Draw the learning curve of a finished run, and say what can be done with it."""
    env = run.config.env
    with contextlib.suppress(ImportError):  # a picture for those who have the report extra
        from hindsight.report.curves import draw
        from hindsight.report.groups import group
        from hindsight.report.load import load_run

        draw(group([load_run(run.path)]), run.path / "learning_curve.png", f"{env}, seed {run.config.seed}")
    if not quiet:
        print(
            f"run: {run.path}   success rate {run.summary['success_rate']:.2f}   {run.summary['minutes']:.1f} minutes"
        )
        print(f"next: hindsight eval {run.path} · hindsight watch {run.path}")
    return 0


@dataclass
class Resume:
    """Go on with a stopped run, as if it had not been stopped."""

    run: Annotated[Path, tyro.conf.Positional]
    """The run directory."""
    steps: int = 0
    """Env steps to add to those that the run was made for."""
    quiet: bool = False
    """Show no progress."""
    trust: bool = False
    """Import the module that the env's id names (`module:Name-v0`) though the run was not made here. It runs code."""


def resume(arguments: Sequence[str]) -> int:
    options = parse(Resume, arguments, "hindsight resume")
    with StopSignals() as stop:
        from hindsight import api

        stop.check()
        run = api.resume(options.run, steps=options.steps, quiet=options.quiet, trust=options.trust)
        return _finish(run, options.quiet)


@dataclass
class Verify:
    """Check every file of a run."""

    run: Annotated[Path, tyro.conf.Positional]
    """The run directory."""


def verify(arguments: Sequence[str]) -> int:
    from hindsight.training.verify import verify

    options = parse(Verify, arguments, "hindsight verify")
    findings = verify(options.run)
    for finding in findings:
        print(printable(f"{finding.state:8} {finding.file}{': ' if finding.text else ''}{finding.text}"))
    return 1 if any(finding.state == "BROKEN" for finding in findings) else 0


@dataclass
class Eval:
    """Evaluate a run's policy, greedily, on fresh episodes."""

    run: Annotated[Path, tyro.conf.Positional]
    """The run directory."""
    episodes: int = 100
    seed: int = 0
    """Seed of the episodes' starts."""
    json: bool = False
    """Print one JSON object: success_rate, mean_return, episodes."""
    trust: bool = False
    """Import the module that the env's id names (`module:Name-v0`) though the run was not made here. It runs code."""


def evaluate(arguments: Sequence[str]) -> int:
    from hindsight import api

    options = parse(Eval, arguments, "hindsight eval")
    _check_episodes(options.episodes, options.seed)
    result = api.evaluate(options.run, options.episodes, options.seed, options.trust)
    if options.json:
        print(json.dumps(dataclasses.asdict(result)))
    else:
        shown = f"success rate {result.success_rate:.3f}   mean return {result.mean_return:.2f}"
        print(f"{shown}   {result.episodes} episodes")
    return 0


def _check_episodes(episodes: int, seed: int) -> None:
    if episodes < 1:
        raise HindsightError(f"--episodes must be at least 1, got {episodes}")
    if seed < 0:
        raise HindsightError(f"--seed must be 0 or more, got {seed}")


@dataclass
class Watch:
    """See a run's policy at work: in a window where there is a screen, else in a video file."""

    run: Annotated[Path, tyro.conf.Positional]
    """The run directory."""
    episodes: int = 5
    seed: int = 0
    """Seed of the episodes' starts."""
    output: Annotated[Path | None, tyro.conf.arg(aliases=["-o"])] = None
    """The video file, written even if there is a screen; without a screen video.mp4 in the run directory."""
    window: bool = False
    """Insist on a window."""
    trust: bool = False
    """Import the module that the env's id names (`module:Name-v0`) though the run was not made here. It runs code."""


def watch(arguments: Sequence[str]) -> int:
    options = parse(Watch, arguments, "hindsight watch")
    path = _watch(options)
    if path is not None:
        print(f"video: {path}")
    return 0


def _watch(options: Watch) -> Path | None:
    from functools import partial

    from hindsight import api
    from hindsight.envs.make import factory, make
    from hindsight.saving.files import refuse_links
    from hindsight.training.run import Run
    from hindsight.training.trust import require_trust

    with needs_report():
        from hindsight.report import video

    _check_episodes(options.episodes, options.seed)
    run = Run.open(options.run)
    config, policy = run.config, run.policy
    require_trust(run.path, config.env, config.env_kwargs, options.trust)
    make_env = partial(make, config.env, **config.env_kwargs)
    horizon = api.describe(config.env, factory(config.env, config.env_kwargs), config.max_episode_steps).horizon
    if options.window or (options.output is None and video.has_screen() and video.has_window(make_env)):
        video.window(policy, make_env, options.episodes, options.seed, horizon)
        return None
    if options.output is None:
        refuse_links(run.path)
    return video.record(
        policy, make_env, options.output or run.path / "video.mp4", options.episodes, options.seed, horizon
    )


@dataclass
class Plot:
    """Draw the learning curves of runs, against steps and minutes. Runs that differ in seed only share a line."""

    runs: Annotated[tuple[Path, ...], tyro.conf.Positional]
    output: Annotated[Path, tyro.conf.arg(aliases=["-o"])] = Path("curves.png")
    title: str = ""
    labels: tuple[str, ...] = ()
    """A name per line, in the order of the runs; by default the settings in which they differ."""
    against: Literal["both", "steps", "minutes"] = "both"


def plot(arguments: Sequence[str]) -> int:
    options = parse(Plot, arguments, "hindsight plot")
    if not options.runs:
        raise HindsightError("which runs? For example: hindsight plot runs/*")
    with needs_report():
        from hindsight.report.curves import draw
        from hindsight.report.groups import group
        from hindsight.report.load import load_run
    groups = group([load_run(path) for path in options.runs], options.labels)
    draw(groups, options.output, options.title or ", ".join(dict.fromkeys(g.task for g in groups)), options.against)
    print(f"figure: {options.output}")
    return 0


def compare(arguments: Sequence[str]) -> int:
    from hindsight.commands.compare import compare

    return compare(arguments)


def report(arguments: Sequence[str]) -> int:
    from hindsight.commands.report import report

    return report(arguments)


def sweep(arguments: Sequence[str]) -> int:
    from hindsight.commands.sweep import sweep

    return sweep(arguments)


def envs(arguments: Sequence[str]) -> int:
    """List the goal envs that are installed."""
    import gymnasium as gym

    from hindsight.envs.make import register_robotics

    parse(Envs, arguments, "hindsight envs")
    if not register_robotics():
        print("Fetch and Hand need the robotics extra: pip install 'hindsight-rl[robotics]'")
    ours = ("hindsight/", "FetchReach-v4", "FetchPush-v4", "FetchSlide-v4", "FetchPickAndPlace-v4")
    hands = re.compile(r"Hand(Reach|Manipulate(Block|Egg|Pen)\w*)-v\d+$")
    for env_id in sorted(gym.registry):
        if env_id.startswith(ours) or (hands.match(env_id) and "Touch" not in env_id and "Dense" not in env_id):
            print(env_id)
    print("...and any Gymnasium env with observation, achieved_goal, desired_goal and compute_reward")
    return 0


@dataclass
class Envs:
    """List the goal envs that are installed."""


@dataclass
class Doctor:
    """Check the installation, and the goal-env contract of an env."""

    env: Annotated[str | None, tyro.conf.Positional] = None
    """An env id to check. Arguments for its constructor: --env.NAME VALUE."""
    max_episode_steps: int | None = None
    """Time limit, for envs that have none of their own."""


def doctor(arguments: Sequence[str]) -> int:
    from hindsight.doctor import examine

    rest, env_kwargs = take_env_kwargs(arguments)
    options = parse(Doctor, rest, "hindsight doctor")
    return examine(options.env, env_kwargs, options.max_episode_steps)


@dataclass
class Bench:
    """Measure this machine and this library, as ratios within one run."""

    what: Annotated[
        Literal["learner", "simulation", "training", "asynchronous", "replay", "checkpoint", "memory"],
        tyro.conf.Positional,
    ]
    """learner: time per DDPG update. simulation: env steps/s. training: env steps/s of the whole. asynchronous: those
    of A3C by workers. replay: buffers. checkpoint: seconds to save and load a full replay. memory: resident size over
    300,000 steps."""
    json: bool = False
    """Print one JSON object."""


def bench(arguments: Sequence[str]) -> int:
    from importlib import import_module

    options = parse(Bench, arguments, "hindsight bench")
    benchmark = import_module(f"hindsight.bench.{options.what}")
    result = benchmark.run()
    print(json.dumps(result) if options.json else benchmark.table(result))
    return 0


@dataclass
class Bound:
    """Draw the gap between gain and surrogate of hindsight TRPO (the paper's Appendix D), exact, during trainings."""

    output: Annotated[Path, tyro.conf.arg(aliases=["-o"])] = Path("bound.png")
    method: Literal["hpg", "a2c", "ppo", "trpo"] = "trpo"
    bits: int = 6
    """Of bit flip; the other env is the empty room."""
    steps: int = 20_000
    """Env steps of each training."""
    seed: int = 0
    json: Path | None = None
    """Also write the numbers here."""


def bound(arguments: Sequence[str]) -> int:
    options = parse(Bound, arguments, "hindsight bound")
    with needs_report():
        from hindsight.report.bound import draw
        from hindsight.reproduce.measure import bound as measure
    rows = measure(options.method, options.bits, options.steps, options.seed)
    draw(rows, options.output)
    if options.json is not None:
        options.json.write_text(json.dumps(rows))
    print(f"figure: {options.output}")
    return 0


@dataclass
class Demo:
    """Train an arm to reach, evaluate it, and make a video and a learning curve."""

    seed: int = 0


def demo(arguments: Sequence[str]) -> int:
    from hindsight import api

    options = parse(Demo, arguments, "hindsight demo")
    path = next(p for i in range(1, 10**6) if not (p := Path("runs") / ("demo" if i == 1 else f"demo-{i}")).exists())
    print("Training a Fetch arm to reach a point, with hindsight experience replay (about a minute) ...")
    train(["FetchReach-v4", "--run-dir", str(path), "--seed", str(options.seed)])
    result = api.evaluate(path)
    print(f"\nsuccess rate on {result.episodes} fresh episodes: {result.success_rate:.2f}")
    try:
        print(f"video:          {_watch(Watch(path, output=path / 'video.mp4'))}")
    except HindsightError as error:
        print(f"no video: {error}")
    print(f"learning curve: {path / 'learning_curve.png'}")
    print("\nWhat to try next (`source .venv/bin/activate` first):")
    print("  hindsight train hindsight/BitFlip-v0     flip bits: seconds")
    print("  hindsight train FetchPush-v4             push a box to a goal: about seven minutes")
    print("  hindsight train --help                   every setting")
    return 0 if result.success_rate >= 0.95 else 1


def reproduce(arguments: Sequence[str]) -> int:
    from hindsight.reproduce.command import reproduce

    return reproduce(arguments)


COMMANDS: dict[str, tuple[Callable[[Sequence[str]], int], str]] = {
    "train": (train, "train on a goal env"),
    "resume": (resume, "go on with a stopped run"),
    "verify": (verify, "check every file of a run"),
    "eval": (evaluate, "evaluate a run's policy on fresh episodes"),
    "watch": (watch, "video (or window) of a run's policy"),
    "compare": (compare, "what runs say, as a table and in plain words"),
    "report": (report, "the same as one page, with curves and videos"),
    "sweep": (sweep, "train settings x seeds side by side"),
    "plot": (plot, "learning curves of runs"),
    "reproduce": (reproduce, "the paper's tables and figures, and ours"),
    "bound": (bound, "figure of the gap in hindsight TRPO's surrogate"),
    "envs": (envs, "list the goal envs"),
    "doctor": (doctor, "check the installation or an env"),
    "bench": (bench, "measure speed, as ratios within one run"),
    "demo": (demo, "train, evaluate and film a Fetch arm"),
}


# ------------------------------------------------------------------------------------------------------------ running


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    warnings.showwarning = _one_line_warning
    fix_threads()
    try:
        sys.exit(_dispatch(arguments))
    except HindsightError as error:
        say(str(error))
        sys.exit(2)
    except BrokenPipeError:  # whoever read our output has gone
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except (OSError, MemoryError, OverflowError) as error:
        say(f"{type(error).__name__}: {' '.join(str(error).split())}")
        sys.exit(2)
    except KeyboardInterrupt as interrupt:
        say(interrupt.args[0] if interrupt.args else "interrupted")
        sys.exit(130)


def _dispatch(arguments: list[str]) -> int:
    if not arguments or arguments[0] in ("-h", "--help"):
        print("usage: hindsight COMMAND ...\n\nHindsight learning for goal-directed tasks with sparse rewards.\n")
        print("\n".join(f"  {name:9} {text}" for name, (_, text) in COMMANDS.items()))
        print("\n`hindsight COMMAND --help` shows the options of a command.")
        return 0
    if arguments[0] == "--version":
        from hindsight import __version__

        print(f"hindsight {__version__}")
        return 0
    if arguments[0] not in COMMANDS:
        raise HindsightError(f"unknown command {arguments[0]!r}.{nearest(arguments[0], COMMANDS)}")
    return COMMANDS[arguments[0]][0](arguments[1:])


def _one_line_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    say(f"warning: {message}")


if __name__ == "__main__":
    main()
