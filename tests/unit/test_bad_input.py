"""Bad input of every class that was found by fuzzing: an error of ours with a fix, in bounded time and memory."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from nabladp import (
    CDP,
    MWEM,
    Approx,
    Attribute,
    Budget,
    DistributionEstimate,
    GramMatrix,
    Guarantee,
    HalfspaceLearner,
    HeavyHitters,
    Ledger,
    LinearQueries,
    LinearQuery,
    Marginals,
    NoiseSource,
    NoisyMarginals,
    Plan,
    PointLearner,
    Projection,
    Pure,
    Release,
    Rho,
    Schema,
    Session,
    ThresholdLearner,
    open_table,
)
from nabladp.audit import exact_audit, law_audit, statistical_audit
from nabladp.checks import MOST_TEXT, members, names, parse_toml, read_file
from nabladp.errors import (
    NablaDPError,
    OutOfRange,
    PlanError,
    SchemaError,
    SourceError,
    WrongType,
    is_interrupt,
    quote,
    quote_path,
)
from nabladp.mechanisms import Mechanism
from nabladp.noise import half_width, laplace_log_pmf
from nabladp.noise.packings import Packings
from nabladp.privacy import Limit, Universe, epsilon_from_rho
from nabladp.privacy.values import cost_units, limit_units
from nabladp.report import Certificate, Claim, report
from nabladp.tables import CodedTable, Encoder, check_table, column_types
from nabladp.tables.memory import PandasFrame

SCHEMA = Schema((Attribute("age", "integer", low=0, high=9), Attribute("sick", "boolean")))
BUDGET = Budget(person=Rho(100))
PEOPLE = pa.table({"age": [1, 2, 3, 4], "sick": [True, False, True, True]})
DEEP: Any = 0
for _ in range(3000):
    DEEP = [DEEP]
STRANGE = [None, 5, "text", 1.5, object(), DEEP, np.array([1, 2]), {1: 2}, range(10**15), b"\0", Decimal("sNaN"), type]


def refused(call: Callable[[], Any]) -> NablaDPError:
    """With a fix, and in few words whatever was given."""
    with pytest.raises(NablaDPError) as caught:
        call()
    assert caught.value.fix
    assert len(str(caught.value)) < 1500
    return caught.value


# ---- wrong kinds of values -------------------------------------------------------------------------------------------


def test_a_text_is_not_a_list_of_attributes() -> None:
    error = refused(lambda: Universe.of("people.csv"))
    assert isinstance(error, WrongType) and "must be a list, not a text" in error.message
    refused(lambda: Guarantee.touch("ab", "a", Rho(1)))


def test_a_session_names_the_argument_of_the_wrong_kind(tmp_path: Path) -> None:
    error = refused(lambda: Session("people.csv", "schema.toml", BUDGET, tmp_path / "ledger.db"))  # type: ignore[arg-type]
    assert "schema of a session" in error.message and "Schema.load" in error.fix
    for given in ({"budget": 5}, {"noise": {}}, {"adversaries": 3}, {"adversaries": {"a": "age"}}, {"rows": 1.5}):
        options: dict[str, Any] = {"budget": BUDGET, "ledger": tmp_path / "ledger.db", **given}
        refused(lambda options=options: Session(PEOPLE, SCHEMA, **options))  # type: ignore[misc]
    assert not (tmp_path / "ledger.db").exists()


def test_a_release_needs_a_mechanism_and_a_name(tmp_path: Path) -> None:
    session = Session(PEOPLE, SCHEMA, BUDGET, tmp_path / "ledger.db", noise=NoiseSource.seeded(1), new_ledger=True)
    mechanism = NoisyMarginals(CDP(1), k=1)
    for strange in (5, "x", NoisyMarginals, None):
        refused(lambda strange=strange: session.release(strange))  # type: ignore[misc]
        refused(lambda strange=strange: session.cost(strange))  # type: ignore[misc]
    refused(lambda: session.release(mechanism, 5))  # type: ignore[arg-type]
    refused(lambda: session.release(mechanism, "a", "\0"))
    for named in (5, [], [5], ["ab"], [("a",)], [(1, mechanism)]):
        refused(lambda named=named: session.release_all(named, tmp_path / "out"))  # type: ignore[misc]
    assert len(list(session.ledger.entries())) == 1
    session.ledger.close()


def _differs(given: Any, other: int) -> bool:
    return not (isinstance(given, int) and given == other)


MECHANISM = NoisyMarginals(CDP(1), k=1)
WHOLE = Guarantee.touch(SCHEMA, ["age"], Rho(1))
CALLS: dict[str, Callable[[Any], Any]] = {
    "rho": WHOLE.rho,
    "epsilon at delta": lambda given: WHOLE.epsilon("age", given if given is not None else "x"),
    "conversion": lambda given: WHOLE.epsilon("age", 1e-6, given),
    "for_rows": lambda given: WHOLE.for_rows(given if _differs(given, 5) else 0),
    "with_public": WHOLE.with_public,
    "worst_subset": WHOLE.worst_subset,
    "epsilon_between": lambda given: WHOLE.epsilon_between(given, given),
    "epsilon_from_rho": lambda given: epsilon_from_rho([given], 1e-6),
    "compose": lambda given: Guarantee.compose(SCHEMA, given),
    "from_json": Guarantee.from_json,
    "terms": lambda given: Guarantee(WHOLE.universe, given),
    "graph": lambda given: Guarantee.from_graph(SCHEMA, given, on="sick"),
    "curve": lambda given: Guarantee.curve(SCHEMA, given, [0, 1]),
    "capped": lambda given: Guarantee.capped(SCHEMA, given),
    "Limit.of": lambda given: Limit.of("age", given, Rho(1)),
    "Limit.from_json": Limit.from_json,
    "Budget": lambda given: Budget(attributes=given),
    "Schema": Schema,
    "Schema.from_json": Schema.from_json,
    "Attribute": lambda given: Attribute(given, "boolean") if not isinstance(given, str) else Attribute("a", given),
    "Attribute.from_json": Attribute.from_json,
    "workload": lambda given: Marginals(sets=given),
    "bind": lambda given: Marginals(1).bind(given),
    "guarantee of a schema": lambda given: MECHANISM.guarantee(given, 5),
    "guarantee of rows": lambda given: MECHANISM.guarantee(SCHEMA, given if _differs(given, 5) else -1),
    "from_plan": NoisyMarginals.from_plan,
    "open_table": lambda given: open_table(PEOPLE, given),
    "source": lambda given: open_table(given, SCHEMA),
    "check_table": check_table,
    "CodedTable": lambda given: CodedTable(SCHEMA, given),
    "Encoder": lambda given: Encoder(given),
    "exact_audit": lambda given: exact_audit(given, SCHEMA, 1),
    "statistical_audit": lambda given: statistical_audit(MECHANISM, given, seconds=1),
    "Plan.of": lambda given: Plan.of(given, Path()),
    "Plan.load": Plan.load,
    "Release.load": Release.load,
    "Certificate.load": Certificate.load,
    "report": report,
    "packings": lambda given: NoiseSource.seeded(1).select_packing(given, [1.0]),
    "select": lambda given: NoiseSource.seeded(1).select([given]) if _differs(given, 5) else names(5),
}


@pytest.mark.parametrize("name", CALLS)
def test_wrong_kinds_are_refused(name: str) -> None:
    for given in STRANGE:
        refused(lambda given=given: CALLS[name](given))  # type: ignore[misc]


def test_names_are_listed_lazily() -> None:
    assert names(iter(["a", "b"])) == names({"a": 1, "b": 2}) == ("a", "b")
    assert members(range(3), "x", "y") == (0, 1, 2)
    refused(lambda: members(range(10**15), "A list", "Give fewer."))


def test_what_an_error_repeats_is_short() -> None:
    assert quote("age") == "'age'" and quote(5) == "5" and quote(None) == "None"
    assert len(quote("x" * 10**6)) < 100 and quote(10**5000) == "an int" and quote(DEEP) == "a list"


@pytest.mark.parametrize(
    "open_path",
    [
        Plan.load,
        Schema.load,
        Release.load,
        report,
        lambda path: open_table(str(path), Schema((Attribute("a", "boolean"),))),
        lambda path: open_table(str(path.with_name("[0-9]" + path.name)), Schema((Attribute("a", "boolean"),))),
    ],
)
def test_a_long_path_keeps_its_end_which_names_the_file(open_path: Callable[[Path], object], tmp_path: Path) -> None:
    path = tmp_path.joinpath(*["folder"] * 20, "absent.csv")
    with pytest.raises(NablaDPError) as caught:
        open_path(path)
    assert "'…" in caught.value.message and "folder/" in caught.value.message
    assert "absent.csv'" in caught.value.message and str(path) not in caught.value.message


def test_a_quoted_path_holds_no_more_than_its_last_characters() -> None:
    assert quote_path(Path("a/b.csv")) == "'a/b.csv'" and quote_path("x" * 80) == repr("x" * 80)
    assert quote_path("x" * 80 + "y") == repr("…" + "x" * 78 + "y")


@pytest.mark.parametrize(
    "made",
    [
        lambda: Pure(Decimal("sNaN")),
        lambda: CDP(Decimal("1e-999999999")),
        lambda: Approx(1, Fraction(1, 10**400)),
        lambda: Approx(1, Fraction(10**400, 10**400 + 1)),
        lambda: Rho(10**5000),
        lambda: epsilon_from_rho(-1.0, 1e-6),
    ],
)
def test_numbers_that_no_double_holds(made: Callable[[], Any]) -> None:
    refused(made)


def test_positions_beyond_the_last_are_index_errors() -> None:
    for strange in (10, -1, 1.5, "a", None):
        error = refused(lambda strange=strange: SCHEMA["age"].label(strange))  # type: ignore[misc]
        assert isinstance(error, OutOfRange) and isinstance(error, IndexError)
    refused(lambda: Marginals(1).bind(SCHEMA).text(99))


# ---- files -----------------------------------------------------------------------------------------------------------


def test_a_file_is_regular_and_of_bounded_size(tmp_path: Path) -> None:
    pipe, huge, right = tmp_path / "pipe", tmp_path / "huge", tmp_path / "right"
    os.mkfifo(pipe)
    right.write_bytes(b"abc")
    with huge.open("wb") as file:
        file.truncate(1 << 40)  # takes no disk
    for path in (pipe, huge, Path("/dev/zero")):
        with pytest.raises(SourceError):
            read_file(path, "The file")
    assert read_file(right, "The file") == b"abc"
    with pytest.raises(SourceError, match="too large"):
        read_file(right, "The file", 2)


@pytest.mark.parametrize("load", [Schema.load, Plan.load, Release.load, Certificate.load])
def test_no_path_makes_a_reader_wait(tmp_path: Path, load: Callable[[Any], Any]) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for path in (pipe, "/dev/zero", "a\0b", "\ud800", "x" * 5000, tmp_path, 5, None):
        refused(lambda path=path: load(path))  # type: ignore[misc]


def test_a_query_with_a_zero_byte_is_refused() -> None:
    refused(lambda: open_table("select age, sick from read_csv('\0')", SCHEMA))


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".json", ".csv.gz"])
def test_a_table_is_not_read_from_a_pipe(tmp_path: Path, suffix: str) -> None:
    pipe = tmp_path / f"people{suffix}"
    os.mkfifo(pipe)
    assert "not a regular file" in refused(lambda: open_table(pipe, SCHEMA)).message


@pytest.mark.parametrize(
    "text", ["a." * 50_000 + "b = 1", "a = " + "[" * 5000, "a = " + "{b=" * 5000, "a = " + "9" * 6000]
)
def test_nested_and_long_toml_is_refused(text: str) -> None:
    with pytest.raises(PlanError):
        parse_toml(text, "The plan", PlanError)
    refused(lambda: Schema.parse(text))


def test_long_toml_is_refused_and_many_numbers_are_not() -> None:
    with pytest.raises(SchemaError, match="too long"):
        parse_toml(" " * (MOST_TEXT + 1), "The schema", SchemaError)
    edges = ",".join(f"{number}.5" for number in range(5000))
    assert len(parse_toml(f"edges = [{edges}]", "The schema", SchemaError)["edges"]) == 5000


def test_an_open_quote_in_a_packed_header_takes_little_memory(tmp_path: Path) -> None:
    path = tmp_path / "people.csv.gz"
    path.write_bytes(gzip.compress(b'"' + (b"x" * 99 + b"\n") * 10**6, 1))
    assert "header" in refused(lambda: open_table(path, SCHEMA)).message


def test_damaged_gzip_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "people.csv.gz"
    whole = bytearray(gzip.compress(b"age,sick\n1,true\n" * 100))
    for place in range(10, len(whole) - 8):
        damaged = whole.copy()
        damaged[place] ^= 0xFF
        path.write_bytes(damaged)
        with pytest.raises(NablaDPError):
            open_table(path, SCHEMA).marginals([["age"]])


class _Odd:
    """No value of any kind."""


@pytest.mark.parametrize(
    "strange",
    [Decimal("sNaN"), Decimal("1e999999"), 1j, 10**5000, "\ud800", np.float16(70), np.longdouble("1e4000"), _Odd()],
    ids=["signal", "decimal", "complex", "digits", "surrogate", "float16", "longdouble", "object"],
)
def test_a_strange_value_in_a_data_frame_changes_how_no_other_is_read(strange: Any) -> None:
    ages = pd.Series([strange, 1, None, 3], dtype=object)
    frame = pd.DataFrame({"age": ages, "sick": [True, False, True, True]})
    assert dict(column_types(frame))["age"] == "text"
    read = next(PandasFrame(frame).batches(("age",))).column(0).to_pylist()
    assert read[1:] == ["1", None, "3"]


@pytest.mark.parametrize(
    "column",
    [
        pd.Series(np.array([1, 2], np.complex128)),
        pd.Series(np.array([1, 2], np.longdouble)),
        pd.Series(["\ud800", "1"], dtype=pd.StringDtype("python")),
        pd.Series(pd.arrays.SparseArray([1, 2])),
    ],
    ids=["complex", "longdouble", "surrogate", "sparse"],
)
def test_columns_that_arrow_does_not_take_are_read_as_texts(column: Any) -> None:
    frame = pd.DataFrame({"age": column, "sick": [True, False]})
    assert dict(column_types(frame)) == {"age": "text", "sick": "boolean"}
    assert len(next(PandasFrame(frame).batches(("age",)))) == 2


def test_a_spark_source_of_deep_lists_is_refused() -> None:
    for kind in (DEEP, 5, None, ["parquet"]):
        refused(lambda kind=kind: open_table({"spark": kind, "path": "a"}, SCHEMA))  # type: ignore[misc]


# ---- records ---------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def record(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("release")
    session = Session(PEOPLE, SCHEMA, BUDGET, folder / "ledger.db", noise=NoiseSource.seeded(1), new_ledger=True)
    session.release(MECHANISM, "ages", folder / "out")
    session.ledger.close()
    found: dict[str, Any] = json.loads((folder / "out" / "release.json").read_text())
    return found


BROKEN: list[tuple[str, Any]] = [
    *((field, value) for field in ("n", "rows_per_person") for value in ("5", 0, -1, 1.5, True, 10**30, None, [])),
    *((field, value) for field in ("name", "created", "mechanism") for value in (5, None, [], "", {})),
    ("created", "yesterday"),
    *(
        (field, [])
        for field in ("files", "parameters", "values", "figures", "ledger", "versions", "schema", "guarantee")
    ),
    *(("ledger", {"ledger": "a", "name": "b", "hash": "c", "entry": entry}) for entry in ("1", None, 0, 2**70)),
    *(("figures", {"delta": delta, "adversaries": []}) for delta in ("x", 0, 1, 2, None, [], 10**400)),
    ("figures", {"delta": 1e-6, "adversaries": [{"name": "a", "attributes": [["age"]]}]}),
    ("limits", {"a": 1}),
    ("limits", [{"limit": 1}]),
    (
        "limits",
        [
            {
                "limit": "person",
                "measure": "ρ",
                "attributes": ["age"],
                "value": {"rho": 1},
                "allowed": 1,
                "left": 1,
                "exceeded": False,
            }
        ],
    ),
    ("expected_error", 5),
    ("expected_error", [5]),
    ("stamp", 5),
    ("versions", {"a": 1}),
]


@pytest.mark.parametrize(("field", "value"), BROKEN)
def test_nonsense_in_a_record_is_refused(record: dict[str, Any], tmp_path: Path, field: str, value: Any) -> None:
    path = tmp_path / "release.json"
    path.write_text(json.dumps(record | {field: value}))
    refused(lambda: Release.load(path))


def test_a_record_of_wide_integers_deep_lists_or_half_characters_is_refused(
    record: dict[str, Any], tmp_path: Path
) -> None:
    path = tmp_path / "release.json"
    path.write_text(json.dumps(record))
    assert Release.load(path).n == 4
    text = json.dumps(record)
    wide = json.loads(text)
    wide["values"]["tables"][0]["counts"][0] = 2**70
    half = record | {"name": "\ud800"}
    for broken in (
        json.dumps(wide),
        text[:-1] + ', "x": ' + "[" * 10**5 + "]" * 10**5 + "}",
        json.dumps(half),
        "[]",
        "5",
    ):
        path.write_text(broken)
        refused(lambda: Release.load(path))


@pytest.mark.parametrize("gone", ["*", "*/*", "*/*/*"])
def test_a_folder_that_goes_away_while_it_is_searched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gone: str
) -> None:
    search = Path.glob

    def vanish(folder: Path, pattern: str) -> Any:
        if pattern == f"{gone}/release.json":
            raise FileNotFoundError(2, "No such file or directory")
        return search(folder, pattern)

    monkeypatch.setattr(Path, "glob", vanish)
    refused(lambda: report(tmp_path))


STORED: list[tuple[Mechanism, dict[str, list[Any]]]] = [
    (
        DistributionEstimate(CDP(5)),
        {
            "count_variance": ["x", None, -1, []],
            "failure": ["x", None, 2],
            "n": ["x", 1.5, -1, 10**30],
            "error": [{"cut": "x"}, "x"],
            "codes": [[[99, 99]]],
        },
    ),
    (
        ThresholdLearner(CDP(5), "sick"),
        {"prefix": ["x", 1.5], "ones": ["x", []], "failure": [None, "x"], "error": ["x"], "n": ["x"], "label": ["age"]},
    ),
    (
        PointLearner(CDP(5), "sick"),
        {"count": ["x"], "cut": ["x", None], "failure": [None, "x"], "error": ["x"], "n": [1.5], "label": ["age"]},
    ),
    (
        HalfspaceLearner(CDP(5), "sick"),
        {"weights": [[], ["x"], [1.0]], "deviations": [[1.0]], "n": ["x"], "features": [[], ["x"], [[]]]},
    ),
    (
        GramMatrix(CDP(5)),
        {
            "n": [10**30],
            "entries": [-1, [], [1]],
            "class_of": [-1, [99]],
            "class_scales": [1.5, [], [1]],
        },
    ),
    (
        MWEM(CDP(5), Marginals(1)),
        {
            "answers": [[], [0.5], [None] * 12],
            "bound": ["x"],
            "workload": [{"marginals": 2}],
            "measured": [{"round": [0], "query": [99], "count": [1], "scale": [1.0]}],
            "model": [[{"query": [99], "change": [1.0]}], [{"query": [0, 1], "change": [1.0]}]],
            "synthetic": [{"record": [99], "times": [1]}, {"record": [0, 1], "times": [1]}],
        },
    ),
    (Projection(CDP(5), Marginals(1)), {"n": ["x", 1.5], "hull": [{"exact": "x"}, {"exact": True, "gap": "x"}]}),
]


@pytest.mark.parametrize(("mechanism", "broken"), STORED, ids=lambda given: type(given).__name__)
def test_stored_outputs_whose_parts_do_not_fit_are_refused(
    mechanism: Mechanism, broken: dict[str, list[Any]], tmp_path: Path
) -> None:
    budget = Budget(person=Rho(1000))
    people = pa.table({"age": [1, 2, 3, 4] * 50, "sick": [True, False, True, True] * 50})
    session = Session(people, SCHEMA, budget, tmp_path / "ledger.db", noise=NoiseSource.seeded(1), new_ledger=True)
    session.release(mechanism, "ages", tmp_path / "out")
    session.ledger.close()
    written = json.loads((tmp_path / "out" / "release.json").read_text())
    path = tmp_path / "release.json"
    path.write_text(json.dumps(written))
    Release.load(path)
    for field, values in broken.items():
        for value in values:
            path.write_text(json.dumps(written | {"values": written["values"] | {field: value}}))
            refused(lambda: Release.load(path))


def test_half_a_character_in_a_certificate_is_refused(tmp_path: Path) -> None:
    text = Certificate((Claim(WHOLE, note="of people"),)).text
    path = tmp_path / "certificate.json"
    path.write_text(text)
    assert Certificate.load(path).claims[0].note == "of people"
    path.write_text(text.replace("of people", "\\ud800"))
    refused(lambda: Certificate.load(path))
    bare = json.dumps(Guarantee.touch(["\ud800"], ["\ud800"], Rho(1)).to_json())
    path.write_text(bare)
    refused(lambda: report(path))


def test_half_a_character_in_the_path_of_a_ledger_is_refused(tmp_path: Path) -> None:
    refused(lambda: Ledger.create(tmp_path / "\ud800.db", SCHEMA, BUDGET))
    refused(lambda: Ledger.open(tmp_path / "\ud800.db"))


# ---- audits ----------------------------------------------------------------------------------------------------------


def test_an_audit_takes_fractions_and_refuses_what_is_no_number() -> None:
    refused(lambda: exact_audit(MECHANISM, SCHEMA, None))  # type: ignore[arg-type]
    for beta in (0, 1, "0.01", None):
        refused(lambda beta=beta: statistical_audit(MECHANISM, SCHEMA, beta=beta))  # type: ignore[misc]
        refused(lambda beta=beta: law_audit(MECHANISM, SCHEMA, beta=beta))  # type: ignore[misc]
    refused(lambda: law_audit(MECHANISM, SCHEMA, runs="many"))  # type: ignore[arg-type]
    told = statistical_audit(
        MECHANISM,
        SCHEMA,
        sets=["age"],
        rows=2,
        beta=Fraction(1, 100),
        runs=64,
        noise=NoiseSource.seeded(1),  # type: ignore[arg-type]
    )
    assert told.beta == 0.01


# ---- mechanisms and noise --------------------------------------------------------------------------------------------


def test_a_budget_too_small_for_any_noise_is_refused() -> None:
    for method in ("gram", "average", "gradient", "descent", "auto"):
        refused(lambda method=method: HalfspaceLearner(CDP(1e-300), "sick", method=method).guarantee(SCHEMA, 60))  # type: ignore[misc]


def test_a_share_whose_inverse_is_no_number_is_refused() -> None:
    for share in (5e-324, 1e-310):
        refused(lambda share=share: MWEM(CDP(1), Marginals(1), selection=share))  # type: ignore[misc]
        refused(lambda share=share: HeavyHitters(CDP(1), frequency=share))  # type: ignore[misc]


@pytest.mark.parametrize("kind", [CDP, Pure, Rho])
@pytest.mark.parametrize("number", [np.int64(3), np.int64(17), np.int32(3), np.uint8(200), Fraction(np.int64(35), 2)])
def test_budgets_of_numpy_integers_do_not_wrap_around(kind: Callable[[Any], Any], number: Any) -> None:
    plain = Fraction(int(number.numerator), int(number.denominator))
    assert cost_units(kind(number)) == cost_units(kind(plain)) > 0
    assert limit_units(kind(number)) == limit_units(kind(plain)) > 0


def test_a_learner_takes_a_numpy_integer_as_budget_of_its_label() -> None:
    guarantees = [
        HalfspaceLearner(CDP(2), "sick", label_epsilon=epsilon).guarantee(SCHEMA, 10**6) for epsilon in (3, np.int64(3))
    ]
    assert guarantees[0] == guarantees[1]


def test_memory_beyond_any_machine_is_refused() -> None:
    for memory in (2**70, 10**400, 1.5e300, float("inf")):
        refused(lambda memory=memory: HalfspaceLearner(CDP(1), "sick", memory_mb=memory))  # type: ignore[misc]
        refused(lambda memory=memory: HeavyHitters(CDP(1), memory_mb=memory))  # type: ignore[misc]


def test_draws_are_bounded() -> None:
    noise = NoiseSource.seeded(1)
    refused(lambda: noise.binomial(2**36, 0.5))
    refused(lambda: noise.randomized_response_counts([2**62, 2**62], 0.75))
    refused(lambda: noise.randomized_response_counts([2**62, 2**62 + 2**61], 0.75))
    refused(lambda: noise.discrete_laplace(2.0, 2**40))
    refused(lambda: noise.discrete_gaussian(2.0, (2**20, 2**20)))
    refused(lambda: noise.uniform_integers(5, (1,) * 99))
    refused(lambda: noise.uniform_subset(2**62, 2**50))
    refused(lambda: laplace_log_pmf(2.0, 0, 2**40))
    for level in (1 - Fraction(1, 10**400), 10**400, -(10**400), Fraction(10**400, 3)):
        refused(lambda level=level: half_width("gaussian", 2.0, level))  # type: ignore[misc]
    assert noise.binomial(1000, 0.5) <= 1000


TWICE: Any = [1, 2]
for _ in range(40):  # few lists, each held twice by the next: an array would have 2⁴¹ entries
    TWICE = [TWICE, TWICE]


@pytest.mark.parametrize("long", [range(10**15), [range(10**15)], [0, 1, range(10**15)], [[range(10**15)]], TWICE])
def test_ranges_and_shared_lists_are_refused_before_they_become_arrays(long: Any) -> None:
    noise = NoiseSource.seeded(1)
    packings = Packings([1, 2, 4], 3, 2)
    refused(lambda: noise.select_packing(packings, long))
    refused(lambda: noise.randomized_response_counts(long, 0.75))
    refused(lambda: noise.select_exponential(long, 1.0))
    refused(lambda: LinearQuery(("age",), long))
    refused(lambda: LinearQueries([{"attributes": ["age"], "values": long}]))


def test_values_of_a_query_fit_into_a_double() -> None:
    refused(lambda: LinearQuery(("age",), [0, 10**400]))
    assert LinearQuery(("sick",), [range(2)]).values == (0.0, 1.0)


# ---- plans and commands ----------------------------------------------------------------------------------------------

PLAN: dict[str, Any] = {
    "table": {"source": "people.csv", "schema": "schema.toml", "rows": 4},
    "budget": {"ledger": "ledger.db", "person": {"rho": 1}},
    "release": [{"mechanism": "NoisyMarginals", "k": 1, "budget": {"cdp": 0.1}}],
}


@pytest.mark.parametrize(
    "changed",
    [
        {"adversary": [{"name": "a", "attributes": [{"age": 1}]}]},
        {"adversary": [{"name": "a", "attributes": [["age"]]}]},
        {"table": PLAN["table"] | {"schema": "a\0b"}},
        {"table": PLAN["table"] | {"source": "a\0b"}},
        {"table": PLAN["table"] | {"rows": 10**30}},
        {"budget": PLAN["budget"] | {"ledger": "a\0b"}},
        {"report": {"delta": [1]}},
    ],
)
def test_plans_with_nonsense_are_refused(tmp_path: Path, changed: dict[str, Any]) -> None:
    SCHEMA.save(tmp_path / "schema.toml")
    assert Plan.of(PLAN, tmp_path).rows == 4
    refused(lambda: Plan.of(PLAN | changed, tmp_path))


def test_ctrl_c_is_seen_through_the_errors_of_others() -> None:
    try:
        try:
            raise KeyboardInterrupt
        except KeyboardInterrupt as stopped:
            raise ImportError("a library that was loading") from stopped
    except ImportError as error:
        assert is_interrupt(error)
    assert not is_interrupt(ImportError("missing"))


def test_ledgers_refuse_wrong_kinds(tmp_path: Path) -> None:
    refused(lambda: Ledger.create(tmp_path / "ledger.db", SCHEMA, 5))  # type: ignore[arg-type]
    with Ledger.create(tmp_path / "ledger.db", SCHEMA, BUDGET, test=True) as ledger:
        for strange in (5, [5], [(1, 2)], [("a", "b", "c", "d")], None):
            refused(lambda strange=strange: ledger.reserve_all(strange, seeded=True))  # type: ignore[misc]
            refused(lambda strange=strange: ledger.bind_all(strange, seeded=True))  # type: ignore[misc]
            refused(lambda strange=strange: ledger.check_fits(strange))  # type: ignore[misc]
