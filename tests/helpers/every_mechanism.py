"""All that the tests know of single mechanisms, from tests/mechanisms: a file for each.

Such a file holds ``INSTANCES``, for the schema below; ``noisy(output)``, the arrays of whole numbers in an output that
noise was added to; and ``FAULTS``, planted in it.
"""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from faults import Fault
from run_faults import RUN_FAULTS

from nabladp.mechanisms import MECHANISMS, Mechanism
from nabladp.noise import NoiseSource
from nabladp.schema import Attribute, Schema
from nabladp.tables import CodedTable

SCHEMA = Schema(
    (
        Attribute("region", "categorical", values=("n", "s", "w")),
        Attribute("age", "integer", low=0, high=9),
        Attribute("income", "real", edges=(0, 10, 20, 50), null="category"),
        Attribute("sick", "boolean"),
        Attribute("unused", "boolean"),
        Attribute("band", "ordered", values=("low", "high"), derived_from=("age",)),
    )
)


def loaded(path: Path) -> ModuleType:
    """A Python file that is no part of a package."""
    spec = importlib.util.spec_from_file_location(f"loaded_{path.stem}", path)
    assert spec is not None and spec.loader is not None
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _name(module: ModuleType) -> str:
    (name,) = {type(mechanism).__name__ for mechanism in module.INSTANCES}
    return name


_FOUND = {_name(found): found for found in map(loaded, sorted(Path(__file__).parents[1].glob("mechanisms/*.py")))}
FILES: dict[str, Any] = {name: _FOUND[name] for name in MECHANISMS if name in _FOUND}  # a file may be missing
INSTANCES: list[Mechanism] = [mechanism for found in FILES.values() for mechanism in found.INSTANCES]
FAULTS: list[Fault] = [*(fault for found in FILES.values() for fault in found.FAULTS), *RUN_FAULTS]


def codes(rows: int = 500, seed: int = 1) -> dict[str, Any]:
    """Made-up people."""
    draws = NoiseSource.seeded(seed)
    made: dict[str, Any] = {a.name: draws.uniform_integers(a.size, rows) for a in SCHEMA}
    return made | {"band": made["age"] // 5}


def table(**changed: Any) -> CodedTable:
    return CodedTable(SCHEMA, codes() | changed)


def values(output: Any) -> str:
    return json.dumps(output.to_json(), sort_keys=True)
