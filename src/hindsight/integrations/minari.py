"""Minari datasets: episodes to learn from, and episodes of a run's policy for others."""

from __future__ import annotations

import contextlib
import re
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from hindsight.agents.registry import make_agent
from hindsight.collect import Act, episode_seeds, record
from hindsight.envs.contract import GOAL_KEYS, GoalEnvSpec, inspect, told_success
from hindsight.envs.make import factory
from hindsight.episodes import Episodes
from hindsight.errors import HindsightError, needs, of_the_env
from hindsight.replay.storage import slot_count
from hindsight.training.evaluate import FRESH
from hindsight.training.run import Run
from hindsight.training.trust import require_trust
from hindsight.types import Array

PREFIX = "minari:"


@contextlib.contextmanager
def _minari() -> Iterator[Any]:
    """The library. Its warnings are about what it would like to know of a dataset."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with needs("minari"):
            import minari  # isort: skip
            import h5py  # noqa: F401
        yield minari


# ------------------------------------------------------------------------------------------ reading


def read_episodes(address: str, spec: GoalEnvSpec, buffer_size: int) -> Episodes:
    """All episodes of a local dataset, `minari:NAME`, of the env that `spec` describes.

    Rewards are recomputed; those of the dataset tell penalties for failing. An episode is cut where
    its desired goal changes, and after the env's time limit.
    """
    name = address.removeprefix(PREFIX)
    if name == address or not name:
        raise HindsightError(f"a dataset is given as minari:NAME, got {address!r}")
    with _minari() as minari:
        try:
            dataset = minari.load_dataset(name)
        except FileNotFoundError:
            raise HindsightError(
                f"there is no Minari dataset {name!r} here: minari download {name} "
                "(`minari list local` shows those there are)"
            ) from None
        except ValueError as error:
            raise HindsightError(f"{address}: {' '.join(str(error).split())}") from None
        parts = [
            part
            for episode in dataset.iterate_episodes()
            for part in _episodes(episode, spec, address)
        ]
    if not parts:
        raise HindsightError(f"{address} has no episodes")
    if len(parts) > slot_count(spec, buffer_size):
        raise HindsightError(
            f"{address} has {len(parts)} episodes, more than the replay holds: set "
            f"replay.buffer_size to {len(parts) * spec.horizon} or more"
        )
    return Episodes.concatenate(parts)


def _episodes(episode: Any, spec: GoalEnvSpec, name: str) -> Iterator[Episodes]:
    """Those of one episode of the dataset: pieces with one goal, within the time limit."""
    observations, actions = episode.observations, np.asarray(episode.actions)
    _check(observations, actions, spec, name)
    desired, success = np.asarray(observations["desired_goal"]), _success(episode)
    changed = (desired[1:] != desired[:-1]).reshape(len(actions), -1).any(axis=1)
    start, length = 0, len(actions)
    for t in range(1, length + 1):
        if t < length and not changed[t - 1] and t - start < spec.horizon:
            continue
        # The last state of a piece is reached under its own goal, whatever the next one is.
        rows = [
            {key: np.asarray(observations[key])[i] for key in GOAL_KEYS}
            | {"desired_goal": desired[start]}
            for i in range(start, t + 1)
        ]
        ended = bool(episode.terminations[t - 1])
        told = None if success is None else success[start:t]
        yield record(spec, rows, list(actions[start:t]), ended, told, episode.rewards[start:t])
        start = t


def _success(episode: Any) -> list[bool] | None:
    """Of each step, as its infos tell; None if they do not. They may begin with those of reset."""
    told, length = told_success(episode.infos or {}), len(episode.rewards)
    if told is None or np.shape(told) not in ((length,), (length + 1,)):
        return None
    return [bool(value) for value in told[-length:]]


def _check(observations: Any, actions: Array, spec: GoalEnvSpec, name: str) -> None:
    missing = [
        key for key in GOAL_KEYS if not isinstance(observations, Mapping) or key not in observations
    ]
    if missing:
        raise HindsightError(
            f"{name} is not of a goal env: its observations lack {', '.join(missing)}"
        )
    wanted = {
        "observation": spec.observation.shape,
        "achieved_goal": spec.goal.shape,
        "desired_goal": spec.goal.shape,
        "action": () if spec.actions.discrete else (spec.actions.dim,),
    }
    for key, shape in wanted.items():
        values = actions if key == "action" else np.asarray(observations[key])
        if values.shape[1:] != shape:
            raise HindsightError(
                f"{name} is not of {spec.id}: its {key} has shape {values.shape[1:]}, "
                f"the env's {shape}"
            )
        if not np.isfinite(values).all():
            raise HindsightError(f"{name}: NaN or infinity in {key!r}")


# ------------------------------------------------------------------------------------------ writing


def write_dataset(
    run: Run,
    name: str,
    episodes: int = 100,
    seed: int = 0,
    explore: bool = False,
    trust: bool = False,
) -> tuple[str, float]:
    """Play a run's policy, greedily or as in training, and write a local dataset; where it is, and
    the share of successes."""
    config = run.config
    policy = run.policy
    require_trust(run.path, config.env, config.env_kwargs, trust)
    with _minari() as minari:
        _refuse_name(minari, name)
        env = factory(config.env, config.env_kwargs)()
        spec = inspect(env, config.env, config.max_episode_steps)
        policy.check_env(spec, run.path)
        act: Act = policy.act
        if explore:
            agent, rng = make_agent(config.agent, spec), np.random.default_rng(seed)
            act = agent.explorer(policy.actor, 1.0, rng)
        with contextlib.closing(env):
            played = [
                _play(env, spec, _single(act, spec), number, start)
                for number, start in enumerate(episode_seeds(seed, FRESH, 0, episodes))
            ]
            how = "exploring" if explore else "greedy"
            dataset = minari.create_dataset_from_buffers(
                name,
                [episode for episode, _ in played],
                env,
                algorithm_name=f"{config.agent.method}, {how}",
                description=f"Episodes of {config.env}, played by a policy that Hindsight trained.",
                requirements=["hindsight-rl"],
            )
    return str(dataset.storage.data_path), float(np.mean([success for _, success in played]))


def _single(act: Act, spec: GoalEnvSpec) -> Callable[[Mapping[str, Any]], Any]:
    """The same for one dict observation, as the env wants it."""

    def chosen(observation: Mapping[str, Any]) -> Any:
        seen, achieved, desired = (np.asarray(observation[key])[None] for key in GOAL_KEYS)
        action = act(spec.seen(seen, achieved), spec.goal(desired))
        action = spec.actions.inside(action[0] if isinstance(action, tuple) else action)
        return int(action[0]) if spec.actions.discrete else action[0]

    return chosen


def _play(
    env: Any, spec: GoalEnvSpec, act: Callable[[Mapping[str, Any]], Any], number: int, seed: int
) -> tuple[Any, bool]:
    """One episode, as Minari stores it, and whether it ends in success."""
    from minari.data_collector import EpisodeBuffer

    with of_the_env(f"{spec.id}: reset()"):
        observation, _ = env.reset(seed=seed)
    observations, actions, steps, success = [observation], [], [], [False]
    for t in range(1, spec.horizon + 1):
        actions.append(act(observation))
        goal = observation["desired_goal"]  # that was pursued
        with of_the_env(f"{spec.id}: step()"):
            observation, reward, terminated, truncated, info = env.step(actions[-1])
        observations.append(observation)
        told = told_success(info)
        if told is None:
            told = spec.reached(observation["achieved_goal"][None], np.asarray(goal)[None])[0]
        success.append(bool(told))
        steps.append((float(reward), bool(terminated), bool(truncated or t == spec.horizon)))
        if terminated or truncated:
            break
    rewards, terminations, truncations = (list(column) for column in zip(*steps, strict=True))
    columns = {key: [row[key] for row in observations] for key in GOAL_KEYS}
    infos = {"is_success": success}
    episode = EpisodeBuffer(
        number, seed, None, columns, actions, rewards, terminations, truncations, infos
    )
    return episode, success[-1]


def _refuse_name(minari: Any, name: str) -> None:
    """Before anything is played."""
    from minari.dataset.minari_dataset import parse_dataset_id

    if not re.search(r"-v\d+$", name):
        raise HindsightError(f"the name of a Minari dataset ends in a version: {name}-v0")
    try:
        parse_dataset_id(name)
    except Exception as error:  # of Gymnasium, not a ValueError
        raise HindsightError(
            f"not the name of a Minari dataset: {' '.join(str(error).split())}"
        ) from None
    if name in minari.list_local_datasets():
        raise HindsightError(
            f"the Minari dataset {name} exists: choose another name, or minari delete {name}"
        )
