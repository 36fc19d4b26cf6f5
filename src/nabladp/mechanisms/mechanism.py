"""What every mechanism offers, and what it is given."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

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

    Two laws of one mechanism and the same number of rows list the same outcomes in the same order. Parts with endless
    support are cut where no order up to ``largest_order`` could notice.
    """

    parts: tuple[NDArray[np.float64], ...]
    largest_order: float = math.inf


class Output(Protocol):
    """What a mechanism returns; all of it may be published."""

    def to_json(self) -> dict[str, Any]: ...
    def to_arrow(self, schema: Schema) -> pa.Table: ...
    @classmethod
    def from_json(cls, data: Mapping[str, Any], schema: Schema) -> Output: ...


class Mechanism(Protocol):
    """A frozen dataclass of parameters."""

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
        """What to expect before anything is spent."""

    def run(self, counts: Counts, noise: NoiseSource) -> Output:
        """May ask counts many times; sees no row."""

    def distribution(self, counts: Counts) -> Law:
        """The exact output law, for tiny domains."""

    def hard_pairs(self, attributes: Sequence[str]) -> Records:
        """Pairs of records (codes by attribute, 0 where unnamed) differing on these attributes, hardest to hide."""
