"""Numbers and names as people read them."""

from __future__ import annotations

import math
from collections.abc import Sequence

from nabladp.privacy.units import format_rounded

MOST_NAMED = 6
MOST_DIGITS = 6  # of a percentage


def one_in(delta: float) -> str:
    """1e-6 as "1 in 1,000,000"."""
    return f"1 in {math.floor(float(f'{1 / delta:.12g}')):,}"


def power_of_ten(delta: float) -> str:
    """1e-6 as 10⁻⁶."""
    digits, _, exponent = f"{delta:e}".partition("e-")
    if float(digits) != 1 or not exponent:
        return f"{delta:g}"
    return "10⁻" + "".join("⁰¹²³⁴⁵⁶⁷⁸⁹"[int(digit)] for digit in str(int(exponent)))


def quote_name(name: str) -> str:
    """A name in a sentence; marks keep the direction of its writing from turning the rest around."""
    return f"“{name}”" if name.isascii() else f"“\u2068{name}\u2069”"


def list_names(names: Sequence[str], most: int = MOST_NAMED) -> str:
    """``“a”, “b” and “c”``; of very many the first few and how many there are besides."""
    quoted = [quote_name(name) for name in names[:most]]
    if len(names) > most:
        return f"{', '.join(quoted)} and {len(names) - most:,} more"
    return " and ".join(([", ".join(quoted[:-1])] if len(quoted) > 1 else []) + quoted[-1:])


def format_percent_up(share: float) -> str:
    """A share, rounded up: one digit, or as many as tell it from certainty."""
    for digits in range(1, MOST_DIGITS + 1):
        percent = math.ceil(share * 10 ** (digits + 2)) / 10**digits
        if percent < 100:
            return f"{percent:.{digits}f}%"
    return "100.0%"


def round_up(bound: float) -> str:
    return format_rounded(bound, 4, up=True)
