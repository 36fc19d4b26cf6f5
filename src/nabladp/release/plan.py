"""The plan file: one TOML text that says what is released from which table under which budget."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nabladp.checks import as_path, expect, is_whole, near_file, parse_toml, read_file, refuse_other_file
from nabladp.displayed import Stage
from nabladp.errors import DataError, NablaDPError, PlanError, SourceError, quote, quote_path, suggestion
from nabladp.mechanisms import Mechanism, mechanism_class
from nabladp.mechanisms.mechanism import MOST_ROWS
from nabladp.noise import NoiseSource
from nabladp.person import Person
from nabladp.privacy import Budget, Ledger, Universe
from nabladp.privacy.conversion import check_delta
from nabladp.privacy.ledger import Entry, Spending, no_ledger
from nabladp.privacy.ledger.limits import check_limits, check_same_budget, extend_universe, limit_requests
from nabladp.privacy.values import BudgetValue
from nabladp.release.cost import Cost, default_delta, price, without_rows
from nabladp.release.curator_tasks import check_opened, open_existing
from nabladp.release.imprint import TEXTS, Imprint
from nabladp.release.names import check_names
from nabladp.release.other_budgets import naming_largest, request_cost
from nabladp.release.publish import Announce, Published, ignore_progress
from nabladp.release.record import Release
from nabladp.release.session import Session
from nabladp.release.verdict import typed_budgets
from nabladp.schema import Schema
from nabladp.tables import (
    Finding,
    Table,
    check_person_columns,
    check_population,
    check_sentence,
    check_spark,
    open_table,
)

if TYPE_CHECKING:
    from nabladp.release.queries import QueryCost

_KEYS: Mapping[str, tuple[str, ...]] = {
    "": ("table", "person", "budget", "release", "adversary", "report"),
    "table": ("source", "schema", "rows", "rows_per_person", "population"),
    "person": ("id", "rows", "row_id"),
    "budget": ("ledger", "per_attribute", "attributes", "sets", "person"),
    "adversary": ("name", "attributes"),
    "report": ("delta", "folder", *TEXTS, "language", "logo", "shapes"),
}
_FOREIGN = (TypeError, ValueError, AttributeError)  # what a value of the wrong type may lead to
_QUERY = re.compile(r"\s*(select|from|with)\s", re.IGNORECASE)


@dataclass(frozen=True)
class Plan:
    """A checked plan. Paths in it are relative to its own folder."""

    folder: Path
    source: str | Mapping[str, Any] = field(repr=False)  # an address may hold a password
    schema: Schema
    rows: int | None
    person: Person
    budget: Budget
    ledger: str = field(repr=False)  # as may this one
    releases: tuple[tuple[str, Mechanism], ...]
    adversaries: Mapping[str, tuple[str, ...]]
    given_delta: float | None  # None: it follows the number of rows
    out: Path
    imprint: Imprint = field(default_factory=Imprint)
    population: str = ""

    @classmethod
    def load(cls, path: str | Path) -> Plan:
        where = as_path(path, "The plan")
        name = quote(where.name)
        refuse_other_file(where, "plan")
        try:
            text = read_file(where, f"The plan {name}").decode("utf-8")
        except SourceError:
            raise
        except OSError:
            raise SourceError(
                f"There is no readable plan {quote_path(path)}.", fix=near_file(where, "Give the path of a plan.toml.")
            ) from None
        except UnicodeDecodeError:
            raise PlanError(f"{name} is not UTF-8 text.", fix="Save it as UTF-8.") from None
        data = parse_toml(text, name, PlanError)
        if "attribute" in data and "table" not in data:
            raise PlanError(
                f"{name} is a schema, not a plan.",
                fix="Give the plan.toml that names it. To check a table against it: "
                f"`nabladp check TABLE --schema {where.name}`.",
            )
        return cls.of(data, where.resolve().parent, f"{where.stem}-release")

    @classmethod
    def of(cls, data: Mapping[str, Any], folder: Path, out: str = "release") -> Plan:
        folder = as_path(folder, "The folder of the plan")
        _check_keys(expect(data, dict, "A plan", "Give a table with [table], [budget] and [[release]]."), "")
        table, budget = _part(data, "table"), _part(data, "budget")
        report = _part(data, "report") if "report" in data else {}
        ledger = _text(budget, "budget", "ledger", "ledger.db")
        source, population = _source(folder, table), check_sentence(table.get("population", ""))
        if isinstance(source, str) and _QUERY.match(source):
            check_population(source, population)
        schema = Schema.load(folder / _text(table, "table", "schema", "schema.toml"))
        person = _person(data, table, schema)
        given_delta = report.get("delta")
        if given_delta is not None:
            check_delta(given_delta)
        limits = Budget.from_json({name: value for name, value in budget.items() if name != "ledger"})
        limits.limits(schema)  # refuses unknown attributes
        return cls(
            folder=folder,
            source=source,
            schema=schema,
            rows=_count(table, "rows", "the public number of rows"),
            person=person,
            budget=limits,
            ledger=ledger if "://" in ledger else str(folder / ledger),
            releases=_releases(data, schema, person),
            adversaries=_adversaries(data, schema),
            given_delta=given_delta,
            out=folder / (_text(report, "report", "folder", out) if "folder" in report else out),
            imprint=Imprint.of(report, folder, schema),
            population=population,
        )

    @property
    def delta(self) -> float:
        """The δ at which ε is shown."""
        return default_delta(self.rows) if self.given_delta is None else self.given_delta

    @property
    def rows_per_person(self) -> int:
        """The most rows of one person that are used."""
        return self.person.rows

    def cost(self) -> Cost:
        """The dry run of a plan: spends nothing, reads nothing of the table, creates no ledger."""
        self.check_releases()
        standing = self.standing()
        options = {"adversaries": self.adversaries, "delta": self.delta}
        return request_cost(self.releases, self.schema, self.rows, self.rows_per_person, standing, **options)

    def typed_budgets(self) -> list[dict[str, Any]]:
        """The limits and budgets of the plan, each as ε at the plan's δ, as ρ and as cdp."""
        return typed_budgets(self.budget, self.releases, self.delta)

    def query_cost(self, query: Sequence[str], budget: BudgetValue, **options: Any) -> QueryCost:
        """The dry run of SQL queries about the plan's table."""
        from nabladp.release import queries  # loads the parser of SQL

        standing = self.standing()
        shown = {"adversaries": self.adversaries, "delta": self.delta}

        def cost(mechanism: Mechanism) -> Cost:
            return request_cost([("query", mechanism)], self.schema, self.rows, self.rows_per_person, standing, **shown)

        own = {"id": self.person.id, **options}
        return queries.query_cost(cost, self.schema, self.rows, self.rows_per_person, list(query), budget, **own)

    def query_session(
        self, query: Sequence[str], budget: BudgetValue, new_ledger: bool, test_seed: int | None, **options: Any
    ) -> Session:
        """A session for these SQL queries. What they could not be answered for anyway creates no ledger."""
        cost = self.query_cost(query, budget, **options).cost
        if new_ledger:
            check_limits(limit_requests(self.unspent(), cost.guarantee), "The query")
        return self.session(new_ledger=new_ledger, test_seed=test_seed)

    def mechanism(self, block: Mapping[str, Any], number: int = 1) -> Mechanism:
        """The mechanism of a ``[[release]]`` that this plan might have, with its schema and people."""
        kind = block.get("mechanism")
        if not isinstance(kind, str):
            raise _no_mechanism(number)
        return _mechanism(kind, _own_options(block), self.schema, self.person, number)

    def check_releases(self) -> None:
        """Refuse a plan without releases. It is enough for queries in SQL, and to create its ledger."""
        if not self.releases:
            fix = 'Add a [[release]] with mechanism = "NoisyMarginals", or ask for numbers with `nabladp sql`.'
            raise PlanError("The plan releases nothing.", fix=fix)

    def has_ledger(self) -> bool:
        return Ledger.exists(self.ledger)

    def create_ledger(self, *, test: bool = False) -> Ledger:
        """Create this plan's ledger, with its schema and budget; refused where there is one, or beyond the budget."""
        self._check_affordable(self.rows)
        return Ledger.create(self.ledger, self.schema, self.budget, person=self.person, test=test)

    def standing(self) -> list[Spending]:
        """The plan's limits with what is spent, from its ledger if it has one, which must be of this schema and
        budget."""
        if not self.has_ledger():
            return self.unspent()
        with Ledger.read(self.ledger) as ledger:
            ledger.check_person(self.person)
            standing = ledger.spent()
            known = extend_universe(ledger.universe, Universe.of(self.schema))
        check_same_budget([line.limit for line in standing], self.budget.limits(known))
        return standing

    def unspent(self) -> list[Spending]:
        """The plan's limits as a new ledger would have them."""
        return [Spending(limit, 0) for limit in self.budget.limits(self.schema)]

    def _check_affordable(self, rows: int | None) -> None:
        """Refuse a new ledger for a plan beyond its own budget: it would put that budget on record for good.

        Releases that wait for the number of rows are left out until it is known.
        """
        waiting = without_rows(self.releases, rows)
        ready = [(name, mechanism) for name, mechanism in self.releases if name not in waiting]
        guarantee, _ = price(ready, self.schema, rows or 0, self.rows_per_person)
        standing = self.unspent()
        with naming_largest(self.releases, self.schema, rows, self.rows_per_person, lambda: standing):
            check_limits(limit_requests(standing, guarantee), "The plan")

    def session(
        self, noise: NoiseSource | None = None, *, new_ledger: bool = False, test_seed: int | None = None
    ) -> Session:
        """A session over the plan's table; ``test_seed`` stamps what is released from it."""
        seeded = noise if test_seed is None else NoiseSource.seeded(test_seed)
        return self._session(self.open_table(), seeded, new_ledger)

    def check(self) -> list[Finding]:
        """Check the plan's table against its schema: every column that breaks a rule, with the rule and the fix."""
        return check_opened(self.open_table())

    def open_table(self) -> Table:
        """The plan's table, of which nothing is read yet."""
        options: dict[str, Any] = {"person": self.person, "population": self.population}
        return open_table(self.source, self.schema, rows=self.rows, folder=self.folder, **options)

    def _session(self, table: Table, noise: NoiseSource | None, new_ledger: bool) -> Session:
        return Session(
            table,
            self.schema,
            self.budget,
            self.ledger,
            noise=noise,
            delta=self.given_delta,
            adversaries=self.adversaries,
            person=self.person,
            new_ledger=new_ledger,
            imprint=self.imprint,
        )

    def run(
        self,
        to: str | Path | None = None,
        *,
        test_seed: int | None = None,
        stage: Stage | None = None,
        new_ledger: bool = False,
    ) -> list[Release]:
        """Reserve the whole plan, run it and publish it in one new folder. A seed is for tests and stamps it so.

        ``new_ledger`` creates the ledger, which must not exist yet; without it, it must.
        """
        return list(self.publish(to, test_seed=test_seed, stage=stage, new_ledger=new_ledger).warn().releases)

    def publish(
        self,
        to: str | Path | None = None,
        *,
        test_seed: int | None = None,
        stage: Stage | None = None,
        announce: Announce = ignore_progress,
        new_ledger: bool = False,
    ) -> Published:
        """Run the plan as :meth:`run` does, and return what became of the report; ``announce`` is called before that is
        written."""
        self.check_releases()
        noise = None if test_seed is None else NoiseSource.seeded(test_seed)
        if not new_ledger and not self.has_ledger():
            raise no_ledger(Ledger.label_of(self.ledger))
        if new_ledger:
            self._check_affordable(self.rows)
        table = self.open_table()
        if new_ledger and without_rows(self.releases, self.rows):
            (stage or ignore_progress)("counting rows", 0, 0)
            self._check_affordable(table.n)  # public, and all that is read before the reservation
        session = self._session(table, noise, new_ledger)
        try:
            return session.publish(self.releases, self.out if to is None else to, stage, announce)
        finally:
            session.ledger.close()

    def change_budget(self, reason: str) -> Entry:
        """Put this plan's budget in force in its ledger, on record."""
        with open_existing(self.ledger, self.schema) as ledger:
            return ledger.change_budget(self.budget, reason)


def _person(data: Mapping[str, Any], table: Mapping[str, Any], schema: Schema) -> Person:
    """What a person is in a plan: [person], or else the owner's promise in [table]."""
    promised = _count(table, "rows_per_person", "how many rows one person has at most")
    if "person" not in data:
        return Person(rows=promised or 1)
    given = _part(data, "person")
    if promised is not None:
        raise PlanError("'rows_per_person' of [table] is a promise that [person] replaces.", fix="Remove it.")
    if not isinstance(given.get("id"), str) or "rows" not in given:
        raise PlanError("[person] needs 'id' and 'rows'.", fix='Write, for instance, id = "patient" and rows = 5.')
    try:
        person = Person(**given)
    except DataError as error:
        raise PlanError(f"[person]: {error.message}", fix=error.fix) from None
    check_person_columns(schema, person)
    return person


def _releases(data: Mapping[str, Any], schema: Schema, person: Person) -> tuple[tuple[str, Mechanism], ...]:
    listed = list(enumerate(_table_array(data, "release"), 1))
    for number, options in listed:
        if not isinstance(options.get("mechanism"), str):
            raise _no_mechanism(number)
    names = [options.get("name", f"{number:02d}-{options['mechanism']}") for number, options in listed]
    check_names(names, PlanError)
    return tuple(
        (name, _mechanism(options["mechanism"], _own_options(options), schema, person, number))
        for name, (number, options) in zip(names, listed, strict=True)
    )


def _no_mechanism(number: int) -> PlanError:
    return PlanError(f"[[release]] number {number} names no mechanism.", fix='Add mechanism = "NoisyMarginals".')


def _own_options(options: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in options.items() if key not in ("mechanism", "name")}


def _mechanism(kind: str, options: Mapping[str, Any], schema: Schema, person: Person, number: int) -> Mechanism:
    """A plan's mechanism; refuses unknown attributes and tables too large before anything happens."""
    try:
        mechanism = mechanism_class(kind).from_plan(options).for_people(person, schema)
        mechanism.reads(schema)
    except NablaDPError:
        raise
    except _FOREIGN:
        raise PlanError(
            f"An option of [[release]] number {number} ({kind}) has the wrong type.", fix="See the plan reference."
        ) from None
    return mechanism


def _adversaries(data: Mapping[str, Any], schema: Schema) -> dict[str, tuple[str, ...]]:
    adversaries: dict[str, tuple[str, ...]] = {}
    for body in _table_array(data, "adversary"):
        _check_keys(body, "adversary")
        name, attributes = body.get("name"), body.get("attributes")
        if not isinstance(name, str) or not isinstance(attributes, list) or not attributes:
            raise PlanError(
                "An [[adversary]] needs a name and attributes.", fix='Write attributes = ["income", "health"].'
            )
        if name in adversaries:
            raise PlanError(f"Two adversaries have the name {quote(name)}.", fix="Give each [[adversary]] its own.")
        if not all(isinstance(attribute, str) for attribute in attributes):
            raise PlanError(
                f"The attributes of the adversary {quote(name)} are names.",
                fix='Write attributes = ["income", "health"].',
            )
        Universe.of(schema).sources(attributes)
        adversaries[name] = tuple(attributes)
    return adversaries


def _table_array(data: Mapping[str, Any], name: str) -> list[Mapping[str, Any]]:
    listed = data.get(name, [])
    if not isinstance(listed, list) or not all(isinstance(body, Mapping) for body in listed):
        raise PlanError(f"[{name}] may be given several times.", fix=f"Double the brackets: [[{name}]].")
    return listed


def _part(data: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    part = data.get(name)
    if not isinstance(part, Mapping):
        raise PlanError(f"The plan has no [{name}].", fix=f"Add a [{name}] section.")
    _check_keys(part, name)
    return part


def _text(part: Mapping[str, Any], section: str, name: str, example: str) -> str:
    text = part.get(name)
    if not isinstance(text, str) or not text.strip():
        raise PlanError(f"[{section}] needs {name!r}, as text.", fix=f'Write, for instance, {name} = "{example}".')
    if "\0" in text:
        raise PlanError(f"{name!r} of [{section}] holds a zero byte.", fix="Remove it.")
    return text


def _count(part: Mapping[str, Any], name: str, meaning: str) -> int | None:
    value = part.get(name)
    if value is not None and not is_whole(value, 1, MOST_ROWS):
        raise PlanError(
            f"{name!r} in [table], {meaning}, must be a whole number above zero.",
            fix=f"Write {name} = 1000, without quotes; the limit is {MOST_ROWS:,}.",
        )
    return value


def _check_keys(part: Mapping[str, Any], section: str) -> None:
    for name in part:
        if name not in _KEYS[section]:
            where = f"[{section}]" if section else "A plan"
            fix = suggestion(name, _KEYS[section], f"Known: {', '.join(_KEYS[section])}.")
            raise PlanError(f"{where} has no entry {quote(name)}.", fix=fix)


def _source(folder: Path, table: Mapping[str, Any]) -> str | Mapping[str, Any]:
    source = table.get("source")
    if isinstance(source, Mapping):
        check_spark(source)
        return source
    return _resolve(folder, _text(table, "table", "source", "people.csv"))


def _resolve(folder: Path, source: str) -> str:
    """A source in a plan, resolved: paths are relative to the plan, queries and addresses stay as they are.

    Glob characters count in the file's own path only, not in that of the plan.
    """
    path = str(folder / source)
    if os.path.exists(path):
        return path
    if "://" in source or _QUERY.match(source):
        return source
    if not glob.has_magic(source):
        return path
    return str(Path(glob.escape(str(folder))) / source)
