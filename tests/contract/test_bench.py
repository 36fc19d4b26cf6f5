"""Benchmarks: each states its time first and prints one JSON object last. What they measure is not judged here."""

from __future__ import annotations

import importlib
import json
import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
NAMES = sorted(m.name for m in pkgutil.iter_modules([str(ROOT / "bench")]) if not m.name.startswith("_"))
KEYS = {
    "audit": {
        "faults_planted",
        "faults_caught",
        "false_alarms",
        "tightness_gaussian",
        "tightness_tree",
        "tightness_mwem",
    },
    "consistent": {"pairs_yes_no", "pairs_mixed", "triples_yes_no", "triples_mixed", "coverage_min", "seconds_60"},
    "faults": {"kills", "lost", "overspent", "wrong_counts"},
    "first_hour": {
        "hand_typed_lines",
        "commands",
        "python_lines",
        "means_covered",
        "seconds_commands",
        "seconds_python",
    },
    "free_answers": {"runs", "numbers", "coverage_by_kind", "coverage_noise", "coverage_min"},
    "fuzz": {"inputs", "inputs_min", "kinds", "foreign", "hung", "over_1gb", "leaks"},
    "guarantee": {"microseconds", "ratio_vs_scan"},
    "ledger": {"reserve_ratio_100k_vs_1k", "overspent", "lost"},
    "many_rows": {"time_ratio_vs_plain", "rss_ratio_10x", "counts_equal"},
    "scale": {"time_ratio_10x", "rss_ratio_10x", "spark_over_duckdb", "driver_bytes_per_row", "counts_equal"},
    "sdnist": {"person_score", "attribute_score"},
    "table1": {
        "marginals_avg_d",
        "marginals_avg_d_person",
        "marginals_max_d",
        "marginals_max_d_person",
        "halfspace_d",
        "halfspace_d_person",
        "histogram_logd_r2",
        "exponent_gap_max",
    },
    "tables": {"speedup_vs_polars", "rss_ratio_10x", "time_ratio_10x"},
    "projection": {
        "mse_over_bound_max",
        "mse_over_width_max",
        "ratio_deviation_max",
        "never_worse",
        "gap_over_noise_max",
        "runs",
    },
    "mwem": {
        "error_ratio_l1_over_joint_k2",
        "error_ratio_l1_over_joint_k3",
        "error_over_bound_max",
        "speedup_vs_naive",
        "speedup_joint_vs_naive",
        "select_ms_d16",
        "paper_over_fit",
        "paper_over_fit_own_rounds",
        "overshoot_probability",
    },
    "heavy_hitters": {
        "recall_at_certificate",
        "empirical_over_certified",
        "slope_log_d",
        "r2_log_d",
        "cdp_over_pure",
        "standard_dp",
        "hard_success_below_bound",
        "hard_success_from_certified",
        "real",
        "msnbc_epsilon",
        "pass_ratio",
        "rss_ratio_10x",
    },
    "learners": {"success_rate", "success_rates", "needed"},
    "halfspaces": {
        "excess_ratio_vs_zcdp_median",
        "excess_ratio_vs_zcdp_max",
        "excess_ratio_vs_diffprivlib_max",
        "adult_accuracy_eps05",
        "mushrooms_accuracy_eps05",
        "dec_gcoords_per_s",
        "exact_d7_seconds",
        "fit_ratio_vs_sklearn",
    },
    "halfspaces_by_dimension": {
        "accuracy_ours",
        "accuracy_ours_public_labels",
        "accuracy_record_level",
        "accuracy_non_private",
        "curves",
    },
    "error_by_dimension": {f"{u}_growth_{m}" for u in ("attribute", "person") for m in ("projection", "mwem")},
    "peers": {
        "person_equal_ratio_max",
        "person_equal_ratio_where",
        "person_equal_ratios",
        "attribute_equal_ratios",
        "same_number_ratios",
        "same_epsilon_delta_ratios",
        "not_finished",
        "rows",
    },
    "report": {
        "bytes",
        "first_paint_ms",
        "explorer_ms",
        "wide_seconds",
        "wide_mb",
        "wide_bytes",
        "print_marks_lost",
    },
    "sql": {
        "error_over_best_peer_max",
        "error_over_best_peer",
        "error_over_best_peer_columns",
        "attribute_equal_error_over_best_peer",
        "person_over_attribute",
        "call_seconds",
        "no_answer",
        "time_over_duckdb",
        "call_over_duckdb",
        "rss_ratio_10x",
        "coverage_min",
        "counts_equal",
        "engines",
    },
    "synthesis": {
        "gain_vs_aim_pool_mixed",
        "gain_vs_aim_pool_binary",
        "worst_vs_best_baseline",
        "person_equal_ratio_max",
        "time_ratio_vs_mbi_aim",
        "peak_mb",
        "person_over_attribute_rho",
        "classifier_points_lost",
        "classifier_points_lost_aim",
        "many_rows_seconds",
        "rows_gain_vs_aim_mixed",
        "rows_gain_vs_aim_binary",
        "rows_over_answers_max",
        "auto_over_best_max",
        "predicted_over_true",
        "reported_on",
    },
    "studio": {"first_page_ms", "cost_update_ms", "memory_mb", "attacks", "let_in", "leaks"},
    "synthesis_wide": {"memory_over_told_max", "time_over_told_max", "columns_max", "cases"},
    "learners_sklearn": {
        "check_estimator_passed",
        "check_estimator_exceptions",
        "adult_accuracy_eps05",
        "r2_lost_attribute",
        "r2_lost_person",
        "multiclass_accuracy",
        "kmeans_over_best_attribute",
        "install_megabytes",
        "import_seconds",
    },
    "selection": {"captured_gumbel", "captured_blocks", "select_ms_d200", "wide_error_ratio"},
    "noise": {"gaussian_speedup_vs_opendp", "laplace_speedup_vs_opendp"},
}


def test_every_benchmark_is_listed() -> None:
    assert set(NAMES) == set(KEYS)


@pytest.mark.parametrize("name", NAMES)
def test_benchmark_offers_what_the_runner_needs(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT))
    module = importlib.import_module(f"bench.{name}")
    assert set(module.SECONDS) == {"full", "quick"} and callable(module.run)


@pytest.mark.parametrize("name", ["guarantee", "noise"])  # the others take longer than a test should
def test_quick_run_prints_its_time_and_one_json_object(name: str) -> None:
    command = [sys.executable, "-m", "bench", name, "--quick"]
    lines = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    assert lines[0].startswith(f"bench {name}: about")
    assert KEYS[name] <= set(json.loads(lines[-1]))


SLICE = {"budget": 150, "attributes": 200, "certificates": 20, "coded tables": 60}  # inputs of kinds with such names
FUZZ = """
import json, sys
from bench import fuzz
from bench._fuzz_watchdog import run_jobs, tell
from bench._fuzz_worker import Job

jobs = [Job(name, 0, count) for part, count in json.loads(sys.argv[1]).items() for name in fuzz.kinds() if part in name]
found = run_jobs(jobs, fuzz.kinds, fuzz.SEED, fuzz.WORKERS)
tell(found.findings, fuzz.SEED)
print(json.dumps({"inputs": found.inputs, "faults": found.faults}))
"""


def test_a_slice_of_the_fuzzer_finds_nothing() -> None:
    """A few inputs of cheap kinds and of files, in their own processes; ``python -m bench fuzz`` tries a million."""
    command = [sys.executable, "-c", FUZZ, json.dumps(SLICE)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    found = json.loads(done.stdout.splitlines()[-1])
    for part, count in SLICE.items():
        assert count in [inputs for name, inputs in found["inputs"].items() if part in name]
    assert found["faults"] == dict.fromkeys(("foreign", "hung", "over_1gb", "leaks"), 0), done.stderr


def test_figures_of_synthesis_are_of_whole_places_only(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A run that was cut short tells what it includes, and no mean is of fewer seeds than another."""
    monkeypatch.syspath_prepend(str(ROOT))
    monkeypatch.setenv("NABLADP_BENCH_CACHE", str(tmp_path))
    synthesis = importlib.import_module("bench.synthesis")
    jobs = importlib.import_module("bench._synthesis_jobs")
    wanted = [
        synthesis.Cell(table, 2, 0.3, seed, method)
        for table in ("first", "second")
        for method in (synthesis.OURS, synthesis.AIM)
        for seed in (0, 1)
    ]
    kept = jobs.Kept.open("some")
    for cell in wanted[:-1]:
        kept.add(synthesis.job_of(cell), {"error": 0.1, "drawn": 0.1, "person": 1.0, "seconds": 1.0})
    again = jobs.Kept.open("some")
    found = synthesis.whole_places(wanted, again)
    assert list(found) == wanted[:4] and synthesis.included(found) == {"first, 2-way": [0.3]}
