"""Numbers drawn as dense as the bins beside them suggest: tails, point masses, and never outside their bin."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from nabladp import CDP, MWEM, NoiseSource, Schema, Synthesis
from nabladp.mechanisms.bin_density import density_falls, smooth
from nabladp.schema import Attribute
from nabladp.tables import CodedTable, Encoder, decode
from nabladp.workloads import Conjunctions

EDGES = (-20_000.0, 0.0, 1.0, 5000.0, 15_000.0, 30_000.0, 50_000.0, 75_000.0, 100_000.0, 2_000_000.0)
ROWS = 40_000


def incomes() -> np.ndarray:
    draws = np.random.default_rng(3)
    earned = draws.lognormal(10.4, 0.9, ROWS)
    return np.where(draws.random(ROWS) < 0.2, 0.0, np.clip(earned, 0, EDGES[-1]))


def drawn(way: Any) -> np.ndarray:
    """Incomes, put into bins and drawn again."""
    schema = Schema((Attribute("income", "real", edges=EDGES, decode=way),))
    codes = {"income": np.searchsorted(EDGES, incomes(), side="right") - 1}
    uniform = {"income": np.random.default_rng(4).random(ROWS, dtype=np.float32)}
    table = decode(schema, codes, smooth(schema, codes, uniform))
    again = Encoder(schema).encode(table.combine_chunks().to_batches()[0])
    assert again.column("income").to_pylist() == codes["income"].tolist()  # of the same bin
    return np.array(table["income"])


def distance(values: np.ndarray) -> float:
    """Kolmogorov and Smirnov's, from the true incomes."""
    at = np.sort(np.concatenate([incomes(), values]))
    both = [np.searchsorted(np.sort(each), at, side="right") / ROWS for each in (incomes(), values)]
    return float(np.abs(both[0] - both[1]).max())


def test_incomes_have_their_zeros_their_tail_and_their_mean() -> None:
    plain, smoothed, true = drawn("uniform"), drawn("smooth"), incomes()
    assert (plain == 0).sum() == 0 and (smoothed == 0).sum() == (true == 0).sum()
    assert plain.mean() > 1.5 * true.mean() and abs(smoothed.mean() / true.mean() - 1) < 0.15
    assert distance(smoothed) < 0.03 < 0.15 < distance(plain)


@pytest.mark.parametrize("way", ["midpoint", "uniform", "smooth"])
def test_a_declared_spike_is_drawn_as_it_is(way: str) -> None:
    """However few they are, and without a bin of their own among the edges."""
    schema = Schema((Attribute("income", "real", edges=(0, 5000, 20_000, 100_000), spikes=(0, 501), decode=way),))
    true = np.repeat([0.0, 501.0, 502.5, 6000.0, 30_000.0], [700, 3, 90, 500, 200])
    codes = {"income": np.searchsorted(schema["income"].edges, true, side="right") - 1}
    uniform = {"income": np.random.default_rng(4).random(len(true), dtype=np.float32)}
    values = np.array(decode(schema, codes, smooth(schema, codes, uniform) if way != "midpoint" else None)["income"])
    assert ((values == 0).sum(), (values == 501).sum()) == (700, 3)
    assert np.isfinite(values).all() and (way != "smooth" or len(np.unique(values[codes["income"] == 3])) > 80)


def test_the_density_goes_on_where_the_bin_beside_leaves_off() -> None:
    exact = density_falls(1e6 * -np.diff(np.exp(-np.array([0.0, 1, 2, 3, 30]))), np.array([0.0, 1, 2, 3, 30]))
    assert exact[-1] == pytest.approx(27, rel=0.05) and exact[1] == pytest.approx(1, rel=0.05)
    turned = density_falls(1e6 * np.diff(np.exp(np.array([-30.0, -3, -2, -1, 0]))), np.array([-30.0, -3, -2, -1, 0]))
    assert turned[0] == pytest.approx(-27, rel=0.05)
    flat = density_falls(np.full(5, 1000), np.arange(6.0))
    assert np.abs(flat).max() < 1e-6
    assert density_falls(np.array([7]), np.array([0.0, 1.0])).tolist() == [0.0]
    assert density_falls(np.array([0, 5000, 0]), np.arange(4.0))[1] == math.inf
    for far in ([0.0, 1e-9, 1, 2, 1e300], [-1.7e308, -1, 0, 1, 1.7e308]):
        for counts in ([0, 0, 0, 0], [5, 0, 9, 1000]):
            assert np.isfinite(density_falls(np.array(counts), np.array(far))).all()


@pytest.mark.parametrize(
    "mechanism", [Synthesis(CDP(1)), MWEM(CDP(1), Conjunctions(2), rounds=3)], ids=["Synthesis", "MWEM"]
)
def test_smooth_columns_of_both_kinds_of_tables(mechanism: Any) -> None:
    schema = Schema(
        (Attribute("income", "real", edges=EDGES, decode="smooth", null="category"), Attribute("sick", "boolean"))
    )
    codes = {"income": np.searchsorted(EDGES, incomes()[:5000], side="right") - 1, "sick": np.arange(5000) % 2}
    output = mechanism.run(CodedTable(schema, codes), NoiseSource.seeded(1))
    values = output.synthetic["income"].drop_null().to_numpy()
    assert 0.1 < (values == 0).mean() < 0.3 and len(np.unique(values)) > 1000
    assert np.median(values[values >= 100_000]) < 400_000
