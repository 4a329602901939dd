"""bfloat16 products: their numbers and gradients, where they are used, and what stays float32."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hindsight
from conftest import LineEnv, written
from hindsight.agents.registry import AGENTS, OFF_POLICY
from hindsight.networks import MLP
from hindsight.precision import native, product
from hindsight.training.run import Run

ROUNDING = 2.0**-8  # of a bfloat16, relative


def arrays(*shapes: tuple[int, ...]) -> list[jax.Array]:
    rng = np.random.default_rng(0)
    return [jnp.asarray(rng.standard_normal(shape), jnp.float32) for shape in shapes]


@pytest.mark.parametrize("rows", [1, 7, 16, 48, 256], ids=str)
@pytest.mark.parametrize(("inputs", "outputs"), [(1, 3), (28, 256), (64, 1)], ids=str)
def test_product_and_gradients_are_those_of_float32(rows: int, inputs: int, outputs: int) -> None:
    x, kernel, gradient = arrays((rows, inputs), (inputs, outputs), (rows, outputs))

    def with_gradients(multiply: Any) -> Any:
        value, back = jax.vjp(multiply, x, kernel)
        return value, *back(gradient)

    found = jax.jit(lambda: with_gradients(product))()
    exact = with_gradients(jnp.matmul)
    # An element is a sum of products, each with two rounded operands.
    sizes = (
        abs(x) @ abs(kernel),
        abs(gradient) @ abs(kernel).T,
        abs(x).T @ abs(gradient),
    )
    for one, other, size in zip(found, exact, sizes, strict=True):
        assert one.dtype == jnp.float32
        assert (abs(one - other) <= 2.0 * ROUNDING * size + 1e-6).all()


def test_sums_are_float32() -> None:
    """A bfloat16 cannot count beyond 256; a sum of ones in it would stop there."""
    assert product(jnp.ones((1, 1000)), jnp.ones((1000, 1)))[0, 0] == 1000.0
    gradient = jax.grad(lambda kernel: product(jnp.ones((992, 2)), kernel).sum())(jnp.ones((2, 1)))
    assert gradient.tolist() == [[992.0], [992.0]]


def operands(network: MLP) -> list[str]:
    """The types of the operands of all products, forward and backward."""
    x = jnp.zeros((64, 8))
    params = network.init(jax.random.key(0), x)

    def both(params: Any, x: Any) -> Any:
        return jax.grad(lambda params: network.apply(params, x).sum())(params)

    text = jax.jit(both).lower(params, x).as_text()
    found: list[str] = re.findall(r"dot_general.*: \(tensor<\w+x(\w+)>, tensor<\w+x(\w+)>\)", text)
    return ["".join(sorted(set(pair))) for pair in found]


def test_float32_networks_have_plain_products() -> None:
    """As Flax makes them without being told."""
    assert operands(MLP((16, 16), 1)) == ["f32"] * 7
    assert operands(MLP((16, 16), 1, precision="float32")) == ["f32"] * 7


def test_hidden_layers_multiply_in_bfloat16_both_ways() -> None:
    kinds = operands(MLP((16, 16), 1, precision="bfloat16"))
    # Forward and to the weights in two layers, to the inputs of the second. The last layer is
    # float32, and what it says is not needed for the gradient of a sum.
    assert kinds.count("bf16") == 5
    assert kinds.count("f32") == 2


def test_the_layer_that_reads_raw_numbers_is_float32() -> None:
    kinds = operands(MLP((16, 16), 1, precision="bfloat16", normalized=False))
    assert (kinds.count("bf16"), kinds.count("f32")) == (3, 4)
    metres = jnp.asarray([1.34, 1.3475])  # further apart than FetchReach is exact, one in bfloat16
    assert len(set(metres.astype(jnp.bfloat16).tolist())) == 1


def test_networks_agree_and_have_the_same_parameters() -> None:
    (x,) = arrays((5, 4, 8))
    one, two = MLP((64, 64), 3), MLP((64, 64), 3, precision="bfloat16")
    params = one.init(jax.random.key(0), x)
    assert jax.tree.all(
        jax.tree.map(lambda a, b: (a == b).all(), params, two.init(jax.random.key(0), x))
    )
    exact, rounded = one.apply(params, x), two.apply(params, x)
    assert rounded.shape == (5, 4, 3)
    assert 0.0 < float(abs(exact - rounded).max()) < 0.05


def test_auto_is_bfloat16_where_it_is_native() -> None:
    assert native("cpu", "flags : fpu avx512f avx512_bf16 vaes") == "bfloat16"
    assert native("cpu", "flags : fpu amx_bf16 amx_tile") == "bfloat16"
    assert native("cpu", "flags : fpu avx512f avx2") == "float32"
    assert native("cpu", "") == "float32"
    assert native("gpu", "") == "bfloat16"
    assert native("gpu", "", "8.0") == native("gpu", "", "12.1") == "bfloat16"
    assert native("gpu", "", "7.5") == "float32"
    assert native("tpu", "flags : fpu") == "bfloat16"


QUICK: dict[str, Any] = {
    "quiet": True,
    "steps": 200,
    "eval_episodes": 4,
    "eval_every": 2,
    "num_envs": 4,
    "episodes_per_cycle": 4,
    "simulator": "inline",
}


def trained(method: str, path: Path, precision: str) -> Run:
    few: dict[str, Any] = {"gradient_steps": 4, "batch_size": 32} if method in OFF_POLICY else {}
    agent = {"net_arch": [16, 16], "precision": precision}
    if method not in OFF_POLICY:
        agent |= {"goals": 8, "rows": 64}
    if method == "a3c":
        agent |= {"workers": 1}
    env = LineEnv if method != "dqn" else lambda: LineEnv(discrete=True)
    return hindsight.train(env, method=method, run_dir=path, agent=agent, **QUICK, **few)


@pytest.mark.parametrize("method", AGENTS)
def test_every_learner_takes_it_keeps_float32_and_repeats(method: str, tmp_path: Path) -> None:
    runs = [trained(method, tmp_path / str(i), "bfloat16") for i in range(2)]
    one, two = (written(run.path) for run in runs)
    assert one == two
    checkpoint, _ = runs[0].checkpoints.newest()
    leaves = jax.tree.leaves(checkpoint.load()["learner"])
    numbers = {leaf.dtype for leaf in leaves if np.issubdtype(leaf.dtype, np.inexact)}
    assert numbers == {np.dtype(np.float32)}


def test_it_learns_other_numbers_than_float32(tmp_path: Path) -> None:
    runs = [trained("ddpg", tmp_path / name, name) for name in ("float32", "bfloat16")]
    one, two = (written(run.path) for run in runs)
    assert one != two


def test_a_run_keeps_what_auto_chose(tmp_path: Path) -> None:
    run = trained("ddpg", tmp_path / "run", "auto")
    kept = json.loads((run.path / "config.json").read_text())["agent"]["precision"]
    assert kept in ("float32", "bfloat16")
    assert run.config.agent.precision == kept
    same = trained("ddpg", tmp_path / "same", kept)
    assert written(run.path) == written(same.path)
    more = hindsight.resume(run.path, steps=100, env=LineEnv, quiet=True)
    assert more.config.agent.precision == kept
