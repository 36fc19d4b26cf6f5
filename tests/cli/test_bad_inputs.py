"""Mistakes that people make, with the exact words that answer them: what is wrong, then what to do.

Whoever changes a message changes it here, too, and reads it once more as someone who has just made the mistake.
"""

# ruff: noqa: E501  (messages are kept whole, so that they can be found)

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl
import pyarrow as pa
import pytest

from nabladp import (
    CDP,
    Approx,
    Attribute,
    Budget,
    NoisyMarginals,
    Plan,
    Pure,
    Release,
    Rho,
    Schema,
    Session,
    open_table,
)
from nabladp.cli.app import run
from nabladp.errors import NablaDPError

FILES = {
    "people.csv": "age,income,region\n3,10,north\n5,20,south\n7,35,north\n8,50,south\n",
    "schema.toml": """
[[attribute]]
name = "age"
kind = "integer"
low = 0
high = 9

[[attribute]]
name = "income"
kind = "real"
edges = [0, 25, 50]

[[attribute]]
name = "region"
kind = "categorical"
values = ["north", "south"]
""",
    "plan.toml": """
[table]
source = "people.csv"
schema = "schema.toml"
rows = 4

[budget]
ledger = "ledger.db"
per_attribute = { cdp = 1.0 }
person = { rho = 4.0 }

[[release]]
mechanism = "NoisyMarginals"
sets = [["region", "income"], ["age"]]
budget = { cdp = 0.2 }
""",
}
SETS, BUDGET, PERSON = 'sets = [["region", "income"], ["age"]]', "budget = { cdp = 0.2 }", "person = { rho = 4.0 }"
COST = ["cost", "plan.toml"]


class Case(NamedTuple):
    do: Any  # arguments of the command, or a function of the folder
    message: str = ""
    fix: str = ""
    edits: dict[str, Any] = {}  # noqa: RUF012  (of files: (old, new), or a new content)


def plan(old: str, new: str, command: list[str] = COST) -> dict[str, Any]:
    return {"do": command, "edits": {"plan.toml": (old, new)}}


def schema(old: str, new: str) -> dict[str, Any]:
    return {"do": ["check", "people.csv"], "edits": {"schema.toml": (old, new)}}


def table(content: Any, name: str = "people.csv") -> dict[str, Any]:
    return {"do": ["check", name], "edits": {name: content}}


def session(**options: Any) -> Session:
    given: dict[str, Any] = {"budget": Budget(person=Rho(1)), "ledger": "ledger.db", "new_ledger": True, **options}
    return Session("people.csv", Schema.load("schema.toml"), **given)


def released(mechanism: Any = None) -> Release:
    return session().release(mechanism or NoisyMarginals(CDP(0.2), sets=[("region", "income")]))


# ---- the mistakes ---------------------------------------------------------------------------------------------------

AGE = Schema((Attribute("age", "integer", low=0, high=9),))
CASES: dict[str, Case] = {
    "one list of names": Case(
        **plan(SETS, 'sets = ["region", "income"]'),
        message='\'sets\' = ["region", "income"] may mean one table or 2 tables.',
        fix='For one table of all these attributes write [["region", "income"]]; for a table of each write [["region"], ["income"]].',
    ),
    "names joined by a comma": Case(
        **plan(SETS, 'sets = ["age,income"]'),
        message="There is no attribute 'age,income'.",
        fix='Name the attributes one by one: "age", "income".',
    ),
    "a name misspelt": Case(
        **plan(SETS, 'sets = [["region", "incme"]]'),
        message="There is no attribute 'incme'.",
        fix="Did you mean 'income'?",
    ),
    "an attribute twice in a set": Case(
        **plan(SETS, 'sets = [["age", "age"]]'),
        message="The marginal age+age names an attribute twice.",
        fix="Name each attribute once.",
    ),
    "a set twice": Case(
        **plan(SETS, 'sets = [["age", "region"], ["region", "age"]]'),
        message="The marginal age+region is asked for twice.",
        fix="Name it once. For less noise in it, give it a larger number in 'weights'.",
    ),
    "an empty set": Case(
        **plan(SETS, "sets = [[]]"), message="A marginal needs at least one attribute.", fix="Remove the empty set."
    ),
    "no sets": Case(
        **plan(SETS, ""),
        message="Neither 'sets' nor 'k' is given.",
        fix='Write sets = [["age", "sex"]] for these tables, or k = 2 for a table of each pair.',
    ),
    "sets and k": Case(
        **plan(SETS, SETS + "\nk = 2"),
        message="Both 'sets' and 'k' are given.",
        fix='Keep sets = [["age", "sex"]] for these tables, or k = 2 for a table of each pair.',
    ),
    "k beyond the attributes": Case(
        **plan(SETS, "k = 9"), message="There are no 9-way combinations of 3 attributes.", fix="Give a k from 1 to 3."
    ),
    "k as a text": Case(
        **plan(SETS, 'k = "2"'),
        message="'k' must be a whole number of at least 1.",
        fix="Write, for instance, k = 2, or leave it out.",
    ),
    "an option misspelt": Case(
        **plan(SETS, "set" + SETS[4:]), message="NoisyMarginals has no option 'set'.", fix="Did you mean 'sets'?"
    ),
    "too few weights": Case(
        **plan(SETS, SETS + "\nweights = [1]"),
        message="'weights' needs 2 numbers, one for each set, and has 1.",
        fix="Write, for instance, weights = [1, 1].",
    ),
    "a mechanism misspelt": Case(
        **plan("NoisyMarginals", "NoisyMarginal"),
        message="There is no mechanism 'NoisyMarginal'.",
        fix="Did you mean 'NoisyMarginals'?",
    ),
    "no mechanism": Case(
        **plan('mechanism = "NoisyMarginals"', ""),
        message="[[release]] number 1 names no mechanism.",
        fix='Add mechanism = "NoisyMarginals".',
    ),
    "epsilon without delta": Case(
        **plan(BUDGET, "budget = { epsilon = 1.0 }"),
        message="'budget' has an epsilon, but delta is missing.",
        fix="Write { epsilon = …, delta = 1e-6 }; for an ε without a δ write { pure = … }.",
    ),
    "delta without epsilon": Case(
        **plan(BUDGET, "budget = { delta = 1e-6 }"),
        message="'budget' has a delta, but epsilon is missing.",
        fix="Write { epsilon = …, delta = … }.",
    ),
    "a bare number as a budget": Case(
        **plan(BUDGET, "budget = 0.5"),
        message="'budget' must say what it measures: it is a bare number.",
        fix="In a plan write { cdp = 0.2 }, or { rho = … }, { pure = … } or { epsilon = …, delta = … }; in Python CDP(0.2), Rho(…), Pure(…) or Approx(…).",
    ),
    "eps in place of epsilon": Case(
        **plan(BUDGET, "budget = { eps = 1.0 }"),
        message="'budget' has no entry 'eps'.",
        fix="Write { epsilon = …, delta = … }, or { pure = … } for an ε without a δ.",
    ),
    "a measure misspelt": Case(
        **plan(BUDGET, "budget = { roh = 1.0 }"), message="'budget' has no entry 'roh'.", fix="Did you mean 'rho'?"
    ),
    "two measures": Case(
        **plan(BUDGET, "budget = { cdp = 1, rho = 1 }"),
        message="'budget' has several measures: cdp, rho.",
        fix="Keep one. In a plan write { cdp = 0.2 }, or { rho = … }, { pure = … } or { epsilon = …, delta = … }; in Python CDP(0.2), Rho(…), Pure(…) or Approx(…).",
    ),
    "a negative budget": Case(
        **plan(BUDGET, "budget = { cdp = -1 }"),
        message="'budget': CDP(eps0) must be above zero, and is -1.",
        fix="Give a number above zero, such as 0.2. To keep an attribute out of a release, do not name it there.",
    ),
    "a budget of zero": Case(
        **plan(BUDGET, "budget = { cdp = 0 }"),
        message="'budget': CDP(eps0) must be above zero, and is 0.",
        fix="Give a number above zero, such as 0.2. To keep an attribute out of a release, do not name it there.",
    ),
    "a budget as a text": Case(
        **plan(BUDGET, 'budget = { cdp = "0.2" }'),
        message="'budget': CDP(eps0) must be a number, not text.",
        fix="Write the number without quotes.",
    ),
    "a pure budget for Gaussian noise": Case(
        **plan(BUDGET, "budget = { pure = 1.0 }"),
        message="'budget' does not support Gaussian noise.",
        fix="Use CDP(eps0), Rho(rho) or Approx(eps, delta), in a plan { cdp = 1.0 }.",
    ),
    "no budget": Case(
        **plan(BUDGET, ""), message="NoisyMarginals needs a budget.", fix="Add, for instance, budget = { cdp = 0.2 }."
    ),
    "a bare limit": Case(
        **plan(PERSON, "person = 4.0"),
        message="'person' must say what it measures: it is a bare number.",
        fix="In a plan write { cdp = 0.2 }, or { rho = … }, { pure = … } or { epsilon = …, delta = … }; in Python CDP(0.2), Rho(…), Pure(…) or Approx(…).",
    ),
    "a limit misspelt": Case(
        **plan("per_attribute", "per_atribute"),
        message="[budget] has no entry 'per_atribute'.",
        fix="Did you mean 'per_attribute'?",
    ),
    "a limit on a set with a comma": Case(
        **plan(PERSON, 'sets = { "age,income" = { rho = 1 } }'),
        message="The set 'age,income' does not join its attributes by '+'.",
        fix='Write "age+income".',
    ),
    "a limit on an unknown attribute": Case(
        **plan(PERSON, "attributes = { agee = { rho = 1 } }"),
        message="There is no attribute 'agee'.",
        fix="Did you mean 'age'?",
    ),
    "a budget above its limit": Case(
        **plan(BUDGET, "budget = { cdp = 1.5 }", ["release", "plan.toml", "--new-ledger"]),
        message="The plan would break the limit 'age': requested ρ = 1.125 (spent 0, left 0.5 of 0.5); also 'income', 'region'.",
        fix="The largest budget that still fits is CDP(1). Or leave out 'age'.",
    ),
    "no section for the table": Case(
        **plan("[table]", "[tabel]"), message="A plan has no entry 'tabel'.", fix="Did you mean 'table'?"
    ),
    "no ledger": Case(
        **plan('ledger = "ledger.db"', ""),
        message="[budget] needs 'ledger', as text.",
        fix='Write, for instance, ledger = "ledger.db".',
    ),
    "rows as a text": Case(
        **plan("rows = 4", 'rows = "4"'),
        message="'rows' in [table], the public number of rows, must be a whole number above zero.",
        fix="Write rows = 1000, without quotes; the limit is 9,007,199,254,740,992.",
    ),
    "single brackets around release": Case(
        **plan("[[release]]", "[release]"),
        message="[release] may be given several times.",
        fix="Double the brackets: [[release]].",
    ),
    "a name that is no folder": Case(
        **plan("[[release]]", '[[release]]\nname = "a/b"'),
        message="The name of release number 1 is not a valid folder name: 'a/b'.",
        fix="Use letters, digits and hyphens, at most 100: it becomes a folder inside the release.",
    ),
    "an adversary without attributes": Case(
        **plan("[[release]]", '[[adversary]]\nname = "a lender"\n[[release]]'),
        message="An [[adversary]] needs a name and attributes.",
        fix='Write attributes = ["income", "health"].',
    ),
    "a delta of one": Case(
        **plan("[[release]]", "[report]\ndelta = 1.0\n[[release]]"),
        message="delta must lie strictly between 0 and 1, and is 1.0.",
        fix="Try delta = 1e-6.",
    ),
    "TOML with an open quote": Case(
        **plan('"people.csv"', '"people.csv'),
        message="'plan.toml' is not valid TOML: Illegal character '\\n' (at line 3, column 21).",
        fix="Correct that line.",
    ),
    "another number of rows": Case(
        **plan("rows = 4", "rows = 5", ["release", "plan.toml", "--new-ledger"]),
        message="The table has another number of rows than was stated, or counted before.",
        fix="Correct or remove 'rows' in [table]. Do not change the table while it is read; a query must return the same rows each time.",
    ),
    "MWEM of too many records": Case(
        **{
            "do": COST,
            "edits": {
                "schema.toml": "".join(
                    f'[[attribute]]\nname = "a{i}"\nkind = "integer"\nlow = 0\nhigh = 99\n' for i in range(26)
                ),
                "plan.toml": (f'"NoisyMarginals"\n{SETS}', '"MWEM"\nworkload = { queries = "marginals", k = 1 }'),
            },
        },
        message="MWEM keeps a probability for every possible record, and the 26 attributes of its workload have about 10^52 of them; the most is 4,194,304.",
        fix="Use Synthesis, which needs no such list, or name fewer attributes in 'over'.",
    ),
    "cost of a table": Case(
        ["cost", "people.csv"],
        message="'people.csv' is a table, not a plan.",
        fix="Give the path of a plan.toml. `nabladp init people.csv` drafts a schema and a plan for this table.",
    ),
    "cost of a schema": Case(
        ["cost", "schema.toml"],
        message="'schema.toml' is a schema, not a plan.",
        fix="Give the plan.toml that names it. To check a table against it: `nabladp check TABLE --schema schema.toml`.",
    ),
    "cost of nothing": Case(
        ["cost", "pln.toml"], message="There is no readable plan 'pln.toml'.", fix="Did you mean 'plan.toml'?"
    ),
    "check of a schema": Case(
        ["check", "schema.toml"],
        message="'schema.toml' is a schema, not a plan.",
        fix="Give the plan.toml that names it. To check a table against it: `nabladp check TABLE --schema schema.toml`.",
    ),
    "a plan as a schema": Case(
        ["check", "people.csv", "--schema", "plan.toml"],
        message="This is a plan, not a schema.",
        fix="Give the schema.toml that the plan names in [table].",
    ),
    "a table as a schema": Case(
        ["check", "people.csv", "--schema", "people.csv"],
        message="'people.csv' is a table, not a schema.",
        fix="Give the path of a schema.toml. `nabladp init people.csv` drafts a schema and a plan for this table.",
    ),
    "a table that is not there": Case(
        ["check", "poeple.csv"], message="There is no file 'poeple.csv'.", fix="Did you mean 'people.csv'?"
    ),
    "a draft over a schema": Case(
        ["init", "people.csv"],
        message="'schema.toml' exists already.",
        fix="Move it away, or name another file: --schema new-schema.toml.",
    ),
    "a code book of another table": Case(
        ["init", "people.csv", "--schema", "new.toml", "--codebook", "codes.json"],
        message="The code book describes no column of the table: its variables are 'SEX', 'AGEP'.",
        fix="Give the code book of this table, or name its variables as the table names its columns.",
        edits={"codes.json": '{"SEX": {"values": {"1": "Male"}}, "AGEP": {"values": {"min": 0, "max": 99}}}'},
    ),
    "a code book that is not there": Case(
        ["init", "people.csv", "--schema", "new.toml", "--codebook", "codes.json"],
        message="There is no code book 'codes.json'.",
        fix="Check the path.",
    ),
    "a release that is not there": Case(
        ["show", "plan-releas"],
        message="There is no readable release at 'plan-releas'.",
        fix="Give the folder that `nabladp release` wrote, such as plan-release.",
    ),
    "a range with a hyphen": Case(
        lambda: released().count(where={"income": "0-25"}),
        message="'0-25' is neither a value of 'income' nor a range.",
        fix='Write one value, or both ends of a range: "18..65".',
    ),
    "a quantile of values without order": Case(
        lambda: released().quantile("region", 0.5),
        message="'region' has no order.",
        fix="Ask how often its values occur: count(by='region').",
    ),
    "a release without a ledger": Case(
        ["release", "plan.toml"],
        message="There is no ledger 'ledger.db'.",
        fix="Check the path, and that its disk is mounted. To create one, run `nabladp ledger create plan.toml` or add --new-ledger to `nabladp release`; in Python, use Ledger.create or Session(…, new_ledger=True).",
    ),
    "a ledger that is not there": Case(
        ["ledger", "leger.db"],
        message="There is no ledger 'leger.db'.",
        fix="Check the path, and that its disk is mounted. To create one, run `nabladp ledger create plan.toml` or add --new-ledger to `nabladp release`; in Python, use Ledger.create or Session(…, new_ledger=True).",
    ),
    "a table as a ledger": Case(
        ["ledger", "people.csv"],
        message="'people.csv' is not a ledger: it is not a SQLite file.",
        fix="Give the path of a ledger; a plan names its own in [budget].",
    ),
    "a plan as a ledger": Case(
        ["ledger", "plan.toml"],
        message="'plan.toml' is not a ledger: it is not a SQLite file.",
        fix="Give the path of a ledger; a plan names its own in [budget].",
    ),
    "a report of a plan": Case(
        ["report", "plan.toml"],
        message="There is no release beside 'plan.toml'.",
        fix="Run `nabladp release plan.toml` first, or give the folder of a release.",
    ),
    "a void of nothing": Case(
        lambda: session().ledger.void("poll", "a mistake"),
        message="The ledger has no release 'poll'.",
        fix="Run `nabladp ledger` to see what it has.",
    ),
    "a set of a cost misspelt": Case(
        [*COST, "--set", "age,incme"],
        message="The set 'age,incme' does not join its attributes by '+'.",
        fix='Write "age+incme".',
    ),
    "a query that is no select": Case(
        ["sql", "plan.toml", "delete from people", "--budget", "cdp=0.2"],
        message="A query begins with SELECT (line 1, column 1).",
        fix="Write SELECT … FROM people [WHERE …] [GROUP BY …].",
    ),
    "a query about no attribute": Case(
        ["sql", "plan.toml", "select avg(incme) from people", "--budget", "cdp=0.2"],
        message="There is no column 'incme' (line 1, column 12).",
        fix="Did you mean 'income'?",
    ),
    "a budget of a query without a measure": Case(
        ["sql", "plan.toml", "select count(*) from people", "--budget", "0.2"],
        message="'0.2' is not a budget.",
        fix="Write --budget cdp=0.2, --budget rho=0.02 or --budget pure=0.5; for one attribute --budget income:cdp=0.1.",
    ),
    "a column that is missing": Case(
        **table("age,region\n3,north\n"),
        message="The file 'people.csv' has no column 'income'.",
        fix="Correct its name in the schema, or remove it there.",
    ),
    "no header": Case(
        **table("3,10,north\n5,20,south\n"),
        message="The file 'people.csv' names no column of the schema in its first line.",
        fix="Put the column names into the first line, as the schema writes them.",
    ),
    "an unknown delimiter": Case(
        **table("age^income^region\n3^10^north\n"),
        message="The file 'people.csv' names no column of the schema in its first line.",
        fix="Separate the columns by a comma, a semicolon, a tab or a bar: the first line names them all in one.",
    ),
    "an empty file": Case(
        **table(""),
        message="The file 'people.csv' is empty.",
        fix="Give a file whose first line names the columns.",
    ),
    "latin-1": Case(
        **table("age,income,region\n3,10,n\xf6rth\n".encode("latin1")),
        message="The file 'people.csv' is not UTF-8 text.",
        fix="Convert it, for example with iconv -f latin1 -t utf-8.",
    ),
    "a Word file": Case(
        **table(b"PK", "people.doc"),
        message="The file 'people.doc' has a file type that is not read.",
        fix="Save the table as one of: .csv, .tsv, .json, .ndjson (these also with .gz), .parquet, .feather, .arrow or .xlsx.",
    ),
    "a text as a workbook": Case(
        **table("age\n3\n", "people.xlsx"),
        message="The file 'people.xlsx' is not an Excel workbook.",
        fix="Check that it is complete, and saved as .xlsx without a password.",
    ),
    "an old workbook": Case(
        **table(b"\xd0\xcf", "people.xls"),
        message="The file 'people.xls' has a file type that is not read.",
        fix="Save it as .xlsx or CSV.",
    ),
    "a CSV named Parquet": Case(
        **table("age\n3\n", "people.parquet"),
        message="The file 'people.parquet' cannot be read.",
        fix="Check that it is complete, and that its ending is that of its contents.",
    ),
    "a domain that is left open": Case(
        **schema("low = 0", 'low = "FILL IN: smallest"'),
        message="Attribute 'age': 'low' is still marked FILL IN.",
        fix="Replace the mark by the domain you know from public sources; never read it off the data.",
    ),
    "a kind misspelt": Case(
        **schema("integer", "intger"),
        message="Attribute 'age': there is no kind 'intger'.",
        fix="Did you mean 'integer'?",
    ),
    "low above high": Case(
        **schema("low = 0", "low = 10"),
        message="Attribute 'age': 'low' = 10 lies above 'high' = 9.",
        fix="Exchange them.",
    ),
    "edges that fall": Case(
        **schema("[0, 25, 50]", "[0, 50, 25]"),
        message="Attribute 'income': 'edges' must increase.",
        fix="List them from lowest to highest, each once.",
    ),
    "an attribute twice in a schema": Case(
        **schema('"income"', '"age"'),
        message="Attribute 'age': two attributes have this name.",
        fix="Give every attribute one name.",
    ),
    "a value twice": Case(
        **schema('["north", "south"]', '["north", "north"]'),
        message="Attribute 'region': a value is listed twice.",
        fix="List every value once.",
    ),
    "a key of a schema misspelt": Case(
        **schema("values =", "value ="),
        message="Attribute 'region': there is no key 'value'.",
        fix="Did you mean 'values'?",
    ),
    "a date without its ends": Case(
        **schema('kind = "integer"\nlow = 0\nhigh = 9', 'kind = "date"'),
        message="Attribute 'age': kind 'date' needs 'low'.",
        fix="Write low = 2020-01-01, high = 2024-12-31.",
    ),
    "a day that is none": Case(
        **schema('kind = "integer"\nlow = 0\nhigh = 9', 'kind = "date"\nlow = "2023-02-29"\nhigh = 2024-12-31'),
        message="Attribute 'age': 'low' is not a day: '2023-02-29'.",
        fix="Write low = 2020-01-01, high = 2024-12-31.",
    ),
    "months of numbers": Case(
        **schema("high = 9", 'high = 9\nlevels = ["month"]'),
        message="Attribute 'age_month': its source 'age' is not of kind 'date'.",
        fix="Write kind = \"date\", low and high for 'age'.",
    ),
    "a level misspelt": Case(
        **schema(
            'kind = "integer"\nlow = 0\nhigh = 9',
            'kind = "date"\nlow = 2020-01-01\nhigh = 2024-12-31\nlevels = ["moth"]',
        ),
        message="Attribute 'age_moth': there is no level 'moth'.",
        fix="Did you mean 'month'?",
    ),
    "a level finer than its date": Case(
        **schema(
            'kind = "integer"\nlow = 0\nhigh = 9',
            'kind = "date"\nlevel = "year"\nlow = 2020\nhigh = 2024\nlevels = ["month"]',
        ),
        message="Attribute 'age_month': level 'month' is not coarser than that of its source 'age', 'year'.",
        fix="Give 'age' a finer level, or leave this one out.",
    ),
    "levels as a text": Case(
        **schema('values = ["north", "south"]', 'values = ["north", "south"]\nlevels = "state"'),
        message="Attribute 'region': 'levels' must be a list of periods or a table of names.",
        fix='Write levels = ["month", "year"] for dates, levels = { state = 2, county = 5 } for codes.',
    ),
    "a prefix of numbers": Case(
        **schema("high = 9", "high = 9\nlevels = { tens = 1 }"),
        message="Attribute 'tens': its source 'age' has no codes that are text.",
        fix="Declare 'age' as \"categorical\" with values in quotes.",
    ),
    "a level with a domain of its own": Case(
        **schema(
            'values = ["north", "south"]',
            'values = ["north", "south"]\n[[attribute]]\nname = "side"\nderived_from = ["region"]\nprefix = 1\nvalues = ["n", "s", "w"]',
        ),
        message="Attribute 'side': its domain is not what follows from its source 'region'.",
        fix="Remove what follows from the source: keep name, derived_from, and level or prefix.",
    ),
    "a bare number in Python": Case(
        lambda: session(budget=Budget(person=4.0)),
        message="'person' must say what it measures: it is a bare number.",
        fix="In a plan write { cdp = 0.2 }, or { rho = … }, { pure = … } or { epsilon = …, delta = … }; in Python CDP(0.2), Rho(…), Pure(…) or Approx(…).",
    ),
    "a path as a schema": Case(
        lambda: Session("people.csv", "schema.toml", Budget(person=Rho(1)), "ledger.db"),
        message="The schema of a session cannot be 'schema.toml'.",
        fix='Load it with Schema.load("schema.toml").',
    ),
    "a session without its ledger": Case(
        lambda: session(new_ledger=False),
        message="There is no ledger 'ledger.db'.",
        fix="Check the path, and that its disk is mounted. To create one, run `nabladp ledger create plan.toml` or add --new-ledger to `nabladp release`; in Python, use Ledger.create or Session(…, new_ledger=True).",
    ),
    "a delta above one": Case(
        lambda: Approx(1, 2),
        message="Approx(…, delta) must lie strictly between 0 and 1, and is 2.",
        fix="Try delta = 1e-6.",
    ),
    "a text as an epsilon": Case(
        lambda: Pure("1"), message="Pure(eps) must be a number, not text.", fix="Write the number without quotes."
    ),
    "two sets as one in Python": Case(
        lambda: NoisyMarginals(CDP(1), sets=["age", "region"]),
        message='\'sets\' = ["age", "region"] may mean one table or 2 tables.',
        fix='For one table of all these attributes write [["age", "region"]]; for a table of each write [["age"], ["region"]].',
    ),
    "a marginal that was not released": Case(
        lambda: released()["age"], message="The marginal age was not released.", fix="Released tables: region+income."
    ),
    "a mean of texts": Case(
        lambda: released().mean("region"),
        message="'region' is not numeric: it has no sum and no mean.",
        fix="Ask how often its values occur: count(by='region'), or share.",
    ),
    "a quantile beyond one": Case(
        lambda: released().quantile("income", 50),
        message="q must lie strictly between 0 and 1, and is 50.",
        fix="The median is q = 0.5.",
    ),
    "the epsilon of a misspelt attribute": Case(
        lambda: released().guarantee.epsilon("incme", 1e-6),
        message="There is no attribute 'incme'.",
        fix="Did you mean 'income'?",
    ),
    "a plan loaded as a release": Case(
        lambda: Release.load("plan.toml"),
        message="'plan.toml' is not a release record.",
        fix="Give the folder that `nabladp release` wrote, such as plan-release.",
    ),
    "a schema as a plan in Python": Case(
        lambda: Plan.load(Schema.load("schema.toml")),
        message="The plan is given by its path, not by a Schema.",
        fix="Give the path of its file, as text or as a Path.",
    ),
    "rows that can be read only once": Case(
        lambda: open_table(pa.table({"age": [1]}).to_reader(), AGE),
        message="A RecordBatchReader cannot be read as a table.",
        fix="Its rows can be read only once, and may be needed again: give the table that its read_all() returns.",
    ),
    "a column without a name": Case(
        lambda: open_table(pl.Series([1, 2]), AGE),
        message="A Series cannot be read as a table.",
        fix="Give its columns names: pyarrow.table({…}), or a pandas or polars DataFrame.",
    ),
    "a lazy table that fails": Case(
        lambda: open_table(pl.LazyFrame({"age": ["x"]}).cast(pl.Int64), AGE).marginals([("age",)]),
        message="The LazyFrame cannot be read: it raises InvalidOperationError.",
        fix="Run it yourself to see why. Its own message may show data: keep it to yourself.",
    ),
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    yield tmp_path


def answer(case: Case, capsys: pytest.CaptureFixture[str]) -> tuple[str, str]:
    """The error of a command with ``--json``, or of a function."""
    for name, change in case.edits.items():
        if isinstance(change, tuple):
            text = Path(name).read_text()
            assert change[0] in text
            change = text.replace(change[0], change[1], 1)
        Path(name).write_bytes(change if isinstance(change, bytes) else change.encode())
    if callable(case.do):
        with pytest.raises(NablaDPError) as caught:
            case.do()
        return caught.value.message, caught.value.fix
    with pytest.raises(SystemExit) as left:
        run([*case.do, "--json"])
    said = json.loads(capsys.readouterr().out)
    assert left.value.code == 1
    return said["message"].replace(f"{Path.cwd()}/", ""), said["fix"]


def test_there_are_sixty_of_them() -> None:
    assert len(CASES) >= 60


@pytest.mark.parametrize("name", CASES)
def test_a_mistake_is_answered_in_two_lines(name: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    case = CASES[name]
    assert answer(case, capsys) == (case.message, case.fix)
    for line in (case.message, case.fix):
        assert line[-1] in ".?" and len(line) < 260 and "Error" not in line.replace("OperationError", ""), line
