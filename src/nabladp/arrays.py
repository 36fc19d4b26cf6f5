"""Names for the array types that signatures use everywhere, and the compiler of loops over arrays."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


@cache
def compile_loop(kernel: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a loop over array rows or cells when it is first used (importing nabladp must not load the compiler),
    cached on disk where a folder can be written."""
    from numba import njit

    try:
        return njit(cache=True, nogil=True)(kernel)
    except RuntimeError:  # no folder to write to
        return njit(nogil=True)(kernel)
