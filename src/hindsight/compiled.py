"""Functions compiled by Numba: kept on disk between processes where there is a place for that,
else compiled anew."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from numba import njit

Function = TypeVar("Function", bound=Callable[..., Any])


def compiled(function: Function) -> Function:
    """Compile a function when it is first called. Without a writable package or home directory,
    as in a read-only container, Numba refuses to keep what it compiles: then it is not kept. (A
    place that others can write to would not do: what is kept there is unpickled.)"""
    result: Any
    try:
        result = njit(cache=True)(function)
    except RuntimeError:  # no locator available
        result = njit(function)
    found: Function = result
    return found
