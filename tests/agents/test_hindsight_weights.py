"""Estimators against numbers worked out by hand, and against the exact gradient of two bits."""

from __future__ import annotations

import itertools
from dataclasses import replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from conftest import random_episodes
from hindsight.agents.goal_batch import Outcome, outcome, own_goals
from hindsight.agents.hindsight_weights import (
    Baseline,
    Estimator,
    advantages,
    baseline_is_unbiased,
    coefficients,
    diagnostics,
    log_ratios,
    to_go,
    weights,
    where_it_continues,
    with_tails,
)
from hindsight.envs.contract import GoalEnvSpec

# Two episodes of three steps under one goal. The second one ends after two steps.
PI = np.log([[[0.5, 0.5, 0.8], [0.25, 0.5, 0.9]]])
MU = np.log([[0.25, 0.5, 0.4], [0.5, 0.25, 0.1]])
ALIVE = np.array([[[True, True, True], [True, True, False]]])
REWARD = np.array([[[0.0, 0.0, 3.0], [0.0, 2.0, 0.0]]])
OUTCOME = Outcome(REWARD, ALIVE, ALIVE, ALIVE)
RHO = [[[2.0, 2.0, 4.0], [0.5, 1.0, 1.0]]]  # by hand: 2, 2*1, 2*1*2; 1/2, 1/2*2, and no more


def test_ratios_are_cumulative_products_of_the_steps_that_count() -> None:
    log_rho = log_ratios(PI, MU, ALIVE)
    np.testing.assert_allclose(np.exp(log_rho), RHO, rtol=1e-5)
    clamped = log_ratios(PI, MU, ALIVE, clamp=np.log(2.0))
    np.testing.assert_allclose(np.exp(clamped), [[[2.0, 2.0, 2.0], [0.5, 1.0, 1.0]]], rtol=1e-5)


@pytest.mark.parametrize(
    ("estimator", "expected"),
    [
        ("plain", [[0.5, 0.5, 0.5], [0.5, 0.5, 0.0]]),
        ("product", [[2.0, 2.0, 2.0], [0.5, 0.5, 0.0]]),
        ("per_decision", [[1.0, 1.0, 2.0], [0.25, 0.5, 0.0]]),
        ("weighted", [[0.8, 2 / 3, 1.0], [0.2, 1 / 3, 0.0]]),
        ("step", [[1.0, 0.5, 1.0], [0.25, 1.0, 0.0]]),
    ],
)
def test_weights_by_hand(estimator: Estimator, expected: list[list[float]]) -> None:
    np.testing.assert_allclose(
        weights(log_ratios(PI, MU, ALIVE), OUTCOME, estimator)[0], expected, rtol=1e-5
    )


def test_episodes_that_are_done_keep_their_share() -> None:
    done = OUTCOME._replace(
        present=np.ones_like(ALIVE)
    )  # the second episode reached the goal with its second step
    found = weights(log_ratios(PI, MU, ALIVE), done, "weighted")
    np.testing.assert_allclose(found[0, :, 2], [4 / 5, 0.0], rtol=1e-5)


def test_coefficients_by_hand() -> None:
    weight = weights(log_ratios(PI, MU, ALIVE), OUTCOME, "per_decision")
    value = np.array([[[1.0, 2.0, 3.0, 0.0], [1.0, 1.0, 0.0, 0.0]]])
    # Rewards times weights: 0, 0, 6 and 0, 1, 0.
    np.testing.assert_allclose(coefficients(weight, REWARD)[0], [[6, 6, 6], [1, 1, 0]], rtol=1e-5)
    # Minus weight_t V(s_t): 1, 2, 6 and 0.25, 0.5, 0.
    with_value = coefficients(weight, REWARD, value=value, baseline="value")
    np.testing.assert_allclose(with_value[0], [[5, 4, 0], [0.75, 0.5, 0]], rtol=1e-5)
    # TD errors r + V' - V are 1, 1, 0 and 0, 1; times weights 1, 1, 0 and 0, 1/2.
    found = coefficients(weight, REWARD, value=value, baseline="td")
    np.testing.assert_allclose(found[0], [[2, 1, 0], [0.5, 0.5, 0]], rtol=1e-5)
    np.testing.assert_allclose(
        coefficients(weight, REWARD, gamma=0.5)[0], [[1.5, 3, 6], [0.5, 1, 0]], rtol=1e-5
    )


def test_equation_two_literally() -> None:
    weight = weights(log_ratios(PI, MU, ALIVE), OUTCOME, "product")
    value = np.array([[[1.0, 2.0, 3.0, 0.0], [1.0, 1.0, 0.0, 0.0]]])
    # r(s_t') - V(s_t') for t' = 2, 3, 4: -2, -3, 3 and -1, 2, -; times the products 4/2 and 1/2.
    found = coefficients(weight, REWARD, value=value, baseline="paper")
    np.testing.assert_allclose(found[0], [[-4, 0, 6], [0.5, 1, 0]], rtol=1e-5)


def test_to_go() -> None:
    np.testing.assert_allclose(to_go(jnp.array([1.0, 2.0, 4.0]), 0.5), [3.0, 4.0, 4.0])


EVERY = np.ones((1, 3), np.bool_)


def test_outcome_of_first_hits() -> None:
    hit = np.array([[[0, 1, 1, 0], [0, 0, 0, 0], [0, 0, 0, 1]]], np.bool_)
    length = np.array([4, 2, 4])
    ending = outcome(hit, EVERY, length, np.bool_(True), 1.0)
    np.testing.assert_allclose(ending.reward[0], [[0, 0.75, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0.25]])
    assert ending.alive[0].tolist() == [
        [True, True, False, False],
        [True, True, False, False],
        [True] * 4,
    ]
    assert ending.present[0].tolist() == [[True] * 4, [True, True, False, False], [True] * 4]
    assert ending.goes_on[0].tolist() == [
        [True, False, False, False],
        [True, True, False, False],
        [True] * 3 + [False],
    ]
    staying = outcome(hit, EVERY, length, np.bool_(False), 1.0)
    np.testing.assert_allclose(staying.reward[0], [[0, 0.25, 0.25, 0], [0] * 4, [0, 0, 0, 0.25]])
    assert staying.alive[0].tolist() == [[True] * 4, [True, True, False, False], [True] * 4]
    discounted = outcome(hit, EVERY, length, np.bool_(True), 0.5)
    assert discounted.reward[0, 0, 1] == pytest.approx(1.75 / 4)  # 1 + 1/2 + 1/4, over the horizon
    without_first = outcome(hit, np.array([[False, True, True]]), length, np.bool_(True), 1.0)
    assert not (without_first.alive | without_first.present)[0, 0].any()
    assert without_first.reward[0, 0].tolist() == [0.0] * 4
    np.testing.assert_array_equal(without_first.alive[0, 1:], ending.alive[0, 1:])


def test_advantages_by_hand() -> None:
    alive = np.ones((1, 1, 3), np.bool_)
    last = Outcome(np.array([[[0.0, 0.0, 1.0]]]), alive, alive, np.array([[[True, True, False]]]))
    value = np.array([[[0.2, 0.4, 0.6, 9.0]]])
    # Errors 0.2, 0.2, 0.4; ratios 1, 1/2, 2 (cut to 1); lambda 1, gamma 1: A_2 = 0.4, A_1 = 0.2 +
    # 0.4, A_0 = 0.2 + 0.3.
    advantage, target = advantages(np.log([[[1.0, 0.5, 2.0]]]), last, value, 1.0, 1.0)
    np.testing.assert_allclose(advantage[0, 0], [0.5, 0.6, 0.4], rtol=1e-5)
    np.testing.assert_allclose(target[0, 0], [0.7, 0.7, 1.0], rtol=1e-5)
    onestep, _ = advantages(np.log([[[1.0, 0.5, 2.0]]]), last, value, 1.0, 0.0)
    np.testing.assert_allclose(onestep[0, 0], [0.2, 0.2, 0.4], rtol=1e-5)


def test_an_episode_that_ended_early_is_valued_by_its_last_state() -> None:
    cut = outcome(np.zeros((1, 1, 3), np.bool_), EVERY[:, :1], np.array([2]), np.bool_(True), 1.0)
    advantage, _ = advantages(
        np.zeros((1, 1, 3)), cut, np.array([[[0.1, 0.2, 0.7, 5.0]]]), 1.0, 1.0
    )
    np.testing.assert_allclose(advantage[0, 0], [0.6, 0.5, 0.0], rtol=1e-5)
    # For a baseline the value of the last state, 0.7, is a reward of the last step, discounted
    # once.
    tailed = with_tails(cut, where_it_continues(np.array([[[0.1, 0.2, 0.7, 5.0]]]), cut), 0.5)
    np.testing.assert_allclose(tailed[0, 0], [0.0, 0.35, 0.0], rtol=1e-5)


def test_an_episode_that_failed_is_worth_nothing_more() -> None:
    """Two episodes of two steps, of three; the first fails. Neither reaches the goal."""
    hit, length = np.zeros((1, 2, 3), np.bool_), np.array([2, 2])
    failed = np.array([True, False])
    cut = outcome(hit, EVERY[:, :2], length, np.bool_(True), 1.0, failed)
    value = np.array([[[0.1, 0.2, 0.7, 5.0]] * 2])
    advantage, target = advantages(np.zeros((1, 2, 3)), cut, value, 1.0, 1.0)
    # The value after the end, 0.7, counts for the second only: 0.2 - 0.1 and then 0 - 0.2, or 0.7
    # - 0.2.
    np.testing.assert_allclose(advantage[0], [[-0.1, -0.2, 0.0], [0.6, 0.5, 0.0]], rtol=1e-5)
    np.testing.assert_allclose(target[0, :, :2], [[0.0, 0.0], [0.7, 0.7]], atol=1e-6)
    tailed = with_tails(cut, where_it_continues(value, cut), 1.0)
    np.testing.assert_allclose(tailed[0], [[0.0, 0.0, 0.0], [0.0, 0.7, 0.0]], rtol=1e-5)
    # It stays where it is, with no reward: so it still counts where weights are shared out.
    assert cut.present[0].tolist() == [[True] * 3, [True, True, False]]
    assert cut.alive[0].tolist() == [[True, True, False]] * 2


def test_failures_reach_the_batch(line_spec: GoalEnvSpec) -> None:
    episodes = random_episodes(np.random.default_rng(0), 3, 12, line_spec)
    log_prob = np.zeros(episodes.reward.shape, np.float32)
    last = np.arange(3), episodes.length - 1
    episodes.terminated[last] = [True, True, False]
    episodes.success[last] = [False, True, False]
    batch = own_goals(replace(episodes, log_prob=log_prob), line_spec, True)
    assert batch.failed.tolist() == [True, False, False]


def test_diagnostics_by_hand() -> None:
    log_rho = np.log([[[1.0, 3.0], [1.0, 1.0]], [[1e9, 1.0], [1.0, 1.0]]])
    alive, hit = np.ones((2, 2, 2), np.bool_), np.zeros((2, 2, 2), np.bool_)
    hit[1, 0, 0] = True
    everything = Outcome(hit * 1.0, alive, alive, alive)
    found = diagnostics(log_rho, everything, hit, np.array([True, False]))
    # Weights 1/2, 1/2 and 3/4, 1/4: sizes 2 and 1.6, of two episodes. The second goal is not in
    # use.
    assert float(found.effective_sample_size) == pytest.approx((1.0 + 0.8) / 2)
    assert float(found.largest_ratio) == pytest.approx(np.log10(3), rel=1e-5)
    assert float(found.goals_with_signal) == 0.0
    both = diagnostics(log_rho, everything, hit, np.array([True, True]))
    assert float(both.goals_with_signal) == 0.5


# ------------------------------------------------------------------ the exact gradient of two bits

GOALS = STATES = 4
STEPS = 3
SEQUENCES = np.array(list(itertools.product(range(2), repeat=STEPS)))  # [8, T] actions
COUNT = len(SEQUENCES)
VISITED = np.concatenate(
    [np.zeros((COUNT, 1), int), np.bitwise_xor.accumulate(1 << SEQUENCES, axis=1)], axis=1
)
HIT = VISITED[None, :, 1:] == np.arange(GOALS)[:, None, None]  # [G, sequences, T]
LOGITS = np.random.default_rng(0).normal(size=(STATES, GOALS, 2)).astype(np.float32)
RESULT = outcome(HIT, np.ones(HIT.shape[:2], np.bool_), np.full(COUNT, STEPS), np.bool_(True), 1.0)


def log_pi(logits: jax.Array, sequences: Any) -> jax.Array:
    """log pi(a_t|s_t,g) [G, n, T] of the sequences with these numbers."""
    table = jax.nn.log_softmax(logits)
    states, actions = jnp.asarray(VISITED)[sequences, :-1], jnp.asarray(SEQUENCES)[sequences]
    return jnp.stack([table[states, g, actions] for g in range(GOALS)])


def mean_return(logits: jax.Array) -> jax.Array:
    """The exact mean return over uniform goals: an episode ends when it reaches its goal."""
    chance = jnp.exp(log_pi(logits, np.arange(COUNT)).sum(axis=-1))
    return (chance * RESULT.reward.sum(axis=-1)).sum(axis=-1).mean()


@partial(jax.jit, static_argnames=("estimator", "reached_only", "leave_one_out", "kind"))
def estimate(
    sequences: Any,
    pursued: Any,
    estimator: Estimator,
    value: Any = None,
    reached_only: bool = False,
    leave_one_out: bool = False,
    kind: Baseline = "value",
) -> jax.Array:
    """The estimated gradient from a batch of episodes, under all goals, or only under those that
    one of them reached.

    They go on after reaching the goal they pursued, so that nothing is missing under the others.
    """
    hit = jnp.asarray(HIT)[:, sequences]
    result = outcome(
        hit, jnp.ones(hit.shape[:2], bool), jnp.full(len(sequences), STEPS), jnp.array(True), 1.0
    )
    mu = log_pi(LOGITS, sequences)[pursued, jnp.arange(len(sequences))]

    def surrogate(logits: jax.Array) -> jax.Array:
        chosen = log_pi(logits, sequences)
        weight = weights(log_ratios(chosen, mu, result.alive), result, estimator)
        baseline = (
            None
            if value is None
            else value[jnp.arange(GOALS)[:, None, None], jnp.asarray(VISITED)[sequences]]
        )
        if leave_one_out:
            baseline = jnp.where(baseline_is_unbiased(hit, jnp.zeros(GOALS, bool)), baseline, 0.0)
        if baseline is not None:
            baseline = where_it_continues(baseline, result)
        coefficient = coefficients(
            weight, result.reward, 1.0, baseline, "none" if value is None else kind
        )
        used = hit.any(axis=(1, 2))[:, None, None] if reached_only else 1.0
        return (used * coefficient * chosen).sum() / GOALS

    return jax.grad(surrogate)(jnp.asarray(LOGITS))


@pytest.mark.parametrize("baseline", ["none", "value", "td"])
@pytest.mark.parametrize("estimator", ["product", "per_decision"])
def test_unbiased_estimators_match_the_exact_gradient_in_expectation(
    estimator: Estimator, baseline: Baseline
) -> None:
    value = (
        np.random.default_rng(1).normal(size=(GOALS, STATES)).astype(np.float32)
        if baseline != "none"
        else None
    )
    chance = (
        np.exp(np.asarray(log_pi(LOGITS, np.arange(COUNT))).sum(axis=-1)) / GOALS
    )  # [pursued goal, sequence]
    expected = sum(
        chance[goal, sequence]
        * estimate(np.array([sequence]), np.array([goal]), estimator, value, kind=baseline)
        for goal in range(GOALS)
        for sequence in range(COUNT)
    )
    np.testing.assert_allclose(expected, jax.grad(mean_return)(LOGITS), atol=1e-6)


@pytest.mark.parametrize(
    ("kind", "leave_one_out", "unbiased"),
    [
        ("none", False, True),
        ("value", False, False),
        ("value", True, True),
        ("td", False, False),
        ("td", True, True),
    ],
)
def test_a_baseline_for_goals_that_were_reached_must_leave_the_episode_out(
    kind: Baseline, leave_one_out: bool, unbiased: bool
) -> None:
    """All batches of two episodes. Goals are chosen because the batch reached them: with a
    baseline, a selection."""
    value = (
        np.random.default_rng(1).normal(size=(GOALS, STATES)).astype(np.float32)
        if kind != "none"
        else None
    )
    chance = np.exp(np.asarray(log_pi(LOGITS, np.arange(COUNT))).sum(axis=-1)).ravel() / GOALS
    goal, sequence = np.divmod(np.arange(GOALS * COUNT), COUNT)
    pairs = np.stack(np.meshgrid(*[np.arange(GOALS * COUNT)] * 2), axis=-1).reshape(-1, 2)
    found = jax.vmap(
        lambda i: estimate(
            jnp.asarray(sequence)[i],
            jnp.asarray(goal)[i],
            "per_decision",
            value,
            True,
            leave_one_out,
            kind,
        )
    )(pairs)
    expected = np.tensordot(chance[pairs].prod(axis=1), found, axes=1)
    error = np.abs(expected - jax.grad(mean_return)(LOGITS)).max()
    assert (error < 1e-6) if unbiased else (error > 1e-2)


def test_who_else_reached_a_goal() -> None:
    first, second, nobody = [True, False], [False, True], [False, False]
    hit = np.array([[first, second, nobody], [first, nobody, nobody], [nobody] * 3])
    nothing = jnp.zeros(3, bool)
    assert baseline_is_unbiased(jnp.asarray(hit), nothing)[..., 0].tolist() == [
        [True] * 3,
        [False, True, True],
        [False] * 3,
    ]
    assert baseline_is_unbiased(jnp.asarray(hit), ~nothing).all()


def test_the_goal_conditional_gradient_matches_in_expectation() -> None:
    def surrogate(logits: jax.Array) -> jax.Array:
        chosen = log_pi(logits, np.arange(COUNT))
        chance = jax.lax.stop_gradient(jnp.exp(chosen.sum(axis=-1, keepdims=True)))
        weight = weights(jnp.zeros_like(chosen), RESULT, "plain") * COUNT
        return (chance * coefficients(weight, RESULT.reward) * chosen).sum() / GOALS

    np.testing.assert_allclose(
        jax.grad(surrogate)(LOGITS), jax.grad(mean_return)(LOGITS), atol=1e-6
    )


def test_the_weighted_estimator_converges_to_the_exact_gradient() -> None:
    exact = np.asarray(jax.grad(mean_return)(LOGITS))
    rng = np.random.default_rng(2)
    chance = np.exp(np.asarray(log_pi(LOGITS, np.arange(COUNT)), np.float64).sum(axis=-1))
    errors = {}
    for size in (8, 20_000):
        pursued = rng.integers(0, GOALS, size)
        sequences = np.array([rng.choice(COUNT, p=chance[g] / chance[g].sum()) for g in pursued])
        errors[size] = np.abs(np.asarray(estimate(sequences, pursued, "weighted")) - exact).max()
    assert errors[20_000] < 0.005
    assert errors[20_000] < errors[8] / 5
