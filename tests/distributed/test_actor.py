"""What a collector does, without Ray: its goals and TD errors are the learner's own."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numbered_env import NumberedEnv

from hindsight.agents.registry import make_off_policy_agent
from hindsight.config import OffPolicyConfig, config_of
from hindsight.distributed.actor import CollectorActor, Published, SharedRound, Work
from hindsight.distributed.collectors import joined, share
from hindsight.envs.contract import inspect
from hindsight.envs.make import make
from hindsight.envs.relay_goals import RelayGoal
from hindsight.episodes import Episodes
from hindsight.networks import to_numpy
from hindsight.replay.batch import NewPairs
from hindsight.replay.replay import Seen, make_replay
from hindsight.settings import with_settings
from hindsight.training.initial_priorities import InitialPriorities
from hindsight.training.relay import Relay

SPEC = inspect(NumberedEnv())


def config(**settings: Any) -> OffPolicyConfig:
    found = with_settings(config_of("dqn", SPEC.id), {"agent.net_arch": (8,), **settings})
    assert isinstance(found, OffPolicyConfig)
    return found


@pytest.mark.parametrize("chosen", ["sampled", "stored"])
@pytest.mark.parametrize("initial", ["td_error", "largest", "predicted"])
def test_pairs_and_td_errors_are_those_of_the_learner(chosen: str, initial: str) -> None:
    """Two parts of a cycle, stored in a replay that holds episodes already."""
    settings = {"replay.goals_chosen": chosen, "priority.sampling": "proportional"}
    settings |= {"priority.initial": initial}
    asked = config(**settings, **{"replay.buffer_size": 80})
    agent = make_off_policy_agent(asked.agent, SPEC)
    learner = agent.scheduled(agent.init(jax.random.key(1)), agent.shapes.no_scale(), 0.0)
    priorities = InitialPriorities(asked, agent)
    replay = make_replay(SPEC, asked.replay, asked.priority)
    actor = CollectorActor(Work.of(asked, SPEC, NumberedEnv).packed(), "0.0", 3, None)
    needed = to_numpy(learner._replace(optimizer=None))
    seen = Seen(True, True, -0.1, -0.2)
    published = Published(4, agent.actor(learner), 0.1, needed, to_numpy(priorities.state), seen)
    answers = [actor.explore(7 + n, first, 3, published) for n, first in enumerate((6, 9))]
    assert [(answer.number, answer.version) for answer in answers] == [(7, 4), (8, 4)]
    episodes = Episodes.concatenate([answer.episodes for answer in answers])
    found = [answer.pairs for answer in answers if answer.pairs is not None]
    known = NewPairs.concatenate(found, [3, 3])
    replay.store(episodes, 0.0, np.random.default_rng(0))  # moves the slots on
    pairs = replay.store(episodes, 0.0, None, known)
    assert len(np.unique(pairs)) == len(pairs) >= episodes.transitions
    expected = priorities.td_errors(learner, replay, pairs)
    if initial == "largest":
        assert expected is None
        assert known.td is None
    else:
        assert expected is not None
        assert known.td is not None
        np.testing.assert_array_equal(known.td.error, expected.error)
        np.testing.assert_array_equal(known.td.value, expected.value)
    replay.push(pairs, known.td)
    replay.sample(2, 8, 0.1, np.random.default_rng(0))


def test_pairs_of_every_stage_are_found_where_episodes_are_played() -> None:
    """A relay goal of the user's own, which the env does not declare."""
    env = "hindsight/PointPush-v0"
    goal = RelayGoal(lambda o: o[:, :2], lambda o: o[:, 2:4], tolerance=0.3)
    spec = replace(inspect(make(env)), relay_goals=(goal,))
    settings = {"relay": True, "replay.goals_chosen": "stored", "priority.sampling": "rank"}
    asked = with_settings(config_of("ddpg", env), {"agent.net_arch": (8,), **settings})
    assert isinstance(asked, OffPolicyConfig)
    relay = Relay(spec, asked)
    agent = make_off_policy_agent(asked.agent, relay.spec)
    learner = agent.scheduled(agent.init(jax.random.key(1)), agent.shapes.no_scale(), 0.0)
    priorities = InitialPriorities(asked, agent)
    replay = make_replay(relay.spec, asked.replay, asked.priority)
    actor = CollectorActor(Work.of(asked, spec, partial(make, env)).packed(), "0.0", 2, None)
    needed = to_numpy(learner._replace(critic_optimizer=None, actor_optimizer=None))
    published = Published(1, agent.actor(learner), 0.1, needed, None, replay.seen)
    answers = [actor.explore(n, 2 * n, 2, published) for n in range(2)]
    found = [answer.pairs for answer in answers if answer.pairs is not None]
    known = NewPairs.concatenate(found, [4, 4])
    episodes = Episodes.concatenate([answer.episodes for answer in answers])
    pairs = replay.store(relay.of_every_stage(episodes), 0.0, None, known)
    expected = priorities.td_errors(learner, replay, pairs)
    assert expected is not None
    assert known.td is not None
    np.testing.assert_array_equal(known.td.error, expected.error)


@settings(max_examples=30)
@given(st.integers(1, 40), st.data())
def test_rows_of_a_round_get_the_bits_of_the_whole_round(rows: int, data: st.DataObject) -> None:
    first = data.draw(st.integers(0, rows - 1))
    last = data.draw(st.integers(first + 1, rows))
    agent = make_off_policy_agent(config().agent, SPEC)
    actor = agent.actor(agent.init(jax.random.key(0)))
    rng = np.random.default_rng(rows)
    observation = rng.normal(size=(3, rows, 3)).astype(np.float32)
    goal = rng.normal(size=(rows, 1)).astype(np.float32)
    whole = agent.explorer(actor, 0.0, np.random.default_rng(5))
    part = SharedRound(agent.explorer(actor, 0.0, np.random.default_rng(5)), first, rows)
    outputs = SharedRound(actor.outputs, first, rows)
    mine = slice(first, last)
    for step in observation:
        assert np.array_equal(whole(step, goal)[mine], part(step[mine], goal[mine]))
        exact = actor.outputs(step, goal)[mine]
        assert exact.tobytes() == np.asarray(outputs(step[mine], goal[mine])).tobytes()
    assert part.steps == 3


@given(st.lists(st.integers(1, 4), min_size=1, max_size=4))
def test_states_of_envs_are_joined_and_shared(sizes: list[int]) -> None:
    total, first = sum(sizes), [0, *np.cumsum(sizes)[:-1].tolist()]
    for whole in (
        {f"env_{i}": {"x": i} for i in range(total) if i % 3},
        {"state": np.arange(2.0 * total).reshape(total, 2), "generators": [*range(total)]},
        {},
    ):
        parts = [share(whole, start, size) for start, size in zip(first, sizes, strict=True)]
        back = joined(parts, first)
        assert set(back) == set(whole)
        for name, value in whole.items():
            np.testing.assert_equal(back[name], value)
