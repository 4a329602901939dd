"""Training and loading from Python."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium as gym
from threadpoolctl import threadpool_limits

from hindsight.collect import Collector
from hindsight.config import OffPolicyConfig, TrainConfig, config_of, refuse_unread
from hindsight.distributed.loop import OnRay, make_distributed_loop
from hindsight.envs.batch import make_batch
from hindsight.envs.contract import GoalEnvSpec, inspect
from hindsight.envs.make import Env, EnvFactory, factory
from hindsight.envs.relay_goals import RelayGoal, checked
from hindsight.episodes import Episodes
from hindsight.errors import HindsightError
from hindsight.integrations import LoggerName
from hindsight.integrations.loggers import check_logger, open_logger
from hindsight.precision import resolved
from hindsight.presets import WITH_CRITIC, Task, default_method, preset_settings, unit_settings
from hindsight.pretrained import run_or_env
from hindsight.saving.checkpoints import restore
from hindsight.saving.mirror import Mirror
from hindsight.settings import flatten, with_settings
from hindsight.training.console import Display
from hindsight.training.evaluate import Evaluation
from hindsight.training.evaluate import evaluate as evaluate_policy
from hindsight.training.forks import refuse_fork
from hindsight.training.loops import make_loop
from hindsight.training.reopen import Reopened, reopen
from hindsight.training.run import Run
from hindsight.training.session import Callback, Logger, follow
from hindsight.training.trust import require_trust


def train(
    env: str | Env | EnvFactory,
    *,
    method: str | None = None,
    preset: str = "default",
    seed: int | None = None,
    steps: int | None = None,
    num_envs: int | None = None,
    episodes_per_cycle: int | None = None,
    updates_per_step: float | None = None,
    batch_size: int | None = None,
    eval_every: int | None = None,
    eval_episodes: int | None = None,
    max_episode_steps: int | None = None,
    agent: Mapping[str, Any] | None = None,
    replay: Mapping[str, Any] | None = None,
    priority: Mapping[str, Any] | None = None,
    env_kwargs: Mapping[str, Any] | None = None,
    relay_goals: Sequence[RelayGoal] | None = None,
    config: TrainConfig | None = None,
    run_dir: str | Path | None = None,
    callbacks: Sequence[Callback] = (),
    logger: Logger | LoggerName | None = None,
    quiet: bool = False,
    checkpoint_to: str | None = None,
    ray: str | None = None,
    collectors: int | None = None,
    asynchronous: bool = False,
    **settings: Any,
) -> Run:
    """Train on a goal env and return the run.

    `env` is a Gymnasium id, a function that makes an env, or an env object (then one episode is
    played at a time). `method` is ddpg by default, dqn for discrete actions, and sac for
    FetchSlide, AntMaze and most dense rewards; docs/algorithms.md lists the others.
    Settings not given are those of `config`, or of the env's `preset` (default, her, hper,
    hper-single, relay, baselines, paper, paper-normalized; `baselines:16` has 16 workers). Any
    other setting of `OffPolicyConfig` or `OnPolicyConfig` can be given, too, and those of a group
    as `agent={"gamma": 0.95}` or by dotted name, `**{"replay.replay_k": 8}`. `relay_goals` turn
    `relay` on; `relay=True` alone takes those that the env declares. Checkpoints are copied to
    `checkpoint_to`, an fsspec address such as s3://bucket/run.

    `callbacks` are called with the `Progress` after every cycle; one that returns True stops the
    training. `logger` is "wandb" or "mlflow", or a function of metrics and step
    (docs/tracking.md).

    With `ray`, episodes are played by `collectors` on a Ray cluster: "local" starts one on this
    machine, "auto" is the one that this machine is part of, or give its "HOST:PORT". What is
    learnt is the same, unless they are `asynchronous`: docs/cluster.md.
    """
    named = {
        "seed": seed,
        "steps": steps,
        "num_envs": num_envs,
        "episodes_per_cycle": episodes_per_cycle,
        "updates_per_step": updates_per_step,
        "batch_size": batch_size,
        "eval_every": eval_every,
        "eval_episodes": eval_episodes,
        "max_episode_steps": max_episode_steps,
        "agent": agent,
        "replay": replay,
        "priority": priority,
    }
    settings = {name: value for name, value in named.items() if value is not None} | settings
    if config is not None:
        refuse_preset(preset, "the config")
    kwargs = dict(env_kwargs if env_kwargs is not None else config.env_kwargs if config else {})
    make_env = factory(env, kwargs)
    limit = max_episode_steps or (config.max_episode_steps if config else None)
    spec = describe(env, make_env, limit, relay_goals)
    if relay_goals is not None:
        settings = {"relay": True} | settings
    if config is None:
        critic = (agent or {}).get("critic", settings.get("agent.critic"))
        config = default_config(method, spec, preset, critic)
    if isinstance(env, gym.Env):
        settings = {"num_envs": 1, "simulator": "inline"} | settings
        if settings["num_envs"] != 1:
            raise HindsightError(
                "num_envs must be 1 for an env object: pass a function that makes the env instead"
            )
    config = with_settings(replace(config, env=spec.id, env_kwargs=kwargs), settings)
    if config.max_episode_steps != limit:  # the preset has one
        spec = describe(env, make_env, config.max_episode_steps, relay_goals)
    refuse_unread(config, [*settings, *(f"agent.{name}" for name in agent or ())])
    if method not in (None, config.agent.method):
        raise HindsightError(
            f"{method} does not fit: the config for {spec.id} is one of {config.agent.method}"
        )
    return train_config(
        config,
        spec,
        make_env,
        run_dir,
        callbacks,
        logger,
        quiet,
        checkpoint_to=checkpoint_to,
        how=on_ray(ray, collectors, asynchronous),
    )


def refuse_preset(preset: str, config: object) -> None:
    """A config has all settings: a preset beside it would change nothing."""
    if preset != "default":
        raise HindsightError(
            f"preset {preset!r} changes nothing, because {config} has all settings: give one of "
            "them"
        )


def on_ray(ray: str | None, collectors: int | None, asynchronous: bool) -> OnRay | None:
    """How a training is distributed; None if it is not."""
    if ray is not None:
        return OnRay(ray, collectors, asynchronous)
    if collectors is not None or asynchronous:
        what = "collectors" if collectors is not None else "asynchronous"
        raise HindsightError(f'{what} changes nothing without ray: add --ray, or ray="local"')
    return None


def describe(
    env: str | Env | EnvFactory,
    make_env: EnvFactory,
    max_episode_steps: int | None = None,
    relay_goals: Sequence[RelayGoal] | None = None,
) -> GoalEnvSpec:
    """Check the goal-env contract on one env and describe it. Relay goals that are given replace
    the env's own."""
    spec = inspect(make_env(), env if isinstance(env, str) else None, max_episode_steps)
    if relay_goals is None:
        return spec
    return replace(spec, relay_goals=checked(relay_goals, spec.id))


def task_of(spec: GoalEnvSpec) -> Task:
    """What presets depend on."""
    return Task(
        spec.id,
        spec.horizon,
        discrete=spec.actions.discrete,
        dense=spec.success_reward is None,
        touched=not spec.moves_by_itself,
    )


def default_config(
    method: str | None, spec: GoalEnvSpec, preset: str = "default", critic: str | None = None
) -> TrainConfig:
    """The preset of an env, for a method, with another `agent.critic` if one is given."""
    task = task_of(spec)
    method = method or default_method(task, preset)
    default = config_of(method, spec.id)
    known = flatten(default)
    if critic and "agent.critic" not in known:
        *others, last = WITH_CRITIC
        raise HindsightError(
            f"{method} has no agent.critic to choose: {', '.join(others)} and {last} have"
        )
    settings = preset_settings(task, method, preset, critic)
    settings |= unit_settings(spec.largest_observation, spec.goal_spread)
    return with_settings(
        default, {name: value for name, value in settings.items() if name in known}
    )


def train_config(
    config: TrainConfig,
    spec: GoalEnvSpec,
    make_env: EnvFactory,
    run_dir: str | Path | None = None,
    callbacks: Sequence[Callback] = (),
    logger: Logger | LoggerName | None = None,
    quiet: bool = False,
    reopened: Reopened | None = None,
    checkpoint_to: str | None = None,
    how: OnRay | None = None,
) -> Run:
    """Train with a complete config: a new run in `run_dir`, or one that was reopened.

    SIGINT and SIGTERM save everything at the end of the cycle, and are raised then.
    """
    refuse_fork()
    check_logger(logger)
    resumed = reopened.checkpoint if reopened else None
    mirror = Mirror(checkpoint_to) if checkpoint_to else None
    if mirror is not None and reopened is None:
        mirror.require_empty()
    config = with_settings(config, {"agent.precision": resolved(config.agent.precision)})
    with ExitStack() as stack:
        # These refuse what does not fit, before anything is written.
        dataset = _dataset(config, spec, resumed is None)
        if dataset is not None and how is not None:
            raise HindsightError("a dataset does not go with Ray: leave out one of both")
        display = stack.enter_context(Display(config, quiet))
        loop = (
            make_loop(config, spec, make_env, stack, dataset)
            if how is None
            else make_distributed_loop(config, spec, make_env, how, stack)
        )
        if resumed is not None:
            restore(loop.state, resumed)
        run = Run.create(config, run_dir) if reopened is None else reopened.run
        log = stack.enter_context(open_logger(logger, run))
        # Acting is small: one BLAS thread does it, while idle ones would spin and take the cores
        # from the rest.
        stack.enter_context(threadpool_limits(1, user_api="blas"))
        training = stack.enter_context(closing(loop.train()))
        follow(training, run, display, reopened, callbacks, log, mirror)
    return run


def _dataset(config: TrainConfig, spec: GoalEnvSpec, is_new: bool) -> Episodes | None:
    """The episodes to fill the replay from; of a resumed run it is full."""
    if not (isinstance(config, OffPolicyConfig) and config.dataset):
        return None
    if config.collect and not is_new:
        return None
    from hindsight.integrations.minari import read_episodes

    return read_episodes(config.dataset, spec, config.replay.buffer_size)


def resume(
    run: str | Path,
    *,
    steps: int = 0,
    env: Env | EnvFactory | None = None,
    relay_goals: Sequence[RelayGoal] | None = None,
    callbacks: Sequence[Callback] = (),
    logger: Logger | LoggerName | None = None,
    quiet: bool = False,
    trust: bool = False,
    checkpoint_to: str | None = None,
    ray: str | None = None,
    collectors: int | None = None,
    asynchronous: bool = False,
) -> Run:
    """Resume a stopped run from its newest intact checkpoint, as if it had not been stopped, and
    return it.

    One that was stopped before its first checkpoint starts from its settings. `steps` are added
    to those that it was made for; schedules then stretch over the new total. A run that was
    trained on a function or an object instead of an id needs it again, as `env`, and so do
    `relay_goals` that were given. With `trust`, a run that was not made here may import the
    module that its env names. With `checkpoint_to`, the address of its copies, it goes on from
    the newest checkpoint here or there; `run` need not exist. `ray`,
    `collectors` and `asynchronous` are those of `train`, whatever the run was begun with.
    """
    how = on_ray(ray, collectors, asynchronous)
    mirror = Mirror(checkpoint_to) if checkpoint_to else None
    with reopen(Path(run), steps, mirror) as found:
        if found.is_done:
            return found.finish(mirror)
        config = found.run.config
        if env is None:
            require_trust(found.run.path, config.env, config.env_kwargs, trust)
        make_env = factory(config.env if env is None else env, config.env_kwargs)
        spec = describe(config.env, make_env, config.max_episode_steps, relay_goals)
        return train_config(
            config, spec, make_env, None, callbacks, logger, quiet, found, checkpoint_to, how
        )


def evaluate(
    run: str | Path, episodes: int = 100, seed: int = 0, trust: bool = False
) -> Evaluation:
    """Play fresh episodes greedily with the policy of a run, or with the one that comes with the
    library for an env's id: success rate and mean return.

    With `trust`, a run that was not made here may import the module that its env names.
    """
    opened = Run.open(run_or_env(run))
    policy, config = opened.policy, opened.config
    require_trust(opened.path, config.env, config.env_kwargs, trust)
    make_env = factory(config.env, config.env_kwargs)
    spec = describe(config.env, make_env, config.max_episode_steps)
    policy.check_env(spec, run)
    envs = make_batch(
        make_env,
        spec,
        min(config.num_envs, episodes),
        config.simulator,
        config.workers,
        config.env_timeout,
        config.env_failures,
    )
    # As in training: sums of two BLAS threads are others, and success with them.
    with closing(envs), threadpool_limits(1, user_api="blas"):
        return evaluate_policy(Collector(envs, spec), policy.act, episodes, seed)
