"""Time per DDPG update at FetchPush's sizes, against matrix products and Stable-Baselines3."""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks import peers
from hindsight.agents.ddpg import DDPG, DDPGConfig
from hindsight.agents.shapes import Shapes
from hindsight.envs.contract import Actions
from hindsight.envs.spaces import Features
from hindsight.normalizer import Normalizer
from hindsight.replay.batch import Batch
from hindsight.training.run import machine, versions

OBSERVATION, GOAL, ACTION, BATCH, UPDATES, REPEATS = 25, 3, 4, 256, 100, 7
HIDDEN = (256, 256, 256)


def products(batch: int = BATCH) -> list[tuple[int, int, int]]:
    """The matrix products (m, k, n) of a DDPG update: 5 passes forward, 2 back, 1 to the action."""
    actor = [OBSERVATION + GOAL, *HIDDEN, ACTION]
    critic = [OBSERVATION + GOAL + ACTION, *HIDDEN, 1]

    def forward(widths: list[int]) -> list[tuple[int, int, int]]:
        return [(batch, a, b) for a, b in pairwise(widths)]

    def to_weights(widths: list[int]) -> list[tuple[int, int, int]]:
        return [(a, batch, b) for _, a, b in forward(widths)]

    def to_inputs(widths: list[int]) -> list[tuple[int, int, int]]:
        return [(batch, b, a) for _, a, b in forward(widths)]

    targets = forward(actor) + forward(critic)
    critic_step = forward(critic) + to_weights(critic) + to_inputs(critic)[1:]
    actor_step = (
        forward(actor)
        + forward(critic)
        + to_inputs(critic)
        + to_weights(actor)
        + to_inputs(actor)[1:]
    )
    return targets + critic_step + actor_step


def _best(function: Callable[[], Any], repeats: int = REPEATS) -> float:
    """Seconds of the fastest of some calls, after one to warm up."""
    function()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return min(times)


def time_products() -> dict[str, float]:
    """Milliseconds for the matrix products of one update, by NumPy's BLAS and by XLA."""
    rng = np.random.default_rng(0)
    pairs = [
        (rng.random((m, k), np.float32), rng.random((k, n), np.float32)) for m, k, n in products()
    ]
    outputs = [np.empty((a.shape[0], b.shape[1]), np.float32) for a, b in pairs]

    def blas() -> None:
        for _ in range(UPDATES):
            for (a, b), out in zip(pairs, outputs, strict=True):
                np.matmul(a, b, out=out)

    @jax.jit
    def xla(left: list[jax.Array], right: list[jax.Array]) -> jax.Array:
        def step(carry: jax.Array, _: None) -> tuple[jax.Array, None]:
            # The carry enters every product and leaves it, so that none can be hoisted or left out.
            for a, b in zip(left, right, strict=True):
                carry = jnp.dot(a, b + carry, preferred_element_type=jnp.float32)[0, 0] * 1e-9
            return carry, None

        total: jax.Array = jax.lax.scan(step, jnp.float32(0), None, length=UPDATES)[0]
        return total

    left, right = [jnp.asarray(a) for a, _ in pairs], [jnp.asarray(b) for _, b in pairs]
    return {
        "blas": _best(blas) / UPDATES * 1e3,
        "xla": _best(lambda: xla(left, right).block_until_ready()) / UPDATES * 1e3,
    }


def time_update() -> float:
    """Milliseconds per update of `DDPG.learn`, UPDATES of them in one call."""
    shapes = Shapes(
        OBSERVATION, GOAL, Actions(0, (-1.0,) * ACTION, (1.0,) * ACTION), 0.98, (-50.0, 0.0)
    )
    agent = DDPG(DDPGConfig(net_arch=HIDDEN), shapes)
    rng = np.random.default_rng(0)

    def random(*shape: int) -> Any:
        return rng.standard_normal((UPDATES, BATCH, *shape), np.float32)

    reward = (rng.random((UPDATES, BATCH)) < 0.2).astype(np.float32) - 1.0
    observations = random(OBSERVATION), random(OBSERVATION), random(GOAL)
    batch = Batch(
        *observations, np.tanh(random(ACTION)), reward, np.zeros_like(reward), np.ones_like(reward)
    )
    scale = Normalizer(Features((OBSERVATION,)), Features((GOAL,)), 0.01, 200.0).scale()
    key = jax.random.key(0)
    state = agent.scheduled(agent.init(key), scale, 0.0)
    none = np.zeros(UPDATES, np.float32)
    batch = batch._replace(beta=none, actor_beta=none)

    def update() -> None:
        nonlocal state
        state, td, _ = agent.learn(state, batch, key)
        td.error.block_until_ready()

    return _best(update) / UPDATES * 1e3


def time_stable_baselines() -> tuple[float, str] | None:
    """Milliseconds per update of Stable-Baselines3's DDPG with HerReplayBuffer (sampling
    included), and its version."""
    sb3 = peers.stable_baselines3()
    if sb3 is None:
        return None
    model = peers.ddpg(sb3, "FetchPush-v4", HIDDEN, BATCH, episodes=1, updates=1)
    model.learn(1500)
    seconds = _best(lambda: model.train(gradient_steps=UPDATES, batch_size=BATCH), repeats=3)
    return seconds / UPDATES * 1e3, sb3.__version__


def run() -> dict[str, Any]:
    matrix = time_products()
    ours = time_update()
    limit = min(matrix.values())
    result: dict[str, Any] = {
        "batch": BATCH,
        "hidden": list(HIDDEN),
        "update_ms": round(ours, 3),
        "products_ms": {name: round(value, 3) for name, value in matrix.items()},
        "ratio_to_products": round(ours / limit, 3),
        "gflop_per_update": round(sum(2 * m * k * n for m, k, n in products()) / 1e9, 3),
        "stable_baselines3": None,
        "machine": machine(),
        "versions": dict(versions()),
    }
    peer = time_stable_baselines()
    if peer is not None:
        result["stable_baselines3"] = {
            "version": peer[1],
            "update_ms": round(peer[0], 3),
            "ratio_to_ours": round(peer[0] / ours, 3),
        }
    return result


def table(result: dict[str, Any]) -> str:
    peer = result["stable_baselines3"]
    lines = [
        f"DDPG update, batch {result['batch']}, hidden {result['hidden']}: "
        f"{result['update_ms']:.2f} ms",
        "its matrix products alone: BLAS {blas:.2f} ms, XLA {xla:.2f} ms".format(
            **result["products_ms"]
        ),
        f"ratio to the faster of them: {result['ratio_to_products']:.2f}",
    ]
    if peer is None:
        lines.append(
            "Stable-Baselines3 is not installed: pip install 'hindsight-rl[bench]' to compare"
        )
    else:
        lines.append(
            f"Stable-Baselines3 {peer['version']} (sampling included): {peer['update_ms']:.2f} ms, "
            f"{peer['ratio_to_ours']:.2f} times ours"
        )
    return "\n".join(lines)
