"""The complete settings of a training, how two of them differ, and the command that repeats one."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from hindsight import api
from hindsight.config import OffPolicyConfig, TrainConfig
from hindsight.envs.contract import GoalEnvSpec
from hindsight.envs.make import factory
from hindsight.lab.reproduce.experiment import Measurement, Training
from hindsight.settings import flatten, plain, with_settings
from hindsight.training.run import Run

HARMLESS = ("checkpoint.", "workers", "simulator", "env_timeout", "env_failures")
"""Settings that do not change what is learnt."""
EVALUATION = ("eval_every", "eval_episodes", "final_episodes")
"""Nor do these, unless an evaluation ends the training, or several batches are one program in
JAX."""


@cache
def _spec(env: str, kwargs: tuple[tuple[str, Any], ...]) -> GoalEnvSpec:
    return api.describe(env, factory(env, dict(kwargs)))


def spec_of(training: Training) -> GoalEnvSpec:
    return _spec(training.env, tuple(sorted(training.env_kwargs.items())))


def is_installed(training: Training) -> bool:
    """Whether its env can be made here."""
    try:
        return not training.package or bool(version(training.package))
    except PackageNotFoundError:
        return False


def config_of(training: Training, seed: int, trial_steps: int | None = None) -> TrainConfig:
    """The settings of one run; with `trial_steps` shrunk to a trial of about so many steps."""
    spec = spec_of(training)
    config = api.default_config(training.method, spec, training.preset)
    config = replace(config, env=training.env, env_kwargs=dict(training.env_kwargs))
    config = with_settings(config, {**training.settings, "seed": seed})
    return config if trial_steps is None else _trial(config, trial_steps, horizon(config, spec))


def horizon(config: TrainConfig, spec: GoalEnvSpec) -> int:
    """The longest episode: the env's time limit, unless the settings have another."""
    return config.max_episode_steps or spec.horizon


def _trial(config: TrainConfig, steps: int, horizon: int) -> TrainConfig:
    """Fewer steps, and cycles small enough for there to be one."""
    episodes = min(config.episodes_per_cycle, max(steps // horizon, 1))
    small: dict[str, Any] = {
        "steps": steps,
        "num_envs": min(config.num_envs, episodes),
        "episodes_per_cycle": episodes,
        "eval_every": 1 if episodes < config.episodes_per_cycle else config.eval_every,
        "eval_episodes": min(config.eval_episodes, 10),
        "final_episodes": None,
    }
    if isinstance(config, OffPolicyConfig) and config.gradient_steps is not None:
        small["gradient_steps"] = max(
            config.gradient_steps * episodes // config.episodes_per_cycle, 1
        )
    return replace(config, **small)


def changed(a: TrainConfig, b: TrainConfig) -> dict[str, tuple[Any, Any]]:
    """Settings in which two configs differ, but for those that do not change what is learnt."""
    apart = all(isinstance(c, OffPolicyConfig) and c.stop_at_success is None for c in (a, b))
    harmless = (*HARMLESS, *EVALUATION) if apart else HARMLESS
    one, other = (
        {k: plain(v) for k, v in flatten(config).items() if not k.startswith(harmless)}
        for config in (a, b)
    )
    return {k: (one.get(k), other.get(k)) for k in {**one, **other} if one.get(k) != other.get(k)}


def differences(a: TrainConfig, b: TrainConfig) -> list[str]:
    """The same in words: `name: a, not b`."""
    return [f"{name}: {one}, not {other}" for name, (one, other) in changed(a, b).items()]


def command(entry: Training | Measurement, seed: int) -> str:
    """What to type to run one seed of an entry: it learns the same, however often the experiment
    evaluates it."""
    if isinstance(entry, Measurement) or entry.stop_at is not None:
        return f"hindsight reproduce {entry.home} --only {entry.slug} --seeds {seed}"
    words = ["hindsight", "train", entry.env]
    words += ["--method", entry.method] if entry.method else []
    words += ["--preset", entry.preset] if entry.preset != "default" else []
    for name, value in entry.env_kwargs.items():
        words += [f"--env.{name.replace('_', '-')}", str(value)]
    for name, value in entry.settings.items():
        if name in EVALUATION:
            continue
        group, dot, leaf = name.replace("_", "-").rpartition(".")
        if isinstance(value, bool):
            words += [f"--{group}{dot}{leaf if value else 'no-' + leaf}"]
        else:
            numbers = value if isinstance(value, tuple) else (value,)
            text = " ".join(f"{x:.12g}" if isinstance(x, float) else str(x) for x in numbers)
            words += [f"--{group}{dot}{leaf}", f"'{text}'" if "(" in text else text]
    if entry.collectors is not None:
        words += ["--ray", "--collectors", str(entry.collectors), "--asynchronous"]
    return " ".join([*words, "--seed", str(seed)])


def last_step(run: Run) -> int:
    rows = run.metrics if (run.path / "metrics.jsonl").is_file() else []
    return int(rows[-1]["step"]) if rows else 0
