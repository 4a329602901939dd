"""Training and loading from Python."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium as gym
from threadpoolctl import threadpool_limits

from hindsight.collect import Collector
from hindsight.config import TrainConfig, config_of
from hindsight.envs.batch import make_batch
from hindsight.envs.contract import GoalEnvSpec, inspect
from hindsight.envs.make import Env, EnvFactory, factory
from hindsight.errors import HindsightError
from hindsight.precision import resolved
from hindsight.presets import default_method, preset_settings
from hindsight.saving.checkpoints import Checkpoint, Checkpoints, restore
from hindsight.settings import flatten, with_settings
from hindsight.training.evaluate import Evaluation
from hindsight.training.evaluate import evaluate as evaluate_policy
from hindsight.training.loops import make_loop
from hindsight.training.policy import Policy
from hindsight.training.run import Run, read_config, versions
from hindsight.training.session import Callback, Logger, follow


def train(
    env: str | Env | EnvFactory,
    *,
    method: str | None = None,
    preset: str = "default",
    seed: int | None = None,
    steps: int | None = None,
    num_envs: int | None = None,
    episodes_per_cycle: int | None = None,
    gradient_steps: int | None = None,
    batch_size: int | None = None,
    eval_every: int | None = None,
    eval_episodes: int | None = None,
    max_episode_steps: int | None = None,
    agent: Mapping[str, Any] | None = None,
    replay: Mapping[str, Any] | None = None,
    priority: Mapping[str, Any] | None = None,
    env_kwargs: Mapping[str, Any] | None = None,
    config: TrainConfig | None = None,
    run_dir: str | Path | None = None,
    callbacks: Sequence[Callback] = (),
    logger: Logger | None = None,
    quiet: bool = False,
    **settings: Any,
) -> Run:
    """Train on a goal env and return the run.

    `env` is a Gymnasium id, a function that makes an env, or an env object (then one episode is played at a time).
    `method` is ddpg or dqn by default; others are replayed-ac, hpg, a2c, a3c, ppo and trpo. Settings not given are
    those of `config`, or of the env's `preset` (default, her, hper, hper-single, paper, paper-normalized): those named
    here, any other of `OffPolicyConfig` or `OnPolicyConfig`, and those of a group, as `agent={"gamma": 0.95}` or by
    dotted name, `**{"replay.replay_k": 8}`.
    """
    named = {
        "seed": seed,
        "steps": steps,
        "num_envs": num_envs,
        "episodes_per_cycle": episodes_per_cycle,
        "gradient_steps": gradient_steps,
        "batch_size": batch_size,
        "eval_every": eval_every,
        "eval_episodes": eval_episodes,
        "max_episode_steps": max_episode_steps,
        "agent": agent,
        "replay": replay,
        "priority": priority,
    }
    settings = {name: value for name, value in named.items() if value is not None} | settings
    kwargs = dict(env_kwargs if env_kwargs is not None else config.env_kwargs if config else {})
    make_env = factory(env, kwargs)
    limit = max_episode_steps or (config.max_episode_steps if config else None)
    spec = describe(env, make_env, limit)
    if config is None:
        config = default_config(method, spec, preset)
    if isinstance(env, gym.Env):
        settings = {"num_envs": 1, "simulator": "inline"} | settings
        if settings["num_envs"] != 1:
            raise HindsightError("num_envs must be 1 for an env object: pass a function that makes the env instead")
    config = with_settings(replace(config, env=spec.id, env_kwargs=kwargs), settings)
    if method not in (None, config.agent.method):
        raise HindsightError(f"{method} does not fit: the config for {spec.id} is one of {config.agent.method}")
    return train_config(config, spec, make_env, run_dir, callbacks, logger, quiet)


def describe(env: str | Env | EnvFactory, make_env: EnvFactory, max_episode_steps: int | None = None) -> GoalEnvSpec:
    """Check the goal-env contract on one env and describe it."""
    return inspect(make_env(), env if isinstance(env, str) else None, max_episode_steps)


def default_config(method: str | None, spec: GoalEnvSpec, preset: str = "default") -> TrainConfig:
    """The preset of an env, for a method."""
    method = method or default_method(spec.actions.discrete)
    default = config_of(method, spec.id)
    known = flatten(default)
    settings = preset_settings(spec.id, method, preset, spec.horizon, spec.actions.discrete)
    return with_settings(default, {name: value for name, value in settings.items() if name in known})


def train_config(
    config: TrainConfig,
    spec: GoalEnvSpec,
    make_env: EnvFactory,
    run_dir: str | Path | None = None,
    callbacks: Sequence[Callback] = (),
    logger: Logger | None = None,
    quiet: bool = False,
    resumed: Checkpoint | None = None,
) -> Run:
    """Train with a complete config, from a checkpoint of the run in `run_dir` if one is given.

    SIGINT and SIGTERM save everything at the end of the cycle, and are raised then.
    """
    config = with_settings(config, {"agent.precision": resolved(config.agent.precision)})
    with ExitStack() as stack:
        # These refuse what does not fit, before anything is written.
        loop = make_loop(config, spec, make_env, stack)
        if resumed is not None:
            restore(loop.state, resumed)
        run = Run.create(config, run_dir) if resumed is None else Run(Path(run_dir or ""), config)
        # Acting is small: one BLAS thread does it, while idle ones would spin and take the cores from the rest.
        stack.enter_context(threadpool_limits(1, user_api="blas"))
        training = stack.enter_context(closing(loop.train()))
        follow(training, run, resumed, callbacks, logger, quiet)
    return run


def resume(
    run: str | Path,
    *,
    steps: int = 0,
    env: Env | EnvFactory | None = None,
    callbacks: Sequence[Callback] = (),
    logger: Logger | None = None,
    quiet: bool = False,
) -> Run:
    """Resume a stopped run from its newest intact checkpoint, as if it had not been stopped, and return it.

    `steps` are added to those that it was made for; schedules then stretch over the new total. A run that was trained
    on a function or an object instead of an id needs it again, as `env`.
    """
    path = Path(run)
    if not path.is_dir():
        raise HindsightError(f"{path} does not exist")
    if steps < 0:
        raise HindsightError(f"steps must be 0 or more, got {steps}")
    checkpoint, skipped = Checkpoints(path / "checkpoints").newest()
    for problem in skipped:
        warnings.warn(f"{problem}; using {checkpoint.path} instead", stacklevel=2)
    now = versions()
    other = [f"{name} {was} (now {now.get(name)})" for name, was in checkpoint.versions.items() if now.get(name) != was]
    if other:
        warnings.warn(f"{path} was trained with {', '.join(other)}: it may go on a little differently", stacklevel=2)
    config = read_config(checkpoint.config)
    config = replace(config, steps=config.steps + steps)
    if checkpoint.step >= config.steps:
        raise HindsightError(f"{path} is finished, with {checkpoint.step} steps: say how many more, with --steps")
    make_env = factory(config.env if env is None else env, config.env_kwargs)
    spec = describe(config.env, make_env, config.max_episode_steps)
    return train_config(config, spec, make_env, path, callbacks, logger, quiet, checkpoint)


def load(run: str | Path) -> Policy:
    """The policy of a run: `action = policy(observation)` for one dict observation, or a batch of them."""
    return Policy.load(Path(run))


def evaluate(run: str | Path, episodes: int = 100, seed: int = 0) -> Evaluation:
    """Play fresh episodes greedily with the policy of a run: success rate and mean return."""
    opened = Run.open(run)
    policy, config = opened.policy, opened.config
    make_env = factory(config.env, config.env_kwargs)
    spec = describe(config.env, make_env, config.max_episode_steps)
    if (policy.observation, policy.goal) != (spec.observation, spec.goal):
        raise HindsightError(f"the policy in {run} was trained on other observations or goals than {config.env} has")
    envs = make_batch(
        make_env,
        spec,
        min(config.num_envs, episodes),
        config.simulator,
        config.workers,
        config.env_timeout,
        config.env_failures,
    )
    with closing(envs):
        return evaluate_policy(Collector(envs, spec), policy.act, episodes, seed)
