"""`hindsight train`: preset or config file, then what the command line changes."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args

import tyro
from tyro.conf import Positional, arg

from hindsight.agents.registry import OFF_POLICY, ON_POLICY
from hindsight.commands.on_ray import CollectorOptions, RayOption, on_ray
from hindsight.errors import HindsightError
from hindsight.integrations import LoggerName
from hindsight.options import parse, refuse_unknown, setting_of, take_env_kwargs
from hindsight.presets import VARIANTS, Task, default_method, reaches
from hindsight.training.signals import StopSignals

if TYPE_CHECKING:
    from hindsight.config import TrainConfig
    from hindsight.envs.contract import GoalEnvSpec
    from hindsight.envs.make import EnvFactory

METHODS = (
    f"Off-policy: {', '.join(OFF_POLICY)}. On-policy, by policy gradients: {', '.join(ON_POLICY)}."
)
LOGGERS = "|".join(get_args(LoggerName))
PRESETS = "(default: the preset's)"


def _option(metavar: str) -> Any:
    return arg(metavar=metavar, help_behavior_hint=PRESETS)


@dataclass
class TrainOptions:
    """The options of a training that are most often given. `--help-all` shows every setting."""

    env: Annotated[str, Positional, arg(metavar="ENV", help_behavior_hint="")] = ""
    """Gymnasium id of a goal env, such as FetchPush-v4; `module:Name-v0` imports the module first.
    Arguments for its constructor: --env.NAME VALUE."""
    method: Annotated[
        str | None,
        arg(metavar="NAME", help=METHODS, help_behavior_hint="(default: ddpg, dqn or sac)"),
    ] = None
    preset: Annotated[str, arg(metavar="NAME")] = "default"
    """default, her: plain HER, hper: hindsight prioritised replay in two queues, hper-single: in
    one, relay: with relay goals, baselines or baselines:N: HER as in OpenAI baselines with N
    workers, paper or paper:N: the paper's settings."""
    steps: Annotated[int | None, _option("INT")] = None
    """Env steps to train for."""
    batch_size: Annotated[int | None, _option("INT")] = None
    """Transitions per update."""
    replay_k: Annotated[str | None, _option("SCHEDULE")] = None
    """Alternate goals per actual goal; 0 turns hindsight off."""
    gamma: Annotated[float | None, _option("FLOAT")] = None
    """Discount."""
    net_arch: Annotated[tuple[int, ...] | None, _option("INT INT ...")] = None
    """Widths of the hidden layers."""
    eval_episodes: Annotated[int | None, _option("INT")] = None
    """Greedy episodes per evaluation."""
    stop_at_success: Annotated[
        float | None, arg(metavar="FLOAT", help_behavior_hint="(default: never)")
    ] = None
    """End when an evaluation has this success rate; one of fewer than 100 episodes is confirmed by
    100 others."""
    config: Annotated[Path | None, arg(metavar="PATH", help_behavior_hint="")] = None
    """Repeat a run: take all settings from its config.json instead of the preset."""
    help_all: Annotated[bool, tyro.conf.FlagCreatePairsOff, arg(help_behavior_hint="")] = False
    """Show every setting, with its value for this env, and exit."""


COMMON = {
    "steps": "steps",
    "batch_size": "batch_size",
    "replay_k": "replay.replay_k",
    "gamma": "agent.gamma",
    "net_arch": "agent.net_arch",
    "eval_episodes": "eval_episodes",
    "stop_at_success": "stop_at_success",
}
"""Common options, and the settings that they are."""


@dataclass
class UpdateOptions:
    """Two settings that stand for each other: each takes the other, of the preset, away."""

    updates_per_step: float | None = None
    gradient_steps: int | None = None


@dataclass
class Train(RayOption, TrainOptions):
    """Train on a goal env. Options not given come from the env's preset."""

    seed: Annotated[int | None, arg(metavar="INT", help_behavior_hint="(default: 0)")] = None
    """The same seed gives a bit-identical policy."""
    run_dir: Annotated[
        Path | None, arg(metavar="PATH", help_behavior_hint="(default: a new one under runs/)")
    ] = None
    """Where to put the run."""
    quiet: Annotated[bool, tyro.conf.FlagCreatePairsOff, arg(help_behavior_hint="")] = False
    """Show no progress."""
    checkpoint_to: Annotated[str | None, arg(metavar="ADDRESS", help_behavior_hint="")] = None
    """Copy checkpoints there, too: s3://bucket/run, gs://…, file://…. `hindsight resume` can go on
    from there."""
    track: Annotated[LoggerName | None, arg(metavar=LOGGERS, help_behavior_hint="")] = None
    """Send the metrics there, too. TensorBoard's files are always written."""

    def run(self, more: Sequence[str]) -> int:
        with (
            StopSignals() as stop
        ):  # before JAX is imported, which loses a KeyboardInterrupt now and then
            from hindsight import api
            from hindsight.commands.runs import finish

            wanted = read(
                self, more, "hindsight train", {} if self.seed is None else {"seed": self.seed}
            )
            stop.check()
            run = api.train_config(
                wanted.config,
                wanted.spec,
                wanted.make_env,
                self.run_dir,
                logger=self.track,
                quiet=self.quiet,
                checkpoint_to=self.checkpoint_to,
                how=api.on_ray(**on_ray(self, wanted.collecting)),
            )
            return finish(run, self.quiet)


@dataclass(frozen=True)
class Wanted:
    """A training as the command line asks for it."""

    config: TrainConfig
    spec: GoalEnvSpec
    make_env: EnvFactory
    collecting: CollectorOptions


def read(
    options: TrainOptions, more: Sequence[str], prog: str, settings: dict[str, Any] | None = None
) -> Wanted:
    """The training that the options, further arguments and settings ask for; with --help-all it
    ends the program."""
    from hindsight import api
    from hindsight.config import OffPolicyConfig, config_of, refuse_unread
    from hindsight.envs.make import factory
    from hindsight.settings import flatten, with_settings
    from hindsight.training.run import read_config

    collecting = CollectorOptions()
    if isinstance(options, RayOption):
        collecting, more = parse(CollectorOptions, more, prog, collecting)
    more, env_kwargs = take_env_kwargs(more)
    base = read_config(options.config.resolve()) if options.config else None
    if base is not None:
        api.refuse_preset(options.preset, options.config)
    given_env = (
        "" if options.env == "[]" else options.env
    )  # as tyro reads no env before an option it does not know
    env = given_env or (base.env if base else "")
    if not env:
        if not options.help_all:
            raise HindsightError(
                "which env? For example: hindsight train FetchReach-v4 (`hindsight envs` lists "
                "them)"
            )
        example = config_of(options.method or "ddpg", "ENV")
        parse(type(example), ["--help"], prog, example)
    if base is not None and not given_env and options.config is not None:
        _require_named(options.config.resolve().parent, base.env, base.env_kwargs)
    env_kwargs = env_kwargs or (base.env_kwargs if base else {})
    make_env = factory(env, env_kwargs)
    limit = base.max_episode_steps if base else None
    spec = api.describe(env, make_env, limit or _time_limit(more))
    critic = _given("--agent.critic", more)
    config = base or api.default_config(options.method, spec, options.preset, critic or None)
    if options.method not in (None, config.agent.method):
        raise HindsightError(
            f"--method {options.method} does not fit {options.config}, which is of "
            f"{config.agent.method}"
        )
    config = dataclasses.replace(config, env=env, env_kwargs=env_kwargs)
    if options.help_all:
        parse(type(config), ["--help"], f"{prog} {env}", config)
    given = {
        COMMON[name]: value for name in COMMON if (value := getattr(options, name)) is not None
    }
    for name in given:
        if name not in flatten(config):
            option = next(common for common, setting in COMMON.items() if setting == name).replace(
                "_", "-"
            )
            raise HindsightError(
                f"--{option} is not for {config.agent.method}, which does not replay"
            )
    if isinstance(config, OffPolicyConfig):
        updates, more = parse(UpdateOptions, more, prog, UpdateOptions())
        given |= {name: value for name, value in vars(updates).items() if value is not None}
    config = with_settings(config, given | (settings or {}))
    config, unknown = parse(type(config), more, prog, config)
    refuse_unknown(unknown, flatten(config) | COMMON, prog)
    refuse_unread(config, {setting_of(token) for token in more})
    if config.max_episode_steps != limit:
        spec = api.describe(env, make_env, config.max_episode_steps)
    return Wanted(config, spec, make_env, collecting)


def _require_named(directory: Path, env: str, env_kwargs: dict[str, Any]) -> None:
    """A config that was not made here may name code to import: then the env must be given by
    name."""
    from hindsight.training.trust import is_made_here, names_code

    if names_code(env) and not is_made_here(directory, env, env_kwargs):
        raise HindsightError(
            "the config was not made here, and its env would import a module, which runs "
            "code; if you trust it, "
            f"name it: hindsight train {env} --config ..."
        )


def _time_limit(more: Sequence[str]) -> int | None:
    """An env without a time limit of its own can be inspected only with one."""
    text = _given("--max-episode-steps", more)
    return int(text) if text.isdigit() and int(text) else None


def _given(option: str, more: Sequence[str]) -> str:
    """The value of an option that the preset must know of; empty if it is not given."""
    return " ".join(more).replace("=", " ").partition(f"{option} ")[2].partition(" ")[0]


def what_presets_reach(arguments: Sequence[str]) -> str:
    """For the help of an env: what its default preset reaches, measured."""
    if any(token.startswith(("--method", "--preset", "--config")) for token in arguments):
        return ""
    if any(variant in token for token in arguments for variant in VARIANTS):
        return ""  # measured was the task that it is one of
    for env in arguments:
        for discrete in (False, True):
            task = Task(env, discrete=discrete)
            found = (
                reaches(task, default_method(task))
                if "-v" in env and not env.startswith("-")
                else ""
            )
            if found:
                return f"With its preset {env} reaches {found}, measured on two cores."
    return ""
