"""docs/release-schema.json describes the records that are really written, of every mechanism."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import every_mechanism
import pytest
from every_mechanism import INSTANCES
from jsonschema import Draft202012Validator
from report_pages import BUDGET, MARGINALS, session

from nabladp.mechanisms import MECHANISMS
from nabladp.noise import NoiseSource
from nabladp.privacy import CDP, Budget, Guarantee, Pure, Rho
from nabladp.release import Release
from nabladp.release.cost import error_json
from nabladp.release.record import versions

ROOT = Path(__file__).resolve().parents[2]
SCHEMA = json.loads((ROOT / "docs" / "release-schema.json").read_text(encoding="utf-8"))


def problems(record: Any) -> list[str]:
    return [f"{error.json_path}: {error.message[:200]}" for error in Draft202012Validator(SCHEMA).iter_errors(record)]


def record_of(mechanism: Any) -> dict[str, Any]:
    release = Release(
        name="one",
        mechanism=type(mechanism).__name__,
        parameters=mechanism.to_json(),
        schema=every_mechanism.SCHEMA,
        n=500,
        guarantee=mechanism.guarantee(every_mechanism.SCHEMA, 500),
        output=mechanism.run(every_mechanism.table(), NoiseSource.seeded(4)),
        expected_error=error_json(mechanism.expected_error(every_mechanism.SCHEMA, 500)),
        ledger={"ledger": "made-up", "entry": 2, "name": "one", "hash": "0" * 64},
        created="2026-11-15T12:00:00+00:00",
        versions=versions(),
    )
    found: dict[str, Any] = json.loads(release.text)
    return found


def test_the_schema_is_one() -> None:
    Draft202012Validator.check_schema(SCHEMA)
    assert {type(m).__name__ for m in INSTANCES} == set(MECHANISMS)


@pytest.mark.parametrize("name", MECHANISMS)
def test_records_of_every_mechanism(name: str) -> None:
    instances = [m for m in INSTANCES if type(m).__name__ == name]
    for mechanism in instances:
        assert problems(record_of(mechanism)) == []


def test_a_published_record_with_limits_and_adversaries(folder: Path) -> None:
    for part in ("pairs", "single"):
        record = json.loads((folder / part / "release.json").read_bytes())
        assert problems(record) == []
        assert {line["limit"] for line in record["limits"]} == {"region", "age", "income", "sick", "unused"} | {
            "income+sick",
            "person",
        }
        assert record["figures"]["adversaries"][0]["name"] == "a neighbour"


def test_limits_are_those_of_the_ledger(tmp_path: Path) -> None:
    made = session(tmp_path)
    first, second = made.release(MARGINALS), made.release(MARGINALS)
    assert [dict(line) for line in second.limits] == [line.to_json() for line in made.ledger.spent()]
    person = [next(line for line in r.limits if line["limit"] == "person") for r in (first, second)]
    assert person[1]["spent"] == pytest.approx(2 * person[0]["spent"]) and person[0]["allowed"] == 4
    assert len(first.limits) == len(BUDGET.limits(first.schema))
    made.ledger.close()


def test_a_record_without_limits_is_still_read_and_keeps_its_digest(tmp_path: Path) -> None:
    made = session(tmp_path)
    release = made.release(MARGINALS, to=tmp_path / "out")
    made.ledger.close()
    record = json.loads((tmp_path / "out" / "release.json").read_bytes())
    del record["limits"]
    (tmp_path / "old").mkdir()
    text = json.dumps(record, indent=1, ensure_ascii=False).encode() + b"\n"
    (tmp_path / "old" / "release.json").write_bytes(text)
    old = Release.load(tmp_path / "old")
    assert old.limits == () and old.text == text and old.digest != release.digest
    assert problems(record) == []


def test_guarantees_of_every_shape() -> None:
    names = ("a", "b", "c")
    whole = (
        Guarantee.touch(names, {"a": Rho(1), "b": Rho(2)})
        + Guarantee.linear(names, names, Pure(1), limit=2)
        + Guarantee.squares(names, names, CDP(1))
        + Guarantee.curve(names, {"a": 1, "b": 1}, [0, 1, 2])
        + Guarantee.capped(names, {"a": Rho(1), "b": Rho(1)}, {("a", "b"): Rho(1.5)})
        + Guarantee.from_graph(names, [("0", "1", Pure(1))], on="a", values={"a": "01"})
    )
    record = record_of(INSTANCES[0])
    record["guarantee"] = (whole + whole).to_json()
    assert problems(record) == []


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("format",), 2),
        (("n",), "many"),
        (("files", "values.parquet"), "short"),
        (("guarantee", "terms", 0, "shape"), "unheard of"),
        (("guarantee", "terms", 0, "weight"), 0.5),
        (("figures", "person", "rho"), "no bound"),
        (("values", "tables", 0, "counts"), ["x"]),
        (("surprise",), 1),
        (("ledger", "hash"), None),
    ],
)
def test_what_is_wrong_is_noticed(path: tuple[Any, ...], value: Any) -> None:
    record = copy.deepcopy(record_of(next(one for one in INSTANCES if type(one).__name__ == "NoisyMarginals")))
    place = record
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    assert problems(record)


def test_budgets_of_every_kind_are_described() -> None:
    budget = Budget(person=Rho(1), attributes={"a": Pure(1), "b": CDP(1), "c": {"epsilon": 1, "delta": 1e-6}})
    for limit in budget.limits(("a", "b", "c")):
        checker = Draft202012Validator({"$ref": "#/$defs/budget_value", "$defs": SCHEMA["$defs"]})
        assert not list(checker.iter_errors(limit.value.to_json()))
