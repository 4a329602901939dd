"""The off-policy loop with collectors on Ray."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial

from hindsight.agents.registry import OFF_POLICY
from hindsight.config import OffPolicyConfig, TrainConfig
from hindsight.distributed.asynchronous import AsynchronousRollouts
from hindsight.distributed.cluster import check_address, connected
from hindsight.distributed.collectors import Collectors
from hindsight.envs.contract import GoalEnvSpec
from hindsight.envs.make import EnvFactory
from hindsight.errors import HindsightError
from hindsight.replay.storage import slot_count
from hindsight.training.loops import off_policy
from hindsight.training.off_policy import OffPolicy


@dataclass(frozen=True)
class OnRay:
    """Where and how a training is distributed. In lockstep, what is learnt does not depend on
    it."""

    address: str
    """local: Ray is started on this machine. auto: the cluster that this machine is part of. Or
    HOST:PORT."""
    collectors: int | None = None
    """By default one per CPU of the cluster but one, which the learner has."""
    asynchronous: bool = False
    """Collectors play on while the learner learns. Faster; two runs of a seed differ."""

    def __post_init__(self) -> None:
        check_address(self.address)
        if self.collectors is not None and self.collectors < 1:
            raise HindsightError(f"collectors must be at least 1, got {self.collectors}")


def make_distributed_loop(
    config: TrainConfig, spec: GoalEnvSpec, make_env: EnvFactory, how: OnRay, stack: ExitStack
) -> OffPolicy:
    """The loop of a config, its episodes played by collectors on Ray; `stack` closes all."""
    if not isinstance(config, OffPolicyConfig):
        methods = ", ".join(OFF_POLICY)
        raise HindsightError(
            f"Ray collects for off-policy methods ({methods}), not for {config.agent.method}"
        )
    slot_count(spec, config.replay.buffer_size)
    if how.collectors is not None and how.collectors > config.num_envs:
        raise HindsightError(
            f"{how.collectors} collectors have only {config.num_envs} envs between them: set "
            "num_envs, and episodes_per_cycle, to as many or more"
        )
    ray = stack.enter_context(connected(how.address, how.collectors or 1))
    cpus = int(ray.cluster_resources().get("CPU", 1))
    count = how.collectors or min(max(cpus - 1, 1), config.num_envs)
    collectors = Collectors(ray, config, spec, make_env, count)
    stack.callback(collectors.close)
    if how.asynchronous:
        make_rollouts = partial(AsynchronousRollouts, config, spec, collectors)
        return off_policy(config, spec, collectors, stack, make_rollouts)
    return off_policy(config, spec, collectors, stack)
