"""The options of `hindsight train`: preset or config file, then what the command line changes."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro

from hindsight import api
from hindsight.config import TrainConfig
from hindsight.envs.contract import GoalEnvSpec
from hindsight.envs.make import EnvFactory, factory
from hindsight.errors import HindsightError
from hindsight.gradients.config import LEARNERS, OnPolicyConfig
from hindsight.options import env_argument, option, parse, take_env_kwargs, take_option
from hindsight.presets import PresetName
from hindsight.training.run import read_config
from hindsight.training.trust import is_made_here, names_code


@dataclass
class Train:
    """Train on a goal env. Options not given come from the env's preset.

    --method hpg, a2c, a3c, ppo or trpo trains by hindsight policy gradients; see their options with --method M --help.
    """

    env: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="ENV")]
    """Gymnasium id of a goal env, such as FetchPush-v4; `module:Name-v0` imports the module first."""
    settings: Annotated[TrainConfig, tyro.conf.arg(name="")]
    preset: PresetName = "default"
    """her: plain HER. hper: hindsight prioritised replay, two queues; hper-single: one. paper: the paper's settings."""
    config: Path | None = None
    """Repeat a run: take all settings from its config.json instead of the preset."""
    run_dir: Path | None = None
    """Where to put the run; by default a new directory under runs/."""
    quiet: bool = False
    """Show no progress."""


@dataclass
class TrainGradient:
    """Train on a goal env by hindsight policy gradients. Options not given come from the env's preset."""

    env: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="ENV")]
    """Gymnasium id of a goal env, such as hindsight/BitFlip-v0; `module:Name-v0` imports the module first."""
    settings: Annotated[OnPolicyConfig, tyro.conf.arg(name="")]
    config: Path | None = None
    """Repeat a run: take all settings from its config.json instead of the preset."""
    run_dir: Path | None = None
    """Where to put the run; by default a new directory under runs/."""
    quiet: bool = False
    """Show no progress."""


@dataclass(frozen=True)
class Wanted:
    """A training as the command line asks for it."""

    config: api.AnyConfig
    spec: GoalEnvSpec
    make_env: EnvFactory
    run_dir: Path | None
    quiet: bool


def require_named(directory: Path, env: str, env_kwargs: dict[str, Any]) -> None:
    """A config that was not made here may name code to import: then the env must be given by name."""
    if names_code(env) and not is_made_here(directory, env, env_kwargs):
        raise HindsightError(
            f"the config was not made here, and its env would import a module, which runs code; if you trust it, "
            f"name it: hindsight train {env} --config ..."
        )


def read(arguments: Sequence[str], prog: str = "hindsight train") -> Wanted:
    """What the arguments of `hindsight train` ask for; with --help they end the program instead."""
    rest, env_kwargs = take_env_kwargs(arguments)
    rest, method = take_option(rest, "--method")
    config_path, env = option(rest, "--config"), env_argument(rest)
    base = read_config(Path(config_path).resolve()) if config_path else None
    if env is None and base is None:
        if not {"-h", "--help"} & set(rest):
            raise HindsightError("which env? For example: hindsight train FetchReach-v4 (`hindsight envs` lists them)")
        if method in LEARNERS:
            gradient = TrainGradient("ENV", OnPolicyConfig("ENV", agent=LEARNERS[method]()))
            parse(TrainGradient, rest, prog, gradient)
        parse(Train, rest, prog, Train("ENV", TrainConfig(env="ENV")))
    if env is None and base is not None and config_path:
        require_named(Path(config_path).resolve().parent, base.env, base.env_kwargs)
    env = env or (base.env if base else "")
    env_kwargs = env_kwargs or (base.env_kwargs if base else {})
    given = option(rest, "--max-episode-steps") or ""
    time_limit = int(given) if given.isdigit() and int(given) else (base.max_episode_steps if base else None)
    make_env = factory(env, env_kwargs)
    spec = api.describe(env, make_env, time_limit)
    default = dataclasses.replace(
        base or api.default_config(method, spec, option(rest, "--preset") or "default"), env=env, env_kwargs=env_kwargs
    )
    if method not in (None, default.agent.method):
        raise HindsightError(f"{method} does not fit {env}: {default.agent.method} does")
    options: Train | TrainGradient
    if isinstance(default, OnPolicyConfig):
        options = parse(TrainGradient, rest, prog, TrainGradient(env, default))
    else:
        options = parse(Train, rest, prog, Train(env, default))
    if options.env != env:
        raise HindsightError(f"two envs, {env} and {options.env}: name one, before the options")
    if options.settings.max_episode_steps != time_limit:
        spec = api.describe(env, make_env, options.settings.max_episode_steps)
    return Wanted(options.settings, spec, make_env, options.run_dir, options.quiet)
