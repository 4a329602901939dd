"""The learners of Stable-Baselines3 with Hindsight's replay: importance weights, TD errors,
training, saving."""

from __future__ import annotations

import copy
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from conftest import LineEnv

pytest.importorskip("sb3_contrib", reason="needs the extra sb3", exc_type=ImportError)
import torch as th
from sb3_contrib import TQC
from stable_baselines3 import DDPG, DQN, SAC, TD3
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

import hindsight  # noqa: F401  (registers envs)
from hindsight.integrations.sb3 import (
    HindsightReplayBuffer,
    HindsightSamples,
    PrioritizedDDPG,
    PrioritizedDQN,
    PrioritizedSAC,
    PrioritizedTD3,
    PrioritizedTQC,
)

EXAMPLE = Path(__file__).parents[2] / "examples" / "sb3_buffer.py"
PLAIN = {"ddpg": DDPG, "td3": TD3, "sac": SAC, "tqc": TQC, "dqn": DQN}
PRIORITIZED = {
    "ddpg": PrioritizedDDPG,
    "td3": PrioritizedTD3,
    "sac": PrioritizedSAC,
    "tqc": PrioritizedTQC,
    "dqn": PrioritizedDQN,
}
RANK = {"priority": {"sampling": "rank"}}
PROPORTIONAL = {"priority": {"sampling": "proportional", "alpha": 1.0, "beta": 1.0}}
ONE_QUEUE = {"priority": {"sampling": "proportional"}, "replay": {"goals_chosen": "stored"}}
TWO_QUEUES = {
    "priority": {"sampling": "rank", "queues": "two_queues"},
    "replay": {"goals_chosen": "stored"},
}


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    th.set_num_threads(1)


def make(kind: Any, n: int = 1, settings: Any = None, env: Any = None, **options: Any) -> Any:
    """A small learner on LineEnv, whose actions fit it."""
    discrete = kind in (DQN, PrioritizedDQN)
    envs = env or DummyVecEnv([lambda: LineEnv(discrete)] * n)
    return kind(
        "MultiInputPolicy",
        envs,
        replay_buffer_class=HindsightReplayBuffer,
        replay_buffer_kwargs=settings or {},
        buffer_size=2000,
        learning_starts=13 * envs.num_envs,
        seed=0,
        device="cpu",
        **{"policy_kwargs": {"net_arch": [16]}, "batch_size": 32} | options,
    )


# ------------------------------------------------------------------------------------ importance


class OneStep(LineEnv):
    """Every episode is one step and ends there, whatever the goal: so targets are rewards."""

    max_episode_steps = 1

    def step(self, action: Any) -> Any:
        observation, reward, *_ = super().step(action)
        return observation, reward, True, False, {"is_success": False}


def critic_loss(model: Any, policy: Any, batch: HindsightSamples, weights: Any) -> Any:
    """By hand, for targets that are rewards: the mean over the batch of weight times loss."""
    q, target = None, batch.rewards
    if isinstance(model, DQN):
        q = policy.q_net(batch.observations).gather(1, batch.actions.long())
        delta = (q - target).abs()
        each = th.where(delta < 1, 0.5 * delta**2, delta - 0.5)[:, 0]
    elif isinstance(model, TQC):
        q = policy.critic(batch.observations, batch.actions)  # batch, critics, quantiles
        delta = target[:, :, None] - q
        levels = (th.arange(q.shape[2]) + 0.5) / q.shape[2]
        huber = th.where(delta.abs() > 1, delta.abs() - 0.5, 0.5 * delta**2)
        each = ((levels - (delta < 0).float()).abs() * huber).mean(dim=(1, 2))
    else:
        q = policy.critic(batch.observations, batch.actions)
        each = sum(((one - target) ** 2)[:, 0] for one in q)
        each = 0.5 * each if isinstance(model, SAC) else each
    return (weights * each).mean()


@pytest.mark.parametrize("name", PRIORITIZED)
def test_the_critic_follows_the_gradient_of_the_weighted_loss(name: str) -> None:
    """One step of plain gradient descent moves the critic by the learning rate times that."""
    kind = PRIORITIZED[name]
    envs = DummyVecEnv([lambda: OneStep(name == "dqn")])
    model = make(
        kind,
        settings=PROPORTIONAL,
        env=envs,
        learning_rate=1e-3,
        policy_kwargs={"net_arch": [16], "optimizer_class": th.optim.SGD},
    )
    model.learn(100, log_interval=None)
    model._current_progress_remaining = 0.0
    before = copy.deepcopy(model.policy)
    model.train(1, 64)
    batch = model.replay_buffer.last
    assert batch.dones.all()
    weights = batch.weights
    assert weights.max() == 1
    assert weights.min() < 0.9
    critic = "q_net" if name == "dqn" else "critic"
    old, new = getattr(before, critic), getattr(model.policy, critic)
    old.zero_grad()
    critic_loss(model, before, batch, weights).backward()
    moved = 0.0
    for a, b in zip(old.parameters(), new.parameters(), strict=True):
        if a.grad is not None:
            np.testing.assert_allclose((a - b).detach(), 1e-3 * a.grad, atol=2e-7)
            moved += float((a - b).detach().abs().sum())
    assert moved > 1e-5
    assert not new._forward_hooks


# ------------------------------------------------------------------------------------- TD errors


def constant(network: Any, *outputs: list[float]) -> None:
    """Make heads of a network say these numbers, whatever they are asked."""
    with th.no_grad():
        heads = [
            [part for part in head.modules() if isinstance(part, th.nn.Linear)][-1]
            for head in network
        ]
        for head, output in zip(heads, outputs, strict=True):
            head.weight.zero_()
            head.bias[:] = th.tensor(output)


def batch_of(rewards: list[float], dones: list[float], actions: Any) -> HindsightSamples:
    n = len(rewards)
    observations = {key: th.zeros(n, 1) for key in ("observation", "achieved_goal", "desired_goal")}
    column = {"rewards": th.tensor(rewards)[:, None], "dones": th.tensor(dones)[:, None]}
    return HindsightSamples(observations, th.tensor(actions), observations, **column)


def test_td_errors_of_dqn_by_hand() -> None:
    model = make(PrioritizedDQN, gamma=0.9)
    constant([model.q_net], [1.0, 2.0, 3.0])
    constant([model.q_net_target], [5.0, -1.0, 4.0])
    td = model.td_errors(batch_of([-1.0, 0.0], [0.0, 1.0], [[1], [2]]))
    np.testing.assert_allclose(td.value, [2, 3])
    np.testing.assert_allclose(td.error, [-1 + 0.9 * 5 - 2, 0 - 3])


@pytest.mark.parametrize("kind", [PrioritizedTD3, PrioritizedDDPG])
def test_td_errors_of_td3_and_ddpg_by_hand(kind: Any) -> None:
    """Against the smaller target, the mean over critics."""
    model = make(kind, gamma=0.9)
    two = kind is PrioritizedTD3
    numbers = [[2.0], [4.0]] if two else [[3.0]]
    constant(model.critic.q_networks, *numbers)
    constant(model.critic_target.q_networks, *([[7.0], [5.0]] if two else [[5.0]]))
    td = model.td_errors(batch_of([-1.0, 0.0], [0.0, 1.0], [[0.5], [0.1]]))
    np.testing.assert_allclose(td.value, [3, 3])
    np.testing.assert_allclose(td.error, [-1 + 0.9 * 5 - 3, 0 - 3], rtol=1e-6)


@pytest.mark.parametrize("entropy", [0.0, 0.3, "auto_0.3"])
def test_td_errors_of_sac_by_hand(entropy: Any) -> None:
    model = make(PrioritizedSAC, gamma=0.9, ent_coef=entropy)
    constant(model.critic.q_networks, [2.0], [4.0])
    constant(model.critic_target.q_networks, [7.0], [5.0])
    batch = batch_of([-1.0, 0.0], [0.0, 1.0], [[0.5], [0.1]])
    th.manual_seed(7)
    td = model.td_errors(batch)
    th.manual_seed(7)
    _, log_prob = model.actor.action_log_prob(batch.next_observations)
    first = float(log_prob[0].detach())
    np.testing.assert_allclose(td.value, [3, 3])
    weight = 0.3 if entropy == "auto_0.3" else entropy
    np.testing.assert_allclose(td.error, [-1 + 0.9 * (5 - weight * first) - 3, -3], rtol=1e-5)


def test_td_errors_of_tqc_by_hand() -> None:
    """Of the target quantiles 1 2 2 3 4 6 the largest two are left out, and the mean is 2."""
    kwargs = {"net_arch": [16], "n_quantiles": 3}
    model = make(
        PrioritizedTQC,
        gamma=0.9,
        ent_coef=0.0,
        policy_kwargs=kwargs,
        top_quantiles_to_drop_per_net=1,
    )
    constant(model.critic.q_networks, [0.0, 1.0, 2.0], [2.0, 3.0, 4.0])
    constant(model.critic_target.q_networks, [1.0, 2.0, 3.0], [2.0, 4.0, 6.0])
    td = model.td_errors(batch_of([-1.0, 0.0], [0.0, 1.0], [[0.5], [0.1]]))
    np.testing.assert_allclose(td.value, [2, 2])
    np.testing.assert_allclose(td.error, [-1 + 0.9 * 2 - 2, 0 - 2], rtol=1e-6)


def test_priorities_are_the_td_errors_of_what_is_stored_and_then_of_what_is_sampled() -> None:
    """Q is 3 and its target 5: |-1 + 0.9 * 5 - 3| before the goal, |0 - 3| at it. Then Q is 1."""
    model = make(PrioritizedTD3, settings=ONE_QUEUE, gamma=0.9)
    constant(model.critic.q_networks, [2.0], [4.0])
    constant(model.critic_target.q_networks, [7.0], [5.0])
    model.learning_starts = 1000
    model.learn(100, log_interval=None)
    buffer = model.replay_buffer
    replay, queues = buffer.replay, buffer.replay.priorities.queues
    everything = np.arange(replay.pairs.actual + replay.pairs.alternate)
    pairs = everything[queues.priority(everything) > 0]
    at_goal = replay.read(pairs).reward == 0
    assert 10 < at_goal.sum() < len(pairs) - 10
    before = queues.priority(pairs)
    np.testing.assert_allclose(before, np.where(at_goal, 3.0, 0.5), rtol=1e-5)

    constant(model.critic.q_networks, [0.0], [2.0])
    buffer.sample(32)
    after = queues.priority(pairs)
    changed = after != before
    assert 5 < changed.sum() <= 32
    np.testing.assert_allclose(after[changed], np.where(at_goal, 1.0, 2.5)[changed], rtol=1e-5)


# -------------------------------------------------------------------------------------- training


@pytest.mark.parametrize("n", [1, 3])
@pytest.mark.parametrize("name", PLAIN)
def test_every_learner_trains_unchanged_with_any_number_of_envs(name: str, n: int) -> None:
    model = make(PLAIN[name], n)
    before = copy.deepcopy(model.policy.state_dict())
    model.learn(90, log_interval=None)
    after = model.policy.state_dict()
    assert any(not th.equal(before[key], after[key]) for key in before)
    assert all(values.isfinite().all() for values in after.values())


@pytest.mark.parametrize("settings", [RANK, ONE_QUEUE, TWO_QUEUES])
@pytest.mark.parametrize("name", PRIORITIZED)
def test_every_learner_trains_with_priorities(name: str, settings: Any) -> None:
    model = make(PRIORITIZED[name], 2, settings)
    model.learn(70, log_interval=None)
    assert model.replay_buffer.progress > 0.9
    assert model.replay_buffer.last.weights.min() < 1
    assert all(values.isfinite().all() for values in model.policy.state_dict().values())


def test_the_same_seed_gives_the_same_policy() -> None:
    policies = []
    for _ in range(2):
        model = make(PrioritizedSAC, 2, TWO_QUEUES)
        model.learn(80, log_interval=None)
        policies.append(model.policy.state_dict())
    assert all(th.equal(policies[0][key], policies[1][key]) for key in policies[0])


def test_a_prioritized_learner_without_priorities_is_the_plain_one() -> None:
    policies = []
    for kind in (SAC, PrioritizedSAC):
        model = make(kind)
        model.learn(60, log_interval=None)
        policies.append(model.policy.state_dict())
    assert all(th.equal(policies[0][key], policies[1][key]) for key in policies[0])


def test_schedules_follow_the_training() -> None:
    model = make(PrioritizedSAC, settings={"replay": {"replay_k": "linear(8, 0)"}})
    shares = []
    for steps in (40, 200):
        model.learn(steps, log_interval=None)
    for progress in (0.0, 1.0):
        model.replay_buffer.progress = progress
        batch = model.replay_buffer.sample(400)
        own = set(model.replay_buffer.replay.storage.desired_goal.ravel().astype(np.float32))
        goals = batch.observations["desired_goal"][:, 0].tolist()
        shares.append(np.mean([np.float32(goal) not in own for goal in goals]))
    assert shares[0] > 0.8
    assert shares[1] == 0


def test_new_pairs_are_normalised_before_their_td_errors_are_computed() -> None:
    model = make(PrioritizedSAC, 2, RANK, env=VecNormalize(DummyVecEnv([LineEnv] * 2)))
    seen = []
    td_errors = model.td_errors
    model.replay_buffer.td_errors = lambda batch: (seen.append(batch), td_errors(batch))[1]
    model.learn(60, log_interval=None)
    assert all(
        batch.observations[key].abs().max() <= 10 for batch in seen for key in batch.observations
    )
    assert {len(batch.rewards) for batch in seen} > {32}


# ---------------------------------------------------------------------------------------- saving


@pytest.mark.parametrize("kind", [SAC, PrioritizedSAC])
def test_learning_goes_on_after_loading(kind: Any, tmp_path: Path) -> None:
    settings = TWO_QUEUES if kind is PrioritizedSAC else {}
    model = make(kind, 2, settings)
    model.learn(101, log_interval=None)
    model.save(tmp_path / "model")
    model.save_replay_buffer(tmp_path / "buffer")

    loaded = kind.load(tmp_path / "model", env=DummyVecEnv([LineEnv] * 2), device="cpu")
    assert loaded.replay_buffer.size() == 0
    loaded.load_replay_buffer(tmp_path / "buffer")
    size = loaded.replay_buffer.size()
    assert size == model.replay_buffer.size()
    np.testing.assert_array_equal(loaded.replay_buffer.sample(8).actions.shape, (8, 1))
    loaded.learn(60, reset_num_timesteps=False, log_interval=None)
    assert loaded.num_timesteps >= 160
    storage = loaded.replay_buffer.replay.storage
    assert loaded.replay_buffer.size() > size
    lengths = storage.length[: storage.size]
    assert lengths.max() <= LineEnv.max_episode_steps
    x, action = storage.observation[..., 0], storage.action[..., 0]
    real = np.arange(LineEnv.max_episode_steps) < storage.length[:, None]
    after = np.clip(x[:, :-1] + action * 3 + 1, -10, 10)
    np.testing.assert_allclose(np.where(real, after - x[:, 1:], 0), 0, atol=1e-5)


def test_a_second_call_of_learn_begins_new_episodes() -> None:
    model = make(SAC, 2)
    for _ in range(3):
        model.learn(41, log_interval=None)
    storage = model.replay_buffer.replay.storage
    x, action = storage.observation[..., 0], storage.action[..., 0]
    real = np.arange(LineEnv.max_episode_steps) < storage.length[:, None]
    after = np.clip(x[:, :-1] + action * 3 + 1, -10, 10)
    np.testing.assert_allclose(np.where(real, after - x[:, 1:], 0), 0, atol=1e-5)


# --------------------------------------------------------------------------------- whole examples


def test_the_example_runs_and_imports_no_jax() -> None:
    program = (
        f"import runpy, sys; example = runpy.run_path({str(EXAMPLE)!r});"
        "example['main'](steps=160, episodes=1); print('jax' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )
    assert "success rate in 1 episodes" in done.stdout
    assert done.stdout.endswith("False\n")


@pytest.mark.slow
def test_prioritized_dqn_learns_bit_flip() -> None:
    model = PrioritizedDQN(
        "MultiInputPolicy",
        gym.make("hindsight/BitFlip-v0", bits=8),
        replay_buffer_class=HindsightReplayBuffer,
        replay_buffer_kwargs=TWO_QUEUES,
        learning_rate=1e-3,
        learning_starts=100,
        target_update_interval=200,
        exploration_final_eps=0.1,
        train_freq=1,
        policy_kwargs={"net_arch": [128, 128]},
        seed=0,
    )
    model.learn(4000, log_interval=None)
    assert np.mean(model.ep_success_buffer) > 0.85
