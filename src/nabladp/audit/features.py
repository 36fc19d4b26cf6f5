"""Any output of a mechanism as a row of numbers, and as one symbol.

What is published is looked at: ``to_json()``. A number at a path that every output has becomes a column. Of lists
whose length varies, entries become columns by what they say instead of by where they stand: is this combination listed,
and with which numbers beside it. The symbol is a hash of everything; outputs are equal where theirs are.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from nabladp.arrays import Floats
from nabladp.mechanisms import Output

Features = Callable[[Any], Any]
_MOST_COLUMNS = 2048
_MOST_KEYS = 256  # entries of lists that vary


@dataclass
class Flat:
    """One output: numbers by their path, arrays by theirs."""

    numbers: dict[str, float] = field(default_factory=dict)
    arrays: dict[str, Floats] = field(default_factory=dict)

    @classmethod
    def of(cls, output: Any) -> Flat:
        result = cls()
        result._take("", published(output))
        return result

    def _take(self, path: str, value: Any) -> None:
        if isinstance(value, Mapping):
            for name, part in value.items():
                self._take(f"{path}/{name}", part)
        elif value is None or isinstance(value, str):
            self.numbers[f"{path}={value}"] = 1.0
        elif isinstance(value, bool | int | float | np.number | np.bool_):
            self.numbers[path] = float(value)
        else:
            self._take_list(path, value)

    def _take_list(self, path: str, value: Any) -> None:
        array = _as_numbers(value)
        if array is not None:
            self.arrays[path] = array
        elif isinstance(value, Iterable):
            for i, part in enumerate(value):
                self._take(f"{path}/{i}", published(part))
        else:
            self.numbers[f"{path}={value!r}"] = 1.0

    def symbol(self) -> int:
        digest = hashlib.blake2b(repr(sorted(self.numbers.items())).encode(), digest_size=8)
        for path, array in self.arrays.items():
            digest.update(f"{path}{array.shape}".encode())
            digest.update(array.tobytes())
        return int.from_bytes(digest.digest(), "little", signed=True)

    def entries(self, paths: Iterable[str]) -> dict[str, float]:
        """The entries of lists in an output: each entry, or each row of a table with the numbers beside it."""
        results: dict[str, float] = {}
        wanted = {path: self.arrays[path] for path in paths if path in self.arrays}
        for path, array in wanted.items():
            results[f"{path}#"] = float(len(array))
            keys = [f"{path}:{key}" for key in array.tolist()]
            for key in keys:
                results[key] = results.get(key, 0.0) + 1.0
            if array.ndim == 2:
                for name, beside in wanted.items():
                    if beside.ndim == 1 and len(beside) == len(array) and _parent(name) == _parent(path):
                        results.update(zip((f"{key}{name}" for key in keys), beside.tolist(), strict=True))
        return results


def published(output: Any) -> Any:
    """The published form of an output: ``to_json()`` where there is one, the fields of a dataclass, or the thing
    itself."""
    if isinstance(output, Output):
        return output.to_json()
    if dataclasses.is_dataclass(output) and not isinstance(output, type):
        return {f.name: published(getattr(output, f.name)) for f in dataclasses.fields(output)}
    return output


def _as_numbers(value: Any) -> Floats | None:
    """Part of an output as an array of one or two axes (tables of rows); None for anything else, which goes entry by
    entry."""
    if not isinstance(value, list | tuple | np.ndarray):
        return None
    try:
        array = np.asarray(value)
    except (ValueError, TypeError):
        return None
    if array.dtype.kind not in "biuf" or array.ndim == 0:
        return None
    return np.ascontiguousarray(array if array.ndim <= 2 else array.reshape(-1), dtype=np.float64)


def _parent(path: str) -> str:
    return path.rpartition("/")[0]


@dataclass(frozen=True)
class Layout:
    """Which columns an output is turned into, fixed after a few outputs. What comes up later counts as "new"."""

    numbers: tuple[str, ...]
    arrays: tuple[tuple[str, tuple[int, ...]], ...]  # the same shape in every output
    varying: tuple[str, ...]
    keys: tuple[str, ...]
    features: Features | None = None

    @classmethod
    def fit(cls, outputs: Sequence[Any], features: Features | None = None) -> Layout:
        flats = [Flat.of(output if features is None else features(output)) for output in outputs]
        shapes: dict[str, set[tuple[int, ...] | None]] = {}
        for path in dict.fromkeys(path for flat in flats for path in flat.arrays):
            shapes[path] = {flat.arrays[path].shape if path in flat.arrays else None for flat in flats}
        fixed = [path for path, result in shapes.items() if len(result) == 1 and _vary(flats, path)]
        varying = tuple(path for path, result in shapes.items() if len(result) > 1)
        numbers = dict.fromkeys(name for flat in flats for name in flat.numbers)
        moving = [name for name in numbers if len({flat.numbers.get(name) for flat in flats}) > 1]
        counted: Counter[str] = Counter()
        for flat in flats:
            counted.update(flat.entries(varying).keys())
        keys = tuple(key for key, _ in counted.most_common(_MOST_KEYS))
        arrays = tuple((path, flats[0].arrays[path].shape) for path in fixed)
        return cls(tuple(moving[:_MOST_COLUMNS]), arrays, varying, keys, features)

    def row(self, output: Any) -> tuple[Floats, int]:
        """One output as a row of feature columns, and its symbol. The caller replaces non-finite values."""
        flat = Flat.of(output if self.features is None else self.features(output))
        parts, new = [], 0
        for path, shape in self.arrays:
            array = flat.arrays.get(path)
            if array is None or array.shape != shape:
                array, new = np.zeros(shape), new + 1
            parts.append(array.ravel())
        singles = [flat.numbers.get(name, 0.0) for name in self.numbers]
        if self.varying:
            entries = flat.entries(self.varying)
            singles += [entries.get(key, 0.0) for key in self.keys]
            new += len(entries.keys() - set(self.keys))
        joined = np.concatenate([*parts, singles, [float(new)]])
        return joined[:_MOST_COLUMNS], flat.symbol()


def _vary(flats: Sequence[Flat], path: str) -> bool:
    first = flats[0].arrays[path]
    return any(not np.array_equal(flat.arrays[path], first) for flat in flats)
