"""What `update` makes of a batch, for every learner of Q: its weights, the actor's own batch, and
dropout."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hindsight.agents.agent import OffPolicyAgent
from hindsight.agents.ddpg import DDPG, DDPGConfig
from hindsight.agents.dqn import DQN, DQNConfig
from hindsight.agents.sac import SAC, SACConfig
from hindsight.agents.shapes import Shapes
from hindsight.agents.td3 import TD3, TD3Config
from hindsight.agents.tqc import TQC, TQCConfig
from hindsight.envs.contract import Actions
from hindsight.replay.batch import Batch

ARMS = Shapes(3, 2, Actions(0, (-1.0, -2.0), (1.0, 2.0)), 0.98, (-50.0, 0.0), 0.0)
SMALL: dict[str, Any] = {"net_arch": (8,), "target_update_interval": 1}
CONTINUOUS: tuple[OffPolicyAgent, ...] = (
    DDPG(DDPGConfig(**SMALL), ARMS),
    TD3(TD3Config(**SMALL, policy_delay=1), ARMS),
    SAC(SACConfig(**SMALL, entropy_in_target=False), ARMS),
    TQC(TQCConfig(**SMALL, entropy_in_target=False), ARMS),
)
ALL = (*CONTINUOUS, DQN(DQNConfig(**SMALL), Shapes(3, 2, Actions(choices=2), 0.98, (-50.0, 0.0))))
KEY = jax.random.key(0)


def name(agent: OffPolicyAgent) -> str:
    return agent.config.method


def batch(agent: OffPolicyAgent, seed: int = 0, n: int = 4) -> Batch:
    rng = np.random.default_rng(seed)
    parts = (rng.standard_normal((n, size), np.float32) for size in (3, 3, 2))
    choices = agent.shapes.actions.choices
    action = rng.integers(choices, size=n) if choices else rng.uniform(-1, 1, (n, 2))
    return Batch(
        *parts,
        action if choices else action.astype(np.float32),
        np.full(n, -1.0, np.float32),
        np.zeros(n, np.float32),
        np.ones(n, np.float32),
    )


def start(agent: OffPolicyAgent, progress: float = 0.0) -> Any:
    return agent.scheduled(agent.init(KEY), agent.shapes.no_scale(), progress)


def without(params: Any) -> Any:
    """Networks that say 0."""
    return jax.tree.map(jnp.zeros_like, params)


@pytest.mark.parametrize("agent", ALL, ids=name)
def test_importance_weights_are_those_of_the_critic(agent: OffPolicyAgent) -> None:
    state = start(agent)
    # Values are 0 and rewards -1, so that all rows have the same loss.
    if isinstance(agent, DQN):
        state = state._replace(network=without(state.network), target=without(state.target))
    else:
        state = state._replace(
            critic=without(state.critic), target_critic=without(state.target_critic)
        )
    alike = agent.update(state, batch(agent), KEY)[2]["critic_loss"]
    weighted = batch(agent)._replace(importance=np.array([1.0, 2.0, 4.0, 4.0], np.float32))
    for beta, mean in (
        (0.0, 1.0),
        (1.0, (0.25 + 0.5 + 1 + 1) / 4),
        (0.5, (0.5 + 0.5**0.5 + 2) / 4),
    ):
        loss = agent.update(state, weighted._replace(beta=np.float32(beta)), KEY)[2]["critic_loss"]
        assert float(loss) == pytest.approx(mean * float(alike), rel=1e-5)
    assert float(alike) > 0.1


@pytest.mark.parametrize("agent", CONTINUOUS, ids=name)
def test_the_actor_learns_from_its_own_batch_if_there_is_one(agent: OffPolicyAgent) -> None:
    state = start(agent)
    state = state._replace(rates=state.rates._replace(critic=np.float32(0)))  # it stays as it is
    own, other = batch(agent), batch(agent, seed=1)
    after_own, after_other, after_both = (
        agent.update(state, those, KEY) for those in (own, other, own._replace(actor=other))
    )
    for a, b in zip(
        jax.tree.leaves(after_both[0].actor), jax.tree.leaves(after_other[0].actor), strict=True
    ):
        np.testing.assert_allclose(a, b, atol=1e-6)
    assert float(after_both[2]["actor_loss"]) == pytest.approx(
        float(after_other[2]["actor_loss"]), rel=1e-5
    )
    assert float(after_own[2]["actor_loss"]) != pytest.approx(
        float(after_other[2]["actor_loss"]), rel=1e-3
    )
    np.testing.assert_allclose(after_both[1].error, after_own[1].error, rtol=1e-5)


@pytest.mark.parametrize(
    "agent",
    [SAC(SACConfig(**SMALL, dropout=0.5), ARMS), TQC(TQCConfig(**SMALL, dropout=0.5), ARMS)],
    ids=name,
)
def test_dropout_is_in_target_critics_and_the_actors_values(agent: SAC) -> None:
    state = start(agent)
    actor = without(state.actor)  # always the same action: what differs by the key is dropout
    actor["params"]["Dense_1"]["bias"] = jnp.array([0.3, -0.5, -20.0, -20.0])
    state = state._replace(
        actor=actor,
        log_temperature=jnp.float32(-20.0),
        rates=state.rates._replace(critic=np.float32(0)),
    )

    def losses(**changes: Any) -> list[tuple[float, float]]:
        now = state._replace(**changes)
        found = [agent.update(now, batch(agent), jax.random.key(key))[2] for key in range(3)]
        return [(float(each["critic_loss"]), float(each["actor_loss"])) for each in found]

    def differ(values: Any) -> bool:
        return bool(np.ptp(list(values)) > 1e-4)

    only_target = losses(critic=without(state.critic))
    only_critics = losses(target_critic=without(state.target_critic))
    neither = losses(critic=without(state.critic), target_critic=without(state.target_critic))
    assert [
        differ(critic for critic, _ in some) for some in (only_target, only_critics, neither)
    ] == [
        True,
        True,
        False,
    ]
    assert differ(actor for _, actor in only_critics)
    assert not differ(actor for _, actor in only_target)
