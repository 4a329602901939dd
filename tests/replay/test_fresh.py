"""Priorities that are fresh when sampled: what chooses among candidates, and by which exponents."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

from conftest import LineEnv, random_episodes
from hindsight.envs.contract import inspect
from hindsight.replay.batch import Batch, Fresh, TDErrors
from hindsight.replay.fresh import choose, choose_by
from hindsight.replay.priorities import PriorityConfig
from hindsight.replay.replay import HindsightReplay, ReplayConfig, make_replay

LINE = inspect(LineEnv())


def filled(priority: PriorityConfig) -> HindsightReplay:
    rng = np.random.default_rng(0)
    replay = make_replay(LINE, ReplayConfig(buffer_size=8 * LINE.horizon), priority)
    replay.push(replay.store(random_episodes(rng, 8, LINE.horizon, LINE), 0.0, rng), None)
    return replay


@pytest.mark.parametrize(
    ("sampling", "alpha"),
    [("uniform", 0.6), ("proportional", 0.6), ("rank", 0.7), ("rank_heap", 0.7)],
)
def test_exponents_follow_the_sampling_and_the_settings(sampling: Any, alpha: float) -> None:
    """Alpha used to be 1 if it was not given, and epsilon 0."""
    priority = PriorityConfig(sampling=sampling, fresh=4)
    for config, expected, epsilon in (
        (priority, alpha, 1e-6),
        (replace(priority, alpha=0.25, epsilon=0.5), 0.25, 0.5),
    ):
        replay = filled(config)
        batch = replay.sample(3, 10, 0.0, np.random.default_rng(0)).batch
        assert batch.reward.shape == (3, 40)
        assert batch.fresh is not None
        assert batch.fresh.draws.shape == (3, 10)
        assert batch.fresh.alpha.tolist() == pytest.approx([expected] * 3)
        assert batch.fresh.epsilon.tolist() == pytest.approx([epsilon] * 3)
        ranked = replay.storage.length.sum() if sampling.startswith("rank") else 0
        assert batch.fresh.ranked.tolist() == [[ranked] * 2] * 3
    assert (
        filled(replace(priority, fresh=1)).sample(3, 10, 0.0, np.random.default_rng(0)).batch.fresh
        is None
    )


def test_candidates_are_chosen_by_their_fresh_priorities() -> None:
    rng, count = np.random.default_rng(0), 40_000
    error, importance = np.array([1.0, -2.0, 5.0, 0.0]), np.array([1.0, 0.5, 2.0, 4.0])
    column = np.tile(np.arange(4.0), count)
    fresh = Fresh(jnp.asarray(rng.random(count)), jnp.asarray(0.5), jnp.asarray(0.25), jnp.zeros(2))
    rows = (column[:, None],) * 4
    candidates = Batch(*rows, column, column, np.tile(importance, count), 0.7, 0.3, fresh)
    known = TDErrors(jnp.asarray(np.tile(error, count)), jnp.zeros(4 * count))
    seen = []

    def td_errors(batch: Batch) -> TDErrors:
        seen.append(batch)
        return known

    batch, td = choose(candidates, td_errors)
    assert td is known  # of all candidates
    assert len(seen) == 1
    assert len(seen[0].reward) == 4 * count
    mass = np.sqrt(np.abs(error) + 0.25) * importance
    share = np.bincount(np.asarray(batch.reward).astype(int), minlength=4) / count
    assert share == pytest.approx(mass / mass.sum(), abs=0.01)
    assert (batch.fresh, batch.beta) == (None, 0.7)
    # The actor learns from every fourth candidate: what would have been replayed.
    assert batch.actor is not None
    assert batch.actor.actor_beta == 0.3
    np.testing.assert_array_equal(batch.actor.reward, column[::4])


def test_by_rank_candidates_are_chosen_as_if_all_that_is_stored_were_ranked() -> None:
    """Candidates drawn by old priorities, then chosen by fresh ranks: as exact fresh ranks would."""
    rng, stored, count = np.random.default_rng(1), 50, 200_000
    old, error = rng.uniform(0.1, 1.0, stored), rng.uniform(0, 1, stored)
    drawn = rng.choice(stored, 4 * count, p=old / old.sum())
    importance = 1.0 / (stored * (old / old.sum())[drawn])
    ranked = jnp.full(2, 50.0)
    fresh = Fresh(jnp.asarray(rng.random(count)), jnp.asarray(0.7), jnp.asarray(0.0), ranked)
    column = drawn.astype(np.float32)
    rows = (column[:, None],) * 4
    candidates = Batch(*rows, column, column, importance, 0.7, 0.3, fresh)
    batch, _ = choose_by(candidates, jnp.asarray(error[drawn]))
    share = np.bincount(np.asarray(batch.reward).astype(int), minlength=stored) / count
    rank = np.empty(stored)
    rank[np.argsort(-error)] = np.arange(1, stored + 1)
    exact = rank**-0.7 / (rank**-0.7).sum()
    assert share == pytest.approx(exact, abs=0.02)


def test_a_batch_without_candidates_stays_as_it_is() -> None:
    plain = Batch(*(np.zeros((2, 1)),) * 4, *(np.zeros(2),) * 3)
    batch, td = choose(plain, lambda batch: pytest.fail("no TD error is asked for"))
    assert batch is plain
    assert td is None


def test_of_two_queues_as_many_are_chosen_as_are_due_of_each() -> None:
    """However much larger the errors of one queue are; within each, by fresh ranks or sizes."""
    rng, count = np.random.default_rng(2), 20_000
    queue = np.tile([0, 1, 1, 1], count)
    error = np.where(queue == 0, 100.0, np.tile([1.0, 1.0, 3.0, 4.0], count))
    importance = np.where(queue == 0, 7.0, np.tile([1.0, 1.0, 1.0, 0.5], count))
    due = np.repeat([0, 1], [count // 5, count - count // 5])
    exponents = (jnp.asarray(1.0), jnp.asarray(0.0))
    fresh = Fresh(jnp.asarray(rng.random(count)), *exponents, jnp.zeros(2), queue, due)
    column = np.tile(np.arange(4.0), count)
    candidates = Batch(*(column[:, None],) * 4, column, column, importance, 0.7, 0.3, fresh)
    batch, which = choose_by(candidates, jnp.asarray(error))
    np.testing.assert_array_equal(queue[np.asarray(which)], due)
    # Of the queue of alternate goals: sizes 1, 3, 4, standing for 1, 1, 1/2.
    alternate = np.asarray(batch.reward)[due == 1].astype(int)
    share = np.bincount(alternate, minlength=4)[1:] / len(alternate)
    assert share == pytest.approx(np.array([1.0, 3.0, 2.0]) / 6, abs=0.01)
    # 1 / (N P): the mean of size x what it stands for, over the size.
    expected = np.array([2.0 / 1.0, 2.0 / 3.0, 2.0 / 4.0])
    found = np.asarray(batch.importance)[due == 1]
    assert found == pytest.approx(expected[alternate - 1], rel=1e-3)
    assert np.asarray(batch.importance)[due == 0] == pytest.approx(7.0, rel=1e-3)
