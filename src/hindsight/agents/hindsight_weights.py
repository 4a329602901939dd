"""Importance weights and estimators of hindsight policy gradients, as pure functions of arrays.

Goals g are applied to episodes that pursued other goals g'. With rho_t = prod_{k<=t} pi(a_k|s_k,g)
/ pi(a_k|s_k,g'), the gradient is estimated by the sum over goals, episodes and steps of

    coefficient_t * grad log pi(a_t|s_t,g),
    coefficient_t = sum_{u>=t} weight_u reward_u - baseline,

and the estimators differ in the weights (Rauber et al., "Hindsight policy gradients", 2019):

    plain         1/N                          pursued goals only: the usual policy gradient
    product       rho_last / N                 Eq. 1: the whole product, for every reward
    per_decision  rho_u / N                    only the actions that led to the reward
    weighted      rho_u / its sum over the N   the same, self-normalised per goal and step: default
    step          pi_g/pi_g' of step u / N     Appendix D: states are not corrected

HPG uses these `coefficients`. The learners with a critic use the weight of each step, times an
advantage.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp

from hindsight.agents.goal_batch import Outcome
from hindsight.types import Tensor

Estimator = Literal["plain", "product", "per_decision", "weighted", "step"]
Baseline = Literal["none", "value", "td", "paper"]


def log_steps(log_pi: Tensor, log_mu: Tensor, alive: Tensor) -> Tensor:
    """log pi(a_t|s_t,g) / pi(a_t|s_t,g') of each step alone [G, N, T]; 0 where it does not
    count."""
    return jnp.where(alive, log_pi - log_mu, 0.0)


def log_ratios(log_pi: Tensor, log_mu: Tensor, alive: Tensor, clamp: float | None = None) -> Tensor:
    """log rho_t [G, N, T] of log pi(a|s,g) [G, N, T] and log pi(a|s,g') [N, T]; gradients are
    stopped.

    Steps that do not count leave it as it was. With `clamp` it is clipped to [-clamp, clamp].
    """
    total = jnp.cumsum(jax.lax.stop_gradient(log_steps(log_pi, log_mu, alive)), axis=-1)
    return total if clamp is None else jnp.clip(total, -clamp, clamp)


def weights(log_rho: Tensor, outcome: Outcome, estimator: Estimator) -> Tensor:
    """The weight of each step's reward [G, N, T], from log rho [G, N, T]; 0 where a step does
    not count."""
    alive = outcome.alive
    episodes = alive.shape[-2]
    if estimator == "plain":
        return alive / episodes
    if estimator == "product":
        return jnp.where(alive, jnp.exp(log_rho[..., -1:]), 0.0) / episodes
    if estimator == "per_decision":
        return jnp.where(alive, jnp.exp(log_rho), 0.0) / episodes
    if estimator == "step":
        before = jnp.pad(log_rho, [(0, 0)] * (log_rho.ndim - 1) + [(1, 0)])[..., :-1]
        return jnp.where(alive, jnp.exp(log_rho - before), 0.0) / episodes
    return jnp.where(alive, shares(log_rho, outcome.present), 0.0)


def shares(log_rho: Tensor, present: Tensor) -> Tensor:
    """rho divided by its sum over the episodes present, per goal and step: no overflow, however
    large rho is.

    Episodes that have reached the goal before are present: without them, late rewards would
    count for too much.
    """
    largest = jnp.max(log_rho, axis=-2, keepdims=True, where=present, initial=-jnp.inf)
    rho = jnp.where(present, jnp.exp(log_rho - jnp.where(jnp.isfinite(largest), largest, 0.0)), 0.0)
    total = jnp.sum(rho, axis=-2, keepdims=True)
    return rho / jnp.where(total > 0, total, 1.0)


def baseline_is_unbiased(hit: Tensor, was_pursued: Tensor) -> Tensor:
    """[G, N, 1]: whether the goal would be one of the batch's without the episode itself: another
    episode reaches it, too, or it `was_pursued`.

    Goals are chosen because they were reached. Where only one episode has reached a goal, that
    selects its actions, and a baseline no longer adds nothing on average: it takes away part of
    what hindsight teaches.
    """
    reached = hit.any(axis=-1)
    return (was_pursued[:, None] | (reached.sum(axis=-1, keepdims=True) - reached > 0))[..., None]


def to_go(values: Tensor, gamma: float = 1.0) -> Tensor:
    """sum_{u>=t} gamma^(u-t) values_u along the last axis."""

    def step(total: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        total = value + gamma * total
        return total, total

    backwards = jnp.moveaxis(values, -1, 0)[::-1]
    _, totals = jax.lax.scan(step, jnp.zeros_like(backwards[0]), backwards)
    return jnp.moveaxis(totals[::-1], 0, -1)


def where_it_continues(value: Tensor, outcome: Outcome) -> Tensor:
    """The values [G, N, T+1] of the states in which something follows; 0 in the others."""
    follows = jnp.concatenate([jnp.ones_like(outcome.goes_on[..., :1]), outcome.goes_on], axis=-1)
    return jnp.where(follows, value, 0.0)


def with_tails(outcome: Outcome, value: Tensor, gamma: float) -> Tensor:
    """The rewards [G, N, T]; where an episode ended at the goal that it pursued, before it
    reached this one, the value [G, N, T+1] of its last state is added to the last, for what
    would have followed."""
    still_alive = jnp.concatenate(
        [outcome.alive[..., 1:], jnp.zeros_like(outcome.alive[..., :1])], axis=-1
    )
    return outcome.reward + jnp.where(outcome.goes_on & ~still_alive, gamma * value[..., 1:], 0.0)


def coefficients(
    weight: Tensor,
    reward: Tensor,
    gamma: float = 1.0,
    value: Tensor | None = None,
    baseline: Baseline = "none",
) -> Tensor:
    """What multiplies grad log pi(a_t|s_t,g) [G, N, T].

    weight, reward [G, N, T]; value [G, N, T+1] of the states, 0 where nothing follows.
    Baselines: `value` subtracts weight_t V(s_t,g,t); `td` puts the TD error r + gamma V(s') -
    V(s) in the place of every reward, so that what later weights multiply is small; `paper`
    subtracts V of every later state inside the sum, which is Eq. 2 literally.
    """
    if baseline == "none" or value is None:
        return to_go(weight * reward, gamma)
    if baseline == "td":
        return to_go(weight * (reward + gamma * value[..., 1:] - value[..., :-1]), gamma)
    if baseline == "paper":
        return to_go(weight * (reward - value[..., 1:]), gamma)
    return to_go(weight * reward, gamma) - weight * value[..., :-1]


def advantages(
    log_step: Tensor, outcome: Outcome, value: Tensor, gamma: float, gae_lambda: float
) -> tuple[Tensor, Tensor]:
    """Advantages and value targets [G, N, T] by V-trace (Espeholt et al., 2018): ratios above 1 are
    cut to 1.

    log_step: log pi_g/pi_g' of each step; value [G, N, T+1]. Without hindsight all ratios are 1,
    and this is generalised advantage estimation with lambda = gae_lambda.
    """
    reward, alive, _, goes_on = outcome
    ratio = jnp.minimum(jnp.exp(log_step), 1.0)
    error = reward + gamma * jnp.where(goes_on, value[..., 1:], 0.0) - value[..., :-1]
    error = jnp.where(alive, error, 0.0)

    def step(later: Tensor, now: tuple[Tensor, Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        error, ratio, goes_on = now
        advantage = error + gamma * gae_lambda * jnp.where(goes_on, later, 0.0)
        return ratio * advantage, advantage

    backwards: Tensor = tuple(jnp.moveaxis(x, -1, 0)[::-1] for x in (error, ratio, goes_on))
    _, found = jax.lax.scan(step, jnp.zeros_like(error[..., 0]), backwards)
    advantage = jnp.moveaxis(found[::-1], 0, -1)
    return advantage, value[..., :-1] + ratio * advantage


class Diagnostics(NamedTuple):
    """How well the weights serve."""

    effective_sample_size: (
        Tensor  # of the episodes, as a share of those present; mean over goals and steps
    )
    largest_ratio: Tensor  # log10 of the largest rho
    goals_with_signal: Tensor  # share of the goals that any episode reached


def diagnostics(
    log_rho: Tensor, outcome: Outcome, hit: Tensor, used: Tensor, shared: bool = True
) -> Diagnostics:
    """Diagnostics of log rho [G, N, T], over the goals in use [G]. Not `shared`: every episode
    has its own goal."""
    counts, present = (x & used[:, None, None] for x in (outcome.alive, outcome.present))
    share = shares(log_rho, present)
    anyone, number = counts.any(axis=-2), present.sum(axis=-2)
    size = jnp.where(
        anyone, 1.0 / jnp.maximum(jnp.sum(share**2, axis=-2), 1e-9) / jnp.maximum(number, 1), 0.0
    )
    largest = jnp.max(log_rho, where=counts, initial=-jnp.inf)
    reached = (hit & counts).any(axis=-1)
    signal = reached.any(axis=-1).sum() / jnp.maximum(used.sum(), 1) if shared else reached.mean()
    largest = jnp.where(jnp.isfinite(largest), largest, 0.0) / jnp.log(10.0)
    return Diagnostics(size.sum() / jnp.maximum(anyone.sum(), 1), largest, signal)


# Fewer rows for the same gradient. A batch has goals x episodes x steps rows, most of which weigh
# next to nothing. Their weights need one forward pass; the gradient then needs only the rows that
# matter.


def systematic(mass: Tensor, count: int, key: Tensor) -> Tensor:
    """`count` indices, each row i drawn count * mass_i / sum(mass) times, rounded up or down at
    random: unbiased."""
    total = jnp.cumsum(mass)
    ticks = (jnp.arange(count) + jax.random.uniform(key)) / count * total[-1]
    return jnp.minimum(jnp.searchsorted(total, ticks, side="right"), len(mass) - 1)


def chosen_rows(
    coefficient: Tensor, count: int, key: Tensor, mass: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Indices into coefficients [R], and new coefficients that have the same expected sum. All, as
    they are, if 0.

    Rows are drawn in proportion to `mass`, which is not 0 where the coefficient is not; by
    default its magnitude.
    """
    if count == 0 or count >= len(coefficient):
        return jnp.arange(len(coefficient)), coefficient
    mass = jnp.abs(coefficient) if mass is None else mass
    chosen = systematic(mass, count, key)
    return chosen, coefficient[chosen] / jnp.maximum(mass[chosen], 1e-30) * jnp.sum(mass) / count
