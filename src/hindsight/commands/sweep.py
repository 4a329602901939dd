"""`hindsight sweep`: settings x seeds, side by side, and one page at the end."""

from __future__ import annotations

import os
import re
import signal
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console

from hindsight.commands.jobs import Jobs
from hindsight.commands.plan import plan, write_configs
from hindsight.commands.report import write_page
from hindsight.errors import HindsightError
from hindsight.options import env_argument, needs_report, parse

_OWN = ("--vary", "--seeds", "--jobs", "--dir", "--video", "--no-video")


@dataclass
class Sweep:
    """Train settings x seeds side by side: ENV --vary NAME=V1,V2 --seeds 0 1 2, and any option of `hindsight train`.

    The same command again goes on: finished runs are not repeated, stopped ones are continued, failed ones are tried
    again. Ctrl-C stops all of them, saved. Exit code 1 if one failed.
    """

    env: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="ENV")]
    """Gymnasium id of a goal env."""
    vary: Annotated[tuple[str, ...], tyro.conf.arg(metavar="NAME=V1,V2")] = ()
    """A setting and its values, as "replay.replay_k=4,linear(8, 1)"; also preset=her,hper, method=hpg,ppo and
    env.bits=8,16. Several times: all combinations."""
    seeds: tuple[int, ...] = (0, 1, 2)
    jobs: int = 0
    """Trainings at a time. 0: one per two cores, because a training uses two threads."""
    dir: Path | None = None
    """Where runs/, logs/, configs/ and report.html go; by default sweeps/ENV."""
    video: bool = True
    """Film the best policy for the page."""


def sweep(arguments: Sequence[str]) -> int:
    own, rest = _split(arguments)
    if {"-h", "--help"} & set(arguments):
        parse(Sweep, ["--help"], "hindsight sweep")
    env = env_argument(rest)
    if env is None:
        raise HindsightError("which env? For example: hindsight sweep FetchReach-v4 --vary replay.replay_k=4,8")
    options = parse(Sweep, [env, *own], "hindsight sweep")
    for name in ("--run-dir", "--seed", "--quiet"):
        if any(token.partition("=")[0] == name for token in rest):
            raise HindsightError(f"{name} is not for a sweep{': use --seeds' if name == '--seed' else ''}")
    if options.jobs < 0:
        raise HindsightError(f"--jobs must be 0 or more, got {options.jobs}")
    directory = options.dir or Path("sweeps") / re.sub(r"[^\w.-]+", "-", env)
    with needs_report():
        import hindsight.report.statistics  # noqa: F401  (better to know now than at the end)
    planned = plan(directory, rest, options.vary, options.seeds)
    try:
        write_configs(planned)
    except OSError as error:
        raise HindsightError(f"cannot write to {directory}: {error.strerror}") from None
    jobs = Jobs(planned, options.jobs or default_jobs(), Console())
    received = jobs.run()
    if received is not None:
        message = "stopped; to go on, give the same command again"
        if received == signal.SIGINT:
            raise KeyboardInterrupt(message)
        print(f"hindsight: {message}", file=sys.stderr)
        return 128 + received
    skipped, _ = write_page([one.run_dir for one in planned], directory / "report.html", video=options.video)
    print(f"page: {directory / 'report.html'}")
    for name, reason in jobs.failed.items():
        print(f"hindsight: {name} failed: {reason}", file=sys.stderr)
    return 1 if jobs.failed or skipped else 0


def default_jobs() -> int:
    """One per two cores that this process may use, at least one."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, cores // 2)


def _split(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """What is the sweep's own, in the form that tyro reads, and what is for `hindsight train`."""
    own: dict[str, list[str]] = {}
    rest: list[str] = []
    queue = list(arguments)
    while queue:
        token = queue.pop(0)
        name, equals, value = token.partition("=")
        if name not in _OWN:
            rest.append(token)
            continue
        values = own.setdefault(name, [])
        if equals:
            values.append(value)
        elif name == "--seeds":
            while queue and not queue[0].startswith("-"):
                values.append(queue.pop(0))
        elif not name.endswith("video"):
            if not queue or queue[0].startswith("--"):
                raise HindsightError(f"{name} needs a value (see hindsight sweep --help)")
            values.append(queue.pop(0))
    return [token for name, values in own.items() for token in (name, *values)], rest
