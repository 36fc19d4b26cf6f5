"""Forms of releases: every mechanism has one, and what is typed into it is the release it showed."""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from every_mechanism import INSTANCES, SCHEMA, loaded

from nabladp import CDP, Statistics
from nabladp.errors import NablaDPError, PlanError
from nabladp.mechanisms import MECHANISMS, Mechanism, mechanism_class
from nabladp.release import forms
from nabladp.release.entries import Listed, nest, scalar, scalar_text
from nabladp.release.forms import AS_TOML, Field, entry_of, offer_of, offers, read_form, release_form
from nabladp.release.questions import WhereRows
from nabladp.schema.files import toml_text

PLUGIN = Path(__file__).resolve().parents[2] / "examples/plugin/src/nabladp_yes_total/mechanism.py"


def block_of(mechanism: Mechanism) -> dict[str, Any]:
    return {"name": "mine", "mechanism": type(mechanism).__name__, **mechanism.to_json()}


def sent(fields: tuple[Field, ...]) -> list[tuple[str, str]]:
    """What a browser sends where nothing was changed."""
    pairs = []
    for field in fields:
        typed = field.entry.shape == "toml" and entry_of_field(field).shape != "toml"
        pairs += flat(f"{field.name}.{AS_TOML}" if typed else field.name, field.filled)
    return pairs


def entry_of_field(field: Field) -> Any:
    known = {own.name: own for name in MECHANISMS for own in mechanism_class(name).parameters()}
    return entry_of(known[field.name].kind) if field.name in known else field.entry


def flat(name: str, filled: Any) -> Iterator[tuple[str, str]]:
    if isinstance(filled, list):
        yield from ((name, text) for text in filled)
    else:
        for key, own in filled.items():
            yield from flat(f"{name}.{key}", own)


@pytest.mark.parametrize("mechanism", INSTANCES, ids=lambda m: type(m).__name__)
def test_what_a_form_shows_is_what_it_sends(mechanism: Mechanism) -> None:
    block = block_of(mechanism)
    form = release_form(block)
    assert form.name == "mine" and not [field for field in form.fields if field.fault]
    again = read_form(type(mechanism).__name__, sent(form.fields), form.name)
    assert again.pop("name") == "mine" and again.pop("mechanism") == type(mechanism).__name__
    written = tomllib.loads("\n".join(f"{key} = {toml_text(value)}" for key, value in again.items()))
    assert type(mechanism).from_plan(written) == mechanism


@pytest.mark.parametrize("name", MECHANISMS)
def test_every_mechanism_is_offered_with_a_sentence_and_a_field_for_each_parameter(name: str) -> None:
    (offer,) = [own for own in offers() if own.name == name]
    assert offer.title and offer.purpose.endswith(".") and offer.first
    fields = {field.name: field for field in release_form({"mechanism": name, **(offer.start or {})}).fields}
    asked = set(forms.AskedFigures.parameters) if "figures" in fields else set()
    assert {own.name for own in mechanism_class(name).parameters()} == set(fields) - {"figures"} | asked
    assert [field.name for field in fields.values() if field.first] == list(offer.first)
    assert all(field.help and field.takes for field in fields.values())


@pytest.mark.parametrize("name", MECHANISMS)
def test_only_what_a_release_records_of_itself_is_typed_as_in_a_plan(name: str) -> None:
    typed = {own.name for own in mechanism_class(name).parameters() if entry_of(own.kind).shape == "toml"}
    assert typed <= {"settings", "design", "zeros"}


def test_the_example_of_every_parameter_survives_its_form() -> None:
    for name in MECHANISMS:
        for own in mechanism_class(name).parameters():
            if own.name in ("settings", "design") or own.name in forms.AskedFigures.parameters:
                continue
            value = tomllib.loads(f"x = {own.kind.example}")["x"]
            (field,) = [f for f in release_form({"mechanism": name, own.name: value}).fields if f.name == own.name]
            assert not field.fault, (name, own.name, field.fault)
            pairs = [(n, t) for n, t in sent((field,))]
            block = {k: v for k, v in read_form(name, pairs).items() if k != "mechanism"}
            assert own.checked(block.get(own.name, own.default)) == own.checked(value), (name, own.name)


def test_a_plugin_has_a_form_like_any_other(monkeypatch: pytest.MonkeyPatch) -> None:
    module = loaded(PLUGIN)
    true = forms.mechanism_class
    monkeypatch.setattr(forms, "plugins", lambda: {"YesTotal": []})
    monkeypatch.setattr(forms, "mechanism_class", lambda name: module.YesTotal if name == "YesTotal" else true(name))
    assert offers()[-1].name == "YesTotal" and "How many rows say yes" in offers()[-1].purpose
    form = release_form({"mechanism": "YesTotal", "column": "sick", **(offers()[-1].start or {})})
    assert [field.name for field in form.fields] == ["budget", "column"]
    block = read_form("YesTotal", sent(form.fields))
    made = module.YesTotal.from_plan({key: value for key, value in block.items() if key != "mechanism"})
    assert made == module.YesTotal(made.budget, "sick") and made.budget.pure
    sys.modules.pop(module.__name__, None)


# ---- wrong values ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "pairs", "field", "says"),
    [
        ("NoisyMarginals", [("k", "two")], "k", "not a number"),
        ("NoisyMarginals", [("k", "0")], "k", "'k' must be a whole number of at least 1"),
        ("NoisyMarginals", [("noise", "cauchy")], "noise", "not one of the choices"),
        ("NoisyMarginals", [("budget.measure", "cdp"), ("budget.amount", "-1")], "budget", "above zero"),
        ("NoisyMarginals", [("budget.measure", ""), ("budget.amount", "1")], "budget", "no measure"),
        ("NoisyMarginals", [("budget.measure", "epsilon"), ("budget.amount", "1")], "budget", "needs a δ"),
        ("NoisyMarginals", [("budgets.0.column", "age")], "budgets", "A row has no budget"),
        (
            "NoisyMarginals",
            [
                ("budgets.0.column", "age"),
                ("budgets.0.budget.measure", "cdp"),
                ("budgets.0.budget.amount", "1"),
                ("budgets.1.column", "age"),
                ("budgets.1.budget.measure", "cdp"),
                ("budgets.1.budget.amount", "2"),
            ],
            "budgets",
            "'age' has two rows",
        ),
        ("Synthesis", [("workload.size", "2"), ("workload.sets.0.columns", "age")], "workload", "are filled in"),
        ("Synthesis", [("zeros", "[{")], "zeros", "not a value of a plan file"),
        ("Statistics", [("figures.0.what", "mean")], "figures", "no column"),
        ("Statistics", [("figures.0.of", "age")], "figures", "No figure is chosen for 'age'"),
        ("Statistics", [("figures.0.what", "quantiles"), ("figures.0.of", "age")], "figures", "no level"),
        ("Statistics", [("figures.0.what", "sum per person"), ("figures.0.of", "age")], "figures", "no bounds"),
        ("Statistics", [("where.rows.0.column", "age"), ("where.rows.0.is", "is")], "where", "no value"),
        ("HeavyHitters", [("failure", "1.5")], "failure", "'failure' must be a share"),
    ],
)
def test_an_error_names_its_field(name: str, pairs: list[tuple[str, str]], field: str, says: str) -> None:
    with pytest.raises(NablaDPError) as caught:
        read_form(name, pairs)
    assert caught.value.fields["field"] == field and says in caught.value.message and caught.value.fix


def test_a_form_that_contradicts_itself_is_refused() -> None:
    for pairs in ([("a", "1"), ("a.b", "2")], [("a.b", "2"), ("a", "1")]):
        with pytest.raises(PlanError, match="fields of one name"):
            nest(pairs)


def test_a_form_shows_what_is_wrong_in_a_plan() -> None:
    form = release_form({"mechanism": "NoisyMarginals", "k": "two", "sets": 3, "budget": {"cdp": 1}})
    faults = {field.name: field.fault for field in form.fields if field.fault}
    assert set(faults) == {"k", "sets"} and "'k' must be a whole number" in faults["k"]
    with pytest.raises(PlanError, match="no mechanism"):
        release_form({"mechanism": "Nothing"})


def test_empty_rows_and_defaults_are_no_part_of_a_release() -> None:
    pairs = [("sets.0.columns", "age"), ("sets.3.columns", "sick"), ("noise", "gaussian"), ("budgets.0.column", "")]
    assert read_form("NoisyMarginals", pairs) == {
        "mechanism": "NoisyMarginals",
        "sets": [["age"], ["sick"]],
        "noise": "gaussian",
    }


# ---- questions by clicking -------------------------------------------------------------------------------------------


def test_figures_by_clicking_are_those_of_a_query() -> None:
    pairs = [
        ("figures.0.what", "number of rows"),
        ("figures.1.what", "mean"),
        ("figures.1.of", "income"),
        ("figures.2.what", "quantiles"),
        ("figures.2.of", "income"),
        ("figures.2.levels", "0.25, 0.75"),
        ("figures.10.what", "sum"),
        ("figures.10.of", "age"),
        ("by.0.of", "region"),
        ("where.rows.0.column", "age"),
        ("where.rows.0.is", "is at least"),
        ("where.rows.0.value", "3"),
        ("where.rows.1.column", "region"),
        ("where.rows.1.is", "is not"),
        ("where.rows.1.value", "n"),
        ("budget.measure", "cdp"),
        ("budget.amount", "0.5"),
    ]
    block = read_form("Statistics", pairs)
    options = {key: value for key, value in block.items() if key != "mechanism"}
    made = Statistics.from_plan(options)
    assert made == Statistics(
        CDP(0.5),
        by="region",
        where="age >= 3 AND region <> 'n'",
        count=True,
        mean="income",
        quantile={"income": [0.25, 0.75]},
        sum="age",
    )
    assert made.reads(SCHEMA) == ("region", "age", "income")


@pytest.mark.parametrize(
    "sql",
    [
        "age >= 3",
        "region = 'it''s' AND age < 2.5 AND sick = TRUE",
        '"marital status" IS NOT NULL AND "order" = \'1\'',
        "x = '' AND y <> 'AND z = 1'",
    ],
)
def test_simple_conditions_are_shown_as_rows(sql: str) -> None:
    filled = WhereRows().fill(sql)
    assert WhereRows().read(filled) == sql


@pytest.mark.parametrize("sql", ["age >= 3 OR sick", "age + 1 > 2", "age BETWEEN 1 AND 2", "NOT sick", "age = other"])
def test_other_conditions_are_shown_in_sql(sql: str) -> None:
    block = {"mechanism": "Statistics", "count": True, "where": sql, "budget": {"cdp": 1}}
    (field,) = [own for own in release_form(block).fields if own.name == "where"]
    assert field.filled == {"sql": [sql]}


@pytest.mark.parametrize("value", ["a", "1", 1, 1.5, True, "true", "", " a", '"q"', "null", "[1]", "line\nbreak", "é"])
def test_values_are_typed_as_they_are_read(value: Any) -> None:
    text = scalar_text(value)
    assert scalar(text) == value and type(scalar(text)) is type(value)
    assert Listed().read(Listed().fill([value])) == [value]


def test_an_offer_of_an_unknown_mechanism_is_its_documentation() -> None:
    class Other(Statistics):
        """Something new. And old.

        More.
        """

    assert offer_of(Other).purpose == "Something new. And old." and offer_of(Other).title == "Other"
