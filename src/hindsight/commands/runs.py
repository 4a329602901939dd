"""The commands that do something with a run: resume, verify, eval, watch."""

from __future__ import annotations

import contextlib
import dataclasses
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from tyro.conf import FlagCreatePairsOff, Positional, arg

from hindsight import pretrained
from hindsight.commands.on_ray import CollectorOptions, RayOption, on_ray
from hindsight.commands.train import LOGGERS
from hindsight.errors import HindsightError, needs, printable
from hindsight.integrations import LoggerName
from hindsight.training.signals import StopSignals

if TYPE_CHECKING:
    from hindsight.training.run import Run


def finish(run: Run, quiet: bool) -> int:
    """Draw the learning curve of a finished run, and say what can be done with it."""
    env = run.config.env
    with contextlib.suppress(ImportError):  # a picture for those who have the report extra
        from hindsight.lab.groups import group
        from hindsight.lab.plots import learning_curves
        from hindsight.lab.runs import load_run

        groups = group([load_run(run.path)])
        learning_curves(groups, run.path / "learning_curve.png", f"{env}, seed {run.config.seed}")
    if not quiet:
        summary = run.summary
        print(
            f"run: {run.path}   success rate {summary['success_rate']:.2f}   "
            f"{summary['minutes']:.1f} minutes"
        )
        print(f"next: hindsight eval {run.path} · hindsight watch {run.path}")
    return 0


@dataclass
class Resume(CollectorOptions, RayOption):
    """Resume a stopped run, as if it had not been stopped."""

    run_path: Annotated[Path, Positional, arg(metavar="RUN")]
    """The run directory."""
    steps: int = 0
    """Env steps to add to those that the run was made for."""
    quiet: bool = False
    """Show no progress."""
    checkpoint_to: Annotated[str | None, arg(metavar="ADDRESS", help_behavior_hint="")] = None
    """Where its checkpoints are copied to, as s3://bucket/run. It goes on from the newest one,
    here or there; RUN need not exist."""
    track: Annotated[LoggerName | None, arg(metavar=LOGGERS, help_behavior_hint="")] = None
    """Send the metrics there, too. TensorBoard's files are always written."""
    trust: Annotated[bool, FlagCreatePairsOff, arg(help_behavior_hint="")] = False
    """Import the module that the env's id names (`module:Name-v0`) though the run was not made
    here. It runs code."""

    def run(self, more: Sequence[str]) -> int:
        with (
            StopSignals() as stop
        ):  # before JAX is imported, which loses a KeyboardInterrupt now and then
            from hindsight import api

            stop.check()
            run = api.resume(
                self.run_path,
                steps=self.steps,
                logger=self.track,
                quiet=self.quiet,
                trust=self.trust,
                checkpoint_to=self.checkpoint_to,
                **on_ray(self, self),
            )
            return finish(run, self.quiet)


@dataclass
class Verify:
    """Check every file of a run."""

    run_path: Annotated[Path, Positional, arg(metavar="RUN")]
    """The run directory."""

    def run(self, more: Sequence[str]) -> int:
        from hindsight.training.verify import verify

        findings = verify(self.run_path)
        for finding in findings:
            print(
                printable(
                    f"{finding.state:8} {finding.file}{': ' if finding.text else ''}{finding.text}"
                )
            )
        return 1 if any(finding.state == "BROKEN" for finding in findings) else 0


@dataclass
class Eval:
    """Evaluate a run's policy, greedily, on fresh episodes."""

    run_path: Annotated[Path, Positional, arg(metavar="RUN")]
    """The run directory; with --pretrained, an env's id."""
    pretrained: Annotated[bool, FlagCreatePairsOff, arg(help_behavior_hint="")] = False
    """The policy of this env that comes with the library."""
    episodes: int = 100
    seed: int = 0
    """Seed of the episodes' starts."""
    json: bool = False
    """Print one JSON object: success_rate, mean_return, episodes."""
    trust: Annotated[bool, FlagCreatePairsOff, arg(help_behavior_hint="")] = False
    """Import the module that the env's id names (`module:Name-v0`) though the run was not made
    here. It runs code."""

    def run(self, more: Sequence[str]) -> int:
        from hindsight import api

        check_episodes(self.episodes, self.seed)
        path = run_path(self.run_path, self.pretrained)
        result = api.evaluate(path, self.episodes, self.seed, self.trust)
        if self.json:
            print(json.dumps(dataclasses.asdict(result)))
        else:
            shown = f"success rate {result.success_rate:.3f}   mean return {result.mean_return:.2f}"
            print(f"{shown}   {result.episodes} episodes")
        if self.pretrained and not self.json:
            stated = pretrained.results_of(str(self.run_path))
            print(f"stated: {stated['success_rate']:.3f} on {stated['episodes']:,} episodes")
        return 0


def run_path(path: Path, is_pretrained: bool) -> Path:
    """The run directory that is meant."""
    if is_pretrained:
        return pretrained.path_of(str(path))
    if not path.exists() and str(path) in pretrained.envs():
        raise HindsightError(
            f"{path} does not exist; the policy that comes with the library: {path} --pretrained"
        )
    return path


def check_episodes(episodes: int, seed: int) -> None:
    if episodes < 1:
        raise HindsightError(f"--episodes must be at least 1, got {episodes}")
    if seed < 0:
        raise HindsightError(f"--seed must be 0 or more, got {seed}")


@dataclass
class Watch:
    """See a run's policy at work: in a window where there is a screen, else in a video file."""

    run_path: Annotated[Path, Positional, arg(metavar="RUN")]
    """The run directory; with --pretrained, an env's id."""
    pretrained: Annotated[bool, FlagCreatePairsOff, arg(help_behavior_hint="")] = False
    """The policy of this env that comes with the library."""
    episodes: int = 5
    seed: int = 0
    """Seed of the episodes' starts."""
    output: Annotated[Path | None, arg(aliases=["-o"], metavar="PATH")] = None
    """The video file, written even if there is a screen; without a screen video.mp4 in the run
    directory."""
    window: bool = False
    """Insist on a window."""
    trust: Annotated[bool, FlagCreatePairsOff, arg(help_behavior_hint="")] = False
    """Import the module that the env's id names (`module:Name-v0`) though the run was not made
    here. It runs code."""

    def run(self, more: Sequence[str]) -> int:
        path = self.show()
        if path is not None:
            print(f"video: {path}")
        return 0

    def show(self) -> Path | None:
        """Where the video is; None if it was shown in a window."""
        from functools import partial

        from hindsight import api
        from hindsight.envs.make import factory, make
        from hindsight.saving.files import refuse_links
        from hindsight.training.run import Run
        from hindsight.training.trust import require_trust

        with needs("report"):
            from hindsight.lab import video

        check_episodes(self.episodes, self.seed)
        run = Run.open(run_path(self.run_path, self.pretrained))
        config, policy = run.config, run.policy
        require_trust(run.path, config.env, config.env_kwargs, self.trust)
        make_env = partial(make, config.env, **config.env_kwargs)
        horizon = api.describe(
            config.env, factory(config.env, config.env_kwargs), config.max_episode_steps
        ).horizon
        if self.window or (
            self.output is None and video.has_screen() and video.has_window(make_env)
        ):
            video.window(policy, make_env, self.episodes, self.seed, horizon)
            return None
        output = self.output or run.path / "video.mp4"
        if self.output is None and self.pretrained:
            output = Path(f"{config.env}.mp4")
        elif self.output is None:
            refuse_links(run.path)
        return video.record(
            policy,
            make_env,
            output,
            self.episodes,
            self.seed,
            horizon,
        )
