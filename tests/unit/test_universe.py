"""Names and the source attributes behind them."""

from __future__ import annotations

import pytest

from nabladp.errors import UnknownAttribute
from nabladp.privacy import Guarantee, Rho, Universe

U = Universe(("age", "sex", "region"), {"band": ("age",), "profile": ("age", "sex")}, frozenset({"region"}))


@pytest.mark.parametrize(
    ("names", "sources"),
    [
        ("age", {"age"}),
        ("profile", {"age", "sex"}),
        (["sex", "band"], {"sex", "age"}),  # a source beside a derived column is not forgotten
        (["band", "region"], {"age", "region"}),
        ([], set()),
    ],
)
def test_sources_of_plain_and_derived_names_together(names: list[str] | str, sources: set[str]) -> None:
    assert U.sources(names) == sources


def test_a_set_of_a_source_and_a_derived_column_charges_both() -> None:
    g = Guarantee.touch(U, ["sex", "band"], Rho(1))
    assert g.rho("sex") == g.rho("age") == g.rho(["sex", "band"]) == 1


@pytest.mark.parametrize(
    "build",
    [
        lambda: U.sources(["age", "bnad"]),
        lambda: Universe(("a",), {"d": ("b",)}),
        lambda: Universe(("a",), {}, frozenset({"b"})),
        lambda: Universe(("a",), {"d": ("a",)}, frozenset({"d"})),
    ],
)
def test_unknown_names_are_refused(build: object) -> None:
    with pytest.raises(UnknownAttribute):
        build()  # type: ignore[operator]


def test_json_keeps_what_is_derived_and_what_is_public() -> None:
    again = Universe.from_json(U.to_json())
    assert again == U and hash(again) == hash(U) and again.protected == ("age", "sex")
