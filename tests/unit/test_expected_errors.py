"""Expected errors of any mechanism: as a list of marginals, or summed up in the mechanism's own words."""

from __future__ import annotations

import io
from dataclasses import dataclass, field
from typing import Any

import pytest
from rich.console import Console

from nabladp.cli import show
from nabladp.mechanisms.mechanism import ExpectedError
from nabladp.mechanisms.noisy_marginals import NoisyMarginals
from nabladp.privacy import CDP, Guarantee
from nabladp.release.cost import Cost, error_json, price
from nabladp.release.session import _BYTES_PER_CELL, _SPARE_BYTES, _bytes_needed
from nabladp.schema import Attribute, Schema

SCHEMA = Schema((Attribute("a", "boolean"), Attribute("b", "integer", low=0, high=9)))
MARGINALS = NoisyMarginals(CDP(0.5), k=1)


@dataclass(frozen=True)
class Summed(ExpectedError):
    cells: int = 0
    summary: dict[str, Any] = field(default_factory=dict)

    def values_written(self) -> int:
        return self.cells

    def to_json(self) -> dict[str, Any]:
        return {"summary": self.summary, "per_query": [1.5, 2.5]}


class Other(NoisyMarginals):
    def expected_error(self, schema: Schema, n: int) -> Any:
        return Summed(7, {"mean squared error": 0.0123456789, "rounds": 40})


def printed(expected: Any) -> str:
    """As the commands print it: reading no markup."""
    console = Console(file=io.StringIO(), width=80, highlight=False, markup=False, emoji=False)
    for table in show.error_tables(expected):
        console.print(table)
    text: str = console.file.getvalue()  # type: ignore[attr-defined]
    return text


def test_a_summary_is_shown_under_the_name_of_its_release() -> None:
    guarantee, errors = price([("counts", MARGINALS), ("fitted", Other(CDP(0.5), k=1))], SCHEMA, 100)
    told = Cost(guarantee, errors).to_json()["expected_error"]
    assert isinstance(told["counts"], list) and told["fitted"]["per_query"] == [1.5, 2.5]
    lines = [" ".join(line.split()) for line in printed(told).splitlines()]
    first, second = lines.index("Expected error of a cell"), lines.index("Expected error of fitted")
    assert first < lines.index("counts") < second
    assert [line for line in lines[second + 1 :] if line] == ["mean squared error 0.01235", "rounds 40"]


def test_only_what_there_is_is_shown() -> None:
    assert "of a cell" not in printed({"fitted": {"summary": {"rounds": 4}}})
    assert len(show.error_tables({"counts": error_json(MARGINALS.expected_error(SCHEMA, 100))})) == 1
    assert "see --json" in printed({"silent": {"per_query": []}})
    assert "and 5 more figures" in printed({"long": {"summary": {str(i): i for i in range(show.MOST_ROWS + 5)}}})


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.000123456, "0.0001235"), (1234.5678, "1235"), (65536, "65,536"), (None, "no bound"), ("exact", "exact")],
)
def test_figures_are_short_and_counts_whole(value: Any, text: str) -> None:
    assert f"label {text}" in " ".join(printed({"x": {"summary": {"label": value}}}).split())


def test_names_are_shown_as_they_are() -> None:
    hostile = "[red]alarm[/red] \x1b[31m:smile:\n"
    told = printed({hostile: {"summary": {hostile: hostile}}})
    assert told.count("[red]alarm[/red] \\x1b[31m:smile:\\n") == 3 and "\x1b" not in told


class Silent(ExpectedError):
    def to_json(self) -> dict[str, Any]:
        return {}


def test_room_on_the_disk_is_asked_for_whatever_the_form() -> None:
    def cells(*errors: Any) -> int:
        return (_bytes_needed(errors) - _SPARE_BYTES) // _BYTES_PER_CELL

    assert cells(MARGINALS.expected_error(SCHEMA, 9)) == 12
    assert cells(Summed(cells=7)) == 7 and cells(Silent()) == 0
    assert cells(MARGINALS.expected_error(SCHEMA, 9), Summed(cells=7)) == 19
    assert error_json(Summed(7)) == {"summary": {}, "per_query": [1.5, 2.5]}


def test_a_cost_without_errors_shows_none() -> None:
    assert Cost(Guarantee.none(SCHEMA), ()).to_json()["expected_error"] == {} and show.error_tables({}) == []
