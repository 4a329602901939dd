from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hindsight import goals


@given(st.integers(0, 2**32 - 1), st.integers(1, 40), st.integers(1, 30))
def test_goals_come_from_the_right_place(seed: int, episodes: int, horizon: int) -> None:
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, horizon + 1, episodes)
    slots = rng.integers(0, episodes, 200)
    steps = rng.integers(0, lengths[slots])

    slot, time = goals.future(slots, steps, lengths, rng)
    assert (slot == slots).all()
    assert ((time > steps) & (time <= lengths[slots])).all()

    slot, time = goals.final(slots, steps, lengths, rng)
    assert (slot == slots).all()
    assert (time == lengths[slots]).all()

    slot, time = goals.episode(slots, steps, lengths, rng)
    assert (slot == slots).all()
    assert ((time >= 0) & (time <= lengths[slots])).all()

    slot, time = goals.random(slots, steps, lengths, rng)
    assert ((slot >= 0) & (slot < episodes)).all()
    assert ((time >= 0) & (time <= lengths[slot])).all()

    other = goals.another_episode(slots, episodes, rng)
    assert ((other != slots) | (episodes == 1)).all()
    assert ((other >= 0) & (other < episodes)).all()


def test_future_is_uniform_over_all_later_times() -> None:
    rng = np.random.default_rng(0)
    n = 60_000
    _, times = goals.future(np.zeros(n, np.int64), np.full(n, 3), np.array([9]), rng)
    counts = np.bincount(times, minlength=10)
    assert (counts[:4] == 0).all()
    assert counts[4:] == pytest.approx(n / 6, rel=0.03)


@given(st.integers(1, 2000), st.floats(0, 100))
def test_relabelled_share(batch_size: int, replay_k: float) -> None:
    count = goals.relabelled_count(batch_size, replay_k)
    assert 0 <= count <= batch_size
    assert abs(count - batch_size * replay_k / (1 + replay_k)) <= 0.5


def test_relabelled_share_is_exact_where_it_can_be() -> None:
    assert goals.relabelled_count(500, 4) == 400
    assert goals.relabelled_count(256, 0) == 0
