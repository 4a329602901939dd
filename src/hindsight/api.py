"""Training and loading from Python."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium as gym

from hindsight.agents import make_agent
from hindsight.collect import Collector
from hindsight.config import AGENTS, TrainConfig
from hindsight.envs.batch import EnvBatch, make_batch
from hindsight.envs.contract import GoalEnvSpec, inspect
from hindsight.envs.make import Env, EnvFactory, factory
from hindsight.errors import HindsightError
from hindsight.gradients import config as gradients
from hindsight.gradients import presets as gradient_presets
from hindsight.presets import preset as find_preset
from hindsight.replay.storage import slot_count
from hindsight.saving.checkpoints import restore
from hindsight.settings import with_settings
from hindsight.training.evaluate import Evaluation
from hindsight.training.evaluate import evaluate as evaluate_policy
from hindsight.training.forks import refuse_fork
from hindsight.training.off_policy import train_off_policy
from hindsight.training.off_policy_state import OffPolicyState
from hindsight.training.policy import Policy
from hindsight.training.policy_gradient import train_policy_gradient
from hindsight.training.reopen import Reopened, reopen
from hindsight.training.run import Run
from hindsight.training.session import Callback, Logger, follow
from hindsight.training.trust import require_trust

AnyConfig = TrainConfig | gradients.OnPolicyConfig


def train(
    env: str | Env | EnvFactory,
    *,
    method: str | None = None,
    run_dir: str | Path | None = None,
    preset: str = "default",
    config: AnyConfig | None = None,
    callbacks: Sequence[Callback] = (),
    logger: Logger | None = None,
    quiet: bool = False,
    **settings: Any,
) -> Run:
    """Train on a goal env and return the run.

    `env` is a Gymnasium id, a function that makes an env, or an env object (then one episode is played at a time).
    Settings are those of `TrainConfig`, over `config` or the env's `preset` (default, her, hper, hper-single, paper,
    paper-normalized): `seed=1`, `agent={"gamma": 0.95}`, or by dotted name, `**{"replay.replay_k": 8}`. With `method`
    "hpg", "a2c", "a3c", "ppo" or "trpo" they are those of `OnPolicyConfig`.
    """
    env_kwargs = settings.pop("env_kwargs", config.env_kwargs if config else {})
    time_limit = settings.get("max_episode_steps", config.max_episode_steps if config else None)
    make_env = factory(env, env_kwargs)
    spec = describe(env, make_env, time_limit)
    if config is None:
        config = default_config(method, spec, preset)
    if isinstance(env, gym.Env):
        settings = {"num_envs": 1, "simulator": "inline"} | settings
        if settings["num_envs"] != 1:
            raise HindsightError("num_envs must be 1 for an env object: pass a function that makes the env instead")
    config = with_settings(replace(config, env=spec.id, env_kwargs=dict(env_kwargs)), settings)
    if method not in (None, config.agent.method):
        raise HindsightError(f"{method} does not fit: the config for {spec.id} is one of {config.agent.method}")
    return train_config(config, spec, make_env, run_dir, callbacks, logger, quiet)


def describe(env: str | Env | EnvFactory, make_env: EnvFactory, max_episode_steps: int | None = None) -> GoalEnvSpec:
    """Check the goal-env contract on one env and describe it."""
    return inspect(make_env(), env if isinstance(env, str) else None, max_episode_steps)


def default_config(method: str | None, spec: GoalEnvSpec, preset: str = "default") -> AnyConfig:
    """The preset of an env: for a policy-gradient method, or, without one, for replay."""
    if method in gradients.LEARNERS:
        if preset != "default":
            raise HindsightError(f"preset {preset!r} is one of replay; {method} has only its own")
        return gradient_presets.preset(method, spec.id, spec.actions.discrete, spec.horizon)
    if method not in (None, *AGENTS):
        raise HindsightError(f"unknown method {method!r}: choose from {', '.join((*AGENTS, *gradients.LEARNERS))}")
    return find_preset(spec.id, spec.actions.discrete, spec.horizon, preset)


def train_config(
    config: AnyConfig,
    spec: GoalEnvSpec,
    make_env: EnvFactory,
    run_dir: str | Path | None = None,
    callbacks: Sequence[Callback] = (),
    logger: Logger | None = None,
    quiet: bool = False,
    reopened: Reopened | None = None,
) -> Run:
    """Train with a complete config: a new run in `run_dir`, or one that was reopened.

    SIGINT and SIGTERM save everything at the end of the cycle, and are raised then.
    """
    refuse_fork()
    resumed = reopened.checkpoint if reopened else None
    with ExitStack() as stack:
        # These refuse what does not fit, before anything is written.
        if isinstance(config, gradients.OnPolicyConfig):
            training = stack.enter_context(closing(train_policy_gradient(config, spec, make_env, resumed)))
        else:
            make_agent(config.agent, spec)
            slot_count(spec, config.replay.capacity)
            how = (config.simulator, config.workers, config.env_timeout, config.env_failures)
            envs: EnvBatch = make_batch(make_env, spec, config.num_envs, *how)
            stack.callback(envs.close)
            learning = OffPolicyState(config, spec, envs)
            if resumed is not None:
                restore(learning, resumed)
            training = stack.enter_context(closing(train_off_policy(config, spec, learning)))
        run = Run.create(config, run_dir) if reopened is None else reopened.run
        follow(training, run, reopened, callbacks, logger, quiet)
    return run


def resume(
    run: str | Path,
    *,
    steps: int = 0,
    env: Env | EnvFactory | None = None,
    callbacks: Sequence[Callback] = (),
    logger: Logger | None = None,
    quiet: bool = False,
    trust: bool = False,
) -> Run:
    """Go on with a stopped run from its newest intact checkpoint, as if it had not been stopped, and return it.

    One that was stopped before its first checkpoint starts from its settings. `steps` are added to those that it was
    made for; schedules then stretch over the new total. A run that was trained on a function or an object instead of an
    id needs it again, as `env`. With `trust`, a run that was not made here may import the module that its env names.
    """
    with reopen(Path(run), steps) as found:
        if found.is_done:
            return found.finish()
        config = found.run.config
        if env is None:
            require_trust(found.run.path, config.env, config.env_kwargs, trust)
        make_env = factory(config.env if env is None else env, config.env_kwargs)
        spec = describe(config.env, make_env, config.max_episode_steps)
        return train_config(config, spec, make_env, None, callbacks, logger, quiet, found)


def load(run: str | Path) -> Policy:
    """The policy of a run: `action = policy(observation)` for one dict observation, or a batch of them."""
    return Policy.load(Path(run))


def evaluate(run: str | Path, episodes: int = 100, seed: int = 0, trust: bool = False) -> Evaluation:
    """Play fresh episodes greedily with the policy of a run: success rate and mean return.

    With `trust`, a run that was not made here may import the module that its env names.
    """
    opened = Run.open(run)
    policy, config = opened.policy, opened.config
    require_trust(opened.path, config.env, config.env_kwargs, trust)
    make_env = factory(config.env, config.env_kwargs)
    spec = describe(config.env, make_env, config.max_episode_steps)
    if (policy.observation, policy.goal) != (spec.observation, spec.goal):
        raise HindsightError(f"the policy in {run} was trained on other observations or goals than {config.env} has")
    envs = make_batch(make_env, spec, min(config.num_envs, episodes), config.simulator, config.workers)
    with closing(envs):
        return evaluate_policy(Collector(envs, spec), policy.act, episodes, seed)
