"""Time per DDPG update at FetchPush's sizes, in float32 and bfloat16, against its matrix products
in the same precision, and against Stable-Baselines3."""

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
from hindsight.precision import resolved
from hindsight.replay.batch import Batch
from hindsight.settings import Precision
from hindsight.training.run import machine, versions
from hindsight.types import Array

OBSERVATION, GOAL, ACTION, BATCH, UPDATES, REPEATS = 25, 3, 4, 256, 100, 7
HIDDEN = (256, 256, 256)
BATCHES, TURNS = (256, 512, 1024, 2048), 21

Player = Callable[[], Any]


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


def best(function: Player, repeats: int = REPEATS) -> float:
    """Seconds of the fastest of some calls, after one to warm up."""
    function()
    return min(_seconds(function) for _ in range(repeats))


def _seconds(function: Player) -> float:
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def in_turns(players: dict[str, Player], updates: int) -> dict[str, Array]:
    """Milliseconds per update of each player [turns], in another order each turn."""
    names, rng = list(players), np.random.default_rng(0)
    for play in players.values():
        play()
    times: dict[str, list[float]] = {name: [] for name in names}
    for _ in range(TURNS):
        for name in rng.permutation(names):
            times[name].append(_seconds(players[name]) / updates * 1e3)
    return {name: np.array(each) for name, each in times.items()}


def xla_products(batch: int, updates: int, precision: Precision) -> Player:
    """The matrix products of some updates by XLA, none of them transposed."""
    rng = np.random.default_rng(0)

    def random(*shape: int) -> jax.Array:
        return jnp.asarray(rng.random(shape, np.float32), precision)

    left = [random(m, k) for m, k, _ in products(batch)]
    right = [random(k, n) for _, k, n in products(batch)]

    @jax.jit
    def multiply(left: list[jax.Array], right: list[jax.Array]) -> jax.Array:
        def step(carry: jax.Array, _: None) -> tuple[jax.Array, None]:
            # The carry enters every product and leaves it, so that none can be hoisted or left out.
            for a, b in zip(left, right, strict=True):
                changed = b + carry.astype(b.dtype)
                carry = jnp.dot(a, changed, preferred_element_type=jnp.float32)[0, 0] * 1e-9
            return carry, None

        total: jax.Array = jax.lax.scan(step, jnp.float32(0), None, length=updates)[0]
        return total

    return lambda: multiply(left, right).block_until_ready()


def learning(batch_size: int, updates: int, precision: Precision) -> Player:
    """One call of `DDPG.learn` with some updates."""
    shapes = Shapes(
        OBSERVATION, GOAL, Actions(0, (-1.0,) * ACTION, (1.0,) * ACTION), 0.98, (-50.0, 0.0)
    )
    agent = DDPG(DDPGConfig(net_arch=HIDDEN, precision=precision), shapes)
    rng = np.random.default_rng(0)

    def random(*shape: int) -> Any:
        return rng.standard_normal((updates, batch_size, *shape), np.float32)

    reward = (rng.random((updates, batch_size)) < 0.2).astype(np.float32) - 1.0
    observations = random(OBSERVATION), random(OBSERVATION), random(GOAL)
    batch = Batch(
        *observations, np.tanh(random(ACTION)), reward, np.zeros_like(reward), np.ones_like(reward)
    )
    scale = Normalizer(Features((OBSERVATION,)), Features((GOAL,)), 0.01, 200.0).scale()
    key = jax.random.key(0)
    state = agent.scheduled(agent.init(key), scale, 0.0)
    none = np.zeros(updates, np.float32)
    batch = batch._replace(beta=none, actor_beta=none)

    def update() -> None:
        nonlocal state
        state, td, _ = agent.learn(state, batch, key)
        td.error.block_until_ready()

    return update


def time_stable_baselines() -> tuple[float, str] | None:
    """Milliseconds per update of Stable-Baselines3's DDPG with HerReplayBuffer (sampling
    included), and its version."""
    sb3 = peers.stable_baselines3()
    if sb3 is None:
        return None
    model = peers.ddpg(sb3, "FetchPush-v4", HIDDEN, BATCH, episodes=1, updates=1)
    model.learn(1500)
    seconds = best(lambda: model.train(gradient_steps=UPDATES, batch_size=BATCH), repeats=3)
    return seconds / UPDATES * 1e3, sb3.__version__


def precisions() -> tuple[Precision, ...]:
    """Those that this machine has natively. Emulated, bfloat16 would take all day."""
    return ("float32", "bfloat16") if resolved("auto") == "bfloat16" else ("float32",)


def compare(batch: int) -> dict[str, Any]:
    """Updates and bare products of one batch size, in turns: medians, and quotients of a turn."""
    updates = max(UPDATES * BATCH // batch // 5, 2)
    players: dict[str, Player] = {}
    for precision in precisions():
        players[f"{precision} update"] = learning(batch, updates, precision)
        players[f"{precision} products"] = xla_products(batch, updates, precision)
    times = in_turns(players, updates)
    plain = times["float32 update"]
    row: dict[str, Any] = {"batch": batch}
    for precision in precisions():
        ours, bare = times[f"{precision} update"], times[f"{precision} products"]
        row[precision] = {
            "update_ms": _median(ours),
            "products_ms": _median(bare),
            "ratio_to_products": spread(ours / bare),
            "times_as_fast_as_float32": spread(plain / ours),
            "best_ms": round(float(ours.min()), 3),
        }
    return row


def _median(values: Array) -> float:
    return round(float(np.median(values)), 3)


def spread(quotients: Array) -> list[float]:
    """Quarter point, median and three-quarter point over the turns."""
    return [round(float(q), 3) for q in np.quantile(quotients, (0.25, 0.5, 0.75))]


def run() -> dict[str, Any]:
    rows = [compare(batch) for batch in BATCHES]
    ours = rows[BATCHES.index(BATCH)]["float32"]["best_ms"]
    result: dict[str, Any] = {
        "hidden": list(HIDDEN),
        "rows": rows,
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
        f"DDPG update, hidden {result['hidden']}: medians of {TURNS} turns in ms; quotients of a",
        "turn, their median, and in brackets the middle half of turns",
        "batch  precision   update  its products     update/products   times as fast as float32",
    ]
    for row in result["rows"]:
        for precision in (name for name in ("float32", "bfloat16") if name in row):
            ours = row[precision]
            lines.append(
                f"{row['batch']:5d}  {precision:9s} {ours['update_ms']:8.2f} "
                f"{ours['products_ms']:13.2f}  {_shown(ours['ratio_to_products']):>18s}"
                f"  {_shown(ours['times_as_fast_as_float32']):>18s}"
            )
    if len(precisions()) == 1:
        lines.append("this processor has no bfloat16")
    if peer is None:
        lines.append(
            "Stable-Baselines3 is not installed: pip install 'hindsight-rl[bench]' to compare"
        )
    else:
        lines.append(
            f"Stable-Baselines3 {peer['version']}, batch {BATCH} (sampling included): "
            f"{peer['update_ms']:.2f} ms, {peer['ratio_to_ours']:.2f} times ours (best of each)"
        )
    return "\n".join(lines)


def _shown(quotients: list[float]) -> str:
    low, middle, high = quotients
    return f"{middle:.2f} [{low:.2f}, {high:.2f}]"
