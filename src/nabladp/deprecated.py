"""Former names that still work, and warn. docs/stability.md says for how long."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any, TypeVar, cast

Called = TypeVar("Called", bound=Callable[..., Any])


def renamed(**names: str) -> Callable[[Called], Called]:
    """Let a function also take arguments by their former names: ``@renamed(features="on")``."""

    def wrap(function: Called) -> Called:
        @functools.wraps(function)
        def called(*args: Any, **given: Any) -> Any:
            for former in names.keys() & given.keys():
                now = names[former]
                if now in given:
                    raise TypeError(f"{function.__name__}() got {now!r} twice, once by its former name {former!r}")
                warnings.warn(f"{former!r} is now called {now!r}.", DeprecationWarning, stacklevel=2)
                given[now] = given.pop(former)
            return function(*args, **given)

        return cast(Called, called)

    return wrap
