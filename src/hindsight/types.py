"""Names for arrays. Shapes are given in docstrings as [N, T, ...]."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Floats = NDArray[np.float32]
Floats64 = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
Tensor = Any
"""A NumPy array outside of a jitted function, a JAX array inside."""
