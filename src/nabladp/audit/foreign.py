"""An audit takes any object with ``guarantee`` and ``run``, also one that knows nothing of nabladp."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

from nabladp.mechanisms import Law, Mechanism, Output, Records
from nabladp.noise import NoiseSource
from nabladp.privacy import Guarantee
from nabladp.schema import Schema
from nabladp.tables import Counts


def as_mechanism(given: Any) -> Mechanism:
    return given if isinstance(given, Mechanism) else ForeignMechanism(given)


class ForeignMechanism(Mechanism):
    """Somebody's object under audit. What it does not offer has the default of every mechanism; these probes are the
    only way to know, as the object declares nothing."""

    def __init__(self, given: Any) -> None:
        self.given = given

    def guarantee(self, schema: Schema, n: int) -> Guarantee:
        claim: Guarantee = self.given.guarantee(schema, n)
        return claim

    def expected_error(self, schema: Schema, n: int) -> Any:
        return None

    def run(self, counts: Counts, noise: NoiseSource) -> Any:
        return self.given.run(counts, noise)

    def reads(self, schema: Schema) -> tuple[str, ...]:
        return tuple(self.given.reads(schema)) if hasattr(self.given, "reads") else schema.names

    def distribution(self, counts: Counts) -> Law:
        if not hasattr(self.given, "distribution"):
            return super().distribution(counts)
        law: Law = self.given.distribution(counts)
        return law

    def hard_pairs(self, attributes: Sequence[str]) -> Records:
        pairs: Records = (
            self.given.hard_pairs(attributes) if hasattr(self.given, "hard_pairs") else super().hard_pairs(attributes)
        )
        return pairs

    @classmethod
    def from_plan(cls, options: Mapping[str, Any]) -> Self:
        raise NotImplementedError

    def to_json(self) -> dict[str, Any]:
        return {}

    @classmethod
    def read_output(cls, data: Mapping[str, Any], schema: Schema) -> Output:
        raise NotImplementedError
