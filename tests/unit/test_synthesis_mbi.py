"""Our own fit against mbi's, the reference engine, and mbi as a back end."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from nabladp import CDP, Attribute, Budget, Schema, Session, Synthesis
from nabladp.errors import MechanismError, MissingPart
from nabladp.mechanisms.synthesis.inference import Measurement, Zeros, fit
from nabladp.noise import NoiseSource

SIZES = {"a": 2, "b": 3, "c": 4, "d": 2, "e": 3}
MEASURED = [("a", "b"), ("b", "c"), ("c", "d"), ("a",), ("b",), ("c",), ("d",), ("e",), ("d", "e")]
ROWS = 5000


@pytest.fixture(scope="module")
def measurements() -> list[Measurement]:
    draw = np.random.default_rng(3)
    joint = draw.dirichlet(np.full(int(np.prod(list(SIZES.values()))), 0.3)).reshape(tuple(SIZES.values())) * ROWS
    found = []
    for names in MEASURED:
        gone = tuple(i for i, name in enumerate(SIZES) if name not in names)
        table = joint.sum(axis=gone)
        found.append(Measurement(names, table + draw.normal(0, 8, table.shape), 64.0))
    return found


@pytest.fixture(scope="module")
def by_mbi(measurements):
    return fit(SIZES, ROWS, measurements, back_end="mbi")


def test_both_fits_agree_within_the_noise(measurements, by_mbi):
    own = fit(SIZES, ROWS, measurements, close=0.01)
    assert own.converged and by_mbi.converged
    for names in [*MEASURED, ("a", "c"), ("a", "d"), ("a", "b", "e")]:
        one, other = own.marginal(names), by_mbi.marginal(names)
        assert other.sum() == pytest.approx(ROWS)
        assert np.abs(one - other).mean() < 8  # a deviation of the noise
    far = fit(SIZES, ROWS, [Measurement(m.attributes, m.values[::-1], m.variance) for m in measurements], close=0.01)
    assert np.abs(far.marginal(("a", "b")) - by_mbi.marginal(("a", "b"))).mean() > 80  # and the test can tell


def test_its_model_draws_and_travels_like_ours(by_mbi):
    again = type(by_mbi).from_json(by_mbi.to_json())
    assert np.allclose(again.marginal(("a", "c")), by_mbi.marginal(("a", "c")))
    codes = by_mbi.draw(ROWS, NoiseSource.seeded(1))
    drawn = np.histogram2d(codes["a"], codes["b"], bins=[np.arange(3) - 0.5, np.arange(4) - 0.5])[0]
    assert np.abs(drawn - by_mbi.marginal(("a", "b"))).max() < 3


def test_it_knows_no_zeros(measurements):
    zeros = [Zeros(("a", "b"), np.eye(2, 3, dtype=bool))]
    with pytest.raises(MechanismError, match="zeros"):
        fit(SIZES, ROWS, measurements, zeros=zeros, back_end="mbi")


# ---- in a session --------------------------------------------------------------------------------------------------


def session(tmp_path: Path) -> Session:
    schema = Schema((Attribute("old", "boolean"), Attribute("sick", "boolean")))
    draws = np.random.default_rng(2)
    old = draws.random(400) < 0.5
    rows = {"old": old, "sick": draws.random(400) < 0.2 + 0.6 * old}
    return Session(pa.table(rows), schema, Budget(per_attribute=CDP(2)), ledger=tmp_path / "ledger.db", new_ledger=True)


def test_a_whole_release(tmp_path: Path) -> None:
    release = session(tmp_path).release(Synthesis(CDP(2), [("old", "sick")], back_end="mbi"), to=tmp_path / "out")
    drawn = release.output.synthetic.to_pandas()  # type: ignore[attr-defined]
    assert len(drawn) == 400 and release.output.model.converged  # type: ignore[attr-defined]
    assert drawn["sick"][drawn["old"]].mean() > drawn["sick"][~drawn["old"]].mean() + 0.3
    assert (tmp_path / "out" / "synthetic.parquet").exists()


ZEROS = ({"old": False, "sick": True},)


@pytest.mark.parametrize(
    ("given", "missing", "kind", "words"),
    [
        ({"zeros": ZEROS}, None, MechanismError, "mbi knows no declared zeros"),
        ({}, "mbi", MissingPart, "needs mbi"),
        ({}, "jax", MissingPart, "needs mbi"),
    ],
    ids=["zeros", "no mbi", "no jax"],
)
def test_what_it_cannot_do_is_refused_before_anything_is_booked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: dict[str, Any], missing: str | None, kind: Any, words: str
) -> None:
    if missing is not None:
        monkeypatch.setitem(sys.modules, missing, None)
    mechanism = Synthesis(CDP(1), back_end="mbi", **given)
    with_ledger = session(tmp_path)
    for n in (0, 400):
        with pytest.raises(kind, match=words):
            mechanism.guarantee(with_ledger.schema, n)
    with pytest.raises(kind, match=words) as caught:
        with_ledger.release(mechanism, to=tmp_path / "out")
    assert caught.value.fix
    assert not any(line.spent for line in with_ledger.ledger.spent())
    assert [entry.kind for entry in with_ledger.ledger.entries()] == ["open"]
