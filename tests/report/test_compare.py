"""The owner's comparison: true to the table, watermarked everywhere, and never among what is published."""

from __future__ import annotations

import hashlib
import json
import os
import re
import stat
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
import view_releases
from axe_playwright_python.sync_playwright import Axe
from english import SHOWN, english_in
from report_pages import MARGINALS, PURE, SCHEMA, people, session

from nabladp.cli import main
from nabladp.errors import DataError, ReleaseError
from nabladp.mechanisms import MECHANISMS
from nabladp.mechanisms.heavy_hitters.view import count_combinations
from nabladp.mechanisms.synthesis import Synthesis
from nabladp.noise import NoiseSource
from nabladp.privacy import CDP, Budget, Rho
from nabladp.release import Release
from nabladp.release.comparison import NOTICE, Comparison, compare, compare_release, comparison_path
from nabladp.report import load
from nabladp.report.language import language
from nabladp.report.owner_pages import MOST_ROWS, comparison_page, write_comparison
from nabladp.tables import CodedTable, open_table
from nabladp.views import Compared

WITHOUT_TRUTH: frozenset[str] = frozenset()  # mechanisms of ours that cannot be compared: none


@pytest.fixture(scope="module")
def compared() -> dict[str, list[Comparison]]:
    table = open_table(people(SCHEMA), SCHEMA)
    found = view_releases.releases()
    return {name: [compare_release(release, table) for release in listed] for name, listed in found.items()}


@pytest.fixture(scope="module")
def rows() -> list[dict[str, Any]]:
    """The people, one by one, in the words of the schema."""
    table = open_table(people(SCHEMA), SCHEMA)
    codes: list[dict[str, Any]] = []

    def look(batch: Any) -> Any:
        codes.extend(batch.to_pylist())
        return np.zeros(1, dtype=np.int64)

    table.fold(look)
    return [{name: SCHEMA[name].label(int(code)) for name, code in row.items()} for row in codes]


# ---- the truth ------------------------------------------------------------------------------------------------------


def test_every_mechanism_is_compared(compared: dict[str, list[Comparison]]) -> None:
    assert set(MECHANISMS) <= set(compared)
    for name, listed in compared.items():
        for found in listed:
            assert bool(found.tables) == (name not in WITHOUT_TRUTH), f"{name}: give its output a truth(counts)"
            assert all(np.isfinite(table.truth).all() for table in found.tables)


def test_marginals_are_counted_exactly(compared: dict[str, list[Comparison]], rows: list[dict[str, Any]]) -> None:
    for found in (*compared["NoisyMarginals"], *compared["Synthesis"]):
        for table in found.tables:
            cells = np.ndindex(*SCHEMA.sizes(table.attributes))
            labels = [[SCHEMA[name].label(c) for name, c in zip(table.attributes, cell, strict=True)] for cell in cells]
            assert table.truth.tolist() == [
                sum([row[name] for name in table.attributes] == label for row in rows) for label in labels
            ]


def test_the_drawn_table_is_compared_as_it_was_handed_out(tmp_path: Path, open_page: Any) -> None:
    """From memory and from the folder alike; the first of them tells the averages over the workload."""
    made = session(tmp_path, budget=Budget(person=Rho(10)))
    release = made.release(Synthesis(CDP(1), over=("region", "age", "income"), rows=400), to=tmp_path / "out")
    made.ledger.close()
    (loaded,) = compare(tmp_path / "out", people(SCHEMA))
    here = compare_release(release, open_table(people(SCHEMA), SCHEMA))
    assert [table.to_json() for table in loaded.tables] == [table.to_json() for table in here.tables]
    answers, drawn = loaded.tables[:3], loaded.tables[3:]
    assert [table.title for table in drawn] == [f"{table.title}, drawn rows" for table in answers]
    rows = pq.read_table(tmp_path / "out" / "synthetic.parquet")
    counts = open_table(rows, SCHEMA.__class__(tuple(SCHEMA[name] for name in rows.column_names)))
    for own, told, found in zip(drawn, answers, counts.marginals([table.attributes for table in drawn]), strict=True):
        assert own.released.tolist() == pytest.approx((found * release.n / 400).ravel().tolist())
        assert own.truth.tolist() == told.truth.tolist() and own.predicted is not None and own.interval is None
        distance = np.abs(own.released - own.truth).sum() / (2 * release.n)
        assert f"drawn rows {distance:.3g}, answers" in own.summary
    assert "averages over 3 marginals" in drawn[0].summary and "averages" not in drawn[1].summary
    (tmp_path / "out" / "synthetic.parquet").unlink()  # a record may travel alone
    assert len(compare(tmp_path / "out", people(SCHEMA))[0].tables) == 3
    watched = open_page(comparison_page([loaded], "a release"))
    assert watched.page.get_by_text("region + age, drawn rows").count() >= 1


def test_only_the_worst_drawn_marginals_are_shown(
    compared: dict[str, list[Comparison]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nabladp.mechanisms.synthesis.view.MOST_COMPARED", 1)
    (whole,) = compared["Synthesis"]
    cut = compare_release(whole.release, open_table(people(SCHEMA), SCHEMA)).tables
    shown = [table for table in whole.tables if table.title.endswith("drawn rows")]
    assert len(shown) == 6 and len(cut) == 7
    assert cut[-1].gap.sum() == max(table.gap.sum() for table in shown) and "averages over 6" in cut[-1].summary


def test_queries_are_answered_exactly(compared: dict[str, list[Comparison]], rows: list[dict[str, Any]]) -> None:
    table = compared["Projection"][1].tables[-1]
    answers = dict(zip(table.labels, table.truth.tolist(), strict=True))
    assert answers["average age"] == pytest.approx(sum(int(row["age"]) for row in rows) / 9 / len(rows), abs=1e-6)
    for found in compared["MWEM"]:
        for own in found.tables:
            assert ((own.truth >= 0) & (own.truth <= 1)).all()


def test_lists_are_counted_exactly(compared: dict[str, list[Comparison]], rows: list[dict[str, Any]]) -> None:
    for found in (*compared["HeavyHitters"], *compared["DistributionEstimate"]):
        names = found.release.output.names  # type: ignore[attr-defined]
        (table,) = found.tables
        texts = [", ".join(f"{name} = {row[name]}" for name in names) for row in rows]
        expected = [texts.count(label) for label in table.labels if label != "everything else"]
        scale = len(rows) if table.format == "share" else 1
        assert (table.truth * scale)[: len(expected)].tolist() == pytest.approx(expected)


def test_combinations_in_any_order_and_of_many_columns() -> None:
    draws = NoiseSource.seeded(3)
    codes = {name: draws.uniform_integers(SCHEMA[name].size, 3000) for name in ("region", "age", "sick")}
    wanted = np.array([[2, 9, 1], [0, 0, 0], [1, 5, 0], [2, 9, 0]])
    filled = codes | {a.name: np.zeros(3000, np.int64) for a in SCHEMA if a.name not in codes}
    found = count_combinations(CodedTable(SCHEMA, filled), ("region", "age", "sick"), wanted)
    whole = np.stack([codes[name] for name in ("region", "age", "sick")], axis=1)
    assert found.tolist() == [int((whole == row).all(axis=1).sum()) for row in wanted]


def test_entries_of_a_gram_matrix(compared: dict[str, list[Comparison]], rows: list[dict[str, Any]]) -> None:
    (table,) = compared["GramMatrix"][0].tables
    found = dict(zip(table.labels, table.truth.tolist(), strict=True))
    sick = sum(1 if row["sick"] == "true" else -1 for row in rows)
    assert found["(intercept) with sick = true"] == sick


@pytest.mark.parametrize("mechanism", ["PointLearner", "ThresholdLearner", "HalfspaceLearner"])
def test_learners_are_judged_by_their_own_predictions(
    compared: dict[str, list[Comparison]], rows: list[dict[str, Any]], mechanism: str
) -> None:
    data = people(SCHEMA)
    for found in compared[mechanism]:
        said = found.release.output.predict(data)  # type: ignore[attr-defined]
        true = np.array(data["sick"].to_pylist())
        (table,) = found.tables
        expected = [(said == true).mean(), (said == true)[~true].mean(), (said == true)[true].mean()]
        expected.append(max(true.mean(), 1 - true.mean()))  # of always predicting the more frequent label
        assert table.truth.tolist() == pytest.approx(expected)
        rule = found.release.output.to_json()
        codes = [[SCHEMA[name].texts.index(row[name]) for name in rule["features"]] for row in rows]
        second = {
            "PointLearner": lambda row, rule=rule: row == rule["point"],
            "ThresholdLearner": lambda row, rule=rule: row >= rule["codes"],
        }.get(mechanism)
        assert second is None or said.tolist() == [second(row) for row in codes]  # worked out by hand
    if mechanism == "HalfspaceLearner":
        released = compared[mechanism][0].tables[0].released
        assert np.isfinite(released[[0, 3]]).all()  # what was counted, on rows held out and on all


def test_intervals_hold_the_truth_about_as_often_as_they_say(compared: dict[str, list[Comparison]]) -> None:
    """Of 136 cells, each with a chance of at most 5% to miss: more than 40 misses have a chance below 1e-16."""
    for found in compared["NoisyMarginals"][:1]:
        missed = sum((1 - (table.covered or 0)) * len(table.truth) for table in found.tables)
        assert missed <= 40
        for table in found.tables:
            assert table.to_json()["largest"] >= table.to_json()["actual"] >= 0


def test_another_table_is_refused(folder: Path) -> None:
    with pytest.raises(DataError, match="another number of rows"):
        compare(folder, people(SCHEMA).slice(1))
    with pytest.raises(ReleaseError, match="no release"):
        compare(folder.parent, people(SCHEMA))


# ---- where it may be written ----------------------------------------------------------------------------------------


def test_never_into_a_published_folder(folder: Path, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(folder, target_is_directory=True)
    other = tmp_path / "other"
    other.mkdir()
    (other / "digests.txt").write_text("")
    inside = [
        folder / "c.html",
        folder / "pairs" / "c.html",
        folder / "new" / "c.html",
        link / "c.html",
        other / "c.html",
    ]
    for place in [*inside, folder / "pairs" / ".." / "c.html"]:
        with pytest.raises(ReleaseError, match="must not lie in a published folder"):
            comparison_path(folder, place)
    assert comparison_path(folder, tmp_path / "c.html") == (tmp_path / "c.html").resolve()


def test_only_into_a_new_file_that_only_its_owner_reads(folder: Path, tmp_path: Path) -> None:
    before = digests(folder)
    found = compare(folder, people(SCHEMA))
    page = write_comparison(found, folder, tmp_path / "c.html")
    assert stat.S_IMODE(os.stat(page).st_mode) == 0o600
    with pytest.raises(ReleaseError, match="exists already"):
        write_comparison(found, folder, page)
    with pytest.raises(ReleaseError, match="Cannot write"):
        write_comparison(found, folder, tmp_path / "nowhere" / "c.html")
    assert digests(folder) == before


def digests(folder: Path) -> dict[str, str]:
    return {str(p): hashlib.sha256(p.read_bytes()).hexdigest() for p in sorted(folder.rglob("*")) if p.is_file()}


def test_released_files_say_nothing_of_it(folder: Path) -> None:
    assert NOTICE not in (folder / "report.html").read_text(encoding="utf-8")


# ---- the page -------------------------------------------------------------------------------------------------------


@pytest.fixture
def page(folder: Path) -> str:
    return comparison_page(compare(folder, people(SCHEMA)), "a release")


def test_the_notice_is_everywhere(page: str, open_page: Any) -> None:
    watched = open_page(page)
    watched.ask("nabladp.released.then(() => true)")
    assert watched.page.title() == "UNPROTECTED: a release"
    assert watched.page.locator("aside.stamp").inner_text().startswith(NOTICE.upper())
    script = (
        "[...document.querySelectorAll('.watermark span')].map((mark) => getComputedStyle(mark, '::before').content)"
    )
    assert watched.ask(script) == [f'"{NOTICE}"'] * 40
    seen = (
        "[...document.querySelectorAll('.watermark span')].some((mark) => { const box = mark.getBoundingClientRect();"
    )
    seen += " return box.bottom > 0 && box.top < innerHeight && box.right > 0 && box.left < innerWidth })"
    for place in (0, 0.5, 1):  # wherever one scrolls
        watched.ask(f"scrollTo(0, {place} * document.body.scrollHeight)")
        assert watched.ask(seen)
    assert all(NOTICE in text for text in watched.page.locator("svg.chart desc").all_text_contents())
    assert watched.is_quiet()


def test_paper_shows_the_notice_and_the_tables(page: str, open_page: Any) -> None:
    watched = open_page(page)
    watched.page.emulate_media(media="print")
    for part in (".watermark span >> nth=0", ".stamp", "h1", "table.figures >> nth=0"):
        assert watched.page.locator(part).is_visible(), part
    assert len(re.findall(rb"/Type\s*/Page\b", watched.page.pdf())) >= 1


def test_the_page_shows_released_and_true_values(page: str, folder: Path, open_page: Any) -> None:
    watched = open_page(page)
    watched.ask("nabladp.released.then(() => true)")
    watched.page.get_by_text("Show as a table").first.click()
    table = watched.page.locator("table.values").first
    table.wait_for()
    shown = [row.locator("th, td").all_text_contents() for row in table.locator("tbody tr").all()]
    (first,) = (part for part in compare(folder, people(SCHEMA)) if part.release.name.endswith("/pairs"))
    own = first.tables[0]
    for row, released, true in zip(shown, own.released, own.truth, strict=True):
        assert abs(int(row[1]) - released) <= 0.5 and int(row[4]) == true


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_is_accessible_and_fits_a_phone(page: str, open_page: Any, scheme: str) -> None:
    watched = open_page(page, width=360, color_scheme=scheme)
    watched.ask("nabladp.released.then(() => true)")
    assert watched.width() <= 360
    found = Axe().run(watched.page, options={"resultTypes": ["violations"]})
    assert [(v["id"], [n["html"] for n in v["nodes"]]) for v in found.response["violations"]] == []


def test_no_english_is_left_in_german(compared: dict[str, list[Comparison]], open_page: Any) -> None:
    """Of every mechanism: errors, tables and what charts tell; labels of learners, lists and matrices among them."""
    watched = open_page(comparison_page([found[0] for found in compared.values()], "Erhebung", spoken="de"))
    watched.ask("nabladp.released.then(() => true)")
    watched.ask("document.querySelectorAll('.view').forEach((details) => (details.open = true))")
    watched.page.wait_for_function("[...document.querySelectorAll('.view-body')].every((body) => body.hasChildNodes())")
    ours = "|".join(map(re.escape, [*compared, "everything else", *(f.release.name for f, *_ in compared.values())]))
    for text in watched.ask(SHOWN):
        assert english_in(re.sub(ours, "", text)) == []
    assert watched.page.title() == "UNGESCHÜTZT: Erhebung" and "ENTHÄLT UNGESCHÜTZTE" in watched.page.inner_text(
        "aside"
    )
    assert watched.is_quiet()


def test_large_tables_keep_the_worst_cells(tmp_path: Path) -> None:
    from nabladp.report.owner_pages import _view
    from nabladp.report.view_texts import ViewTexts

    size = MOST_ROWS + 10
    truth = np.zeros(size)
    released = np.arange(size, dtype=np.float64)
    many = Compared("many", "count", released, truth, labels=tuple(map(str, range(size))))
    view = _view(many, SCHEMA, ViewTexts.of_schema(language("en"), SCHEMA))
    assert len(view.rows) == MOST_ROWS and view.rows[0][0] == "10" and "largest errors" in view.notes[0]


def test_mechanisms_without_a_truth_are_told_so(tmp_path: Path, open_page: Any) -> None:
    made = session(tmp_path, budget=Budget(person=Rho(10)))
    release: Release = made.release(MARGINALS.__class__(CDP(0.2), k=1), name="<b>one</b>")
    made.ledger.close()
    watched = open_page(comparison_page([Comparison(release, ())], "<i>title</i>"))
    assert watched.page.get_by_text("no true values to compare with").count() == 1
    assert watched.page.locator("main b, h1 i").count() == 0


def test_parts_are_listed_as_in_the_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = session(tmp_path)
    made.release_all([("second in the alphabet", MARGINALS), ("first", PURE)], tmp_path / "out")
    made.ledger.close()
    pq.write_table(people(SCHEMA), tmp_path / "people.parquet")
    arguments = ["compare", str(tmp_path / "out"), str(tmp_path / "people.parquet"), "--to", str(tmp_path / "c.html")]
    with pytest.raises(SystemExit):
        main([*arguments, "--json"])
    listed = [part["name"].partition("/")[2] for part in json.loads(capsys.readouterr().out)["releases"]]
    assert listed == [release.name.partition("/")[2] for release in load(tmp_path / "out")]
    assert listed == ["second in the alphabet", "first"]
    heads = re.findall(r'<h2 id="part-\d+"><bdi>([^<]*)</bdi>', (tmp_path / "c.html").read_text(encoding="utf-8"))
    assert heads == listed


def test_errors_stand_beside_zero_with_their_intervals(compared: dict[str, list[Comparison]], open_page: Any) -> None:
    (found,) = compared["NoisyMarginals"][:1]
    watched = open_page(comparison_page([found], "a release"))
    for view, table in zip(watched.ask("nabladp.block('views-0')"), found.tables, strict=True):
        rows = [row[-8:] for row in view["rows"]]
        assert [row[4] for row in rows] == pytest.approx((table.released - table.truth).tolist(), rel=1e-6, abs=1e-5)
        widths = [row[2] - row[1] for row in rows]
        assert [row[6] - row[5] for row in rows] == pytest.approx(widths, rel=1e-4), "as wide as the interval"
        outside = [row[7] is not None for row in rows]
        assert outside == [not row[5] <= 0 <= row[6] for row in rows]
        assert 1 - sum(outside) / len(rows) == pytest.approx(table.covered)
        assert view["line"]["at"] == 0 and len(view["series"]) == 1 + any(outside)
    assert watched.page.locator(".chart-line").count() >= 1 and watched.is_quiet()
