"""The benchmark of peers: runs alone, stopped and kept; ratios at what is held equal. No peer is needed here."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]
DONE = "import sys, numpy as np; np.savez(sys.argv[2], seconds=2, processor=1, peak_mib=10, counts=[1, 2])"


@pytest.fixture
def load(monkeypatch: pytest.MonkeyPatch) -> object:
    """Modules of bench.peers; its scripts import what lies beside them."""
    monkeypatch.syspath_prepend(str(ROOT))
    monkeypatch.syspath_prepend(str(ROOT / "bench" / "peers"))
    return importlib.import_module


def script(folder: Path, text: str) -> str:
    path = folder / "script.py"
    path.write_text(text)
    return str(path)


def test_a_run_is_stopped_or_says_why_it_failed(load, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    processes = load("bench.peers.processes")
    runner = processes.Runner()
    endless = processes.Library("x", script(tmp_path, "while True: pass"))
    assert runner.alone(endless, 1).why == "more than 1 s"
    failing = processes.Library("x", script(tmp_path, "raise SystemExit('too many cells')"))
    assert runner.alone(failing, 60).why == "too many cells"
    fine = runner.alone(processes.Library("x", script(tmp_path, DONE)), 60)
    assert fine.found is not None and fine.why == ""
    assert (fine.seconds, fine.processor, round(fine.peak_mb, 2)) == (2, 1, 10.49)


def test_what_was_found_is_kept_until_code_data_or_limit_change(load, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    processes = load("bench.peers.processes")
    marks = tmp_path / "marks"
    library = processes.Library("x", script(tmp_path, f"open({str(marks)!r}, 'a').write('.')\n{DONE}"))
    runner = processes.Runner(tmp_path / "kept")
    for given, limit, runs in (([1], 60, 1), ([1], 60, 1), ([2], 60, 2), ([2], 61, 3)):
        assert list(runner.alone(library, limit, codes=given).found["counts"]) == [1, 2]
        assert len(marks.read_text()) == runs
    script(tmp_path, Path(library.script).read_text() + "\n")
    runner.alone(library, 61, codes=[2])
    assert len(marks.read_text()) == 4


def test_ratios_compare_ours_at_what_is_held_equal_with_the_only_figure_of_a_peer(load) -> None:  # type: ignore[no-untyped-def]
    peers, comparing = load("bench.peers"), load("bench.peers.comparing")

    def row(who: str, equal: str, error: float | None, epsilon: float = 1.0) -> object:
        return comparing.Row("table", who, epsilon, equal, error, 1, why="" if error else "more than 5 s")

    rows = [
        row("Projection", "person", 0.3),
        row("Projection", "attribute", 0.1),
        row("Projection", "same number", 0.4),
        row("Synthesis", "person", 0.5),
        row("OpenDP Gaussian", "person", 0.2),
        row("OpenDP AIM", "person", None),
        row("mbi", "person", 0.1, epsilon=3.0),  # nothing of ours to compare it with
    ]
    found = peers.compared(rows)
    assert (found["person_equal_ratio_max"], found["person_equal_ratio_where"]) == (
        1.5,
        "table, ε0 = 1: Projection over OpenDP Gaussian",
    )
    assert found["person_equal_ratios"] == {
        "Projection / OpenDP Gaussian": [1.5, 1.5],
        "Synthesis / OpenDP Gaussian": [2.5, 2.5],
    }
    assert found["attribute_equal_ratios"] == {"Projection / OpenDP Gaussian": [0.5, 0.5]}
    assert found["same_number_ratios"] == {"Projection / OpenDP Gaussian": [2.0, 2.0]}
    assert found["not_finished"] == {"table, OpenDP AIM": "more than 5 s"}
    assert peers.compared([])["person_equal_ratio_max"] is None


def small(marginals: ModuleType) -> object:
    draw = np.random.default_rng(0)
    return marginals.Grid("small", draw.integers(0, 2, (500, 4)), np.array([2, 2, 3, 2]))


@pytest.mark.parametrize("name", ["NoisyMarginals", "Projection", "Synthesis"])
def test_ours_pays_what_is_held_equal(load, name: str) -> None:  # type: ignore[no-untyped-def]
    from nabladp.schema import Attribute, Schema

    made = load("nabladp_marginals").made
    schema = Schema(tuple(Attribute(f"c{i}", "integer", low=0, high=2) for i in range(4)))
    for unit in ("attribute", "person"):
        guarantee = made(name, unit, 0.5, 2, schema, 1000).guarantee(schema, 1000)
        paid = guarantee.per_person().rho if unit == "person" else max(guarantee.rho((n,)) for n in schema.names)
        assert 0.48 < paid <= 0.5 + 1e-12


def test_an_error_is_the_mean_distance_of_pairs_and_repeats(load) -> None:  # type: ignore[no-untyped-def]
    grid = small(load("bench.peers.marginals"))
    assert grid.error({"counts": grid.truth}) == 0
    moved = grid.truth.copy()
    moved[:2] += [30, -30]  # of one pair out of six, in one repeat out of two
    assert grid.error({"counts": [grid.truth, moved]}) == pytest.approx(30 / 500 / 6 / 2)


def test_a_peer_that_is_not_there_is_left_out_with_a_line(  # type: ignore[no-untyped-def]
    load, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    marginals, processes = load("bench.peers.marginals"), load("bench.peers.processes")
    monkeypatch.setattr(processes, "ROOT", tmp_path)
    for library in (*marginals.PEERS, marginals.AIM):
        assert list(marginals.peer(processes.Runner(), library, small(marginals), 1.0, 1, 5)) == []
        assert f"{library.name} is left out: `make peers` installs it" in capsys.readouterr().out
    assert Path(sys.executable) == processes.Library("ours", "x.py").python


def test_tables_and_figures_of_the_docs_are_those_of_the_results(load) -> None:  # type: ignore[no-untyped-def]
    page = load("bench.peers.page")
    results = json.loads(page.RESULTS.read_text(encoding="utf-8"))
    told = (ROOT / "docs" / "comparison.md").read_text(encoding="utf-8")
    assert page.tables(results) in told, "python -m bench.peers.page"
    same = results["same_number_ratios"]
    pairs = (same[f"{ours} / OpenDP Gaussian"][1] for ours in ("Projection", "Synthesis"))
    said = "error is {:.2f} times that of OpenDP's noise, Synthesis' {:.2f} times".format(*pairs)
    assert said in " ".join(told.split())
    assert ("part" in results) == ("The whole run has not been made yet" in told)
