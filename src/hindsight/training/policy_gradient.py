"""Which loop trains a policy-gradient learner: all in JAX, asynchronous, or with the general collector."""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import ExitStack

from hindsight.envs.batch import EnvBatch, make_batch
from hindsight.envs.contract import GoalEnvSpec
from hindsight.envs.jax_envs import JaxEnv, in_jax
from hindsight.envs.make import EnvFactory
from hindsight.errors import HindsightError
from hindsight.gradients.config import A3CConfig, OnPolicyConfig
from hindsight.gradients.learner import make_learner
from hindsight.saving.checkpoints import Checkpoint
from hindsight.training.asynchronous import train_asynchronously
from hindsight.training.in_jax import train_in_jax
from hindsight.training.off_policy import Progress
from hindsight.training.on_policy import train_on_policy


def train_policy_gradient(
    config: OnPolicyConfig, spec: GoalEnvSpec, make_env: EnvFactory, resumed: Checkpoint | None = None
) -> Generator[Progress]:
    """Train, yielding now and then. What does not fit is refused at once, before the first batch is asked for."""
    agent = config.agent
    filtered = agent.within_box or agent.unmet or agent.spread or make_learner(agent, spec).model.replayed
    twin = in_jax(make_env()) if config.simulator == "jax" or (config.simulator == "auto" and not filtered) else None
    if config.simulator == "jax":
        if isinstance(config.agent, A3CConfig):
            raise HindsightError("a3c steps its envs in threads of their own: use another simulator than jax")
        if twin is None:
            raise HindsightError(f"{spec.id} is not written in JAX, only bit flip and rooms are: use another simulator")
        if filtered:
            what = "within_box, unmet, spread and a replayed critic"
            raise HindsightError(f"{what} work outside of JAX: use another simulator than jax")
    return _train(config, spec, make_env, twin, resumed)


def _train(
    config: OnPolicyConfig, spec: GoalEnvSpec, make_env: EnvFactory, twin: JaxEnv | None, resumed: Checkpoint | None
) -> Generator[Progress]:
    agent = config.agent
    with ExitStack() as stack:

        def envs(workers: int | None) -> EnvBatch:
            how = (config.simulator, workers, config.env_timeout, config.env_failures)
            batch = make_batch(make_env, spec, config.num_envs, *how)
            stack.callback(batch.close)
            return batch

        if isinstance(agent, A3CConfig):
            share = max((config.workers or os.cpu_count() or 1) // agent.workers, 1)
            batches = [envs(share) for _ in range(agent.workers)]
            yield from train_asynchronously(config, spec, batches, envs(share), resumed)
        elif twin is not None:
            yield from train_in_jax(config, spec, twin, resumed)
        else:
            yield from train_on_policy(config, spec, envs(config.workers), resumed)
