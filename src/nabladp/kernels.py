"""Loops over rows or cells, compiled when they are first needed: importing nabladp must not load the compiler."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any


@cache
def compiled(kernel: Callable[..., Any]) -> Callable[..., Any]:
    """Compiled when first used, and kept on disk where there is a place for it."""
    from numba import njit

    try:
        return njit(cache=True, nogil=True)(kernel)
    except RuntimeError:  # no folder to write to
        return njit(nogil=True)(kernel)
