"""Views: every mechanism has some, its own or generic ones, and what they show is what was released."""

from __future__ import annotations

import dataclasses
import json
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import view_releases
from english import english_in
from report_pages import SCHEMA, people, session
from view_releases import View, read, views

from nabladp.errors import NablaDPError
from nabladp.mechanisms import MECHANISMS, Output
from nabladp.mechanisms.heavy_hitters import HeavyHitters
from nabladp.mechanisms.noisy_marginals import NoisyMarginals
from nabladp.mechanisms.output_tables import group_axis, schema_axes
from nabladp.noise import NoiseSource
from nabladp.privacy import CDP, Budget, Rho
from nabladp.release import Release, Session
from nabladp.report import report
from nabladp.report.language import language
from nabladp.report.view_texts import ViewTexts
from nabladp.schema import Attribute, Schema
from nabladp.views.tables import MOST_ROWS, Layout, table_view

KINDS = {"bars", "dots", "heat", "panels", "table"}


@pytest.fixture(scope="module")
def released() -> dict[str, list[Release]]:
    return view_releases.releases()


def titled(found: list[View], title: str) -> View:
    (view,) = (view for view in found if view["title"] == title)
    return view


def arrow(release: Release) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = release.output.to_arrow(release.schema).to_pylist()
    return rows


def labels_of(row: dict[str, Any]) -> list[str]:
    """The labels of a cell, in the order of the attributes of its table."""
    return [row[name] for name in row["table"].split("+")]


def near(numbers: list[float | None]) -> list[Any]:
    """As many digits as a view keeps."""
    return [None if value is None else pytest.approx(value, rel=1e-6, abs=1e-9) for value in numbers]


# ---- every mechanism ------------------------------------------------------------------------------------------------


def test_no_view_of_its_own_is_lost(released: dict[str, list[Release]]) -> None:
    own = {name for name, listed in released.items() if type(listed[0].output).views is not Output.views}
    assert own >= {
        "NoisyMarginals",
        "Projection",
        "MWEM",
        "Synthesis",
        "HeavyHitters",
        "DistributionEstimate",
        "PointLearner",
        "ThresholdLearner",
        "GramMatrix",
        "HalfspaceLearner",
    }


def test_every_mechanism_is_looked_at() -> None:
    assert set(MECHANISMS) <= set(view_releases.MECHANISMS)


@dataclasses.dataclass
class Plain(Output):
    """An output that has no view of its own."""

    table: pa.Table

    def to_json(self) -> dict[str, Any]:
        raise NotImplementedError

    @classmethod
    def from_json(cls, data: Any, schema: Schema) -> Plain:
        raise NotImplementedError

    def values_table(self, schema: Schema) -> pa.Table:
        return self.table


def unknown(release: Release) -> Release:
    """The same release of a mechanism that has no view of its own."""
    return dataclasses.replace(release, mechanism="Newcomer", output=Plain(release.output.values_table(release.schema)))


@pytest.mark.parametrize("mechanism", view_releases.MECHANISMS)
def test_views_are_plain_data_that_can_be_read(released: dict[str, list[Release]], mechanism: str) -> None:
    for release in (*released[mechanism], *map(unknown, released[mechanism])):
        found = views(release)
        assert found
        assert json.loads(json.dumps(found, allow_nan=False)) == found
        assert [list(view.read()) for view in release.views()] == [read(view) for view in found]
        for view in found:
            assert view["kind"] in KINDS and view["title"] and 0 < len(view["summary"]) < 100
            cells = read(view)
            assert all(len(row) == len(view["columns"]) for row in cells)
            used = [place for series in view["series"] for place in (series["value"], series["low"], series["high"])]
            numbers = [row[place] for row in cells for place in used if place is not None]
            assert all(value is None or isinstance(value, int | float) for value in numbers)
            assert view["kind"] == "table" or view["series"]
            assert view["kind"] != "heat" or len(view["names"]) == 2


@pytest.mark.parametrize("mechanism", view_releases.MECHANISMS)
def test_noise_and_predicted_error_stand_beside_what_was_released(
    released: dict[str, list[Release]], mechanism: str
) -> None:
    for release in (*released[mechanism], *map(unknown, released[mechanism])):
        told = [f"{label} {text}" for view in views(release) for label, text in view["facts"]]
        assert any("noise" in text or "predicted error" in text for text in told)
        assert any("predicted" in text or "error" in text or "accuracy" in text for text in told)


def test_views_of_a_stored_release_are_the_same(released: dict[str, list[Release]], tmp_path: Path) -> None:
    for name, listed in released.items():
        for number, release in enumerate(listed):
            place = tmp_path / f"{name}-{number}"
            place.mkdir()
            for file, content in release.files().items():
                (place / file).write_bytes(content)
            assert without_drawn(views(Release.load(place))) == without_drawn(views(release))


def test_a_stored_release_of_an_unknown_mechanism_is_refused_by_name(
    released: dict[str, list[Release]], tmp_path: Path
) -> None:
    """Its package may be missing: nothing can be shown of values that nothing can read."""
    release = released["NoisyMarginals"][0]
    record = release.text.replace(b'"mechanism": "NoisyMarginals"', b'"mechanism": "Missing"', 1)
    (tmp_path / "release.json").write_bytes(record)
    with pytest.raises(NablaDPError, match="no mechanism 'Missing'") as caught:
        Release.load(tmp_path)
    assert "package" in caught.value.fix
    with pytest.raises(NablaDPError, match="no mechanism 'Missing'"):
        report(tmp_path)


def without_drawn(found: list[View]) -> list[View]:
    """A drawn table need not be part of the record; then a stored release has no view of it."""
    kept = [view for view in found if view["title"] != "synthetic rows"]
    return [
        {
            **view,
            "caption": view["caption"].partition(", and the synthetic rows")[0],
            "columns": [c for c in view["columns"] if c["name"] != "synthetic rows"],
            "series": [s for s in view["series"] if s["name"] != "synthetic rows"],
            "rows": [row[:4] if isinstance(row, list) else row for row in view["rows"]],
        }
        for view in kept
    ]


def test_without_a_view_of_its_own_a_mechanism_shows_its_table(released: dict[str, list[Release]]) -> None:
    newcomer = unknown(released["GramMatrix"][0])
    (view,) = views(newcomer)
    table = newcomer.output.values_table(SCHEMA)
    assert [column["name"] for column in view["columns"]] == table.column_names
    assert [row[2] for row in read(view)] == table["value"].to_pylist()
    assert view["kind"] == "bars" and view["names"] == [0, 1]
    assert view["series"] == [{"name": "value", "value": 2, "low": 3, "high": 4}]


@pytest.mark.parametrize(
    ("columns", "names", "value", "interval"),
    [
        ({"what": ["x"], "count": [1]}, (0,), 1, None),
        ({"a": ["x"], "b": [2], "share": [0.5], "low": [0.4], "high": [0.6], "scale": [1.0]}, (0, 1), 2, (3, 4)),
        ({"count": [1]}, (), 0, None),
        ({"low": [1], "high": [2]}, (0,), 1, None),
        ({"feature": ["x"], "value": ["y"]}, (0, 1), None, None),
        ({"what": ["x"], "yes": [True]}, (0, 1), None, None),
    ],
)
def test_where_names_values_and_intervals_are_looked_for(
    columns: dict[str, Any], names: Any, value: Any, interval: Any
) -> None:
    assert Layout.of(pa.table(columns)) == Layout(names, value, interval)


def test_a_single_number_without_a_name_stays_a_table(released: dict[str, list[Release]]) -> None:
    one = Plain(pa.table({"count": [5]}))
    newcomer = dataclasses.replace(released["MWEM"][0], output=one, expected_error=[])
    (view,) = views(newcomer)
    assert view["kind"] == "table" and view["rows"] == [[5]] and view["facts"] == []


def test_a_long_table_is_cut_and_says_so(released: dict[str, list[Release]]) -> None:
    whole = released["NoisyMarginals"][0].output.to_arrow(SCHEMA)
    view = table_view("values", whole.take([0] * (MOST_ROWS + 1)), "values.parquet").to_json()
    assert len(view["rows"]) == MOST_ROWS and "values.parquet" in view["notes"][0]


# ---- what they show is what was released ----------------------------------------------------------------------------


def test_marginals_show_every_cell_with_its_interval(released: dict[str, list[Release]]) -> None:
    for release in released["NoisyMarginals"]:
        shown = [row for view in views(release) for row in read(view)]
        for row, known in zip(shown, arrow(release), strict=True):
            assert row[:-4] == labels_of(known) and row[-1] == known["measured"]
            assert row[-4:-1] == pytest.approx([known["value"], known["low"], known["high"]], abs=0.006)


def test_one_attribute_is_bars_two_are_a_heat_map_three_are_panels(released: dict[str, list[Release]]) -> None:
    found = views(released["NoisyMarginals"][0])
    kinds = {view["title"]: view["kind"] for view in found}
    assert kinds == {"age": "bars", "region + income": "heat", "region + age + sick": "panels", "age + income": "heat"}
    assert titled(found, "age")["ordered"] and "ordered" not in titled(found, "region + income")


def test_groups_lie_where_the_values_of_their_attribute_do() -> None:
    """Groups of a query are drawn as the attribute's values are: by label, in order, on its scale."""
    month = Attribute("month", "date", low="2024-01", high="2024-12", level="month", labels={"2024-02": "Feb"})
    income = Attribute("income", "real", edges=(0, 10, 20, 50), null="category")
    assert schema_axes(Schema((month,)), ["month"])[0] == group_axis(month, month.texts)
    assert group_axis(month, ["2024-02", "2024-05", "other"]).to_json() == {
        "name": "month", "format": "text", "axis": ["Feb", "2024-05", "other"],
        "every": 1, "ordered": 2, "dates": [1, 4],
    }  # fmt: skip
    assert group_axis(income, income.texts) == schema_axes(Schema((income,)), ["income"])[0]
    assert group_axis(income, income.texts[1:]).source["edges"] == [10, 20, 50]
    assert "edges" not in group_axis(income, [income.texts[0], income.texts[2]]).source, "with a gap, no density"
    assert "ordered" not in group_axis(income, ["(null)"]).source


@pytest.mark.parametrize("number", [0, 1])
def test_projection_shows_both_answers_of_every_query(released: dict[str, list[Release]], number: int) -> None:
    release = released["Projection"][number]
    shown = [row[-4:] for view in views(release) for row in read(view)]
    assert shown == [
        near([row[key] for key in ("noisy", "noisy_low", "noisy_high", "value")]) for row in arrow(release)
    ]


def test_queries_that_are_no_marginal_are_told_in_words(released: dict[str, list[Release]]) -> None:
    view = titled(views(released["Projection"][1]), "queries")
    assert [row[0] for row in read(view)] == [row["query"] for row in arrow(released["Projection"][1])]


def test_mwem_shows_the_model_beside_what_was_measured_and_drawn(released: dict[str, list[Release]]) -> None:
    release = released["MWEM"][0]
    found = views(release)
    rows = [row[-5:] for view in found if view["title"] != "synthetic rows" for row in read(view)]
    expected = arrow(release)
    assert [row[0] for row in rows] == pytest.approx([row["value"] for row in expected], rel=1e-6)
    assert [row[1] is None for row in rows] == [row["measured"] is None for row in expected]
    ages = [row[-1] for row in read(titled(found, "age"))]
    drawn = release.output.synthetic["age"].to_pylist()  # type: ignore[attr-defined]
    assert ages == pytest.approx([drawn.count(age) / len(drawn) for age in range(10)], rel=1e-6)
    assert len(titled(found, "synthetic rows")["rows"]) == 50


def test_heavy_hitters_show_counts_and_bound_what_is_not_listed(released: dict[str, list[Release]]) -> None:
    for release in released["HeavyHitters"]:
        values = release.output.to_json()
        view = views(release)[0]
        assert [row[-3:] for row in read(view)] == [
            list(own) for own in zip(values["counts"], values["low"], values["high"], strict=True)
        ]
        labels = [
            [SCHEMA[n].label(c) for n, c in zip(values["attributes"], row, strict=True)] for row in values["codes"]
        ]
        assert [row[:-3] for row in read(view)] == labels
        assert f"fewer than {values['unlisted_below']:,} rows" in dict(view["facts"])["what is not listed"]
    assert titled(views(released["HeavyHitters"][1]), "lists of the tree's nodes")


def test_many_attributes_are_told_by_how_combinations_differ(tmp_path: Path) -> None:
    schema = Schema(tuple(Attribute(f"a{i:02d}", "boolean") for i in range(12)))
    budget, noise = Budget(person=Rho(10**6)), NoiseSource.seeded(1)
    with_few = people(schema).slice(0, 1).take([0] * 400)
    release = Session(with_few, schema, budget, tmp_path / "l.db", noise=noise, new_ledger=True).release(
        HeavyHitters(CDP(3))
    )
    listed, first = views(release)
    assert "12 attributes" in listed["title"] and len(listed["columns"]) == 4
    assert listed["rows"][0][0] == "the first one, listed below"
    codes = release.output.to_json()["codes"][0]
    assert read(first) == [[f"a{i:02d}", ("false", "true")[code]] for i, code in enumerate(codes)]


def test_probabilities_and_the_rest_sum_to_one(released: dict[str, list[Release]]) -> None:
    for view in views(released["DistributionEstimate"][0]):
        assert math.isclose(sum(row[-1] for row in read(view)), 1, abs_tol=1e-4)
        assert read(view)[-1][0] == "everything else"


def test_a_gram_matrix_shows_every_entry_and_regressions(released: dict[str, list[Release]]) -> None:
    for release in released["GramMatrix"]:
        found = views(release)
        shown = read(titled(found, "agreement of columns"))
        assert shown == [[row[key] for key in ("first", "second", "value", "low", "high")] for row in arrow(release)]
        fitted = release.output.regress("sick").to_json()["coefficients"]  # type: ignore[attr-defined]
        weights = {row[0]: row[1:] for row in read(titled(found, "regression of sick"))}
        assert weights == {name: near(numbers) for name, numbers in fitted.items()}


def test_a_wide_gram_matrix_is_drawn_in_part_and_listed_whole(
    released: dict[str, list[Release]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nabladp.mechanisms.gram_matrix.output.MOST_DRAWN", 4)
    found = views(released["GramMatrix"][0])
    assert len(titled(found, "agreement of columns")["rows"]) == 6
    assert len(titled(found, "all entries")["rows"]) == released["GramMatrix"][0].output.to_arrow(SCHEMA).num_rows


def test_learners_show_their_rule(released: dict[str, list[Release]]) -> None:
    (point,) = views(released["PointLearner"][0])
    assert read(point) == [[row["feature"], row["value"]] for row in arrow(released["PointLearner"][0])]
    (threshold,) = views(released["ThresholdLearner"][0])
    assert read(threshold) == [[row["feature"], row["value"]] for row in arrow(released["ThresholdLearner"][0])]
    for release in released["HalfspaceLearner"]:
        weights, adds, *margins = views(release)
        counted = release.output.holdout and release.output.holdout.margins  # type: ignore[attr-defined]
        assert [len(view["rows"]) for view in margins] == ([len(counted.counts)] if counted else [])
        shown = [[row["column"], *near([row["value"], row["low"], row["high"]])] for row in arrow(release)]
        assert read(weights) == shown
        assert len(adds["rows"]) == sum(SCHEMA[name].size for name in release.output.features)  # type: ignore[attr-defined]
    told = [dict(views(release)[0]["facts"])["accuracy"] for release in released["HalfspaceLearner"]]
    assert "80 rows held out" in told[0] and told[1].startswith("no rows were held out")


def test_synthesis_shows_answers_measurements_and_the_drawn_table(released: dict[str, list[Release]]) -> None:
    release = released["Synthesis"][0]
    found, output = views(release), release.output
    assert titled(found, "predicted error of every marginal")["rows"]
    for answer in output.answers:  # type: ignore[attr-defined]
        shown = read(titled(found, " + ".join(answer.attributes)))
        assert [row[2] for row in shown] == pytest.approx(answer.counts.ravel().tolist(), rel=1e-6, abs=1e-9)
    measured = [view for view in found if view["title"].startswith("measured: ")]
    noisy = [len(view["names"]) for view in measured]  # the column after those that name a row
    assert [[row[at] for row in read(view)] for at, view in zip(noisy, measured, strict=True)] == [
        own["counts"] for own in output.to_json()["measured"]
    ]
    ages = read(titled(found, "measured: age"))
    drawn = output.synthetic["age"].to_pylist()  # type: ignore[attr-defined]
    assert [row[-1] for row in ages] == pytest.approx([drawn.count(age) * 400 / len(drawn) for age in range(10)])


# ---- sizes ---------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Release]:
    schema = Schema(tuple(Attribute(f"a{i:03d}", "categorical", values=("x", "y", "z")) for i in range(60)))
    folder = tmp_path_factory.mktemp("many")
    made = session(folder, schema, Budget(person=Rho(10**6)), adversaries={})
    yield made.release(NoisyMarginals(CDP(1), k=2))
    made.ledger.close()


def test_thousands_of_tables_stay_small(many: Release) -> None:
    from nabladp.report.rendering import pack

    found = views(many)
    assert len(found) == 60 * 59 // 2
    cells = sum(len(view["rows"]) for view in found)
    assert len(pack(found)) < 60 * len(found) + 4 * cells


def test_what_every_mechanism_says_is_told_in_german(released: dict[str, list[Release]]) -> None:
    """A new sentence of a mechanism needs a line in report/languages/views/de.toml."""
    told = ViewTexts(language("de"), SCHEMA.names)
    left = []
    for release in (release for listed in released.values() for release in listed):
        for view in map(told.view, views(release)):
            facts = [text for fact in view["facts"] for text in fact if not text.startswith("SELECT")]
            shown = (view["title"], view["summary"], view["caption"], *view["notes"], *facts)
            left += [text for text in shown if english_in(text)]
        summary = release.expected_error.get("summary", {}) if isinstance(release.expected_error, dict) else {}
        left += [label for label in summary if english_in(told(label))]
    assert left == []


def test_every_mechanism_says_in_a_sentence_what_it_did(released: dict[str, list[Release]]) -> None:
    german = ViewTexts(language("de"))
    for mechanism, listed in released.items():
        for said in (release.explanation() for release in listed):
            assert 60 < len(said) < 260 and said.endswith(".") and said.count(". ") == 0, mechanism
            assert german(said) != said and english_in(german(said)) == [], mechanism


def test_labels_stand_alone(released: dict[str, list[Release]]) -> None:
    """No label goes on from the one above it, and none is a power or a condition without a sentence."""
    for release in (release for listed in released.values() for release in listed):
        summary = release.expected_error.get("summary", {}) if isinstance(release.expected_error, dict) else {}
        facts = [text for view in views(release) for fact in view["facts"] for text in fact]
        for text in (*summary, *map(str, summary.values()), *facts):
            assert not text.startswith("…") and "2^" not in text and "whole person" not in text, text
        for text in summary:
            assert not re.search(r"^(its|these|that|the same)\b|\b(then|all this|on them|share it)\b", text), text
