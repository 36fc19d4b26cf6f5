"""Mutation testing of privacy and noise with mutmut: docs/mutation.md says what came out.

    python tests/helpers/mutants.py run [module …]     every module, or those named, each with its own tests
    python tests/helpers/mutants.py table              what became of the mutants, by module
    python tests/helpers/mutants.py survivors          those that no test noticed, as differences

mutmut 3.8 is helped in two places. It asks pytest for a name that is gone since 9.2; and it parses all mutated files
again for every module to see which mutant a complaint of mypy belongs to, which it has on record.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from bisect import bisect_right
from collections import Counter
from pathlib import Path
from typing import Any

EDGES = ("mutants/test_privacy_edges", "mutants/test_guarantee_edges")
LEDGER = (
    "unit/test_ledger",
    "unit/test_ledger_life",
    "unit/test_ledger_tickets",
    "unit/test_ledger_verify",
    "mutants/test_ledger_edges",
    "unit/test_ledger_forged",
    "unit/test_ledger_refusals",
    "unit/test_ledger_opening",
    "unit/test_ledger_rules",
)
DRAWN = ("exact/test_noise_exact", "unit/test_noise_source", "mutants/test_noise_edges", "unit/test_noise_drawn")
TESTS = {
    "privacy.units": ("unit/test_units", "unit/test_terms", "unit/test_budget", *EDGES),
    "privacy.values": (
        "unit/test_units",
        "unit/test_guarantee",
        "unit/test_guarantee_building",
        "unit/test_capped",
        *EDGES,
    ),
    "privacy.conversion": ("unit/test_conversion", *EDGES),
    "privacy.terms": (
        "unit/test_terms",
        "unit/test_guarantee",
        "unit/test_guarantee_building",
        "unit/test_capped",
        *EDGES,
    ),
    "privacy.graph": ("unit/test_graph", "unit/test_no_bound", *EDGES),
    "privacy.budget": ("unit/test_budget", *EDGES),
    "privacy.cost_index": ("unit/test_index", "unit/test_worst", "unit/test_guarantee", *EDGES),
    "privacy.guarantee": (
        "unit/test_guarantee",
        "unit/test_guarantee_building",
        "unit/test_graph",
        "unit/test_capped",
        "unit/test_no_bound",
        *EDGES,
    ),
    "privacy.universe": ("unit/test_universe", "unit/test_guarantee", *EDGES),
    "privacy.interpretation": ("unit/test_interpretation", "mutants/test_interpretation_edges", *EDGES),
    "privacy.ledger.state": (*LEDGER, "unit/test_ledger_migrations"),
    "privacy.ledger.limits": (*LEDGER, "unit/test_ledger_places"),
    "privacy.ledger.history": LEDGER,
    "privacy.ledger.entry": LEDGER,
    "privacy.ledger.reading": LEDGER,
    "privacy.ledger.writing": LEDGER,
    "privacy.ledger.store": (*LEDGER, "unit/test_ledger_places", "unit/test_ledger_store"),
    "privacy.ledger.sqlite": (*LEDGER, "unit/test_ledger_places", "unit/test_ledger_migrations"),
    "privacy.ledger.rights": ("engines/test_postgres_ledger", "engines/test_postgres_roles"),  # with a server
    "privacy.ledger.ledger": (*LEDGER, "unit/test_ledger_places", "unit/test_ledger_migrations"),
    "noise.draws": DRAWN,
    "noise.samplers": DRAWN,
    "noise.choices": DRAWN,
    "noise.source": (*DRAWN, "unit/test_row_response"),
    "noise.parameters": ("unit/test_noise_source", "mutants/test_noise_edges"),
    "noise.laws": ("exact/test_noise_laws", "mutants/test_noise_edges"),
    "noise.tails": ("unit/test_noise_tails", "unit/test_noise_drawn"),
    "noise.packings": ("exact/test_packings", "unit/test_noise_drawn"),
}
KILLED, TYPES, SLOW, SURVIVED, OTHER = "killed", "by types", "timed out", "survived", "not run"
EXITS = {0: SURVIVED, 1: KILLED, 3: KILLED, 37: TYPES, 36: SLOW, -24: SLOW, 24: SLOW, 152: SLOW, 255: SLOW}
COLUMNS = (KILLED, TYPES, SLOW, SURVIVED, OTHER)


def run(modules: list[str]) -> None:
    """One process per module: mutmut keeps what it knows about tests for a whole run."""
    plain = {**os.environ, "NUMBA_DISABLE_JIT": "1", "OMP_NUM_THREADS": "1"}  # loops as Python, so that they mutate too
    for module in modules or TESTS:
        print(f"== {module}", flush=True)
        subprocess.run([sys.executable, __file__, "one", module], check=True, env=plain)


def one(module: str) -> None:
    import mutmut.__main__ as tool
    from _pytest.nodes import Node
    from mutmut.configuration import config

    if not hasattr(Node, "_nodeid"):
        Node._nodeid = property(lambda node: node.nodeid)  # type: ignore[attr-defined]
    tool.filter_mutants_with_type_checker = refused_by_types  # type: ignore[assignment]
    config().pytest_add_cli_args_test_selection = [f"tests/{name}.py" for name in TESTS[module]]
    Path("mutants/mutmut-stats.json").unlink(missing_ok=True)
    tool._run((f"nabladp.{module}.*",), os.cpu_count())


def refused_by_types() -> dict[str, Any]:
    """Mutants that mypy refuses, with its first complaint."""
    from mutmut.configuration import config
    from mutmut.mutation.data import MutantLineSpans
    from mutmut.mutation.file_mutation import FailedTypeCheckMutant, MutatedMethodLocation
    from mutmut.type_checking import TypeCheckingError
    from mutmut.utils.format_utils import get_mutant_name

    told = subprocess.run(config().type_check_command, capture_output=True, text=True, cwd="mutants").stdout
    spans: dict[str, list[tuple[int, int, str]]] = {}
    found: dict[str, Any] = {}
    for complaint in map(json.loads, told.splitlines()):
        file, line = complaint["file"], complaint["line"]
        if file not in spans:
            index = MutantLineSpans.load(file)
            known = index.span_by_function_name if index else {}
            spans[file] = sorted((span.start, span.end, name) for name, span in known.items())
        place = bisect_right(spans[file], (line, sys.maxsize, "")) - 1
        if complaint["severity"] != "error" or place < 0 or spans[file][place][1] < line:
            continue
        start, end, function = spans[file][place]
        name, where = get_mutant_name(Path(file), function), MutatedMethodLocation(Path(file), function, start, end)
        error = TypeCheckingError(Path(file), line, complaint["message"])
        found.setdefault(name, FailedTypeCheckMutant(where, name, error))
    return found


def fates() -> dict[str, dict[str, str]]:
    """Module → mutant → its fate, for the modules that were run."""
    found = {}
    for module in TESTS:
        file = Path("mutants/src/nabladp", *module.split(".")).with_suffix(".py.meta")
        if file.exists():
            codes = json.loads(file.read_text(encoding="utf-8"))["exit_code_by_key"]
            if set(codes.values()) - {None}:
                found[module] = {name: EXITS.get(code, OTHER) for name, code in codes.items()}
    return found


def table() -> None:
    print(f"| module | {' | '.join(COLUMNS)} |", "|---|" + "---:|" * len(COLUMNS), sep="\n")
    total: Counter[str] = Counter()
    for module, mutants in fates().items():
        counts = Counter(mutants.values())
        total += counts
        print(f"| `{module}` | {' | '.join(str(counts[column]) for column in COLUMNS)} |")
    print(f"| all | {' | '.join(str(total[column]) for column in COLUMNS)} |")


def survivors() -> None:
    from mutmut.mutation.diff_apply import find_mutant, get_diff_for_mutant

    for mutants in fates().values():
        for name, fate in mutants.items():
            if fate in (SURVIVED, SLOW):
                difference = get_diff_for_mutant(name, path=find_mutant(name).path)
                print(f"# {name}: {fate}", *difference.splitlines()[3:], sep="\n")


if __name__ == "__main__":
    {"run": lambda: run(sys.argv[2:]), "one": lambda: one(sys.argv[2]), "table": table, "survivors": survivors}[
        sys.argv[1]
    ]()
