from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conftest import LineEnv, random_episodes
from hindsight.envs.contract import inspect
from hindsight.normalizer import Moments, Normalizer, Scale, network_inputs


@given(
    st.integers(0, 2**32 - 1),
    st.lists(st.integers(0, 30), min_size=1, max_size=6),
    st.floats(-1e4, 1e4),
)
def test_moments_of_parts_are_those_of_the_whole(
    seed: int, sizes: list[int], offset: float
) -> None:
    rng = np.random.default_rng(seed)
    parts = [rng.standard_normal((n, 3)) * [1.0, 10.0, 0.001] + offset for n in sizes]
    moments = Moments(3, epsilon=0.01)
    for part in parts:
        moments.add(part)
    whole = np.concatenate(parts)
    if len(whole) == 0:
        assert (moments.deviation == 1).all()
        return
    np.testing.assert_allclose(moments.mean, whole.mean(axis=0), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(moments.deviation, np.maximum(whole.std(axis=0), 0.01), rtol=1e-6)


def test_padding_is_not_counted_and_observations_are_clipped() -> None:
    spec = inspect(LineEnv())
    episodes = random_episodes(np.random.default_rng(0), 5, spec.horizon, spec, mark=1000.0)
    normalizer = Normalizer(spec.observation, spec.goal, 0.01, clip=200.0)
    with pytest.warns(UserWarning, match="are clipped to 200"):
        normalizer.add(episodes)
    states = int((episodes.length + 1).sum())
    assert normalizer.observation.count == states
    assert normalizer.goal.count == 2 * states
    assert normalizer.observation.mean.tolist() == [200.0]


def test_network_inputs_by_hand() -> None:
    scale = Scale(jnp.array([1.0]), jnp.array([2.0]), jnp.array([0.0]), jnp.array([0.1]))
    out = network_inputs(scale, jnp.array([[5.0], [1e9]]), jnp.array([[0.2], [-9.0]]), 200.0, 5.0)
    assert np.allclose(out, [[2.0, 2.0], [5.0, -5.0]])
