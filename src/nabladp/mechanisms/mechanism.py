"""What every mechanism offers, and what it is given."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from nabladp.errors import MechanismError
from nabladp.noise import NoiseSource
from nabladp.privacy.guarantee import Guarantee
from nabladp.schema import Schema

if TYPE_CHECKING:
    import pyarrow as pa

    from nabladp.tables import Counts

Records = list[tuple[dict[str, int], dict[str, int]]]


@dataclass(frozen=True)
class Law:
    """The exact output law on a tiny instance: independent parts, each as log-probabilities over its outcomes.

    A part whose outcome decides what comes next is a :class:`Branch`. Two laws of one mechanism and the same number of
    rows list the same outcomes in the same order. Parts with endless support are cut where no order up to
    ``largest_order`` could notice; it is never larger than that of a law that follows.
    """

    parts: tuple[NDArray[np.float64] | Branch, ...]
    largest_order: float = math.inf

    def __post_init__(self) -> None:
        following = [law.largest_order for part in self.parts if isinstance(part, Branch) for law in part.then]
        object.__setattr__(self, "largest_order", min(self.largest_order, *following, math.inf))


@dataclass(frozen=True, eq=False)
class Branch:
    """A step whose outcome decides what comes next: outcome i is followed by ``then[which[i]]``.

    Two laws of one mechanism list the same outcomes, the same ``which`` and as many ``then``. What follows an outcome
    that is impossible on either side is never looked at.
    """

    outcomes: NDArray[np.float64]  # log-probabilities
    which: NDArray[np.int64]  # for each outcome, which law follows
    then: tuple[Law, ...]

    def __post_init__(self) -> None:
        if self.outcomes.ndim != 1 or self.which.shape != self.outcomes.shape or self.which.dtype.kind not in "iu":
            raise MechanismError("A branch says for each outcome which law follows.", fix="Give one number for each.")
        if self.which.size and not 0 <= self.which.min() <= self.which.max() < len(self.then):
            raise MechanismError("A branch names a law that it does not hold.", fix="Count its laws from 0.")


class Output(Protocol):
    """What a mechanism returns; all of it may be published.

    ``to_arrow`` has a row for each value: what names it, the value, and where known its interval, ``low`` and ``high``.

    It may also offer ``extra_tables(schema)``: further tables by name, a plain lowercase word each, such as
    "synthetic". Each is published as a Parquet file of that name beside the values. And it may offer ``truth(counts)``:
    an output with the same rows, counted without noise, for whoever owns the table to compare with.
    """

    def to_json(self) -> dict[str, Any]: ...
    def to_arrow(self, schema: Schema) -> pa.Table: ...
    @classmethod
    def from_json(cls, data: Mapping[str, Any], schema: Schema) -> Output: ...


class Mechanism(Protocol):
    """A frozen dataclass of parameters.

    ``plans_for_rows`` = True says that its claim for a known number of rows may be far below that for any number. One
    that tells rows apart by their places offers ``needs_row_order(schema, n)``; a table that has none is then refused
    before anything is spent.
    """

    @classmethod
    def from_plan(cls, options: Mapping[str, Any]) -> Mechanism:
        """From a ``[[release]]`` of a plan file; refuses unknown options."""

    @classmethod
    def read_output(cls, data: Mapping[str, Any], schema: Schema) -> Output:
        """The output of a stored release."""

    def to_json(self) -> dict[str, Any]:
        """The parameters, in the form of a plan file."""

    def reads(self, schema: Schema) -> tuple[str, ...]:
        """The columns it reads."""

    def guarantee(self, schema: Schema, n: int) -> Guarantee:
        """A bound for every set of attributes. No data, no randomness. n = 0: a bound for any number of rows."""

    def expected_error(self, schema: Schema, n: int) -> Any:
        """What to expect before anything is spent: a tuple of errors, one for each marginal, or one object.

        Each has ``to_json``. That of one object holds a "summary" for people, labels with a text or a number each,
        beside whatever is for machines. ``cells`` of each, where there is one, says how much will be written.
        """

    def run(self, counts: Counts, noise: NoiseSource) -> Output:
        """May ask counts many times; sees no row."""

    def distribution(self, counts: Counts) -> Law:
        """The exact output law, for tiny domains."""

    def hard_pairs(self, attributes: Sequence[str]) -> Records:
        """Pairs of records (codes by attribute, 0 where unnamed) differing on these attributes, hardest to hide."""
