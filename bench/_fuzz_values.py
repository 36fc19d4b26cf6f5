"""Inputs for the fuzzer: values of every wrong kind, and small changes of right ones."""

from __future__ import annotations

import datetime
import math
import random
from collections.abc import Callable, Mapping
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

CANARY_TEXT = "zq7canaryzq7"
CANARY_NUMBER = 918273645546372819
CANARIES = (CANARY_TEXT, str(CANARY_NUMBER))


def _nested(depth: int, maker: Callable[[Any], Any]) -> Any:
    value: Any = 0
    for _ in range(depth):
        value = maker(value)
    return value


def _cyclic() -> list[Any]:
    value: list[Any] = [1]
    value.append(value)
    return value


NUMBERS: tuple[Any, ...] = (
    *(0, 1, -1, 2, 3, 7, 10, 64, 1000, 2**31, 2**32, 2**36, 2**53, 2**62, 2**63, 2**64, -(2**63), 10**30, 10**400),
    *(0.0, -0.0, 0.5, 1.0, 0.05, -0.5, 1.5, 1e-6, 1e-300, 5e-324, 1e15, 1e100, 1e300, 1.7e308),
    *(math.nan, math.inf, -math.inf, Fraction(1, 3), Fraction(1, 10**40), Decimal("0.1"), Decimal("NaN")),
    *(Decimal("Infinity"), Decimal("sNaN"), Decimal("1e-999999"), np.float64(0.25), np.float64("nan"), np.int64(3)),
    *(np.uint64(2**64 - 1), np.float32(0.5), np.bool_(True), True, False, 1j),
)
TEXTS: tuple[str, ...] = (
    *("", " ", "a", "age", "sick", "income", "region", "band", "unused", "age+sick", "+", "a+b", "cdp", "pure", "auto"),
    *(
        "\0",
        "a\0b",
        "\n",
        "\ud800",
        "é",
        "ｅ",
        "😀",
        "‮abc",
        "$x$",
        "<script>",
        "'",
        '"',
        "{}",
        "[red]",
        "%s",
        "../../x",
    ),
    *("/dev/zero", "/", ".", "~", "1", "0.5", "nan", "null", "select 1", "postgresql://u:p@h/d", "file:///x", "*.csv"),
    *("x" * 300, "y" * 100_000, "FILL IN", "(null)", "true"),
)
OTHERS: tuple[Callable[[], Any], ...] = (
    *(lambda: None, object, lambda: object, lambda: len, lambda: ..., lambda: NotImplemented, lambda: b"", list, dict),
    *(lambda: b"\xff\0", lambda: bytearray(b"a"), tuple, set, frozenset, lambda: {1, 2}, lambda: {"a"}, lambda: [[]]),
    *(lambda: [None], lambda: ["age", "age"], lambda: [["age"], ["sick"]], lambda: [1, 2], lambda: {"a": 1}),
    *(lambda: {None: None}, lambda: {1: 2}, lambda: {"age": 0.5}, lambda: {("a", "b"): 1}, lambda: range(3)),
    *(lambda: range(10**15), lambda: (i for i in "abc"), lambda: iter([1]), lambda: Path("a"), lambda: Path("\0")),
    *(lambda: datetime.date(2026, 1, 1), lambda: datetime.datetime.max, lambda: np.array([1, 2]), lambda: np.zeros(0)),
    *(lambda: np.array([[1.5, 2], [3, 4]]), lambda: np.array("a"), lambda: np.array([None, "a"], dtype=object)),
    *(lambda: np.array([2**62] * 3), lambda: np.zeros((2, 0, 3), np.int64), lambda: np.array([np.nan, 1.0])),
    *(lambda: _nested(3000, lambda v: [v]), lambda: _nested(3000, lambda v: {"a": v}), _cyclic, lambda: [0] * 5000),
    *(lambda: memoryview(b"ab"), lambda: {"cdp": 0.5}, lambda: {"rho": 1, "cdp": 1}, lambda: Exception("x")),
    *(lambda: {"pure": 1.0}, lambda: {"cdp": 1e-300}, lambda: {"cdp": 10**400}, lambda: {"epsilon": 1, "delta": 1e-6}),
)


def odd(rng: random.Random) -> Any:
    """A value of some kind, most likely a wrong one."""
    pick = rng.random()
    if pick < 0.3:
        return rng.choice(NUMBERS)
    return rng.choice(TEXTS) if pick < 0.55 else rng.choice(OTHERS)()


def mutated(rng: random.Random, value: Any, depth: int = 0) -> Any:
    """A right value with something changed: itself, or one of its parts."""
    inside = rng.random() < 0.75 and depth < 6
    if inside and isinstance(value, Mapping) and value:
        return _mutated_mapping(rng, value, depth)
    if inside and isinstance(value, (list, tuple)) and value:
        return _mutated_list(rng, value, depth)
    if isinstance(value, str) and rng.random() < 0.4:
        return mutated_text(rng, value)
    if isinstance(value, (int, float)) and not isinstance(value, bool) and rng.random() < 0.4:
        return rng.choice((-value, value * 10**9, value + 1, value - 1, float(value) if abs(value) < 1e300 else 0))
    return odd(rng)


def _mutated_mapping(rng: random.Random, value: Mapping[Any, Any], depth: int) -> dict[Any, Any]:
    changed, key, pick = dict(value), rng.choice(list(value)), rng.random()
    if pick < 0.15:
        del changed[key]
    elif pick < 0.25:
        changed[mutated_text(rng, key) if isinstance(key, str) else 0] = changed.pop(key)
    elif pick < 0.3:
        changed[rng.choice(TEXTS)] = odd(rng)
    else:
        changed[key] = mutated(rng, value[key], depth + 1)
    return changed


def _mutated_list(rng: random.Random, value: list[Any] | tuple[Any, ...], depth: int) -> Any:
    changed, place, pick = list(value), rng.randrange(len(value)), rng.random()
    if pick < 0.1:
        del changed[place]
    elif pick < 0.2:
        changed.append(changed[place])
    elif pick < 0.25:
        changed.reverse()
    else:
        changed[place] = mutated(rng, changed[place], depth + 1)
    return changed if rng.random() < 0.1 else type(value)(changed)


def mutated_text(rng: random.Random, text: str) -> str:
    """A few characters changed, cut, doubled or put in."""
    for _ in range(rng.choice((1, 1, 1, 2, 5))):
        start = rng.randrange(len(text) + 1)
        end = min(len(text), start + rng.choice((0, 1, 1, 2, 8, 64)))
        put = rng.choice(("", "", text[start:end] * 2, chr(rng.randrange(1, 0x3000)), *_PIECES))
        text = text[:start] + put + text[end:]
    return text


_PIECES = (
    '"',
    "'",
    "[",
    "]",
    "{",
    "}",
    "=",
    "\n",
    "\0",
    ",",
    "[[",
    "1e999",
    "-",
    "nan",
    "inf",
    "true",
    "9" * 30,
    "é",
    "\\",
)


def mutated_bytes(rng: random.Random, content: bytes) -> bytes:
    """Bytes flipped, cut off, doubled or overwritten."""
    changed = bytearray(content)
    for _ in range(rng.choice((1, 1, 2, 8))):
        if not changed:
            break
        start, pick = rng.randrange(len(changed)), rng.random()
        if pick < 0.5:
            changed[start] = rng.randrange(256)
        elif pick < 0.6:
            del changed[start:]
        elif pick < 0.7:
            del changed[start : start + rng.randrange(1, 40)]
        elif pick < 0.85:
            changed[start:start] = rng.randbytes(rng.randrange(1, 20))
        else:
            length = rng.choice((1, 2, 4, 8))
            changed[start : start + length] = rng.choice((b"\xff", b"\0", b"\x7f")) * length
    return bytes(changed)


def deep_json(rng: random.Random) -> str:
    """Text that only a program would write."""
    depth = rng.choice((900, 900, 20_000, 200_000))
    return rng.choice(
        ("[" * depth, "[" * depth + "]" * depth, '{"a":' * depth + "1" + "}" * depth, "9" * 6000, "1" * depth)
    )


def deep_toml(rng: random.Random) -> str:
    depth = rng.choice((900, 900, 900, 5000, 50_000))
    return rng.choice(
        (
            "a = " + "[" * depth + "]" * depth,
            "a = " + "{b=" * depth + "1" + "}" * depth,
            "a." * depth + "b = 1",
            "[" + "a." * min(depth, 20_000) + "b]",
            "a = " + "9" * depth,
            "[[attribute]]\n" * depth,
            f'a = "{"x" * depth}"',
        )
    )
