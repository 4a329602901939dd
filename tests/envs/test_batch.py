"""Episodes depend on their seed and actions only: not on process, env object, or neighbours."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np

from conftest import LineEnv
from hindsight.collect import Collector, episode_seeds
from hindsight.envs.batch import LocalEnvs, make_batch
from hindsight.envs.contract import inspect
from hindsight.envs.make import factory
from hindsight.envs.processes import WorkerEnvs
from hindsight.episodes import Episodes
from hindsight.types import Array, Floats


def wander(observation: Floats, goal: Floats) -> Array:
    """A policy that depends on what it sees: half of the way to the goal."""
    return np.clip(0.3 * (goal - observation), -2.0, 4.0)


def same(a: Episodes, b: Episodes) -> None:
    for f in fields(Episodes):
        np.testing.assert_array_equal(getattr(a, f.name), getattr(b, f.name))


def test_processes_give_the_same_episodes_as_one_process() -> None:
    make_env = factory("FetchReach-v4")
    spec = inspect(make_env(), "FetchReach-v4")

    def act(observation: Floats, goal: Floats) -> Array:
        return np.concatenate([5 * (goal - observation[:, :3]), observation[:, :1]], axis=1).clip(
            -1, 1
        )

    seeds = episode_seeds(0, 0, 0, 5)
    collected = []
    for envs in (LocalEnvs(make_env, 2, spec.horizon), WorkerEnvs(make_env, 5, spec.horizon, 2)):
        collected.append(Collector(envs, spec).collect(act, seeds))
        envs.close()
    same(*collected)
    assert collected[0].final_success().all()


def test_episodes_end_where_the_env_ends_them() -> None:
    spec = inspect(LineEnv())
    episodes = Collector(LocalEnvs(LineEnv, 4, spec.horizon), spec).collect(
        wander, episode_seeds(1, 0, 0, 10)
    )
    assert len(episodes) == 10
    assert len(set(episodes.length)) > 1
    for i, length in enumerate(episodes.length):
        assert episodes.terminated[i, length - 1] == episodes.success[i, length - 1]
        assert not episodes.terminated[i, : length - 1].any()
        assert episodes.returns()[i] == episodes.reward[i, :length].sum()
        walked = np.diff(episodes.achieved_goal[i, : length + 1, 0])
        np.testing.assert_allclose(walked, episodes.action[i, :length, 0], atol=1e-6)
    assert episodes.transitions == episodes.length.sum() == episodes.real.sum()


def test_an_own_time_limit_cuts_episodes() -> None:
    spec = inspect(LineEnv(ends=False), max_episode_steps=5)
    episodes = Collector(LocalEnvs(lambda: LineEnv(ends=False), 2, 5), spec).collect(wander, [1, 2])
    assert episodes.length.tolist() == [5, 5]
    assert not episodes.terminated.any()


def test_success_without_a_success_key_comes_from_the_reward() -> None:
    class Silent(LineEnv):
        def step(self, action: Any) -> Any:
            return (*super().step(action)[:4], {})

    spec = inspect(Silent())
    quiet = Collector(LocalEnvs(Silent, 3, spec.horizon), spec).collect(wander, [1, 2, 3])
    same(quiet, Collector(LocalEnvs(LineEnv, 3, spec.horizon), spec).collect(wander, [1, 2, 3]))


def test_envs_of_a_script_reach_the_workers() -> None:
    class Local(LineEnv):
        """Cannot be imported by a worker: it is sent by value."""

    spec = inspect(Local())
    envs = make_batch(Local, spec, 4, "processes", 2)
    episodes = Collector(envs, spec).collect(wander, [1, 2, 3])
    envs.close()
    same(episodes, Collector(LocalEnvs(Local, 3, spec.horizon), spec).collect(wander, [1, 2, 3]))


def test_cheap_envs_stay_in_the_process() -> None:
    assert isinstance(make_batch(LineEnv, inspect(LineEnv()), 4), LocalEnvs)


def test_seeds_of_streams_do_not_overlap() -> None:
    seeds = [s for stream in range(3) for s in episode_seeds(0, stream, 0, 300)]
    assert len(set(seeds)) == 900
    assert episode_seeds(0, 1, 100, 5) == episode_seeds(0, 1, 0, 105)[100:]
