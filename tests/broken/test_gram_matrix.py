"""Planted faults: each a small realistic slip in GramMatrix. The exact audit must refute every one."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from nabladp.audit import exact_audit
from nabladp.mechanisms import Law
from nabladp.mechanisms.gram_matrix import GramMatrix, SignedColumns
from nabladp.mechanisms.gram_matrix.calibration import Calibration, Squares, Star, calibrate
from nabladp.mechanisms.gram_matrix.signed_columns import Block, Disagreements
from nabladp.noise import gaussian_log_pmf
from nabladp.privacy import Guarantee, Rho
from nabladp.privacy.universe import Universe
from nabladp.schema import Attribute, Schema
from nabladp.tables import Counts

MIXED = Schema(
    (Attribute("a", "boolean"), Attribute("b", "ordered", values=("x", "y", "z")), Attribute("c", "boolean"))
)
ORDER = 24.0


class NoiseTooSmall(GramMatrix):
    """30% below what was claimed."""

    def distribution(self, counts: Counts) -> Law:
        found = self.calibration(counts.schema)
        weak = GramMatrix(self.budget, self.over, self.encode, self.label, self.budgets)
        small = dataclasses.replace(found, class_scales=0.7 * found.class_scales)
        object.__setattr__(weak, "_known", (counts.schema, small))
        return weak.distribution(counts)


class BothHalves(GramMatrix):
    """Above and below the diagonal fresh noise each, charged as one half."""

    def distribution(self, counts: Counts) -> Law:
        law = super().distribution(counts)
        return Law(law.parts + law.parts, law.largest_order)


class NoiseForCountsOnProducts(GramMatrix):
    """The noise meant for counts of disagreements lands on products, which move by two."""

    def distribution(self, counts: Counts) -> Law:
        found = self.calibration(counts.schema)
        held = counts.fold(Disagreements(found.columns)).tolist()
        window = 400
        return Law(
            tuple(
                gaussian_log_pmf(scale, -window + 2 * count, window + 2 * count)
                for scale, count in zip(found.scales.tolist(), held, strict=True)
            ),
            ORDER,
        )


class MeansWithoutNoise(GramMatrix):
    """The intercept is public, so its products are taken for public, too."""

    def distribution(self, counts: Counts) -> Law:
        found = self.calibration(counts.schema)
        held = counts.fold(Disagreements(found.columns))
        sure = [
            np.where(np.arange(counts.n + 1) == count, 0.0, -np.inf)
            for count in held[: found.columns.width - 1].tolist()
        ]
        return Law((*sure, *super().distribution(counts).parts[len(sure) :]), ORDER)


class WrongFlips(GramMatrix):
    """The number of columns that flip together is taken for one."""

    flips = 1

    def calibration(self, schema: Schema) -> Calibration:
        class Wrong(Block):
            flips = self.flips  # type: ignore[assignment]

        right = SignedColumns.of(schema, self._names(schema), self.encode).blocks
        blocks = tuple(Wrong(b.attribute, b.encoding, b.names, b.positive) for b in right)
        return calibrate(SignedColumns(blocks), Universe.of(schema), self.budget, self.budgets, self.label)


class ThermometerLikeOneHot(WrongFlips):
    flips = 2


class OneColumnForAnySet(GramMatrix):
    """√(P − 1) for one column, claimed for two as well."""

    def guarantee(self, schema: Schema, n: int) -> Guarantee:
        own = super().guarantee(schema, n).per_attribute()
        return Guarantee.touch(schema, {name: Rho(figure.rho) for name, figure in own.items()})


class FirstLayerOnly(GramMatrix):
    """What is bought beyond the first layer is not charged."""

    def guarantee(self, schema: Schema, n: int) -> Guarantee:
        found = self.calibration(schema)
        return dataclasses.replace(found, parts=found.parts[:1]).guarantee()


class StarNotCharged(GramMatrix):
    """The label's own pairs are better than the rest, and nobody pays for that."""

    def guarantee(self, schema: Schema, n: int) -> Guarantee:
        found = self.calibration(schema)
        kept = tuple(part for part in found.parts if not isinstance(part, Star))
        return dataclasses.replace(found, parts=kept).guarantee()


class StarPaidByTheLabelAlone(GramMatrix):
    """Features are in the label's pairs, too."""

    def guarantee(self, schema: Schema, n: int) -> Guarantee:
        found = self.calibration(schema)
        parts = [
            dataclasses.replace(part, held={self.label: part.reach}) if isinstance(part, Star) else part
            for part in found.parts
        ]
        return dataclasses.replace(found, parts=tuple(parts)).guarantee()


class ShorterMatrix(GramMatrix):
    """The intercept is not counted among the columns."""

    def guarantee(self, schema: Schema, n: int) -> Guarantee:
        found = self.calibration(schema)
        parts = tuple(dataclasses.replace(part, width=part.width - 1) for part in found.parts)  # type: ignore[type-var]
        return dataclasses.replace(found, parts=parts).guarantee()


class SquaresNotCharged(GramMatrix):
    """The sums of squares of numbers get noise, and nobody pays for it."""

    def guarantee(self, schema: Schema, n: int) -> Guarantee:
        found = self.calibration(schema)
        kept = tuple(part for part in found.parts if not isinstance(part, Squares))
        return dataclasses.replace(found, parts=kept).guarantee()


class SquaresWithoutNoise(GramMatrix):
    """The diagonal of a Gram matrix is n for ±1 columns; that of numbers is taken for public, too."""

    def calibration(self, schema: Schema) -> Calibration:
        found = super().calibration(schema)
        return dataclasses.replace(found, square_scales=np.zeros_like(found.square_scales))


class NumbersLikeSigns(GramMatrix):
    """A sum of products in whole steps gets the noise of a count of disagreements."""

    def calibration(self, schema: Schema) -> Calibration:
        found = super().calibration(schema)
        smallest = found.class_scales[found.class_counts].min()
        return dataclasses.replace(found, class_scales=np.full_like(found.class_scales, smallest))


NUMBERS = {"encode": {"b": "number"}}
COUNTED = Schema((Attribute("a", "boolean"), Attribute("b", "integer", low=0, high=2), Attribute("c", "boolean")))
RICH_LABEL: dict[str, Any] = {"label": "a", "budgets": {"a": Rho(4)}}
FAULTS: list[tuple[Callable[..., GramMatrix], dict[str, Any]]] = [
    (NoiseTooSmall, {}),
    (NoiseTooSmall, RICH_LABEL),
    (BothHalves, {}),
    (NoiseForCountsOnProducts, {}),
    (MeansWithoutNoise, {}),
    (WrongFlips, {}),
    (ThermometerLikeOneHot, {"encode": {"b": "thermometer"}}),
    (OneColumnForAnySet, {}),
    (FirstLayerOnly, {}),
    (FirstLayerOnly, {"budgets": {"a": Rho(0.1)}}),
    (StarNotCharged, RICH_LABEL),
    (StarPaidByTheLabelAlone, RICH_LABEL),
    (ShorterMatrix, {}),
    (SquaresNotCharged, {**NUMBERS, "over": ("b",)}),
    (SquaresWithoutNoise, NUMBERS),
    (NumbersLikeSigns, NUMBERS),
    (NoiseTooSmall, NUMBERS),
]
WIDER = Schema((*(Attribute(x, "boolean") for x in "ac"), Attribute("b", "ordered", values=("w", "x", "y", "z"))))


def schema_of(options: dict[str, Any]) -> Schema:
    if options.get("encode") == NUMBERS["encode"]:
        return COUNTED
    return WIDER if "encode" in options else MIXED


@pytest.mark.parametrize(("fault", "options"), FAULTS, ids=lambda value: getattr(value, "__name__", str(value)[:40]))
def test_planted_fault_is_refuted(fault: Callable[..., GramMatrix], options: dict[str, Any]) -> None:
    audit = exact_audit(fault(Rho(0.5), **options), schema_of(options), 1)
    assert not audit.passed


@pytest.mark.parametrize("options", [o for _, o in FAULTS], ids=lambda value: str(value)[:40])
def test_the_real_mechanism_passes_where_its_broken_twins_fail(options: dict[str, Any]) -> None:
    assert exact_audit(GramMatrix(Rho(0.5), **options), schema_of(options), 1).passed


class DerivedNotCharged(GramMatrix):
    """A derived column is taken for an attribute of its own, and its source pays nothing."""

    def guarantee(self, schema: Schema, n: int) -> Guarantee:
        return Guarantee.none(schema)


class PublicByOneSource(GramMatrix):
    """A column that follows from a public and a protected attribute is taken for public."""

    def calibration(self, schema: Schema) -> Calibration:
        found = super().calibration(schema)
        return dataclasses.replace(found, class_scales=np.zeros_like(found.class_scales))


def test_sources_left_out_are_refuted() -> None:
    schema = Schema(
        (
            Attribute("open", "boolean", public=True),
            Attribute("closed", "boolean"),
            Attribute("either", "boolean", derived_from=("open", "closed")),
        )
    )
    derive = {"either": lambda record: record["open"] | record["closed"]}
    for fault in (DerivedNotCharged, PublicByOneSource):
        audit = exact_audit(fault(Rho(0.5), over=("either",)), schema, 1, derive=derive)
        assert [row.attributes for row in audit.refuted] == [("closed",)]
