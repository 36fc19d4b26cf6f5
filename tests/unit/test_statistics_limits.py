"""Statistics: sums that do not fit are refused before anything is spent; the score of quantiles that are selected."""

from __future__ import annotations

import itertools
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from nabladp.errors import NablaDPError
from nabladp.mechanisms.statistics.selection import rank_scores
from nabladp.privacy import CDP, Budget
from nabladp.release import Session
from nabladp.schema import Attribute, Schema

WIDE = Schema(
    (
        Attribute("v", "integer", low=0, high=2**32 - 20),
        Attribute("public", "integer", low=0, high=2**32 - 20, public=True),
        Attribute("r", "real", low=0, high=1e15),
        Attribute("g", "boolean"),
    )
)
PEOPLE = pa.table({"v": [1, 2], "public": [1, 2], "r": [1.0, 2.0], "g": [True, False]})


@pytest.mark.parametrize(
    "query, reason",
    [
        ("SELECT VAR_POP(v) FROM t", "would not fit"),
        ("SELECT VAR_POP(v + 1) FROM t WHERE g", "would not fit"),
        ("SELECT VAR_POP(public), COUNT(*) FROM t WHERE g", "would not fit"),
        ("SELECT VAR_POP(r) FROM t WHERE g", "too small for values of this range"),
    ],
)
def test_sums_that_do_not_fit_are_refused_before_anything_is_spent(query: str, reason: str, tmp_path: Path) -> None:
    session = Session(PEOPLE, WIDE, Budget(per_attribute=CDP(1)), tmp_path / "ledger.db", new_ledger=True)
    for ask in (session.cost, session.sql):
        with pytest.raises(NablaDPError, match=reason):
            ask(query, CDP(1e-3))
    assert set(session.left().values()) == {0.5} and len(list(session.ledger.entries())) == 1  # the opening
    session.ledger.close()


def test_the_best_score_is_the_quantile_also_under_ties() -> None:
    """60 % of the rows have one value, which holds the quantile; nearer ranks of other values do not win."""
    scores = rank_scores(np.array([[20, 0, 60, 0, 20]]), 1, 4)[0]
    assert scores.tolist() == [-20, -20, 0, -220, -220] and scores.argmax() == 2


@pytest.mark.parametrize("q", [Fraction(1, 2), Fraction(1, 4), Fraction(9, 10)])
def test_scores_move_as_far_as_is_charged(q: Fraction) -> None:
    """Over all tables of three rows: a row that changes its value, and one that comes, move differences of scores by at
    most 2, and 2·max(q, 1 − q), and some do."""
    rows = np.array(list(itertools.combinations_with_replacement(range(3), 3)))
    tables = np.array([np.bincount(own, minlength=3) for own in rows])

    def farthest(ours: np.ndarray, theirs: np.ndarray) -> Fraction:
        moved = rank_scores(theirs, q.numerator, q.denominator) - rank_scores(ours, q.numerator, q.denominator)
        return Fraction(int((moved.max(axis=1) - moved.min(axis=1)).max()), q.denominator)

    pairs = [(a, b) for a in tables for b in tables if np.abs(a - b).sum() == 2]
    come = [(table, table + np.eye(3, dtype=np.int64)[k]) for table in tables for k in range(3)]
    changed, added = (farthest(*map(np.array, zip(*own, strict=True))) for own in (pairs, come))
    assert changed <= 2 and added <= 2 * max(q, 1 - q)
    assert changed > 1 and added > max(q, 1 - q)  # more than a score by itself may
