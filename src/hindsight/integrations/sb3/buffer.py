"""Hindsight's replay as a replay buffer of Stable-Baselines3.

Stable-Baselines3 gives its buffers one step at a time and asks for one batch at a time. Here
steps become whole episodes, which go to a `HindsightReplay`, and its batches become tensors.
Storing, relabelling and priorities are the library's own.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import torch as th
from gymnasium import spaces
from stable_baselines3 import HerReplayBuffer
from stable_baselines3.common.buffers import BaseBuffer
from stable_baselines3.common.vec_env import (
    DummyVecEnv,
    VecEnv,
    VecNormalize,
    unwrap_vec_normalize,
)

from hindsight.envs.contract import (
    GOAL_KEYS,
    SUCCESS_KEYS,
    GoalEnvSpec,
    actions_of,
    describe,
    goal_spaces,
    no_reward,
)
from hindsight.envs.spaces import Features
from hindsight.episodes import Episodes
from hindsight.errors import HindsightError
from hindsight.replay import (
    Batch,
    HindsightReplay,
    PriorityConfig,
    ReplayConfig,
    Sample,
    TDErrors,
    importance_weights,
    make_replay,
)
from hindsight.replay.pairs import Addresses
from hindsight.replay.replay import check_replay
from hindsight.replay.storage import at
from hindsight.saving.tree import State
from hindsight.schedules import Schedule
from hindsight.settings import check_ranges, refuse_changes, with_settings
from hindsight.types import Array, Bools, Floats, Ints

ENV = "the env"
TIME_LIMITS = ("_max_episode_steps", "max_episode_steps", "max_steps")
"""What envs and wrappers call their time limit."""
PROBED = 6
"""Steps of the first episode whose goals show what kind of rewards the env gives."""
CHUNK = 4096
"""Pairs whose TD errors are computed at once."""
AHEAD = 8
"""Batches that are drawn at once at most, which takes half the time of drawing them one by one."""


class HindsightSamples(NamedTuple):
    """A batch as the learners of Stable-Baselines3 read it, and the importance weights."""

    observations: dict[str, th.Tensor]
    actions: th.Tensor
    next_observations: dict[str, th.Tensor]
    dones: th.Tensor  # [B, 1]
    rewards: th.Tensor  # [B, 1]
    discounts: th.Tensor | None = None
    weights: th.Tensor | None = None  # [B], the largest is 1; None if all are


@dataclass(frozen=True)
class BufferConfig:
    """The settings of a buffer, named as for `hindsight.train`."""

    replay: ReplayConfig = ReplayConfig()
    priority: PriorityConfig = PriorityConfig()

    def check(self) -> None:
        """Raise HindsightError naming a setting that is wrong, or that nothing would read."""
        check_ranges(self)
        check_replay(self.replay, self.priority)
        why = "with a learner of Stable-Baselines3"
        refuse_changes(self.priority, ("updates_per_draw", "fresh"), "priority.", why)
        for name, refused, instead in (
            ("initial", "predicted", "td_error or largest"),
            ("bias_correction", "both", "critic or none"),
        ):
            if getattr(self.priority, name) == refused:
                raise HindsightError(f"priority.{name} cannot be {refused} {why}: choose {instead}")

    @cached_property
    def weighted(self) -> bool:
        """Whether some pairs are drawn more often than others, so that they have weights."""
        alike = self.priority.sampling == "uniform"
        return not alike or (self.replay.goals_chosen == "stored" and self.replay.moved_power > 0)

    @cached_property
    def scheduled(self) -> bool:
        """Whether a setting of the replay changes during training."""
        return any(
            isinstance(value, Schedule) and value.kind != "constant"
            for value in vars(self.replay).values()
        )


class HindsightReplayBuffer(HerReplayBuffer):
    """Takes the place of HerReplayBuffer, with the goal rules and the priorities of Hindsight.

    SAC("MultiInputPolicy", env, replay_buffer_class=HindsightReplayBuffer,
        replay_buffer_kwargs={"replay": {"replay_k": 4}})

    `replay` and `priority` are settings by name, as `hindsight.train` takes them. The time limit
    of the env is found by itself, if its wrappers tell; else `max_episode_steps` says it. The
    buffer has a random generator of its own, seeded by `seed`, or by the seed of the learner.
    """

    env: VecEnv | None

    def __init__(
        self,
        buffer_size: int,
        observation_space: spaces.Dict,
        action_space: spaces.Space[Any],
        env: VecEnv,
        device: th.device | str = "auto",
        n_envs: int = 1,
        optimize_memory_usage: bool = False,
        handle_timeout_termination: bool = True,
        max_episode_steps: int | None = None,
        seed: int | None = None,
        **settings: Any,
    ) -> None:
        BaseBuffer.__init__(self, buffer_size, observation_space, action_space, device, n_envs)
        if optimize_memory_usage:
            raise HindsightError(
                "optimize_memory_usage is not for HindsightReplayBuffer, which stores each "
                "observation once anyway: leave it out"
            )
        if "buffer_size" in settings.get("replay", {}) or "replay.buffer_size" in settings:
            raise HindsightError("give buffer_size to the learner, not to its replay buffer")
        config = with_settings(BufferConfig(), settings)
        self.config = with_settings(config, {"replay.buffer_size": int(buffer_size)})
        self.config.check()
        self.optimize_memory_usage = False
        self.handle_timeout_termination = handle_timeout_termination
        space = goal_spaces(observation_space, ENV)
        if more := [key for key in space.spaces if key not in GOAL_KEYS]:
            raise HindsightError(
                f"observations have the key {more[0]!r} besides {', '.join(GOAL_KEYS)}: put it "
                "into 'observation' with a wrapper"
            )
        self.features = {key: Features.of(space[key], f"{ENV}: {key}") for key in GOAL_KEYS}
        self.env = env
        if not env.has_attr("compute_reward"):
            raise no_reward(ENV)
        self.horizon = max_episode_steps or _time_limit(env)
        # Not drawn from the global generators: those give networks their first parameters.
        self.rng = np.random.default_rng(th.initial_seed() % 2**63 if seed is None else seed)
        self.replay: HindsightReplay | None = None
        """Storage, goals and priorities; made when the first episode has shown what goals are."""
        self.td_errors: Callable[[HindsightSamples], TDErrors] | None = None
        """Of the learner; given by `Prioritized`, as is the progress of the training."""
        self.progress = 0.0
        self.last: HindsightSamples | None = None
        """What was sampled last."""
        self._ahead: list[tuple[Batch, Addresses]] = []
        self._next_ahead = 1
        self._saved: State | None = None
        self._cut = False
        self._tells_success = False
        self._playing = self._no_steps()

    # ------------------------------------------------------------------------------------- storing

    def add(
        self,
        obs: dict[str, Array],
        next_obs: dict[str, Array],
        action: Array,
        reward: Array,
        done: Array,
        infos: Sequence[dict[str, Any]],
    ) -> None:
        """One step of every env. Episodes are stored when they end.

        An env that was reset without a word (by a second call of `learn`, or after loading), or
        whose desired goal has changed, has ended its episode, too: as by a time limit.
        """
        self._check_learner()
        if len(self._playing) != self.n_envs:  # loaded for another number of envs
            self._store(self._playing.length > 0)
            self._playing = self._no_steps()
        now, after = self._observed(obs), self._observed(next_obs)
        self._store((self._playing.length > 0) & ~self._continues(now))
        self._cut = False
        playing, rows, t = self._playing, np.arange(self.n_envs), self._playing.length.copy()
        first = np.flatnonzero(t == 0)
        playing.observation[first, 0] = now["observation"][first]
        playing.achieved_goal[first, 0] = now["achieved_goal"][first]
        playing.desired_goal[first] = now["desired_goal"][first]
        playing.observation[rows, t + 1] = after["observation"]
        playing.achieved_goal[rows, t + 1] = after["achieved_goal"]
        playing.action[rows, t] = np.reshape(action, playing.action[:, 0].shape)
        playing.reward[rows, t] = reward
        timeout = np.array([bool(info.get("TimeLimit.truncated", False)) for info in infos])
        ended = np.asarray(done, np.bool_)
        late = timeout & self.handle_timeout_termination
        playing.terminated[rows, t] = ended & ~late
        for row, info in enumerate(infos):
            for key in SUCCESS_KEYS:
                if key in info:
                    playing.success[row, t[row]] = bool(info[key])
                    self._tells_success = True
                    break
        playing.length[:] += 1
        self._store(ended | (playing.length == self.horizon))

    def _observed(self, observation: dict[str, Array]) -> dict[str, Array]:
        """[n_envs, ...] as they are stored: observations as features, goals in their own shape."""
        flat = self.features["observation"](
            np.reshape(observation["observation"], (self.n_envs, *self._shape("observation")))
        )
        goals = {
            key: np.reshape(observation[key], (self.n_envs, *self._shape(key)))
            for key in ("achieved_goal", "desired_goal")
        }
        return {"observation": flat, **goals}

    def _shape(self, key: str) -> tuple[int, ...]:
        return self.features[key].shape

    def _continues(self, now: dict[str, Array]) -> Bools:
        """[n_envs] whether the observations are those that the last step led to."""
        playing, rows, t = self._playing, np.arange(self.n_envs), self._playing.length

        def same(left: Array, right: Array) -> Bools:
            equal: Bools = (left == right).reshape(self.n_envs, -1).all(axis=1)
            return equal

        return (
            np.full(self.n_envs, not self._cut)
            & same(playing.observation[rows, t], now["observation"])
            & same(playing.achieved_goal[rows, t], now["achieved_goal"])
            & same(playing.desired_goal, now["desired_goal"])
        )

    def _store(self, which: Bools) -> None:
        """Store the episodes of these envs as far as they are played; new ones begin there."""
        if not which.any():
            return
        playing = self._playing
        episodes = playing.select(which)
        playing.length[which] = 0
        playing.terminated[which] = playing.success[which] = False
        replay = self.replay
        if replay is None:
            replay = self.replay = self._make(episodes)
            _compare_rewards(replay.spec, episodes)
        if not self._tells_success and episodes.terminated.any():
            n = len(episodes)
            goals = np.repeat(episodes.desired_goal[:, None], self.horizon, axis=1)
            achieved = episodes.achieved_goal[:, 1:].reshape(n * self.horizon, *goals.shape[2:])
            reached = replay.spec.reached(achieved, goals.reshape(achieved.shape))
            episodes.success[:] = reached.reshape(n, self.horizon) & episodes.real
        self._ahead, self._next_ahead = [], 1
        pairs = replay.store(episodes, self.progress, self.rng)
        by_td_error = replay.prioritised and self.config.priority.initial == "td_error"
        replay.push(pairs, self._td_errors_of(replay, pairs) if by_td_error else None)

    def _td_errors_of(self, replay: HindsightReplay, pairs: Ints) -> TDErrors:
        assert self.td_errors is not None
        assert replay.pairs is not None
        normalizer = unwrap_vec_normalize(self.env)
        parts = []
        for start in range(0, len(pairs), CHUNK):
            some = pairs[start : start + CHUNK]
            addresses = replay.pairs.address(some)
            parts.append(self.td_errors(self._tensors(replay.read(some), addresses, normalizer)))
        errors, values = ([getattr(td, name) for td in parts] for name in ("error", "value"))
        return TDErrors(np.concatenate(errors), np.concatenate(values))

    def _no_steps(self) -> Episodes:
        """Room for an episode of every env."""
        n, horizon, actions = self.n_envs, self.horizon, actions_of(self.action_space, ENV)
        space = self.observation_space["achieved_goal"]
        achieved = np.zeros((n, horizon + 1, *self._shape("achieved_goal")), space.dtype)
        action = np.zeros((n, horizon, actions.dim), np.float32)
        features = self.features["observation"]
        return Episodes(
            observation=np.zeros((n, horizon + 1, features.dim), features.dtype),
            achieved_goal=achieved,
            desired_goal=achieved[:, 0].copy(),
            action=np.zeros((n, horizon), np.int64) if actions.discrete else action,
            reward=np.zeros((n, horizon), np.float32),
            terminated=np.zeros((n, horizon), np.bool_),
            success=np.zeros((n, horizon), np.bool_),
            length=np.zeros(n, np.int64),
        )

    # ----------------------------------------------------------------------------------- replaying

    def sample(self, batch_size: int, env: VecNormalize | None = None) -> HindsightSamples:
        """A batch. If it was drawn by priorities, those follow the TD errors that it has now."""
        self._check_learner()
        replay = self.replay
        if replay is None:
            raise HindsightError(
                "no episode has ended yet: set learning_starts to at least "
                f"{self.horizon * self.n_envs}, {self.n_envs} x {self.horizon} steps"
            )
        if not self.config.weighted:
            self.last = self._tensors(*self._uniform(replay, batch_size), env)
            return self.last
        drawn = replay.sample(1, batch_size, self.progress, self.rng)
        [(batch, addresses)] = _each(drawn)
        weights = importance_weights(batch.importance, batch.beta) if batch.beta > 0 else None
        self.last = self._tensors(batch, addresses, env, weights)
        if replay.prioritised:
            assert self.td_errors is not None
            replay.push(drawn.pairs, self.td_errors(self.last), drawn.sampled_at)
        return self.last

    def _uniform(self, replay: HindsightReplay, batch_size: int) -> tuple[Batch, Addresses]:
        """A batch. As all of them are alike until an episode is stored, some are drawn ahead:
        twice as many each time."""
        if not self._ahead or len(self._ahead[-1][0].reward) != batch_size:
            drawn = replay.sample(self._next_ahead, batch_size, self.progress, self.rng)
            self._ahead = _each(drawn)[::-1]
            if not self.config.scheduled:
                self._next_ahead = min(2 * self._next_ahead, AHEAD)
        return self._ahead.pop()

    def _tensors(
        self,
        batch: Batch,
        addresses: Addresses,
        normalizer: VecNormalize | None,
        weights: Floats | None = None,
    ) -> HindsightSamples:
        """The batch [B, ...] in the shapes of the observation space; normalised, if there is
        something that does."""
        assert self.replay is not None
        achieved, (slot, step) = self.replay.storage.achieved_goal, addresses[:2]

        def observed(features: Floats, time: Ints) -> dict[str, Array]:
            values: dict[str, Array] = {
                "observation": features,
                "achieved_goal": self.features["achieved_goal"](at(achieved, slot, time)),
                "desired_goal": batch.goal,
            }
            shaped = {key: self._unflat(value, key) for key, value in values.items()}
            normalized: dict[str, Array] = self._normalize_obs(shaped, normalizer)
            return normalized

        action = batch.action.reshape(len(slot), self.action_dim)
        reward = self._normalize_reward(batch.reward[:, None], normalizer)
        observations, next_observations = (
            {key: self._tensor(value) for key, value in part.items()}
            for part in (
                observed(batch.observation, step),
                observed(batch.next_observation, step + 1),
            )
        )
        return HindsightSamples(
            observations,
            self._tensor(action),
            next_observations,
            self._tensor(batch.terminated[:, None]),
            self._tensor(reward),
            weights=None if weights is None else self._tensor(weights),
        )

    def _unflat(self, features: Floats, key: str) -> Array:
        kind, shape = self.features[key], self.obs_shape[key]
        values: Array = features.argmax(axis=-1) if kind.categories else features
        return values.reshape(len(features), *shape)

    def _tensor(self, array: Array) -> th.Tensor:
        return th.as_tensor(array, device=self.device)

    # ------------------------------------------------------------------------------ learner and env

    def _check_learner(self) -> None:
        """Raise HindsightError if the settings need what only `Prioritized` learners give."""
        if self.td_errors is None and (self.config.weighted or self.config.scheduled):
            what = "priorities" if self.config.weighted else "schedules"
            raise HindsightError(
                f"{what} need a learner that tells its replay buffer about TD errors and progress: "
                "instead of SAC take PrioritizedSAC of hindsight.integrations.sb3, and so on"
            )

    def _compute(self, name: str) -> Callable[[Array, Array, Any], Any]:
        """A method of the first env, for goals [n, ...] or single ones.

        Stable-Baselines3 gives it batches only, with numbers as vectors of one. So does this,
        but that an env in this process may take single vectors instead: in a SubprocVecEnv, to
        try is to end the process if it fails.
        """
        shape = self.obs_shape["achieved_goal"]
        local = self.env is not None and isinstance(self.env.unwrapped, DummyVecEnv)

        def ask(achieved: Array, desired: Array, info: Any) -> Any:
            if self.env is None:
                raise HindsightError("the replay buffer was loaded without an env: call set_env()")
            single = np.shape(achieved) == self._shape("achieved_goal")
            if single and local and np.shape(achieved) == shape:
                return self.env.env_method(name, achieved, desired, {}, indices=[0])[0]
            achieved, desired = (np.reshape(goal, (-1, *shape)) for goal in (achieved, desired))
            infos: list[dict[str, Any]] = [{}] * len(achieved)
            result = self.env.env_method(name, achieved, desired, infos, indices=[0])[0]
            return np.reshape(result, -1)[0] if single else result

        return ask

    def _make(self, episodes: Episodes) -> HindsightReplay:
        """The replay, for an env whose goals are as in the first of these episodes."""
        assert self.env is not None
        length = int(episodes.length[0])
        achieved = episodes.achieved_goal[0, 1 : length + 1][:PROBED]
        desired = np.repeat(episodes.desired_goal[:1], len(achieved), axis=0)
        terminated = None
        if self.env.has_attr("compute_terminated"):
            terminated = self._compute("compute_terminated")
        spec: GoalEnvSpec = describe(
            ENV,
            self.observation_space,
            actions_of(self.action_space, ENV),
            self.horizon,
            self._compute("compute_reward"),
            terminated,
            achieved,
            desired,
        )
        return make_replay(spec, self.config.replay, self.config.priority)

    def set_env(self, env: VecEnv) -> None:
        """The env of the training: Stable-Baselines3 calls this after loading the buffer."""
        self.env, self.n_envs = env, env.num_envs
        if self._saved is not None:
            saved, self._saved = self._saved, None
            storage = saved["storage"]
            goals = Episodes(
                **{key: storage[key][:1] for key in storage if key not in ("size", "next")},
                reward=np.zeros((1, self.horizon), np.float32),
            )
            self.replay = self._make(goals)
            self.replay.restore_state(saved)

    # -------------------------------------------------------------------------------------- saving

    def __getstate__(self) -> dict[str, Any]:
        """Without the env and the learner; of the storage, only what is in use."""
        state = self.__dict__ | {"env": None, "td_errors": None, "last": None, "replay": None}
        state["_saved"] = self.replay.export_state() if self.replay else self._saved
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)

    def truncate_last_trajectory(self) -> None:
        """Episodes under way when the buffer was saved have ended, as by a time limit."""
        self._cut = True

    def size(self) -> int:
        """Stored transitions, of whole episodes."""
        if self.replay is None:
            return 0 if self._saved is None else int(self._saved["storage"]["length"].sum())
        storage = self.replay.storage
        return int(storage.length[: storage.size].sum())

    def reset(self) -> None:
        """Forget everything."""
        self.replay = self._saved = self.last = None
        self._ahead, self._next_ahead = [], 1
        self._playing = self._no_steps()


def _each(sample: Sample) -> list[tuple[Batch, Addresses]]:
    """The batches of a sample one by one."""
    return [
        (
            Batch(*(part[i] for part in sample.batch[:8])),
            Addresses(*(p[i] for p in sample.addresses)),
        )
        for i in range(len(sample.batch.reward))
    ]


def _compare_rewards(spec: GoalEnvSpec, episodes: Episodes) -> None:
    """Warn if the env's rewards are not those of its compute_reward, from which is learnt."""
    length = int(episodes.length[0])
    goal = np.repeat(episodes.desired_goal[:1], length, axis=0)
    computed = spec.goal_reward(episodes.achieved_goal[0, 1 : length + 1], goal)
    given = episodes.reward[0, :length]
    different = np.flatnonzero(~np.isclose(computed, given, atol=1e-5))
    if len(different):
        warnings.warn(
            f"{ENV}: step() returned reward {given[different[0]]:g} where compute_reward() gives "
            f"{computed[different[0]]:g}; learning uses compute_reward()",
            stacklevel=2,
        )


def _time_limit(env: VecEnv) -> int:
    """The smallest of those that the env and its wrappers tell."""
    limits = [env.get_attr(name, [0])[0] for name in TIME_LIMITS if env.has_attr(name)]
    known = [int(limit) for limit in limits if isinstance(limit, int) and limit > 0]
    if not known:
        raise HindsightError(
            "the env has no time limit: give one with "
            "replay_buffer_kwargs={'max_episode_steps': ...}"
        )
    return min(known)
