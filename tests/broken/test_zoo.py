"""The zoo: every planted fault is refuted, and the same mechanism without it is not."""

from __future__ import annotations

from collections import Counter

import pytest
from every_mechanism import FAULTS, FILES
from faults import Fault, Patches

from nabladp.mechanisms import MECHANISMS
from nabladp.noise import NoiseSource

SOUND = {(id(fault.mechanism), fault.how, fault.n): fault for fault in FAULTS}  # some faults share a mechanism


def name(fault: Fault) -> str:
    return fault.name


@pytest.mark.parametrize("fault", FAULTS, ids=name)
def test_the_fault_is_refuted(fault: Fault) -> None:
    with fault.planted():
        assert fault.refuted(NoiseSource.seeded(3))


@pytest.mark.parametrize("fault", SOUND.values(), ids=name)
def test_the_mechanism_without_it_is_not(fault: Fault) -> None:
    assert not fault.refuted(NoiseSource.seeded(4), seconds=0.5)


def test_the_zoo_is_large_and_no_mechanism_is_left_out() -> None:
    assert set(FILES) == set(MECHANISMS), "a mechanism has no file in tests/mechanisms"
    assert len({fault.name for fault in FAULTS}) == len(FAULTS) >= 45
    planted = [fault.mechanism for fault in FAULTS if fault.mechanism is not None]
    held = {type(getattr(mechanism, "mechanism", mechanism)).__name__ for mechanism in planted}
    assert held == set(MECHANISMS)
    by = Counter(fault.how for fault in FAULTS)
    assert by["statistical"] >= 5 and by["run"] >= len(MECHANISMS) and by["side door"] >= 1


def test_a_fault_is_gone_once_it_is_lifted() -> None:
    class Here:
        one = 1

        @classmethod
        def two(cls) -> int:
            return 2

    with Patches() as patches:
        patches.set(Here, "one", 3)
        patches.set(Here, "two", lambda: 4)
        patches.set(Here, "one", 5)
        assert (Here.one, Here.two()) == (5, 4)
    assert (Here.one, Here.two(), Here().two()) == (1, 2, 2)
