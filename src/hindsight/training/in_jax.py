"""Whole trainings in JAX, for bit flip and rooms: playing, choosing goals, learning and
evaluating are one program."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from hindsight.acting import Actor
from hindsight.agents.goal_batch import GoalBatch
from hindsight.agents.policy_gradient import PolicyGradient, State
from hindsight.agents.registry import make_on_policy_agent
from hindsight.config import OnPolicyConfig
from hindsight.envs.contract import GoalEnvSpec
from hindsight.envs.jax_envs import JaxEnv
from hindsight.networks import Params
from hindsight.normalizer import Scale
from hindsight.training.evaluate import Evaluation
from hindsight.training.guard import check_losses
from hindsight.training.progress import Progress, Reporter, Score
from hindsight.training.state import LoopState
from hindsight.types import Tensor


class InJax:
    """A policy gradient and an env in JAX, and the loop that ties them together."""

    def __init__(self, config: OnPolicyConfig, spec: GoalEnvSpec, env: JaxEnv) -> None:
        self.config = config
        self.horizon = spec.horizon
        self.agent = make_on_policy_agent(config.agent, spec)
        self.scale = (
            fixed_scale(env, spec) if config.agent.normalize else self.agent.shapes.no_scale()
        )
        start, self.key, eval_key = jax.random.split(jax.random.key(config.seed), 3)
        self.learn = learning(self.agent, env, self.scale, self.horizon, config.episodes_per_cycle)
        self.reporter = Reporter(config, spec, self._score)
        self.state = LoopState(self.agent.init(start)._replace(scale=self.scale))

        @jax.jit
        def greedy(policy: Params) -> tuple[Tensor, Tensor]:
            """Success and length of greedy episodes."""
            keys = jax.random.split(eval_key, config.last_eval_episodes)
            played = play(env, self.agent, policy, self.scale, self.horizon, keys, greedy=True)
            return played["success"], played["length"]

        self.greedy = greedy

    def train(self) -> Generator[Progress]:
        """Train on from the state as it is, yielding after `eval_every` batches, or after one if
        it may be the last."""
        config, agent, state, clock = self.config, self.agent, self.state, self.state.clock
        largest = config.episodes_per_cycle * self.horizon
        most = -(-config.steps // config.episodes_per_cycle)  # batches, if all end at once
        every = min(config.eval_every, most)
        while state.step < config.steps:
            state.learner = agent.scheduled(state.learner, self.scale, state.step / config.steps)
            done = state.cycle % config.eval_every
            keys = jax.random.split(jax.random.fold_in(self.key, state.cycle - done), every)
            needed = -(
                -(config.steps - state.step) // largest
            )  # batches, if all of them are as long as can be
            count = config.eval_every if done == 0 and needed >= config.eval_every else 1
            state.learner, transitions, success, learned = self.learn(
                state.learner, keys, done, count
            )
            state.step += int(transitions)
            state.cycle += count
            metrics = {f"learn/{name}": float(value) for name, value in learned.items()}
            check_losses(metrics, state.step)
            clock.lap("learn")
            metrics["train/success_rate"] = float(success)
            yield self.reporter.report(state, agent.actor(state.learner), metrics, clock)
            clock.lap("write")

    def _score(self, actor: Actor, last: bool) -> Score:
        success, length = self.greedy(actor.params)
        evaluation, points = evaluation_of(success, length, self.horizon)
        return evaluation, {"eval/score": points}


def learning(
    agent: PolicyGradient, env: JaxEnv, scale: Scale, horizon: int, episodes: int
) -> Callable[[State, Tensor, int, int], tuple[State, Tensor, Tensor, Any]]:
    """(state, keys, first, count) -> a new state, transitions, and mean success and metrics of
    `count` batches.

    Each batch plays episodes, chooses goals among those achieved, and learns, by a key of its
    own.
    """
    config = agent.config

    def batch_and_update(state: State, key: Tensor) -> tuple[State, Tensor, Tensor, Any]:
        first, second, third = jax.random.split(key, 3)
        state = state._replace(scale=scale)  # a constant, so that it compiles into the program
        played = play(env, agent, state.policy, scale, horizon, jax.random.split(first, episodes))
        batch = as_pursued(played)
        if config.hindsight:
            batch = in_hindsight(played, config.goals, second, config.actual_goals)
        state, metrics = agent.update(state, batch, third)
        return state, played["length"].sum(), played["success"].mean(), metrics

    @jax.jit
    def learn(
        state: State, keys: Tensor, first: int, count: int
    ) -> tuple[State, Tensor, Tensor, Any]:
        def add(i: Tensor, carry: tuple[State, Any]) -> tuple[State, Any]:
            state, *found = batch_and_update(carry[0], keys[first + i])
            return state, jax.tree.map(jnp.add, carry[1], tuple(found))

        shapes = jax.eval_shape(batch_and_update, state, keys[0])[1:]
        nothing = jax.tree.map(lambda part: jnp.zeros(part.shape, part.dtype), shapes)
        state, (transitions, success, metrics) = jax.lax.fori_loop(0, count, add, (state, nothing))
        return (
            state,
            transitions,
            success / count,
            jax.tree.map(lambda total: total / count, metrics),
        )

    return learn


def play(
    env: JaxEnv,
    agent: PolicyGradient,
    policy: Params,
    scale: Scale,
    horizon: int,
    keys: Tensor,
    greedy: bool = False,
) -> dict[str, Tensor]:
    """One episode per key, as arrays like those of `Episodes`. After its end an episode stands
    still."""

    def step(
        carry: tuple[Tensor, Tensor], keys: Tensor
    ) -> tuple[tuple[Tensor, Tensor], tuple[Tensor, ...]]:
        position, done = carry
        distribution = agent.distribution(policy, agent.inputs(scale, position, goal))
        if greedy:
            action, log_prob = jnp.argmax(distribution, axis=-1), jnp.zeros(len(goal))
        else:
            action = agent.drawn(distribution, keys[0])
            log_prob = agent.log_prob(distribution, action)
        after = jax.vmap(env.step)(position, action, jax.random.split(keys[1], len(goal)))
        after = jnp.where(done[:, None], position, after)
        reached = ~done & (after == goal).all(axis=-1)
        return (after, done | reached), (after, action, log_prob, reached)

    position, goal = jax.vmap(env.reset)(keys)
    step_keys = jax.random.split(jax.random.fold_in(keys[0], 1), (horizon, 2))
    _, (positions, action, log_prob, reached) = jax.lax.scan(
        step, (position, jnp.zeros(len(goal), bool)), step_keys
    )
    observation, action, log_prob, reached = (
        jnp.swapaxes(x, 0, 1)
        for x in (jnp.concatenate([position[None], positions]), action, log_prob, reached)
    )
    success = reached.any(axis=1)
    length = jnp.where(success, jnp.argmax(reached, axis=1) + 1, horizon)
    return {
        "observation": observation,
        "goal": goal,
        "action": action,
        "log_prob": log_prob,
        "reached": reached,
        "success": success,
        "length": length,
    }


def as_pursued(played: dict[str, Tensor]) -> GoalBatch:
    """The episodes under the goals they pursued."""
    return _batch(
        played, played["goal"][None], played["reached"][None], jnp.ones(1, bool), jnp.ones(1, bool)
    )


def in_hindsight(
    played: dict[str, Tensor], count: int, key: Tensor, actual_goals: bool = False
) -> GoalBatch:
    """The episodes under `count` of the different goals they achieved (all if 0), each applied
    to every episode, and under those that were pursued, if `actual_goals`."""
    after = played["observation"][:, 1:]
    episodes, horizon, size = after.shape
    real = jnp.arange(horizon) < played["length"][:, None]
    flat, happened = after.reshape(-1, size), real.ravel()
    same = _equal(flat, flat) & happened  # [i, j]: goal j happened and equals goal i
    first = happened & (jnp.argmax(same, axis=1) == jnp.arange(len(flat)))
    order = jnp.where(first, jax.random.uniform(key, (len(flat),)), -1.0)
    rank, chosen = jax.lax.top_k(order, min(count or len(flat), len(flat)))
    goal, used, was_pursued = flat[chosen], rank >= 0, jnp.zeros(len(chosen), bool)
    if actual_goals:
        used &= ~_equal(goal, played["goal"]).any(axis=1)
        goal = jnp.concatenate([goal, played["goal"]])
        used, was_pursued = (
            jnp.concatenate([x, jnp.ones(episodes, bool)]) for x in (used, was_pursued)
        )
    hit = _equal(goal, flat).reshape(-1, episodes, horizon) & real
    return _batch(played, goal[:, None], hit, used, was_pursued)


def _equal(left: Tensor, right: Tensor) -> Tensor:
    """[m, n]: which rows of [m, d] and [n, d] are equal. Positions are small whole numbers, so
    this is exact."""
    return (left**2).sum(axis=1)[:, None] + (right**2).sum(axis=1) == 2.0 * left @ right.T


def _batch(
    played: dict[str, Tensor], goal: Tensor, hit: Tensor, used: Tensor, was_pursued: Tensor
) -> GoalBatch:
    shown = {name: played[name] for name in ("observation", "action", "log_prob", "length")}
    return GoalBatch(
        **shown,
        failed=jnp.zeros(hit.shape[1], bool),
        pursued=played["goal"],
        goal=goal,
        hit=hit,
        counts=jnp.ones(hit.shape[:2], bool),
        used=used,
        was_pursued=was_pursued,
        ends=jnp.array(True),
    )


def evaluation_of(success: Tensor, length: Tensor, horizon: int) -> tuple[Evaluation, float]:
    """The evaluation, and the mean return of Hindsight Policy Gradients: (number of states) - t,
    or 0."""
    success, length = np.asarray(success), np.asarray(length)
    points = float(np.mean(np.where(success, horizon + 1 - length, 0), dtype=np.float64))
    return Evaluation(float(success.mean()), points - horizon, len(success)), points


def fixed_scale(env: JaxEnv, spec: GoalEnvSpec) -> Scale:
    """The env's own normalisation, for observations and goals alike."""
    mean, deviation = (np.full(spec.observation.dim, x, np.float32) for x in env.scale)
    return Scale(mean, deviation, mean, deviation)
