"""Which way the policy gradient pushes: every part of the estimate against the exact gradient, on
the smallest task with the structure of FetchPush (`lab/grid_push.py`).

First the exact gradients themselves: a network learns by them, of each objective. Then, for
policies on that way, the expectation of every version of the estimate: the sum of its
coefficients of log pi(a|s,g), averaged over thousands of batches, and one backward pass. A
direction says something of itself, too: how a step along it changes success, and how much nearer
to the goal the box ends.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.flatten_util import ravel_pytree

from hindsight.agents.goal_batch import Outcome, outcome
from hindsight.agents.hindsight_weights import (
    Estimator,
    advantages,
    baseline_is_unbiased,
    coefficients,
    log_ratios,
    log_steps,
    weights,
)
from hindsight.agents.losses import adam_step
from hindsight.agents.trpo import conjugate_gradient
from hindsight.lab.grid_push import (
    GridPush,
    mean_return,
    progress,
    pushes,
    success,
    values,
    visits,
)
from hindsight.networks import MLP, Params
from hindsight.types import Tensor

WIDTHS = (32, 32)
LEARNING_RATE = 3e-3  # of Adam
MAX_KL, DAMPING = 2e-3, 1e-5  # of the natural gradient
GROUPS = 8  # of batches, for the error of a mean
FITS = 4  # of the critic, each to targets that the one before has made
SINGLE = 24  # batches whose own direction is compared


@dataclass(frozen=True)
class Objective:
    """What is maximised: the mean return over these pairs of start and goal."""

    name: str
    until_reached: bool
    skip_achieved: bool


RETURN = Objective("time at the goal", until_reached=False, skip_achieved=False)
TO_REACH = Objective("time at the goal, goals not met at the start", False, True)
CUT = Objective("the same, until first reached", until_reached=True, skip_achieved=True)
OBJECTIVES = (RETURN, TO_REACH, CUT)


@dataclass(frozen=True)
class Estimate:
    """A version of the estimate. As it stands: TRPO's on FetchPush, before this was studied."""

    hindsight: bool = True
    estimator: Estimator = "step"
    actual_goals: bool = True
    until_reached: bool = True
    skip_achieved: bool = True
    goals: int = 0
    """Hindsight goals drawn of those that the batch reached; 0 takes all."""
    values: Literal["none", "zero", "exact", "fitted"] = "fitted"
    """none: returns, as in HPG. Else advantages by a critic that knows nothing, all, or what
    batches like these teach it."""
    leave_one_out: bool = True
    gae_lambda: float = 0.95
    advantages: Literal["as they are", "scaled", "centred"] = "scaled"

    @property
    def objective(self) -> Objective:
        """The one whose gradient it estimates."""
        return Objective("", self.until_reached, self.skip_achieved)

    @property
    def form(self) -> Form:
        """What a program is compiled for; all else is data."""
        return Form(self.estimator if self.hindsight else "plain", self.values == "none")

    @property
    def switches(self) -> Switches:
        return Switches(
            actual_goals=jnp.array(self.actual_goals),
            until_reached=jnp.array(self.until_reached),
            skip_achieved=jnp.array(self.skip_achieved),
            goals=jnp.array(self.goals or 10**6),
            leave_one_out=jnp.array(self.leave_one_out),
            gae_lambda=jnp.array(self.gae_lambda),
            centred=jnp.array(self.advantages == "centred"),
            scaled=jnp.array(self.advantages != "as they are"),
        )


class Form(NamedTuple):
    estimator: Estimator
    returns: bool


class Switches(NamedTuple):
    """Those of an `Estimate`, as arrays."""

    actual_goals: Tensor
    until_reached: Tensor
    skip_achieved: Tensor
    goals: Tensor
    leave_one_out: Tensor
    gae_lambda: Tensor
    centred: Tensor
    scaled: Tensor


BASE = Estimate()
RETURNS = replace(BASE, values="none", actual_goals=False)
PARTS: dict[str, Estimate] = {
    "TRPO's on FetchPush": BASE,
    "ratios: weighted": replace(BASE, estimator="weighted"),
    "ratios: per decision": replace(BASE, estimator="per_decision"),
    "ratios: whole product": replace(BASE, estimator="product"),
    "critic: before it is fitted": replace(BASE, values="zero"),
    "critic: exact": replace(BASE, values="exact"),
    "critic: values of all goals subtracted": replace(BASE, leave_one_out=False),
    "the same, exact": replace(BASE, leave_one_out=False, values="exact"),
    "advantages: as they are": replace(BASE, advantages="as they are"),
    "advantages: centred": replace(BASE, advantages="centred"),
    "advantages: one step (lambda 0)": replace(BASE, gae_lambda=0.0),
    "goals: only hindsight ones": replace(BASE, actual_goals=False),
    "goals: the same, 2 of them": replace(BASE, actual_goals=False, goals=2),
    "goals: only pursued ones": replace(BASE, hindsight=False),
    "as HTRPO": replace(
        BASE,
        estimator="weighted",
        actual_goals=False,
        leave_one_out=False,
        gae_lambda=0.0,
        advantages="centred",
    ),
    "no cut where the goal is reached": replace(BASE, until_reached=False),
    "goals met at the start, too": replace(BASE, skip_achieved=False),
    "both": replace(BASE, until_reached=False, skip_achieved=False),
    "returns, weighted (HPG)": replace(RETURNS, estimator="weighted"),
    "returns, per decision": replace(RETURNS, estimator="per_decision"),
    "returns, single steps": RETURNS,
    "returns, weighted, no cut": replace(RETURNS, estimator="weighted", until_reached=False),
    "returns, pursued goals": replace(RETURNS, hindsight=False),
}


class Learner:
    """A network that is a policy of a grid, and what an exact step does to it."""

    def __init__(self, world: GridPush, seed: int) -> None:
        self.world = world
        self.network = MLP(WIDTHS, world.shape[2], tanh=True, output_scale=0.01)
        self.features = jnp.asarray(world.features())
        start = self.network.init(jax.random.key(seed), self.features[0, :1])
        self.start, self.unravel = ravel_pytree(start)

    def log_pi(self, flat: Tensor) -> Tensor:
        """Of every move, in every state under every goal [G, S, A]."""
        params: Params = self.unravel(flat)
        logits: Tensor = self.network.apply(params, self.features)
        return jax.nn.log_softmax(logits)

    def gradient(self, flat: Tensor, objective: Objective) -> Tensor:
        return self._gradient(flat, objective.until_reached, objective.skip_achieved)

    @partial(jax.jit, static_argnums=0)
    def _gradient(self, flat: Tensor, until_reached: Tensor, skip_achieved: Tensor) -> Tensor:
        how = until_reached, skip_achieved
        return jax.grad(lambda x: mean_return(self.world, self.log_pi(x), *how))(flat)

    def learnt(
        self, objective: Objective, by: Literal["adam", "natural"], stops: tuple[int, ...]
    ) -> Iterator[Tensor]:
        """The policy after each of these numbers of exact steps."""
        flat, memory = self.start, optax.scale_by_adam().init(self.start)
        for number in range(stops[-1] + 1):
            if number in stops:
                yield flat
            gradient = self.gradient(flat, objective)
            if by == "adam":
                flat, memory = adam_step(flat, -gradient, memory, LEARNING_RATE)
            else:
                flat = flat + self._natural(flat, gradient)

    @partial(jax.jit, static_argnums=0)
    def _natural(self, flat: Tensor, gradient: Tensor) -> Tensor:
        """The step of the natural gradient that the KL divergence may take."""
        old = self.log_pi(flat)
        weight = visits(self.world, old)[..., None] * jnp.exp(old)

        def kl(x: Tensor) -> Tensor:
            return jnp.sum(weight * (old - self.log_pi(x)))

        def curvature(vector: Tensor) -> Tensor:
            return jax.jvp(jax.grad(kl), (flat,), (vector,))[1] + DAMPING * vector

        direction = conjugate_gradient(curvature, gradient, 10)
        return direction * jnp.sqrt(2 * MAX_KL / (direction @ curvature(direction)))

    def plays(self, flat: Tensor) -> dict[str, float]:
        """What becomes of the box."""
        return {name: round(float(value), 4) for name, value in self._plays(flat).items()}

    @partial(jax.jit, static_argnums=0)
    def _plays(self, flat: Tensor) -> dict[str, Tensor]:
        log_pi = self.log_pi(flat)
        moved, cosine = pushes(self.world, log_pi)
        return {
            "success": success(self.world, log_pi),
            "return": mean_return(self.world, log_pi, jnp.array(True), jnp.array(True)),
            "nearer": progress(self.world, log_pi),
            "moved": moved,
            "cosine": cosine,
        }


class Batch(NamedTuple):
    """N episodes under all G goals, and what an estimate makes of each step."""

    state: Tensor  # [N, T+1]
    action: Tensor  # [N, T]
    log_step: Tensor  # [G, N, T] log pi_g/pi_g' of each step
    weight: Tensor  # [G, N, T]
    free: Tensor  # [G, N, 1] where a value may be subtracted, and learn
    result: Outcome


def sampled(
    world: GridPush, form: Form, how: Switches, episodes: int, log_pi: Tensor, key: Tensor
) -> Batch:
    """Episodes of the policy, weighed under the goals that the estimate would choose."""
    goals, hindsight = len(world.goal), form.estimator != "plain"
    first, second, third, fourth = jax.random.split(key, 4)
    start = jnp.asarray(world.start)[jax.random.randint(first, (episodes,), 0, len(world.start))]
    pursued = jax.random.randint(second, (episodes,), 0, goals)

    def step(state: Tensor, key: Tensor) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        action = jax.random.categorical(key, log_pi[pursued, state])
        return jnp.asarray(world.after)[state, action], (state, action)

    last, (before, action) = jax.lax.scan(step, start, jax.random.split(third, world.horizon))
    state, action = jnp.concatenate([before, last[None]]).T, action.T
    met = jnp.asarray(world.met)[:, state]  # [G, N, T+1]
    own = pursued == jnp.arange(goals)[:, None]  # [G, N]
    counts = ~(met[..., 0] & how.skip_achieved) & (own | hindsight)
    hit = met[..., 1:] & counts[..., None]
    # Goals that the batch reached, some of them, each once; and those that it pursued, as often as
    # it did.
    reached = hit.any(axis=(1, 2))
    order = jnp.where(reached, jax.random.uniform(fourth, (goals,)), -1.0)
    used = reached & (jnp.sum(order > order[:, None], axis=1) < how.goals)
    was_pursued = own.any(axis=1) & how.actual_goals if hindsight else jnp.ones(goals, bool)
    number = jnp.where(was_pursued, own.sum(axis=1), used) / 1.0
    share = number / jnp.maximum(number.sum(), 1.0) if hindsight else jnp.ones(goals)
    length = jnp.full(episodes, world.horizon)
    result = outcome(hit, counts, length, how.until_reached, 1.0)
    under = log_pi[:, state[:, :-1], action]  # [G, N, T]
    log_mu = under[pursued, jnp.arange(episodes)]
    weight = weights(log_ratios(under, log_mu, result.alive), result, form.estimator)
    free = baseline_is_unbiased(hit, was_pursued) | ~how.leave_one_out
    log_step = log_steps(under, log_mu, result.alive)
    return Batch(state, action, log_step, weight * share[:, None, None], free, result)


def coefficient(form: Form, how: Switches, batch: Batch, value: Tensor) -> Tensor:
    """What multiplies grad log pi(a_t|s_t,g) [G, N, T]; value [G, N, T+1]."""
    if form.returns:
        return coefficients(batch.weight, batch.result.reward)
    gain, _ = advantages(batch.log_step, batch.result, value, 1.0, how.gae_lambda)
    gain = jnp.where(batch.free, gain, gain + value[..., :-1])
    share = batch.weight / jnp.maximum(batch.weight.sum(), 1e-9)
    gain = gain - jnp.where(how.centred, jnp.sum(share * gain), 0.0)
    size = jnp.sqrt(jnp.sum(share * gain**2)) + 1e-3
    return batch.weight * gain / jnp.where(how.scaled, size, 1.0)


class Study:
    """The estimates of one policy's gradient."""

    def __init__(self, learner: Learner, flat: Tensor, episodes: int, batches: int) -> None:
        self.world, self.episodes, self.batches = learner.world, episodes, batches
        self.log_pi, pull = jax.vjp(learner.log_pi, flat)
        self.pull = jax.jit(lambda table: pull(table)[0])
        both = (False, True)
        self.exact = {
            (cut, skip): learner.gradient(flat, Objective("", cut, skip))
            for cut in both
            for skip in both
        }
        self.along = {
            "success": self.pull(jax.grad(lambda x: success(self.world, x))(self.log_pi)),
            "nearer": self.pull(jax.grad(lambda x: progress(self.world, x))(self.log_pi)),
        }

    def rows(self, parts: dict[str, Estimate], key: Tensor) -> Iterator[dict[str, Any]]:
        for objective in OBJECTIVES:
            exact = self.exact[objective.until_reached, objective.skip_achieved]
            yield {"part": f"exact: {objective.name}"} | self._row(exact, objective)
        for name, how in parts.items():
            yield {"part": name} | self.row(how, key)

    def row(self, how: Estimate, key: Tensor) -> dict[str, Any]:
        """The expectation of an estimate, its error, and the cosine of a single batch."""
        value = self.values(how, key)
        single = jnp.stack([self._mean(how, value, k, 1) for k in jax.random.split(key, SINGLE)])
        keys = jax.random.split(jax.random.fold_in(key, 1), GROUPS)
        groups = jnp.stack([self._mean(how, value, k, self.batches // GROUPS) for k in keys])
        own = self.exact[how.until_reached, how.skip_achieved]
        without = jnp.stack([groups.sum(axis=0) - group for group in groups])
        error = np.sqrt((GROUPS - 1) * np.var(_cosine(without, own)))
        found = self._row(groups.mean(axis=0), how.objective)
        return found | {
            "error": round(float(error), 4),
            "one": round(float(np.mean(_cosine(single, own))), 4),
        }

    def _row(self, direction: Tensor, objective: Objective) -> dict[str, Any]:
        own = self.exact[objective.until_reached, objective.skip_achieved]
        wanted = self.exact[TO_REACH.until_reached, TO_REACH.skip_achieved]
        unit = direction / jnp.linalg.norm(direction)
        found = {
            "own": _cosine(direction[None], own)[0],
            "wanted": _cosine(direction[None], wanted)[0],
            **{name: gradient @ unit for name, gradient in self.along.items()},
        }
        return {name: round(float(value), 4) for name, value in found.items()}

    def values(self, how: Estimate, key: Tensor) -> Tensor:
        """V(s, g, t) [T+1, G, S] as the critic of this estimate has it."""
        exact = values(self.world, self.log_pi, jnp.array(how.until_reached))
        if how.values == "exact":
            return exact
        value = jnp.zeros_like(exact)
        for k in jax.random.split(key, FITS) if how.values == "fitted" else ():
            data = (how.switches, self.log_pi, value, k, self.batches // FITS)
            value = fitted(self.world, how.form, self.episodes, *data)
        return value

    def _mean(self, how: Estimate, value: Tensor, key: Tensor, batches: int) -> Tensor:
        """The mean of an estimate over some batches [parameters]."""
        data = (how.switches, self.log_pi, value, key, batches)
        return self.pull(mean_table(self.world, how.form, self.episodes, *data))


@partial(jax.jit, static_argnames=("world", "form", "episodes"))
def mean_table(
    world: GridPush,
    form: Form,
    episodes: int,
    how: Switches,
    log_pi: Tensor,
    value: Tensor,
    key: Tensor,
    batches: int,
) -> Tensor:
    """What multiplies grad log pi(a|s,g) [G, S, A], in the mean over some batches."""

    def add(number: Tensor, total: Tensor) -> Tensor:
        batch = sampled(world, form, how, episodes, log_pi, jax.random.fold_in(key, number))
        found = coefficient(form, how, batch, _seen(world, value, batch))
        _, goals, state = _at(world, batch)
        return total.at[goals, state, batch.action[None]].add(found)

    return jax.lax.fori_loop(0, batches, add, jnp.zeros(world.shape)) / batches


@partial(jax.jit, static_argnames=("world", "form", "episodes"))
def fitted(
    world: GridPush,
    form: Form,
    episodes: int,
    how: Switches,
    log_pi: Tensor,
    value: Tensor,
    key: Tensor,
    batches: int,
) -> Tensor:
    """The values [T+1, G, S] that fit best what many batches teach, given the present ones."""

    def teach(number: Tensor, total: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        batch = sampled(world, form, how, episodes, log_pi, jax.random.fold_in(key, number))
        seen = _seen(world, value, batch)
        _, target = advantages(batch.log_step, batch.result, seen, 1.0, how.gae_lambda)
        at, weight = _at(world, batch), batch.weight * batch.free
        return total[0].at[at].add(weight * target), total[1].at[at].add(weight)

    nothing = jnp.zeros_like(value)
    targets, weight = jax.lax.fori_loop(0, batches, teach, (nothing, nothing))
    return jnp.where(weight > 0, targets / jnp.maximum(weight, 1e-20), 0.0)


def _seen(world: GridPush, value: Tensor, batch: Batch) -> Tensor:
    """The values [G, N, T+1] of the states of a batch."""
    return jnp.moveaxis(value[jnp.arange(world.horizon + 1), :, batch.state], -1, 0)


def _at(world: GridPush, batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
    """Where the steps of a batch stand in a table of values."""
    goals, time = jnp.arange(world.shape[0]), jnp.arange(world.horizon)
    return time[None, None], goals[:, None, None], batch.state[None, :, :-1]


def measure(
    seed: int,
    edge: int,
    around: int,
    horizon: int,
    steps: tuple[int, ...],
    compared: tuple[int, ...],
    episodes: int,
    batches: int,
    parts: tuple[str, ...] = tuple(PARTS),
) -> dict[str, Any]:
    """What a network learns by exact `steps`, and every part of the estimate after those that are
    `compared`, all of Adam along the gradient until the goal is first reached."""
    learner = Learner(GridPush(edge, around, horizon), seed)
    learnt = [
        {"objective": objective.name, "by": by, "steps": number} | learner.plays(flat)
        for objective in OBJECTIVES
        for by in ("adam", "natural")
        for number, flat in zip(steps, learner.learnt(objective, by, steps), strict=True)
    ]
    rows = []
    for number, flat in zip(compared, learner.learnt(CUT, "adam", compared), strict=True):
        study = Study(learner, flat, episodes, batches)
        chosen = {name: PARTS[name] for name in parts}
        found = study.rows(chosen, jax.random.fold_in(jax.random.key(seed), number))
        rows += [{"steps": number} | row for row in found]
    return {"episodes": episodes, "batches": batches, "learnt": learnt, "parts": rows}


def _cosine(found: Tensor, exact: Tensor) -> Any:
    """Of each row [K, parameters] with one vector; 0 of a row that points nowhere."""
    lengths = jnp.linalg.norm(found, axis=1) * jnp.linalg.norm(exact)
    return np.asarray(found @ exact / jnp.where(lengths > 0, lengths, 1.0))
