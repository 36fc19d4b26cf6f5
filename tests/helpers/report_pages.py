"""Releases for the tests of the report to look at, and a page that is watched."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from nabladp.mechanisms.noisy_marginals import NoisyMarginals
from nabladp.noise import NoiseSource
from nabladp.privacy import CDP, Budget, Ledger, Pure, Rho
from nabladp.release import Session
from nabladp.schema import Attribute, Schema

if TYPE_CHECKING:
    from playwright.sync_api import Page

SCHEMA = Schema(
    (
        Attribute("region", "categorical", values=("north", "south", "east")),
        Attribute("age", "integer", low=0, high=9, note="in full years"),
        Attribute("band", "ordered", values=("young", "old"), derived_from=("age",)),
        Attribute("income", "real", edges=(0, 10, 20, 50), null="category"),
        Attribute("sick", "boolean"),
        Attribute("county", "boolean", public=True),
        Attribute("unused", "boolean"),
    )
)
BUDGET = Budget(
    per_attribute=CDP(1),
    attributes={"sick": CDP(0.7)},
    sets={"income+sick": Rho(0.5)},
    person=Rho(4),
)
ADVERSARIES = {"a neighbour": ("income", "sick"), "the tax office": ("income", "band")}


def people(schema: Schema, rows: int = 400) -> pa.Table:
    """Made-up people, as a table of values."""
    draws = NoiseSource.seeded(1)
    codes = {attribute.name: draws.uniform_integers(attribute.size, rows) for attribute in schema}
    for attribute in schema:
        if attribute.derived_from:
            codes[attribute.name] = codes[attribute.derived_from[0]] % attribute.size
    return pa.table({a.name: [value(a, int(code)) for code in codes[a.name]] for a in schema})


def value(attribute: Attribute, code: int) -> Any:
    if code == attribute.null_code:
        return None
    if attribute.kind == "boolean":
        return bool(code)
    if attribute.representatives is not None:
        number = float(attribute.representatives[code])
        return int(number) if attribute.kind == "integer" else number
    return attribute.text(code)


def session(folder: Path, schema: Schema = SCHEMA, budget: Budget = BUDGET, **options: Any) -> Session:
    given = {"adversaries": ADVERSARIES, **options}
    path = folder / "ledger.db"
    use = Ledger.open if path.exists() else Ledger.create
    ledger = use(path, schema, budget, test="noise" in given)
    return Session(people(schema), schema, None, ledger, **given)


MARGINALS = NoisyMarginals(CDP(0.4), sets=(("region", "income"), ("band", "sick"), ("age",)))
PURE = NoisyMarginals(Pure(0.3), sets=(("region",), ("sick", "county")), noise="laplace")


@dataclass
class Watched:
    """A page and everything that it should not have done."""

    page: Page
    requests: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)

    def ask(self, script: str, argument: Any = None) -> Any:
        return self.page.evaluate(script, argument)

    def is_quiet(self) -> bool:
        assert self.complaints == []
        assert [address for address in self.requests if not address.startswith(("file:", "data:", "blob:"))] == []
        return True

    def width(self) -> int:
        """How far the page reaches to the right."""
        found: int = self.ask("Math.max(document.documentElement.scrollWidth, document.body.scrollWidth)")
        return found
