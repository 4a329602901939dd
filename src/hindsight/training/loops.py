"""Which loop trains a config: off-policy, or for policy gradients in JAX, asynchronous, or with
the collector."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Generator
from contextlib import ExitStack
from typing import Protocol

from hindsight.agents.a2c import A3CConfig
from hindsight.agents.agent import OffPolicyAgent
from hindsight.agents.registry import make_agent, make_off_policy_agent
from hindsight.collect import Collecting, Collector
from hindsight.config import OffPolicyConfig, OnPolicyConfig, TrainConfig
from hindsight.envs.batch import EnvBatch, make_batch, own_model_bytes
from hindsight.envs.contract import GoalEnvSpec
from hindsight.envs.jax_envs import JaxEnv, in_jax
from hindsight.envs.make import Env, EnvFactory
from hindsight.episodes import Episodes
from hindsight.errors import HindsightError
from hindsight.replay.replay import HindsightReplay, make_replay
from hindsight.replay.storage import slot_count
from hindsight.saving.tree import Learning
from hindsight.training.asynchronous import Asynchronous
from hindsight.training.exploration import led
from hindsight.training.in_jax import InJax
from hindsight.training.initial_priorities import InitialPriorities
from hindsight.training.memory import check_memory, envs_made
from hindsight.training.off_policy import OffPolicy
from hindsight.training.on_policy import OnPolicy
from hindsight.training.progress import Progress
from hindsight.training.relay import Relay
from hindsight.training.rollouts import FromDataset, Rollouts


class Loop(Protocol):
    """A training: its state, which can be restored before it goes on, and the loop."""

    @property
    def state(self) -> Learning: ...

    def train(self) -> Generator[Progress]: ...


def make_loop(
    config: TrainConfig,
    spec: GoalEnvSpec,
    make_env: EnvFactory,
    stack: ExitStack,
    dataset: Episodes | None = None,
) -> Loop:
    """The loop of a config. What does not fit is refused here; `stack` closes what is opened.
    Off-policy learners can begin with a dataset."""
    make_agent(config.agent, spec)

    def envs(workers: int | None) -> EnvBatch:
        how = (config.simulator, workers, config.env_timeout, config.env_failures)
        batch = make_batch(make_env, spec, envs_made(config), *how)
        stack.callback(batch.close)
        return batch

    with contextlib.closing(make_env()) as env:
        model = own_model_bytes(env, config.simulator)
        twin = _twin(config, spec, env) if isinstance(config, OnPolicyConfig) else None
    if isinstance(config, OffPolicyConfig):
        slot_count(spec, config.replay.buffer_size)
        check_memory(config, spec, model=model)
        collector = Collector(envs(config.workers), spec)
        return off_policy(config, spec, collector, stack, dataset=dataset)
    assert isinstance(config, OnPolicyConfig)
    check_memory(config, spec, twin is not None, model)
    if isinstance(config.agent, A3CConfig):
        share = max((config.workers or os.cpu_count() or 1) // config.agent.workers, 1)
        batches = [envs(share) for _ in range(config.agent.workers)]
        return Asynchronous(config, spec, batches, envs(share))
    if twin is not None:
        return InJax(config, spec, twin)
    return OnPolicy(config, spec, envs(config.workers))


MakeRollouts = Callable[[OffPolicyAgent, HindsightReplay, InitialPriorities], Rollouts]


def off_policy(
    config: OffPolicyConfig,
    spec: GoalEnvSpec,
    collector: Collecting,
    stack: ExitStack,
    make_rollouts: MakeRollouts | None = None,
    dataset: Episodes | None = None,
) -> OffPolicy:
    """The off-policy loop, put together from its parts, on episodes of this collector, or of a
    dataset."""
    relay = Relay(spec, config)
    agent = make_off_policy_agent(config.agent, relay.spec)
    replay = make_replay(relay.spec, config.replay, config.priority)
    priorities = InitialPriorities(config, agent)
    parts = (config, spec, led(agent, config, relay), collector)
    if make_rollouts:
        rollouts = make_rollouts(agent, replay, priorities)
    elif dataset is not None and not config.collect:
        rollouts = FromDataset(*parts, dataset)
    else:
        rollouts = Rollouts(*parts)
    stack.callback(rollouts.close)
    return OffPolicy(config, relay, agent, replay, priorities, rollouts, dataset)


def _twin(config: OnPolicyConfig, spec: GoalEnvSpec, env: Env) -> JaxEnv | None:
    """The env in JAX, if there is one and the settings of goals allow it."""
    agent = config.agent
    filtered = agent.within_box or agent.skip_achieved or agent.spread or agent.by_action_values
    if config.simulator == "auto":
        return None if filtered or config.relay else in_jax(env)
    if config.simulator != "jax":
        return None
    twin = in_jax(env)
    if isinstance(agent, A3CConfig):
        raise HindsightError(
            "a3c steps its envs in threads of their own: use another simulator than jax"
        )
    if twin is None:
        raise HindsightError(
            f"{spec.id} is not written in JAX, only bit flip and rooms are: use another simulator"
        )
    if config.relay:
        raise HindsightError("relay goals work outside of JAX: use another simulator than jax")
    if filtered:
        what = "within_box, skip_achieved, spread and critic action"
        raise HindsightError(f"{what} work outside of JAX: use another simulator than jax")
    return twin
