"""The fast index of costs: exact to the last unit, also where doubles would round."""

from __future__ import annotations

from fractions import Fraction

import pytest

from nabladp.privacy import Guarantee, Pure, Rho
from nabladp.privacy.cost_index import _EXACT_BITS, _limbs, scan_total
from nabladp.privacy.units import UNIT

FULL = 2**92 - 1  # all bits set: every limb is as large as can be


@pytest.mark.parametrize("kind", [Rho, Pure])
@pytest.mark.parametrize("size", [63, 64, 65, 255, 256, 300])
def test_sums_of_the_largest_limbs_are_exact(kind: type[Rho | Pure], size: int) -> None:
    names = [f"x{i}" for i in range(size)]
    g = Guarantee.compose(names, [Guarantee.touch(names, name, kind(Fraction(FULL, UNIT))) for name in names])
    for chosen in (names, names[:-1], names[::2], names[-1:]):
        plain = scan_total(g.terms, frozenset(chosen))
        assert (g.rho_units(chosen), g.pure_units(chosen)) == (plain.rho, plain.pure)


@pytest.mark.parametrize("layers", [1, 2, 3, 64, 255, 256, 257])
def test_no_sum_of_limbs_leaves_what_a_double_holds(layers: int) -> None:
    limbs, places = _limbs([[FULL, FULL, FULL]] * layers, _EXACT_BITS - layers.bit_length())
    assert limbs.sum(axis=1).max() < 2**53
    back = [
        sum(int(row[0]) << shift for row, (column, shift) in zip(limbs, places, strict=True) if column == c)
        for c in range(3)
    ]
    assert back == [FULL] * 3


def test_unequal_weights_are_cut_into_layers_that_add_up() -> None:
    names = [f"x{i}" for i in range(12)]
    parts = [
        Guarantee.touch(names, {name: kind(Fraction(i * i + j + 1, 7)) for i, name in enumerate(names[j:])})
        for j in range(5)
        for kind in (Rho, Pure)
    ]
    g = Guarantee.compose(names, parts + parts[:3])
    for start in range(12):
        for stop in range(start + 1, 13):
            assert g.rho_units(names[start:stop]) == scan_total(g.terms, frozenset(names[start:stop])).rho
