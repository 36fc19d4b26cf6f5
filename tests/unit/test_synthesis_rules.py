"""Rules between numbers and formulas of derived columns: what is refused, what the owner is told, what rows do."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from nabladp import CDP, Synthesis
from nabladp.audit import exact_audit
from nabladp.errors import MechanismError, NablaDPError, SchemaError, UnknownAttribute
from nabladp.mechanisms.synthesis.declared import Declared, declared_zeros
from nabladp.mechanisms.synthesis.rounds import Truth
from nabladp.noise import NoiseSource
from nabladp.schema import Attribute, Schema
from nabladp.schema.expressions import Rule
from nabladp.tables import CodedTable, check_table, open_table

ROWS = 4_000
RULES = ("years <= age - 14", "low <= high")


def schema(decode: str = "uniform", rules: tuple[str, ...] = RULES) -> Schema:
    return Schema(
        (
            Attribute("age", "integer", low=0, high=99),
            Attribute("years", "integer", low=0, high=80, null="category"),
            Attribute("low", "real", low=0.0, high=100.0, bins=8, decode=decode),
            Attribute("high", "real", low=0.0, high=100.0, bins=5, decode=decode),
            Attribute(
                "band", "ordered", values=("child", "adult"), formula={"child": "age < 18", "adult": "age >= 18"}
            ),
            Attribute("gap", "real", low=0.0, high=100.0, decode=decode, formula="high - low"),
            Attribute("wide", "boolean", formula="gap > 50"),
        ),
        rules,
    )


def people() -> pa.Table:
    draw = np.random.default_rng(0)
    age = draw.integers(0, 100, ROWS)
    years = np.minimum(np.floor(draw.random(ROWS) * np.maximum(age - 13, 0)), 80).astype(int)
    low = draw.random(ROWS) * 70
    high = np.minimum(low + draw.exponential(15, ROWS), 100)
    return pa.table(
        {
            "age": age,
            "years": pa.array(years, mask=age < 14),
            "low": low,
            "high": high,
            "band": np.where(age < 18, "child", "adult"),
            "gap": high - low,
            "wide": high - low > 50,
        }
    )


@pytest.mark.parametrize("decode", ["uniform", "smooth", "midpoint"])
def test_synthetic_rows_follow_rules_and_formulas(decode: str) -> None:
    declared = schema(decode)
    output = Synthesis(CDP(1)).run(open_table(people(), declared), NoiseSource.seeded(1))
    rows = output.synthetic
    young = np.asarray(rows["age"]) < 14
    assert rows["years"].null_count and np.asarray(rows["years"].is_null())[young].all()
    assert (np.asarray(rows["low"]) <= np.asarray(rows["high"])).all()
    assert not check_table(open_table(rows, declared))  # nothing that its owner would be told
    plain = output.sample(300, NoiseSource.seeded(2), repair=False)
    assert not check_table(open_table(plain, declared))
    assert output.apart is not None and max(output.apart.each) < 0.5


def test_rows_follow_rules_that_the_model_has_no_room_for() -> None:
    declared = schema()
    output = Synthesis(CDP(1), model_mb=0.09).run(open_table(people(), declared), NoiseSource.seeded(1))
    assert not any(set(zero.attributes) == {"age", "years"} for zero in output.model.zeros)
    assert not check_table(open_table(output.synthetic, declared))


def test_numbers_without_a_valid_place_become_those_of_another_row() -> None:
    numbers = [Attribute(name, "real", low=0.0, high=10.0, bins=2, decode="uniform") for name in "xyz"]
    declared = Schema(tuple(numbers), ("x + 3 <= y", "y + 3 <= z"))  # fine by pairs of bins, not for all three in one
    codes = {name: np.zeros(6, np.uint8) for name in "xyz"}
    codes["y"][:3], codes["z"][:3] = 0, 1
    within = {name: np.full(6, 0.5, np.float32) for name in "xyz"}
    rows, positions = Declared(declared, declared.names, ()).settle(codes, within)
    assert positions is not None
    x, y, z = (5 * (rows[name] + positions[name].astype(float)) for name in "xyz")
    assert (x + 3 <= y).all() and (y + 3 <= z).all()


def test_a_rule_speaks_of_numbers_and_of_what_rows_can_hold() -> None:
    own = Schema((Attribute("a", "integer", low=0, high=2, null="category"), Attribute("b", "ordered", values=(1, 5))))
    (zero,) = declared_zeros(Schema(own.attributes, ("a < b",)), own.names)
    assert zero.forbidden.tolist() == [[False, False], [True, False], [True, False], [False, False]]
    first, second = Rule.parse("0 <= 2*a - b/2 < 3")
    assert (first.weights, first.bound, first.strict) == ((-2.0, 0.5), 0.0, False)
    assert (second.weights, second.bound, second.strict) == ((2.0, -0.5), 3.0, True)


@pytest.mark.parametrize(
    ("rule", "says"),
    [
        ("a = b", "cannot be read. Write == for equality"),
        ("a == b", "compares with =="),
        ("a * b <= 3", "is not linear"),
        ("a <= 3", "at least two columns"),
        ("a - a <= b", "at least two columns"),
        ("a and b", "combines numbers"),
        ("__import__('os')", "other than arithmetic"),
        ("a.real <= b", "other than arithmetic"),
        ("a <= 1e999 * b", "too large"),
        ("a <= " + "(" * 400 + "b", "cannot be read"),
        ("a <= b" * 400, "at most 1,000 characters"),
        (3, "at most 1,000 characters"),
        ("c <= a", "holds no numbers"),
    ],
)
def test_other_rules_are_refused(rule: object, says: str) -> None:
    numbers = [Attribute(name, "integer", low=0, high=9) for name in "ab"]
    with pytest.raises(SchemaError) as caught:
        Schema((*numbers, Attribute("c", "boolean")), (rule,))  # type: ignore[arg-type]
    assert says in str(caught.value) and caught.value.fix


def test_unknown_columns_and_lists_are_refused() -> None:
    number = Attribute("a", "integer", low=0, high=9)
    with pytest.raises(UnknownAttribute):
        Schema((number,), ("a <= b",))
    with pytest.raises(SchemaError, match="list of texts"):
        Schema((number,), "a <= a")  # type: ignore[arg-type]
    with pytest.raises(SchemaError, match=r"above the first \[\[attribute\]\]"):
        Schema.parse('[[attribute]]\nname = "a"\nkind = "boolean"\nrules = ["a <= b"]')


@pytest.mark.parametrize(
    ("kind", "formula", "says"),
    [
        ({"kind": "integer", "low": 0, "high": 9}, "zz + 1", "'zz' is not an attribute"),
        ({"kind": "integer", "low": 0, "high": 9}, "c + 1", "holds no numbers"),
        ({"kind": "integer", "low": 0, "high": 9}, "a < 3", "a condition for each"),
        ({"kind": "integer", "low": 0, "high": 9}, "3", "reads no column"),
        ({"kind": "integer", "low": 0, "high": 9}, "t + 1", "'t', which is not in 'derived_from'"),
        ({"kind": "integer", "low": 0, "high": 9}, "floor(a, a)", "it takes 1"),
        ({"kind": "integer", "low": 0, "high": 9}, 3, "a text or a table"),
        ({"kind": "boolean"}, "a + 1", "is not a condition"),
        ({"kind": "categorical", "values": ("q",)}, {"s": "a > 4"}, "'s', which is not one of its values"),
        ({"kind": "categorical", "values": ("q",)}, {"q": 4}, "neither a condition nor a list"),
        ({"kind": "categorical", "values": ("q",), "derived_from": ("c",)}, {"q": ["y"]}, "'y', which 'c' does not"),
        ({"kind": "categorical", "values": ("q",), "derived_from": ("a", "c")}, {"q": ["x"]}, "exactly one source"),
    ],
)
def test_other_formulas_are_refused(kind: dict[str, object], formula: object, says: str) -> None:
    others = Attribute("a", "integer", low=0, high=9), Attribute("c", "categorical", values=("x",))
    with pytest.raises(SchemaError) as caught:
        Schema((*others, Attribute("t", formula=formula, **kind)))  # type: ignore[arg-type]
    assert says in str(caught.value) and caught.value.fix


def test_formulas_and_rules_are_facts_of_the_schema_only_where_there_are_some() -> None:
    declared = schema()
    assert Schema.parse(declared.to_toml()) == declared and Schema.from_json(declared.to_json()) == declared
    assert declared.derived["wide"] == ("low", "high") and tuple(declared.formulas)[-1] == "wide"
    plain = Schema(declared.attributes)
    assert plain.fingerprint() != declared.fingerprint() and "rules" not in plain.to_json()
    assert all("formula" not in a.to_json() for a in declared.attributes if not a.formula)
    states = Attribute("state", "categorical", values=("ME", "VT", "CA"), null="category")
    region = Attribute("region", "categorical", values=("n", "w"), formula={"n": ["ME", "VT"], "w": ["CA"]},
                       derived_from=("state",), null="category")  # fmt: skip
    table = pa.table({"state": ["VT", None, "CA"], "region": ["n", None, "n"]})
    (found,) = check_table(open_table(table, Schema((states, region))))
    assert (found.column, found.rule, found.rows) == ("region", "differs from its formula", 1)


def test_the_owner_learns_how_many_rows_break_a_rule() -> None:
    table = people().slice(0, 100)
    wrong = table.set_column(2, "low", pa.array(np.r_[np.full(7, 99.0), np.asarray(table["low"])[7:]]))
    found = {(each.column, each.rule): each.rows for each in check_table(open_table(wrong, schema()))}
    high = np.asarray(table["high"])[:7]
    assert found["low", "breaks the rule 'low <= high'"] == int((high < 99).sum())
    assert len(found) == 1


def test_a_false_rule_is_seen_in_noisy_counts() -> None:
    table = people()
    false = schema(rules=("years <= age - 60",))
    output = Synthesis(CDP(8)).run(open_table(table, false), NoiseSource.seeded(3))
    (found,) = output.quality["contradicted_zeros"]
    assert set(found["attributes"]) == {"age", "years"} and found["rows"] > 500
    true = Synthesis(CDP(8)).run(open_table(table, schema()), NoiseSource.seeded(3))
    assert true.quality["contradicted_zeros"] == []


def test_contradictory_rules_are_refused_before_anything_is_spent() -> None:
    numbers = tuple(Attribute(name, "integer", low=0, high=3) for name in "ab")
    with pytest.raises(MechanismError, match="contradict each other"):
        Synthesis(CDP(1)).guarantee(Schema(numbers, ("a < b", "b < a")), 100)


TINY = Schema((Attribute("a", "integer", low=0, high=1), Attribute("b", "integer", low=0, high=1)), ("a <= b",))


def test_the_guarantee_holds_for_rows_that_break_a_rule(monkeypatch: pytest.MonkeyPatch) -> None:
    mechanism = Synthesis(CDP(1), 1, strategy="all")
    assert exact_audit(mechanism, TINY, n=2).passed

    def mended_rows(self: Truth, sets: list[tuple[str, ...]]) -> list[np.ndarray]:
        both = self.counts.marginals([("a", "b")])[0]
        both[0, 0], both[1, 0] = both[:, 0].sum(), 0  # a = 1, b = 0 breaks the rule and becomes a = 0
        return [both.sum(axis=1 - "ab".index(names[0])) for names in sets]

    monkeypatch.setattr(Truth, "tables", mended_rows)  # the count of a then tells about b
    assert not exact_audit(mechanism, TINY, n=2).passed


def test_a_run_with_rules_counts_every_row() -> None:
    codes = {"a": np.array([1] * 900 + [0] * 100), "b": np.zeros(1000, int)}
    output = Synthesis(CDP(3), strategy="all").run(CodedTable(TINY, codes), NoiseSource.seeded(0))
    (one,) = [m for m in output.measured if m.attributes == ("a", "b")]
    assert one.counts[1, 0] > 800 and not (output.codes["a"] > output.codes["b"]).any()  # type: ignore[index]
    with pytest.raises(NablaDPError):
        Schema.parse('rules = "a <= b"')
