"""Which way the policy gradient pushes: exact numbers against brute force, then what they say."""

from __future__ import annotations

from itertools import product

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from hindsight.acting import gaussian_log_prob
from hindsight.lab.grid_push import GridPush, mean_return, progress, pushes, success, visits
from hindsight.lab.push_gradient import (
    CUT,
    PARTS,
    RETURN,
    TO_REACH,
    Learner,
    Objective,
    Study,
)
from hindsight.lab.reproduce import measured_tables
from hindsight.lab.reproduce.experiment import Measurement
from hindsight.types import Array, Tensor

SMALL = GridPush(edge=1, around=1, horizon=3)
GRID = GridPush()


def random_policy(world: GridPush) -> Array:
    logits = np.random.default_rng(0).normal(size=world.shape)
    return np.asarray(jax.nn.log_softmax(logits))


@pytest.fixture(scope="module")
def by_brute_force() -> dict[str, float]:
    """All moves from all starts under all goals."""
    world, log_pi = SMALL, random_policy(SMALL)
    box, steps = world.places[1], world.horizon
    total = dict.fromkeys(("success", "nearer", "moved", "cosine", "cut", "stay", "all"), 0.0)
    pairs, pushed = 0, 0.0
    for goal, start in product(range(len(world.goal)), world.start):
        wanted, skipped = world.goal[goal], bool(world.met[goal, start])
        pairs += not skipped
        for moves in product(range(4), repeat=steps):
            states, chance = [start], 1.0
            for move in moves:
                chance *= np.exp(log_pi[goal, states[-1], move])
                states.append(world.after[states[-1], move])
            hits = [bool(world.met[goal, state]) for state in states[1:]]
            went, way = box[states[-1]] - box[start], wanted - box[start]
            before, after = np.linalg.norm(way), np.linalg.norm(wanted - box[states[-1]])
            total["success"] += chance * hits[-1]
            total["nearer"] += chance * (before - after)
            total["moved"] += chance * went.any()
            total["all"] += chance * sum(hits) / steps
            if not skipped:
                total["stay"] += chance * sum(hits) / steps
                total["cut"] += chance * ((steps - hits.index(True)) / steps if any(hits) else 0)
                if went.any():
                    total["cosine"] += chance * went @ way / np.linalg.norm(went) / before
                    pushed += chance
    for name in ("success", "nearer", "moved", "all"):
        total[name] /= len(world.goal) * len(world.start)
    for name in ("stay", "cut"):
        total[name] /= pairs
    return total | {"cosine": total["cosine"] / pushed}


def test_exact_numbers_are_those_of_all_trajectories(by_brute_force: dict[str, float]) -> None:
    log_pi = jnp.asarray(random_policy(SMALL))
    moved, cosine = pushes(SMALL, log_pi)
    found = {
        "success": success(SMALL, log_pi),
        "nearer": progress(SMALL, log_pi),
        "moved": moved,
        "cosine": cosine,
        "cut": mean_return(SMALL, log_pi, True, True),
        "stay": mean_return(SMALL, log_pi, False, True),
        "all": mean_return(SMALL, log_pi, False, False),
    }
    assert {k: float(v) for k, v in found.items()} == pytest.approx(by_brute_force, abs=1e-5)
    assert float(visits(SMALL, log_pi).sum()) == pytest.approx(1.0, abs=1e-5)


def test_a_push_moves_the_box_and_over_the_edge_it_stays() -> None:
    pusher, box = GRID.places
    beside = np.flatnonzero((pusher == (1, 0)).all(axis=1) & (box == (2, 0)).all(axis=1))[0]
    over = GRID.after[beside, 0]
    assert (pusher[over] == (2, 0)).all()
    assert (box[over] == (3, 0)).all()
    assert GRID.after[over, 0] == over
    away = GRID.after[beside, 1]
    assert (box[away] == (2, 0)).all()
    assert len(GRID.start) == 8


@pytest.fixture(scope="module")
def untrained() -> tuple[Learner, Study]:
    learner = Learner(GRID, 0)
    return learner, Study(learner, learner.start, episodes=8, batches=512)


def test_the_exact_gradient_of_an_untrained_policy_pushes_the_box_away(
    untrained: tuple[Learner, Study],
) -> None:
    """No estimate is to blame: where the goal must be reached, the box goes farther from it and
    success falls. With goals that are met at the start the gradient turns round: leave it alone."""
    rows = {row["part"]: row for row in untrained[1].rows({}, jax.random.key(0))}
    for objective in (TO_REACH, CUT):
        row = rows[f"exact: {objective.name}"]
        assert row["nearer"] < -0.2
        assert row["success"] < -0.01
    met = rows[f"exact: {RETURN.name}"]
    assert met["nearer"] > 0.2
    assert met["wanted"] < -0.7


def test_the_estimates_of_the_learners_point_where_the_exact_gradient_does(
    untrained: tuple[Learner, Study],
) -> None:
    for name in ("TRPO's on FetchPush", "goals met at the start, too"):
        row = untrained[1].row(PARTS[name], jax.random.key(1))
        assert row["own"] > 0.85
        assert (row["wanted"] > 0.85) == (name == "TRPO's on FetchPush")


# Other ratios are other programs, which take seconds to compile.
SAME_PROGRAM = [name for name, how in PARTS.items() if how.form == PARTS["both"].form]
OTHERS = [pytest.param(name, marks=pytest.mark.slow) for name in PARTS if name not in SAME_PROGRAM]


@pytest.mark.parametrize("part", [*SAME_PROGRAM, *OTHERS])
def test_one_batch_is_noise_whatever_the_estimate(
    part: str, untrained: tuple[Learner, Study]
) -> None:
    """The mean of every version with hindsight is near the exact gradient of its own objective; a
    single batch is not. Of pursued goals alone even the mean of 512 batches is half noise."""
    how = PARTS[part]
    row = untrained[1].row(how, jax.random.key(0))
    if not how.hindsight:
        assert row["one"] < 0.15
        return
    assert row["own"] > 0.6
    # With goals that are met at the start it is easily told: leave the box alone.
    assert row["one"] < (0.7 if part == "both" else 0.35)


def test_then_goals_are_told_apart_and_the_box_goes_towards_them() -> None:
    """By exact gradients. The natural one turns after fewer steps than Adam."""
    learner = Learner(GRID, 0)
    adam = learner.learnt(TO_REACH, "adam", (0, 20, 60))
    untrained, early, late = (learner.plays(flat)["cosine"] for flat in adam)
    (natural,) = (
        learner.plays(flat)["cosine"] for flat in learner.learnt(TO_REACH, "natural", (20,))
    )
    assert untrained < -0.4
    assert early < -0.3
    assert late > 0.4
    assert natural > 0.3


@pytest.mark.parametrize(("objective", "low", "high"), [(CUT, 0.6, 0.75), (TO_REACH, 0.9, 0.95)])
def test_who_learns_until_the_goal_is_reached_pushes_past_it(
    objective: Objective, low: float, high: float
) -> None:
    """By exact gradients, without a network. Both reach the goal; after that, one does anything."""

    def log_pi(logits: Tensor) -> Tensor:
        return jax.nn.log_softmax(logits)

    @jax.jit
    def learnt(logits: Tensor) -> Tensor:
        def step(carry: Tensor, _: None) -> tuple[Tensor, None]:
            logits, memory = carry
            how = objective.until_reached, objective.skip_achieved
            gradient = jax.grad(lambda x: -mean_return(GRID, log_pi(x), *how))(logits)
            change, memory = adam.update(gradient, memory)
            return (optax.apply_updates(logits, change), memory), None

        adam = optax.adam(0.3)
        return jax.lax.scan(step, (logits, adam.init(logits)), None, 100)[0][0]

    found = log_pi(learnt(jnp.zeros(GRID.shape)))
    assert float(mean_return(GRID, found, True, True)) > 0.35  # of 0.40, the best there is
    assert low <= float(success(GRID, found)) <= high


def test_an_action_outside_of_the_box_counts_as_it_was_drawn() -> None:
    """By quadrature: the mean of score times reward is the derivative of the mean reward if the
    action is taken as drawn, although the env clips it. As clipped, it has the wrong sign here."""
    deviation, mean = 0.5, 0.95
    drawn = mean + deviation * np.linspace(-8, 8, 20_001)
    clipped = np.clip(drawn, -1, 1)

    def density(mean: float) -> Array:
        log_prob = gaussian_log_prob(np, np.array([mean]), np.log([deviation]), drawn[:, None])
        return np.exp(log_prob) * (drawn[1] - drawn[0])

    def reward(action: Array) -> Array:
        return 1.0 + action  # more is better

    step = 1e-4
    change = density(mean + step) - density(mean - step)
    exact = (change * reward(clipped)).sum() / (2 * step)
    estimates = [
        (density(mean) * (action - mean) / deviation**2 * reward(clipped)).sum()
        for action in (drawn, clipped)
    ]
    assert estimates[0] == pytest.approx(exact, rel=1e-4)
    assert exact > 0.4
    assert estimates[1] < -0.5


def test_the_table_of_a_measurement() -> None:
    learnt = [
        {"objective": "o", "by": "adam", "steps": steps}
        | {"success": 0.1, "moved": 0.2, "cosine": -0.5, "nearer": -1.0}
        for steps in (0, 10)
    ]
    exact = {"steps": 0, "part": "exact: o", "own": 1.0, "wanted": 0.5, "success": 0, "nearer": 0}
    rows = [exact, exact | {"part": "p", "one": 0.25}]
    row = {"values": {"episodes": 8, "batches": 512, "learnt": learnt, "parts": rows}}
    lines = measured_tables.table(Measurement("x", "push_gradient", 1.0), {0: row}).splitlines()
    assert lines[2:5] == [
        "| none | 0 | 0.10 | 0.20 | -0.50 | -1.00 |",
        "| o, adam | 10 | 0.10 | 0.20 | -0.50 | -1.00 |",
        "",
    ]
    assert lines[5] == "Untrained:"
    assert lines[9:11] == [
        "| exact: o | 1.00 | 0.50 |  | 0.00 | 0.00 |",
        "| p | 1.00 | 0.50 | 0.25 | 0.00 | 0.00 |",
    ]
