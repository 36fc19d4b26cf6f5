"""The plan file: one TOML text that says what is released from which table under which budget."""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nabladp.errors import PlanError, SourceError
from nabladp.mechanisms import Mechanism, mechanism_class
from nabladp.noise import NoiseSource
from nabladp.privacy import Budget, Universe
from nabladp.privacy.conversion import check_delta
from nabladp.privacy.ledger import Entry
from nabladp.release.books import open_existing
from nabladp.release.cost import DELTA, Cost, Line, price
from nabladp.release.record import Release
from nabladp.release.session import Session, Stage, limit_lines
from nabladp.schema import Schema

_KEYS: Mapping[str, tuple[str, ...]] = {
    "": ("table", "budget", "release", "adversary", "report"),
    "table": ("source", "schema", "rows"),
    "budget": ("ledger", "per_attribute", "attributes", "sets", "person"),
    "adversary": ("name", "attributes"),
    "report": ("delta", "folder"),
}


@dataclass(frozen=True)
class Plan:
    """A checked plan. Paths in it are relative to its own folder."""

    folder: Path
    source: str
    schema: Schema
    rows: int | None
    budget: Budget
    ledger: str
    releases: tuple[tuple[str, Mechanism], ...]
    adversaries: Mapping[str, tuple[str, ...]]
    delta: float
    out: Path

    @classmethod
    def load(cls, path: str | Path) -> Plan:
        where = Path(path)
        try:
            text = where.read_text(encoding="utf-8")
        except OSError:
            raise SourceError(
                f"There is no readable plan {str(path)!r}.", fix="Give the path of a plan.toml."
            ) from None
        except UnicodeDecodeError:
            raise PlanError(f"{where.name!r} is not UTF-8 text.", fix="Save it as UTF-8.") from None
        try:
            data = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise PlanError(f"{where.name!r} is not valid TOML: {error}.", fix="Mend that line.") from None
        return cls.of(data, where.resolve().parent, f"{where.stem}-release")

    @classmethod
    def of(cls, data: Mapping[str, Any], folder: Path, out: str = "release") -> Plan:
        _known(data, "")
        table, budget = _part(data, "table"), _part(data, "budget")
        report = _part(data, "report") if "report" in data else {}
        for name in ("source", "schema"):
            if not isinstance(table.get(name), str):
                raise PlanError(f"[table] needs {name!r}.", fix=f'Add, for instance, {name} = "…".')
        if not isinstance(budget.get("ledger"), str):
            raise PlanError("[budget] needs a ledger.", fix='Add ledger = "ledger.db".')
        schema = Schema.load(folder / table["schema"])
        rows = table.get("rows")
        if rows is not None and (not isinstance(rows, int) or isinstance(rows, bool) or rows < 1):
            raise PlanError("'rows' in [table] is the public number of rows.", fix="Give a whole number above zero.")
        delta = report.get("delta", DELTA)
        check_delta(delta)
        return cls(
            folder=folder,
            source=_located(folder, table["source"]),
            schema=schema,
            rows=rows,
            budget=Budget.from_json({name: value for name, value in budget.items() if name != "ledger"}),
            ledger=_located(folder, budget["ledger"]),
            releases=_releases(data, schema),
            adversaries=_adversaries(data, schema),
            delta=delta,
            out=folder / report.get("folder", out),
        )

    def cost(self) -> Cost:
        """The dry run: spends nothing, reads nothing of the table, creates no ledger."""
        guarantee, errors = price(self.releases, self.schema, self.rows or 0)
        if "://" not in self.ledger and not Path(self.ledger).exists():
            lines = self._unspent(guarantee)
        else:
            with open_existing(self.ledger, self.schema, self.budget) as ledger:
                lines = limit_lines(ledger, guarantee)
        return Cost(guarantee, errors, lines, self.adversaries, self.delta)

    def _unspent(self, guarantee: Any) -> tuple[Line, ...]:
        lines = []
        for limit in self.budget.limits(self.schema):
            figure = guarantee.figure(sorted(limit.attributes))
            allowed = limit.units / 2**60
            lines.append(Line(limit, 0.0, figure.pure if limit.pure else figure.rho, allowed))
        return tuple(lines)

    def session(self, noise: NoiseSource | None = None) -> Session:
        return Session(
            self.source,
            self.schema,
            self.budget,
            self.ledger,
            noise=noise,
            delta=self.delta,
            adversaries=self.adversaries,
            rows=self.rows,
        )

    def run(
        self, out: str | Path | None = None, *, test_seed: int | None = None, stage: Stage | None = None
    ) -> list[Release]:
        """Reserve the whole plan, run it and publish it in one new folder. A seed is for tests and stamps it so."""
        noise = None if test_seed is None else NoiseSource.seeded(test_seed)
        session = self.session(noise)
        try:
            return session.release_all(self.releases, self.out if out is None else out, stage)
        finally:
            session.ledger.close()

    def change_budget(self, reason: str) -> Entry:
        """Put this plan's budget in force in its ledger, on record."""
        with open_existing(self.ledger, self.schema) as ledger:
            return ledger.change_budget(self.budget, reason)


def _releases(data: Mapping[str, Any], schema: Schema) -> tuple[tuple[str, Mechanism], ...]:
    listed = data.get("release", [])
    if not isinstance(listed, list) or not listed:
        raise PlanError("The plan releases nothing.", fix='Add a [[release]] with mechanism = "NoisyMarginals".')
    found: list[tuple[str, Mechanism]] = []
    for number, options in enumerate(listed, 1):
        kind = options.get("mechanism")
        if not isinstance(kind, str):
            raise PlanError(f"[[release]] number {number} names no mechanism.", fix='Add mechanism = "NoisyMarginals".')
        name = options.get("name", f"{number:02d}-{kind}")
        if not isinstance(name, str) or not name or set(name) & set('/\\:*?"<>|\n') or name.startswith("."):
            raise PlanError(
                f"The name of [[release]] number {number} is no folder name.", fix="Use letters and digits."
            )
        given = {key: value for key, value in options.items() if key not in ("mechanism", "name")}
        mechanism = mechanism_class(kind).from_plan(given)
        mechanism.reads(schema)  # refuses unknown attributes and tables too large, before anything happens
        found.append((name, mechanism))
    if len({name for name, _ in found}) != len(found):
        raise PlanError("Two releases have the same name.", fix="Give each [[release]] a name of its own.")
    return tuple(found)


def _adversaries(data: Mapping[str, Any], schema: Schema) -> dict[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    listed = data.get("adversary", [])
    if not isinstance(listed, list):
        raise PlanError("An adversary is written [[adversary]].", fix="Double the brackets.")
    for body in listed:
        _known(body, "adversary")
        name, attributes = body.get("name"), body.get("attributes")
        if not isinstance(name, str) or not isinstance(attributes, list) or not attributes:
            raise PlanError("An [[adversary]] needs a name and attributes.", fix='attributes = ["income", "health"]')
        Universe.of(schema).sources(attributes)
        found[name] = tuple(attributes)
    return found


def _part(data: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    part = data.get(name)
    if not isinstance(part, Mapping):
        raise PlanError(f"The plan has no [{name}].", fix=f"Add a [{name}] section.")
    _known(part, name)
    return part


def _known(part: Mapping[str, Any], section: str) -> None:
    for name in part:
        if name not in _KEYS[section]:
            near = difflib.get_close_matches(name, _KEYS[section], n=1)
            where = f"[{section}]" if section else "A plan"
            fix = f"Did you mean {near[0]!r}?" if near else f"Known: {', '.join(_KEYS[section])}."
            raise PlanError(f"{where} has no entry {name!r}.", fix=fix)


def _located(folder: Path, source: str) -> str:
    """Paths are relative to the plan; queries and addresses stay as they are."""
    if "://" in source or source.lstrip().lower().startswith(("select ", "from ", "with ")):
        return source
    return str(folder / source)
