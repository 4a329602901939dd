"""Stable-Baselines3 with Hindsight's replay: what is stored, relabelled and sampled."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from conftest import LineEnv, SingleGoalEnv

pytest.importorskip("sb3_contrib", reason="needs the extra sb3", exc_type=ImportError)
import torch as th
from gymnasium.wrappers import TimeLimit
from stable_baselines3 import DQN, SAC, HerReplayBuffer
from stable_baselines3.common.envs import BitFlippingEnv
from stable_baselines3.common.vec_env import (
    DummyVecEnv,
    SubprocVecEnv,
    VecEnv,
    VecNormalize,
    VecTransposeImage,
)

from hindsight.collect import record
from hindsight.envs.contract import inspect
from hindsight.envs.pixel_room import PixelRoomEnv
from hindsight.episodes import Episodes
from hindsight.errors import HindsightError
from hindsight.integrations.sb3 import HindsightReplayBuffer, HindsightSamples, PrioritizedSAC
from hindsight.integrations.sb3.buffer import BufferConfig
from hindsight.replay import Batch, HindsightReplay, TDErrors, importance_weights, make_replay
from hindsight.settings import with_settings

HPER: dict[str, Any] = {
    "replay": {"goals_chosen": "stored"},
    "priority": {"sampling": "rank", "queues": "two_queues"},
}


def line(n: int = 1, **options: Any) -> DummyVecEnv:
    return DummyVecEnv([lambda: LineEnv(**options)] * n)


def buffer_of(
    envs: VecEnv, size: int = 5000, td: Callable[..., Any] | None = None, **settings: Any
) -> HindsightReplayBuffer:
    buffer = HindsightReplayBuffer(
        size,
        envs.observation_space,
        envs.action_space,
        envs,
        device="cpu",
        n_envs=envs.num_envs,
        seed=3,
        **settings,
    )
    buffer.td_errors = td
    return buffer


def play(buffer: Any, envs: VecEnv, steps: int, seed: int = 0) -> list[dict[str, Any]]:
    """Random actions, as Stable-Baselines3 passes them on; returns the episodes that ended, in
    the order in which the buffer gets them."""
    rng = np.random.default_rng(seed)
    ended = []
    envs.seed(seed)
    observation: Any = envs.reset()
    own: list[dict[str, Any]] = [{"observations": [], "actions": []} for _ in range(envs.num_envs)]
    for _ in range(steps):
        if isinstance(envs.action_space, gym.spaces.Discrete):
            action = rng.integers(0, envs.action_space.n, envs.num_envs)
        else:
            action = rng.uniform(-1, 1, (envs.num_envs, 1)).astype(np.float32)
        after: Any
        after, reward, done, infos = envs.step(action)
        shown = {key: values.copy() for key, values in after.items()}
        for i in np.flatnonzero(done):
            for key in shown:
                shown[key][i] = infos[i]["terminal_observation"][key]
        buffer.add(observation, shown, action, reward, done, infos)
        for i in range(envs.num_envs):
            own[i]["observations"].append({key: values[i] for key, values in observation.items()})
            own[i]["actions"].append(action[i])
            if done[i]:
                own[i]["observations"].append({key: values[i] for key, values in shown.items()})
                ended.append(
                    own[i] | {"terminated": not infos[i]["TimeLimit.truncated"], "at": len(ended)}
                )
                own[i] = {"observations": [], "actions": []}
        observation = after
    return ended


def value(batch: Any) -> Any:
    """Some number that depends on observation and goal, of a batch of either library."""
    if isinstance(batch, HindsightSamples):
        observation, goal = batch.observations["observation"], batch.observations["desired_goal"]
        return (3 * observation + goal).numpy()[:, 0]
    return (3 * batch.observation + batch.goal)[..., 0]


def td_errors(batch: Any) -> TDErrors:
    return TDErrors(np.sin(value(batch)), value(batch))


def library_replay(**settings: Any) -> HindsightReplay:
    config = with_settings(BufferConfig(), settings | {"replay.buffer_size": 5000})
    return make_replay(inspect(LineEnv()), config.replay, config.priority)


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"replay": {"goal_rule": "final", "replay_k": 1}},
        {"replay": {"goal_rule": "random", "drop_achieved": 0.5}},
        {"replay": {"goals_chosen": "stored"}},
        {"replay": {"goals_chosen": "stored", "moved_power": 1.0}},
        {"replay": {"other_goals": 0.5}},
        {"priority": {"sampling": "proportional"}},
        {"priority": {"sampling": "rank"}, "replay": {"moved_power": 1.0}},
        {"priority": {"sampling": "rank", "initial": "largest", "sweep": 0.5}},
        {"priority": {"sampling": "proportional"}, "replay": {"goals_chosen": "stored"}},
        {**HPER, "replay": {"goals_chosen": "stored", "other_goals": 0.5}},
        HPER,
    ],
)
def test_batches_are_those_of_the_library_s_replay(settings: dict[str, Any]) -> None:
    envs = line()
    buffer = buffer_of(envs, td=td_errors, **settings)
    ended = play(buffer, envs, 300)

    replay, rng = library_replay(**settings), np.random.default_rng(3)
    for episode in ended:
        stored = record(
            replay.spec, episode["observations"], episode["actions"], episode["terminated"]
        )
        pairs = replay.store(stored, 0.0, rng)
        td = td_errors(replay.read(pairs)) if len(pairs) else None
        replay.push(pairs, None if replay.priority.initial == "largest" else td)
    weighted = replay.prioritised or "moved_power" in settings.get("replay", {})
    ahead = (1, 1, 1) if weighted else (1, 2, 4)  # as many are drawn at once
    for drawn_at_once in ahead:
        theirs = replay.sample(drawn_at_once, 64, 0.0, rng)
        replay.push(theirs.pairs, td_errors(theirs.batch), theirs.sampled_at)
        for i in range(drawn_at_once):
            batch, mine = Batch(*(part[i] for part in theirs.batch[:8])), buffer.sample(64)
            slot, step = (part[i] for part in theirs.addresses[:2])
            np.testing.assert_array_equal(mine.observations["observation"], batch.observation)
            after = mine.next_observations["observation"]
            np.testing.assert_array_equal(after, batch.next_observation)
            for part, time in ((mine.observations, step), (mine.next_observations, step + 1)):
                achieved = replay.storage.achieved_goal[slot, time].astype(np.float32)
                np.testing.assert_array_equal(part["achieved_goal"], achieved)
                np.testing.assert_array_equal(part["desired_goal"], batch.goal)
            np.testing.assert_array_equal(mine.actions, batch.action)
            np.testing.assert_array_equal(mine.rewards[:, 0], batch.reward)
            np.testing.assert_array_equal(mine.dones[:, 0], batch.terminated)
            assert (mine.weights is not None) == weighted
            if mine.weights is not None:
                weights = importance_weights(batch.importance, batch.beta)
                np.testing.assert_array_equal(mine.weights, weights)


def test_batches_drawn_ahead_know_every_episode() -> None:
    """What was drawn before an episode was stored is not handed out after it."""
    envs = line(1, ends=False)
    buffer = buffer_of(envs, replay={"replay_k": 0})
    play(buffer, envs, 12)
    for _ in range(4):
        buffer.sample(64)
    play(buffer, envs, 12, seed=1)
    goals = buffer.sample(64).observations["desired_goal"]
    assert len(goals.unique()) == 2


@pytest.mark.parametrize("n", [1, 3])
@pytest.mark.parametrize("timeouts", [True, False])
def test_relabelled_rewards_and_dones_are_those_of_the_new_goal(n: int, timeouts: bool) -> None:
    """LineEnv ends at its goal; a time limit does not end the value, unless it is asked to."""
    envs = line(n)
    buffer = buffer_of(envs, handle_timeout_termination=timeouts)
    play(buffer, envs, 400)
    batch = buffer.sample(2000)
    x, goal = batch.next_observations["achieved_goal"], batch.observations["desired_goal"]
    reached = (x - goal).abs() < 0.5
    np.testing.assert_array_equal(batch.rewards, reached.float() - 1)
    assert reached.float().mean() > 0.2
    if timeouts:
        np.testing.assert_array_equal(batch.dones, reached.float())
    else:
        assert batch.dones[reached].all()
        assert batch.dones[~reached].any()


class Cliff(LineEnv):
    """Ends at places right of 3, which is a failure; it tells no success."""

    def step(self, action: Any) -> Any:
        observation, reward, _, truncated, _ = super().step(action)
        return observation, reward, bool(self.x[0] > 3), truncated, {}


def test_time_limits_do_not_end_the_value_and_failures_do_for_every_goal() -> None:
    envs = line(ends=False)
    buffer = buffer_of(envs)
    play(buffer, envs, 100)
    assert not buffer.sample(500).dones.any()

    envs = DummyVecEnv([lambda: Cliff(ends=False)])
    buffer = buffer_of(envs)
    play(buffer, envs, 300)
    batch = buffer.sample(500)
    failed = batch.next_observations["observation"] > 3
    assert batch.dones[failed].all()
    assert failed.any()


class Shaped(LineEnv):
    def step(self, action: Any) -> Any:
        observation, reward, *rest = super().step(action)
        return observation, reward + 0.5, *rest


def test_rewards_that_relabelling_cannot_know_are_warned_of() -> None:
    envs = DummyVecEnv([Shaped])
    with pytest.warns(UserWarning, match=r"reward -0.5 where compute_reward\(\) gives -1"):
        play(buffer_of(envs), envs, 20)


def stored(buffer: HindsightReplayBuffer) -> Episodes:
    assert buffer.replay is not None
    storage = buffer.replay.storage
    parts = {
        key: getattr(storage, key)[: storage.size]
        for key in (*storage.export_state(),)
        if key not in ("size", "next")
    }
    return Episodes(**parts, reward=np.zeros(parts["terminated"].shape, np.float32))


def check_dynamics(buffer: HindsightReplayBuffer, scaled: bool = True) -> Episodes:
    """Every stored episode is one that the env can have played."""
    episodes = stored(buffer)
    assert episodes.length.min() >= 1
    assert episodes.length.max() <= LineEnv.max_episode_steps
    move = episodes.action[..., 0] * 3 + 1 if scaled else episodes.action[..., 0]
    x = episodes.observation[..., 0]
    after = np.clip(x[:, :-1] + move, -10, 10)
    np.testing.assert_allclose(np.where(episodes.real, after - x[:, 1:], 0), 0, atol=1e-5)
    np.testing.assert_array_equal(
        episodes.achieved_goal[..., 0].astype(np.float32), episodes.observation[..., 0]
    )
    return episodes


@pytest.mark.parametrize("n", [1, 4])
def test_whole_episodes_are_stored_from_any_number_of_envs(n: int) -> None:
    envs = line(n)
    buffer = buffer_of(envs)
    ended = play(buffer, envs, 200)
    episodes = check_dynamics(buffer, scaled=False)
    assert len(episodes) == len(ended)
    assert sorted(episodes.length) == sorted(len(episode["actions"]) for episode in ended)
    assert buffer.size() == episodes.transitions


def test_the_oldest_episodes_are_overwritten() -> None:
    envs = line(2)
    buffer = buffer_of(envs, size=12 * 5)
    play(buffer, envs, 300)
    assert len(check_dynamics(buffer, scaled=False)) == 5


def test_an_env_that_is_reset_without_a_word_begins_a_new_episode() -> None:
    envs = line(2, ends=False)
    buffer = buffer_of(envs)
    play(buffer, envs, 7)
    assert buffer.size() == 0
    play(buffer, envs, 15, seed=1)
    episodes = check_dynamics(buffer, scaled=False)
    assert sorted(episodes.length) == [7, 7, 12, 12]
    assert not episodes.terminated.any()


class MovingGoal(LineEnv):
    def step(self, action: Any) -> Any:
        result = super().step(action)
        if self.steps == 5:
            self.goal = self.goal + 1
            return self._observe(), *result[1:]
        return result


def test_a_goal_that_changes_ends_the_episode() -> None:
    envs = DummyVecEnv([lambda: MovingGoal(ends=False)])
    buffer = buffer_of(envs)
    play(buffer, envs, 24)
    assert stored(buffer).length.tolist() == [5, 7, 5, 7]


def test_priorities_change_what_is_sampled() -> None:
    """|TD error| 1 for places right of 0, 0.01 left of it; alpha 1: shares by hand."""

    def to_the_right(batch: HindsightSamples) -> TDErrors:
        right = batch.observations["observation"][:, 0].numpy() > 0
        return TDErrors(np.where(right, 1.0, 0.01), np.zeros(len(right)))

    envs = line()
    shares = {}
    for sampling in ("uniform", "proportional", "rank"):
        priority = {"sampling": sampling} | ({"alpha": 1.0} if sampling != "uniform" else {})
        buffer = buffer_of(envs, td=to_the_right, priority=priority)
        play(buffer, envs, 600)
        batches = [buffer.sample(500) for _ in range(20)]
        right = [batch.observations["observation"] > 0 for batch in batches]
        shares[sampling] = float(th.cat(right).float().mean())
    episodes = stored(buffer)
    x = episodes.observation[:, :-1, 0][episodes.real]
    n, m = int((x > 0).sum()), int((x <= 0).sum())
    assert min(n, m) > 100
    assert shares["uniform"] == pytest.approx(n / (n + m), abs=0.03)
    assert shares["proportional"] == pytest.approx(n / (n + 0.01 * m), abs=0.01)
    ranks = 1.0 / np.arange(1, n + m + 1)
    assert shares["rank"] == pytest.approx(ranks[:n].sum() / ranks.sum(), abs=0.03)


def test_importance_weights_by_hand() -> None:
    """Two priorities, 1 and 0.1, alpha 1: P(i) = p / sum; weights (N P)^-0.5 over their largest,
    which is that of the rare ones."""

    def errors(batch: HindsightSamples) -> TDErrors:
        right = batch.observations["observation"][:, 0].numpy() > 0
        return TDErrors(np.where(right, 1.0, 0.1), np.zeros(len(right)))

    envs = line()
    priority = {"sampling": "proportional", "alpha": 1.0, "beta": 0.5, "epsilon": 0.0}
    buffer = buffer_of(envs, td=errors, priority=priority)
    play(buffer, envs, 300)
    batch = buffer.sample(1000)
    right = batch.observations["observation"][:, 0] > 0
    assert batch.weights is not None
    np.testing.assert_allclose(batch.weights[~right], 1.0, rtol=1e-5)
    np.testing.assert_allclose(batch.weights[right], 0.1**0.5, rtol=1e-5)


@pytest.mark.parametrize("settings", [{}, HPER])
def test_a_saved_buffer_goes_on_as_if_it_had_not_been_saved(settings: dict[str, Any]) -> None:
    envs = line(2)
    buffer = buffer_of(envs, td=td_errors, **settings)
    play(buffer, envs, 100)
    copy = pickle.loads(pickle.dumps(buffer))
    assert copy.size() == buffer.size()
    copy.set_env(line(2))
    copy.td_errors = td_errors
    for part in range(2):
        one, other = buffer.sample(64), copy.sample(64)
        for left, right in ((one.observations, other.observations),):
            for key in left:
                np.testing.assert_array_equal(left[key], right[key])
        np.testing.assert_array_equal(one.rewards, other.rewards)
        if part == 0:
            play(buffer, line(2), 50, seed=5)
            play(copy, line(2), 50, seed=5)


def test_a_saved_buffer_is_as_large_as_what_is_in_it() -> None:
    envs = line()
    buffer = buffer_of(envs, size=1_000_000)
    play(buffer, envs, 100)
    assert len(pickle.dumps(buffer)) < 30_000


def test_a_buffer_can_be_loaded_for_another_number_of_envs() -> None:
    envs = line(3, ends=False)
    buffer = buffer_of(envs)
    play(buffer, envs, 17)
    loaded = pickle.loads(pickle.dumps(buffer))
    loaded.set_env(line(1, ends=False))
    play(loaded, line(1, ends=False), 12)
    assert sorted(check_dynamics(loaded, scaled=False).length) == [5, 5, 5, 12, 12, 12, 12]


@pytest.mark.parametrize("cut", [True, False])
def test_an_episode_under_way_is_cut_or_continued_after_loading(cut: bool) -> None:
    """SB3#1542: episodes that were longer than the env allows."""
    envs = line(1, ends=False)
    model = SAC("MultiInputPolicy", envs, replay_buffer_class=HindsightReplayBuffer, seed=0)
    model.learn(30)
    buffer = pickle.loads(pickle.dumps(model.replay_buffer))
    buffer.set_env(envs)
    if cut:
        buffer.truncate_last_trajectory()
    model.replay_buffer = buffer
    model.learn(30, reset_num_timesteps=False)
    lengths = check_dynamics(buffer).length.tolist()
    assert lengths == ([12, 12, 6, 6, 12, 12] if cut else [12, 12, 12, 12, 12])


def test_observations_and_rewards_are_normalised_as_by_stable_baselines3() -> None:
    envs = VecNormalize(line(2), gamma=0.9)
    plain = buffer_of(envs)
    rng = np.random.default_rng(1)
    envs.reset()
    for _ in range(50):
        envs.step(rng.uniform(-1, 1, (2, 1)).astype(np.float32))
    play(plain, line(2), 60)
    copy = pickle.loads(pickle.dumps(plain))
    copy.set_env(envs)
    raw, normal = plain.sample(100), copy.sample(100, env=envs)
    for key, values in raw.observations.items():
        expected = envs.normalize_obs({key: values.numpy()} | _others(raw, key))[key]
        np.testing.assert_allclose(normal.observations[key], expected, rtol=1e-5)
    expected = envs.normalize_reward(raw.rewards.numpy())
    np.testing.assert_allclose(normal.rewards, expected, rtol=1e-5)


def _others(batch: HindsightSamples, key: str) -> dict[str, Any]:
    return {k: v.numpy() for k, v in batch.observations.items() if k != key}


def test_rewards_come_from_another_process_too() -> None:
    envs = SubprocVecEnv([LineEnv, LineEnv])
    try:
        buffer = buffer_of(envs)
        play(buffer, envs, 60)
        batch = buffer.sample(500)
    finally:
        envs.close()
    x, goal = batch.next_observations["achieved_goal"], batch.observations["desired_goal"]
    reached = ((x - goal).abs() < 0.5).float()
    np.testing.assert_array_equal(batch.rewards, reached - 1)
    np.testing.assert_array_equal(batch.dones, reached)


def test_a_reward_of_single_goals_and_a_wrapper_around_it_work() -> None:
    envs = DummyVecEnv([lambda: gym.wrappers.RecordEpisodeStatistics(SingleGoalEnv())])
    buffer = buffer_of(envs)
    with pytest.warns(UserWarning, match="takes single goals only"):
        play(buffer, envs, 40)
    batch = buffer.sample(100)
    distance = batch.next_observations["achieved_goal"] - batch.observations["desired_goal"]
    np.testing.assert_array_equal(batch.rewards, (distance.abs() < 0.5).float() - 1)


@pytest.mark.parametrize("discrete", [True, False])
def test_observations_have_the_shapes_of_their_spaces(discrete: bool) -> None:
    """Stable-Baselines3's own bit flip, whose observations may be numbers."""
    envs = DummyVecEnv([lambda: BitFlippingEnv(4, discrete_obs_space=discrete)])
    ours = buffer_of(envs)
    theirs = HerReplayBuffer(1000, envs.observation_space, envs.action_space, envs, device="cpu")
    play(ours, envs, 100)
    play(theirs, envs, 100)
    mine, peer = ours.sample(50), theirs.sample(50)
    for key, values in peer.observations.items():
        assert mine.observations[key].shape == values.shape
    for name in ("actions", "dones", "rewards"):
        assert getattr(mine, name).shape == getattr(peer, name).shape
    stored_values = {key: set(map(tuple, mine.observations[key].tolist())) for key in GOALS}
    seen = {key: set(map(tuple, theirs.next_observations[key][:100, 0].tolist())) for key in GOALS}
    seen["observation"] |= set(map(tuple, theirs.observations["observation"][:100, 0].tolist()))
    assert stored_values["observation"] <= seen["observation"]
    DQN(
        "MultiInputPolicy", envs, replay_buffer_class=HindsightReplayBuffer, learning_starts=20
    ).learn(60)


def test_images_stay_bytes_in_the_order_that_stable_baselines3_has() -> None:
    """Channels first, by its own wrapper."""
    envs = VecTransposeImage(
        DummyVecEnv([lambda: TimeLimit(PixelRoomEnv("small"), max_episode_steps=6)])
    )
    buffer = buffer_of(envs)
    play(buffer, envs, 40)
    batch = buffer.sample(10)
    for key in GOALS:
        assert batch.observations[key].shape == (10, 1, 5, 5)
        assert batch.observations[key].dtype == th.uint8
    reached = (batch.next_observations["achieved_goal"] == batch.observations["desired_goal"]).all(
        dim=(1, 2, 3)
    )
    assert th.equal(batch.rewards[:, 0], reached.float() - 1.0)


GOALS = ("observation", "achieved_goal", "desired_goal")


class NoReward(LineEnv):
    compute_reward = property()  # type: ignore[assignment]


class MoreKeys(LineEnv):
    def __init__(self) -> None:
        super().__init__()
        space = self.observation_space
        self.observation_space = gym.spaces.Dict({**space.spaces, "image": space["observation"]})


class NoLimit(LineEnv):
    max_episode_steps = None  # type: ignore[assignment]


@pytest.mark.parametrize(
    ("env", "settings", "message"),
    [
        (LineEnv, {"n_sampled_goal": 4}, "Did you mean 'replay.replay_k'"),
        (LineEnv, {"goal_selection_strategy": "final"}, "Did you mean 'replay.goal_rule'"),
        (LineEnv, {"replay": {"goal_rule": "near"}}, "unknown replay.goal_rule 'near'"),
        (LineEnv, {"replay": {"replay_k": -1}}, "replay.replay_k must be at least 0"),
        (LineEnv, {"replay": {"buffer_size": 10}}, "give buffer_size to the learner"),
        (LineEnv, {"priority": {"sampling": "rank", "fresh": 2}}, "priority.fresh changes nothing"),
        (
            LineEnv,
            {"priority": {"sampling": "rank", "bias_correction": "both"}},
            "priority.bias_correction cannot be both",
        ),
        (
            LineEnv,
            {"priority": {"sampling": "rank", "initial": "predicted"}},
            "priority.initial cannot be predicted",
        ),
        (LineEnv, {"optimize_memory_usage": True}, "optimize_memory_usage is not for"),
        (NoReward, {}, "has no compute_reward"),
        (MoreKeys, {}, "'image'"),
        (NoLimit, {}, "no time limit"),
    ],
)
def test_mistakes_are_told_at_once_in_one_line(
    env: Callable[[], Any], settings: dict[str, Any], message: str
) -> None:
    with pytest.raises(HindsightError, match=message) as raised:
        buffer_of(DummyVecEnv([env]), **settings)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    "settings", [{"priority": {"sampling": "rank"}}, {"replay": {"replay_k": "linear(4, 1)"}}]
)
def test_what_a_plain_learner_cannot_do_is_said_at_its_first_step(
    settings: dict[str, Any],
) -> None:
    model = SAC(
        "MultiInputPolicy",
        LineEnv(),
        replay_buffer_class=HindsightReplayBuffer,
        replay_buffer_kwargs=settings,
    )
    with pytest.raises(HindsightError, match="instead of SAC take PrioritizedSAC") as raised:
        model.learn(10)
    assert model.num_timesteps == 1
    assert "\n" not in str(raised.value)


def test_a_prioritized_learner_needs_this_buffer() -> None:
    with pytest.raises(HindsightError, match="needs replay_buffer_class=HindsightReplayBuffer"):
        PrioritizedSAC("MultiInputPolicy", LineEnv())


def test_learning_before_an_episode_has_ended_is_an_error_that_says_what_to_set() -> None:
    model = SAC(
        "MultiInputPolicy",
        line(4, ends=False),
        replay_buffer_class=HindsightReplayBuffer,
        learning_starts=10,
    )
    with pytest.raises(HindsightError, match="set learning_starts to at least 48"):
        model.learn(100)
