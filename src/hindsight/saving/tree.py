"""States: nested dicts of arrays and plain JSON values, which is all that a checkpoint can hold.

Whatever training changes has `export_state() -> State`, with arrays of its own, and
`restore_state(state)`, which refuses what does not fit.
"""

from __future__ import annotations

from typing import Any, Protocol, TypeVar

import numpy as np

from hindsight.errors import HindsightError
from hindsight.types import Array

State = dict[str, Any]
"""Nested dicts with text keys; the leaves are NumPy arrays, or values that JSON has."""
Tree = TypeVar("Tree")


class Saveable(Protocol):
    """What a checkpoint can hold."""

    def export_state(self) -> State: ...

    def restore_state(self, state: State) -> None: ...


class Learning(Saveable, Protocol):
    """All that a training changes. Between two cycles, all that the rest of it depends on."""

    cycle: int
    """Of the last collection that was stored: while a cycle is under way, it is ahead of what
    the training showed."""
    step: int
    """Env steps so far."""


def split(state: State, prefix: str = "") -> tuple[dict[str, Array], State]:
    """The arrays of a state by their path (`replay/storage/length`), and the state without them."""
    tensors: dict[str, Array] = {}
    values: State = {}
    for key, value in state.items():
        if isinstance(value, np.ndarray):
            tensors[prefix + key] = value
        elif isinstance(value, dict):
            inner, values[key] = split(value, f"{prefix}{key}/")
            tensors |= inner
        else:
            values[key] = value
    return tensors, values


def join(tensors: dict[str, Array], values: State) -> State:
    """The state that `split` took apart; `values` becomes part of it."""
    for path, tensor in tensors.items():
        *parents, name = path.split("/")
        inner = values
        for parent in parents:
            inner = inner.setdefault(parent, {})
            if not isinstance(inner, dict):
                raise HindsightError(f"the tensor {path!r} stands where a value is")
        inner[name] = tensor
    return values


def storable(value: Any, name: str) -> Any:
    """A state as a checkpoint can hold it: numbers of NumPy as plain ones, tuples as lists.
    Raises HindsightError that names what it cannot hold."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, np.ndarray) and value.dtype.kind in "biuf":
        return value
    if isinstance(value, dict):
        wrong = [key for key in value if not isinstance(key, str) or "/" in key]
        if wrong:
            raise HindsightError(f"{name} has the key {wrong[0]!r}: keys must be text without /")
        return {key: storable(inner, f"{name}.{key}") for key, inner in value.items()}
    if isinstance(value, list | tuple):
        if any(isinstance(inner, np.ndarray) for inner in value):
            raise HindsightError(
                f"{name} is a list of arrays: put them into a dict, or make them one array"
            )
        return [storable(inner, name) for inner in value]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    kind = f"array of {value.dtype}" if isinstance(value, np.ndarray) else type(value).__name__
    raise HindsightError(
        f"{name} is of type {kind}: only arrays of numbers and JSON values can be saved"
    )


def export_pytree(tree: Any) -> State:
    """The leaves of a JAX tree (parameters, optimiser states) as copies, by the names in it."""
    import jax

    leaves = {
        jax.tree_util.keystr(path, simple=True, separator="/"): np.array(leaf)
        for path, leaf in jax.tree.leaves_with_path(tree)
    }
    return join(leaves, {})


def restore_pytree(like: Tree, state: State) -> Tree:
    """A tree of the structure, shapes and types of `like`, with the leaves of the state as NumPy
    arrays."""
    import jax

    tensors, _ = split(state)
    paths, structure = jax.tree.flatten_with_path(like)
    expected = {
        jax.tree_util.keystr(path, simple=True, separator="/"): leaf for path, leaf in paths
    }
    if set(tensors) != set(expected):
        different = sorted(set(tensors) ^ set(expected))
        raise HindsightError(
            f"the parameters are not those of this learner: {different[0]!r} is on one side only"
        )
    leaves = [
        fitting(tensors[name], name, leaf.shape, leaf.dtype) for name, leaf in expected.items()
    ]
    tree: Tree = jax.tree.unflatten(structure, leaves)
    return tree


def export_generator(rng: np.random.Generator) -> State:
    """The state of a generator: integers, as JSON has them in any size."""
    state: State = dict(rng.bit_generator.state)
    return state


def restore_generator(rng: np.random.Generator, state: State) -> None:
    try:
        rng.bit_generator.state = state
    except (ValueError, TypeError, KeyError, OverflowError) as error:
        raise HindsightError(f"not the state of a random generator: {error}") from None


def fitting(value: Any, name: str, shape: tuple[int, ...], dtype: Any) -> Array:
    """The array, if it has this shape and type; else an error that names it."""
    if not isinstance(value, np.ndarray) or value.shape != tuple(shape) or value.dtype != dtype:
        found = (
            f"{value.dtype} {list(value.shape)}"
            if isinstance(value, np.ndarray)
            else type(value).__name__
        )
        raise HindsightError(f"{name} must be {np.dtype(dtype)} {list(shape)}, got {found}")
    return value


def between(value: Any, name: str, low: int, high: int) -> int:
    """The whole number, if it lies in low..high; else an error that names it."""
    if type(value) is not int or not low <= value <= high:
        raise HindsightError(f"{name} must be a whole number from {low} to {high}, got {value!r}")
    return value


def all_between(values: Array, name: str, low: int, high: int) -> Array:
    """The array, if all its numbers lie in low..high; else an error that names it."""
    if values.size and (values.min() < low or values.max() > high):
        raise HindsightError(
            f"{name} must lie between {low} and {high}, got {values.min()} to {values.max()}"
        )
    return values
