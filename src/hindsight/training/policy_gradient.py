"""Which loop trains a policy-gradient learner: all in JAX, asynchronous, or with the general collector."""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import ExitStack

from hindsight.envs.batch import EnvBatch, make_batch
from hindsight.envs.contract import GoalEnvSpec
from hindsight.envs.jax_envs import in_jax
from hindsight.envs.make import EnvFactory
from hindsight.errors import HindsightError
from hindsight.gradients.config import A3CConfig, OnPolicyConfig
from hindsight.training.asynchronous import train_asynchronously
from hindsight.training.in_jax import train_in_jax
from hindsight.training.off_policy import Progress
from hindsight.training.on_policy import train_on_policy


def train_policy_gradient(config: OnPolicyConfig, spec: GoalEnvSpec, make_env: EnvFactory) -> Generator[Progress]:
    """Train, yielding now and then; the envs are closed at the end."""
    jax_env = in_jax(make_env()) if config.simulator in ("auto", "jax") else None
    if config.simulator == "jax" and jax_env is None:
        raise HindsightError(f"{spec.id} is not written in JAX, only bit flip and rooms are: use another simulator")
    agent = config.agent
    if isinstance(agent, A3CConfig) and config.simulator == "jax":
        raise HindsightError("a3c steps its envs in threads of their own: use simulator auto")
    with ExitStack() as stack:

        def envs(workers: int | None) -> EnvBatch:
            batch = make_batch(make_env, spec, config.num_envs, config.simulator, workers)
            stack.callback(batch.close)
            return batch

        if isinstance(agent, A3CConfig):
            share = max((config.workers or os.cpu_count() or 1) // agent.workers, 1)
            yield from train_asynchronously(config, spec, [envs(share) for _ in range(agent.workers)], envs(share))
        elif jax_env is not None:
            yield from train_in_jax(config, spec, jax_env)
        else:
            yield from train_on_policy(config, spec, envs(config.workers))
