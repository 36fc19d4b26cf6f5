"""Who may enter which room. The arrows of the architecture, walked over every import."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import nabladp
from nabladp.mechanisms.registry import HOMES, MECHANISMS

SOURCE = Path(nabladp.__file__).parent
FOUNDATION = {"schema", "privacy", "noise", "tables", "workloads"}
MAY_IMPORT: dict[str, set[str]] = {
    "views": set(),
    "schema": set(),
    "privacy": set(),
    "noise": set(),
    "tables": {"schema"},
    "workloads": {"schema"},
    "sql": {"schema", "tables"},
    "mechanisms": FOUNDATION | {"views", "sql"},
    "release": FOUNDATION | {"mechanisms", "views"},
    "audit": FOUNDATION | {"mechanisms"},
    "report": {"schema", "privacy", "views", "release"},
    "display": FOUNDATION | {"mechanisms", "views", "release", "audit", "report"},
    "studio": {"schema", "privacy", "mechanisms", "release", "report"},
    "cli": {"release", "report", "audit", "display", "studio"},
}
HEAVY = (
    "opendp",
    "numba",
    "sklearn",
    "pandas",
    "polars",
    "jax",
    "pyspark",
    "altair",
    "duckdb",
    "pyarrow",
    "sqlalchemy",
    "sqlglot",
)


def imported_rooms(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path.name}: relative imports hide the arrows"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        found |= {name.split(".")[1] for name in names if name.startswith("nabladp.")}
    return {name for name in found if (SOURCE / name).is_dir()}


def rooms() -> list[str]:
    return sorted(p.name for p in SOURCE.iterdir() if p.is_dir() and (p / "__init__.py").exists())


def test_every_room_is_known() -> None:
    assert set(rooms()) <= set(MAY_IMPORT)


@pytest.mark.parametrize("room", rooms())
def test_no_other_arrow(room: str) -> None:
    for path in (SOURCE / room).rglob("*.py"):
        strangers = imported_rooms(path) - MAY_IMPORT[room] - {room}
        assert not strangers, f"{path.relative_to(SOURCE)} imports {sorted(strangers)}"


def test_the_walk_sees_a_forbidden_import(tmp_path: Path) -> None:
    planted = tmp_path / "planted.py"
    planted.write_text("def f():\n    from nabladp.tables import open_table\n    return open_table\n")
    assert imported_rooms(planted) == {"tables"}


def test_import_is_light() -> None:
    code = f"import nabladp, sys; print([m for m in {HEAVY!r} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_guarantees_need_no_table_library() -> None:
    code = (
        "from nabladp import Guarantee, Rho, Schema, Budget; import sys;"
        "Guarantee.touch(['a'], ['a'], Rho(1)).rho('a');"
        f"print([m for m in {HEAVY!r} if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_no_randomness_outside_the_noise_room() -> None:
    for path in SOURCE.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        assert "np.random" not in text and "import random" not in text, path
        if "os.urandom" in text or "import secrets" in text:
            assert path.parent.name == "noise", path


def test_all_public_names_load() -> None:
    for name in nabladp.__all__:
        assert getattr(nabladp, name) is not None


def test_editors_and_type_checkers_see_the_same_names() -> None:
    """What is imported for them alone is what is loaded once it is used."""
    seen = _exported(SOURCE / "__init__.py") | _exported(SOURCE / "mechanisms" / "catalogue.pyi")
    assert seen == nabladp.HOME | {room: f"nabladp.{room}" for room in nabladp._ROOMS}


def _exported(path: Path) -> dict[str, str]:
    """The names that a file imports under their own name, and where from."""
    nodes = [node for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(node, ast.ImportFrom)]
    listed = ((alias, str(node.module)) for node in nodes for alias in node.names)
    return {alias.name: home for alias, home in listed if alias.asname == alias.name and home.startswith("nabladp.")}


def test_the_catalogue_is_the_only_list_of_mechanisms() -> None:
    listed = _exported(SOURCE / "mechanisms" / "catalogue.pyi")
    assert listed == HOMES and tuple(listed) == MECHANISMS and len(listed) >= 10
    for path in SOURCE.rglob("*.py"):
        held = [name for name in listed if f'"{name}"' in path.read_text(encoding="utf-8")]
        assert len(held) < 4, f"{path.relative_to(SOURCE)} lists {held}"
