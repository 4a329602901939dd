"""Matrix products in bfloat16: half the bits, twice the speed where the processor has them.

Only the operands are bfloat16. Products are summed in float32, and all that is kept between
updates is float32. XLA casts weights once per update and activations together with their ReLU.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp

from hindsight.settings import Precision
from hindsight.types import Tensor

NATIVE = frozenset(("avx512_bf16", "amx_bf16"))
"""Flags of CPUs that multiply bfloat16. The others emulate it, many times slower than float32."""


def resolved(precision: Precision) -> Precision:
    """What `auto` means on this machine: bfloat16 if it is native, else float32."""
    if precision != "auto":
        return precision
    cpuinfo = Path("/proc/cpuinfo")
    return native(
        jax.default_backend(),
        cpuinfo.read_text() if cpuinfo.is_file() else "",
        getattr(jax.devices()[0], "compute_capability", None),
    )


def native(platform: str, cpuinfo: str, capability: str | None = None) -> Precision:
    """The precision for a platform of JAX, on a CPU with these flags, or a GPU of this compute
    capability: those of NVIDIA have bfloat16 since 8.0."""
    if platform == "cpu":
        return "float32" if NATIVE.isdisjoint(cpuinfo.split()) else "bfloat16"
    is_old = capability is not None and int(capability.partition(".")[0]) < 8
    return "float32" if is_old else "bfloat16"


def dot_general(x: Tensor, kernel: Tensor, dimensions: Any, **_: Any) -> Tensor:
    """x [..., k] @ kernel [k, n] in bfloat16, for `flax.linen.Dense(dot_general=...)`."""
    rows = x.reshape(-1, x.shape[-1])
    return product(rows, kernel).reshape(*x.shape[:-1], kernel.shape[-1])


@jax.custom_vjp
def product(x: Tensor, kernel: Tensor) -> jax.Array:
    """x [m, k] @ kernel [k, n] in bfloat16, summed in float32, and its gradients, too."""
    return _forward(x, kernel)[0]


def _forward(x: Tensor, kernel: Tensor) -> tuple[jax.Array, tuple[Tensor, Tensor]]:
    x, kernel = x.astype(jnp.bfloat16), kernel.astype(jnp.bfloat16)
    return _sums(x, kernel, 1, 0), (x, kernel)


def _backward(operands: tuple[Tensor, Tensor], gradient: Tensor) -> tuple[Tensor, Tensor]:
    (x, kernel), gradient = operands, gradient.astype(jnp.bfloat16)
    return _sums(gradient, kernel, 1, 1), _sums_over_rows(x, gradient)


product.defvjp(_forward, _backward)


def _sums(a: Tensor, b: Tensor, a_axis: int, b_axis: int) -> jax.Array:
    axes = (((a_axis,), (b_axis,)), ((), ()))
    return jax.lax.dot_general(a, b, axes, preferred_element_type=jnp.float32)


BLOCK = 16


def _sums_over_rows(x: Tensor, gradient: Tensor) -> jax.Array:
    """x.T @ gradient.

    XLA's bfloat16 products cannot read a transposed left side: it would use float32 instead. So
    the transpose is made first, as one of three axes, which XLA cannot fold into the product.
    Batches without whole blocks, which are small, are float32.
    """
    rows, columns = x.shape
    if rows % BLOCK or rows == BLOCK or columns == 1:
        return _sums(x.astype(jnp.float32), gradient.astype(jnp.float32), 0, 0)
    transposed = x.reshape(rows // BLOCK, BLOCK, columns).transpose(2, 0, 1).reshape(columns, rows)
    return _sums(transposed, gradient, 1, 0)
