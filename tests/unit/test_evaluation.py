"""Synthetic rows measured against the real table: the figures by their definitions, refusals, the page."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from nabladp.cli.app import app
from nabladp.errors import DataError, MechanismError, MissingPart, NablaDPError, ReleaseError, UnknownAttribute
from nabladp.release.evaluation import evaluate
from nabladp.report.evaluation_page import write_evaluation
from nabladp.schema import Attribute, Schema

SCHEMA = Schema(
    (
        Attribute("age", "integer", low=0, high=60),
        Attribute("pay", "real", low=0.0, high=100.0, bins=12, null="category"),
        Attribute("job", "categorical", values=("none", "baker", "clerk")),
        Attribute("adult", "boolean", formula="age >= 18"),
    ),
    ("pay <= 2 * age",),
)


def people(rows: int, seed: int, pull: float = 0.0) -> pa.Table:
    draw = np.random.default_rng(seed)
    age = np.floor(draw.beta(1 + pull, 1, rows) * 60).astype(int)
    pay = draw.random(rows) * np.minimum(2 * age, 100)
    job = np.where(age < 16, "none", draw.choice(["baker", "clerk"], rows))
    return pa.table({"age": age, "pay": pa.array(pay, mask=age < 14), "job": job, "adult": age >= 18})


REAL, OTHER = people(3_000, 0), people(2_000, 1, 0.3)


def test_the_score_is_that_of_sdnist() -> None:
    """By the definition in SDNist's documentation, on data frames: bins by percentile rank of the target."""
    found = evaluate(REAL, OTHER, SCHEMA, models=False)
    real, other = (table.to_pandas() for table in (REAL, OTHER))
    for name in ("age",):
        ranks = real[name].rank(pct=True)
        tops = real[name].groupby((20 * ranks).astype(int).clip(upper=19)).max()
        real[name], other[name] = (np.searchsorted(tops, x[name]).clip(max=len(tops) - 1) for x in (real, other))
    for frame in (real, other):
        frame["pay"] = pd.cut(frame["pay"], SCHEMA["pay"].edges, right=False).cat.codes
    sums = []
    for pair in itertools.combinations(SCHEMA.names, 2):
        shares = [frame.groupby(list(pair)).size() / len(frame) for frame in (real, other)]
        sums.append(shares[0].subtract(shares[1], fill_value=0).abs().sum())
    assert found.score == pytest.approx(500 * (2 - np.mean(sums)))
    assert 800 < found.score < 990


def test_a_table_equals_itself() -> None:
    found = evaluate(REAL, REAL, SCHEMA, target="job")
    assert found.score == 1000 and found.propensity == 0 and found.correlation_difference == 0 and not found.broken
    assert found.transfer is not None and found.transfer.real > found.transfer.most_common
    assert all(each.distance == 0 for each in (*found.marginals, *found.univariate))


def test_single_columns_and_correlations() -> None:
    found = evaluate(REAL, OTHER, SCHEMA, models=False)
    by_name = {each.attributes[0]: each for each in found.univariate}
    shares = [np.bincount(np.asarray(table["age"]), minlength=61) / table.num_rows for table in (REAL, OTHER)]
    assert by_name["age"].distance == pytest.approx(np.abs(shares[0] - shares[1]).sum() / 2)
    assert by_name["age"].ordered == pytest.approx(np.abs(np.cumsum(shares[0] - shares[1])).max())
    assert by_name["job"].ordered is None
    (pair,) = found.correlations
    frame = REAL.to_pandas().dropna()
    middle = SCHEMA["pay"].representatives[pd.cut(frame["pay"], SCHEMA["pay"].edges, right=False).cat.codes]
    assert pair.attributes == ("age", "pay") and pair.real == pytest.approx(
        np.corrcoef(frame["age"], middle)[0, 1], abs=1e-4
    )


def test_classifiers_notice_rows_that_are_unlike() -> None:
    alike, unlike = (evaluate(REAL, table, SCHEMA, target="job") for table in (people(3_000, 5), OTHER))
    assert alike.propensity is not None and unlike.propensity is not None and alike.propensity < unlike.propensity
    mixed = OTHER.set_column(2, "job", pa.array(np.random.default_rng(0).permutation(np.asarray(OTHER["job"]))))
    worse = evaluate(REAL, mixed, SCHEMA, target="job").transfer
    assert worse is not None and unlike.transfer is not None and worse.synthetic < unlike.transfer.synthetic


def test_broken_declarations_are_counted_in_both_tables() -> None:
    age = np.asarray(OTHER["age"]).copy()
    age[:10] = 0  # pays are too high then, and they may be called adults
    wrong = OTHER.set_column(0, "age", pa.array(age))
    found = evaluate(REAL, wrong, SCHEMA, models=False, zeros=[{"age": {"below": 5}, "job": ["baker", "clerk"]}])
    told = {each.declaration: (each.real, each.synthetic) for each in found.broken}
    pays = np.asarray(OTHER["pay"].slice(0, 10).fill_null(0).to_pylist())
    assert told["pay breaks the rule 'pay <= 2 * age'"] == (0, int((pays > 0).sum()))
    assert told["adult differs from its formula"][1] == int(np.asarray(OTHER["adult"])[:10].sum())
    baker = np.asarray(OTHER["job"])[:10] != "none"
    assert told["zeros: age + job"] == (0, int(baker.sum()))


def test_columns_that_the_rows_lack_and_numbers_of_another_kind() -> None:
    found = evaluate(REAL, OTHER.drop_columns(["pay"]), SCHEMA, models=False)
    assert found.columns == ("age", "job", "adult") and found.correlations == ()
    loose = Schema((Attribute("age", "integer", low=10, high=60, unknown="other"), SCHEMA["job"]))
    empty = OTHER.set_column(0, "age", pa.array(np.asarray(OTHER["age"]), mask=np.asarray(OTHER["age"]) < 10))
    by_null, by_value = (evaluate(REAL, rows, loose, models=False) for rows in (empty, OTHER))
    assert by_null.score == pytest.approx(by_value.score)  # an empty field stands for "another number"


def test_what_cannot_be_evaluated_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    cases: list[tuple[type[NablaDPError], str, dict[str, object]]] = [
        (DataError, "no 5-way", {"width": 5}),
        (DataError, "too many to be predicted", {"target": "age"}),
        (UnknownAttribute, "'jib'", {"target": "jib"}),
        (MechanismError, "not compared", {"zeros": [{"age": 1, "sex": 2}]}),
    ]
    for kind, says, options in cases:
        with pytest.raises(kind, match=says):
            evaluate(REAL, OTHER, SCHEMA, **{"models": False, **options})  # type: ignore[arg-type]
    with pytest.raises(DataError, match="no column of the schema"):
        evaluate(REAL, pa.table({"x": [1]}), SCHEMA)
    with pytest.raises(DataError, match="'job' of the synthetic rows"):
        evaluate(REAL, OTHER.set_column(2, "job", pa.array(["king"] * len(OTHER))), SCHEMA)
    monkeypatch.setitem(__import__("sys").modules, "sklearn", None)
    with pytest.raises(MissingPart, match="scikit-learn"):
        evaluate(REAL, OTHER, SCHEMA)


def test_the_command_and_the_page(tmp_path: Path) -> None:
    SCHEMA.save(tmp_path / "schema.toml")
    for name, table in (("real", REAL), ("other", OTHER)):
        pq.write_table(table, tmp_path / f"{name}.parquet")
    page = tmp_path / "page.html"
    words = ["evaluate", *(str(tmp_path / f"{name}.parquet") for name in ("real", "other"))]
    words += ["--schema", str(tmp_path / "schema.toml"), "--no-models"]
    told = CliRunner().invoke(app, [*words, "--to", str(page), "--json"])
    assert told.exit_code == 0, told.output
    body = json.loads(told.stdout)
    assert body["file"] == str(page) and body["k_marginal"]["marginals"] == 6 and body["notice"]
    assert page.stat().st_mode & 0o077 == 0  # for its owner alone
    text = page.read_text(encoding="utf-8")
    assert "not for publication" in text and "contains unprotected statistics" in text
    plain = CliRunner().invoke(app, words)
    assert plain.exit_code == 0 and "publish none of it" in " ".join(plain.stdout.split())
    found = evaluate(REAL, OTHER, SCHEMA, models=False)
    german = write_evaluation(found, "b", tmp_path / "seite.html", spoken="de").read_text(encoding="utf-8")
    assert "nicht zur Veröffentlichung" in german
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "release.json").write_text("{}")
    with pytest.raises(ReleaseError, match="published folder"):
        write_evaluation(found, "b", tmp_path / "out" / "page.html")
    with pytest.raises(ReleaseError, match="exists already"):
        write_evaluation(found, "b", page)
