"""The packages that are published: both are built without git and without a compiler, and the wheel runs where nothing
but its declared dependencies is installed."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import venv
import zipfile
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement

pytestmark = pytest.mark.slow
ROOT = Path(__file__).resolve().parents[2]
PIP = ("-m", "pip", "--disable-pip-version-check")


def run(*command: str | Path, cwd: Path) -> str:
    """Run a program by its path, in an environment without git, compilers and everything else."""
    nothing = {"PATH": "/nothing", "HOME": str(cwd)}
    done = subprocess.run([str(part) for part in command], cwd=cwd, env=nothing, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The sdist of the repository, and the wheel that is built from it."""
    folder = tmp_path_factory.mktemp("packages")
    build = "import sys; from hatchling.build import build_sdist; build_sdist(sys.argv[1])"
    run(sys.executable, "-c", build, folder, cwd=ROOT)
    (sdist,) = folder.glob("*.tar.gz")
    run(sys.executable, *PIP, "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", folder, sdist, cwd=folder)
    (wheel,) = folder.glob("*.whl")
    return {"sdist": sdist, "wheel": wheel}


def closure(name: str) -> set[str]:
    """The distributions that a distribution needs, without its extras, all the way down."""
    found, waiting = set[str](), [name]
    while waiting:
        asked = [Requirement(text) for text in metadata.requires(waiting.pop()) or ()]
        for needed in asked:
            if (needed.marker is None or needed.marker.evaluate({"extra": ""})) and needed.name not in found:
                found.add(needed.name)
                waiting.append(needed.name)
    return found


def link_dependencies(site: Path) -> None:
    """Put the declared dependencies of nabladp, and theirs, into an empty environment: links to what is installed."""
    for name in sorted(closure("nabladp")):
        distribution = metadata.distribution(name)
        for top in {file.parts[0] for file in distribution.files or () if file.parts[0] not in ("..", "__pycache__")}:
            if not (site / top).exists():
                (site / top).symlink_to(distribution.locate_file(top))


@pytest.fixture(scope="module")
def python(packages: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of an environment that holds the wheel and its dependencies, and nothing else."""
    home = tmp_path_factory.mktemp("environment")
    venv.create(home, symlinks=True)
    (site,) = home.glob("lib/python*/site-packages")
    link_dependencies(site)
    install = ("--python", home / "bin" / "python", "install", "-q", "--no-deps", "--no-index", packages["wheel"])
    run(sys.executable, *PIP, *install, cwd=home)
    run(sys.executable, *PIP, "--python", home / "bin" / "python", "check", cwd=home)
    return home / "bin" / "python"


def test_both_packages_hold_what_they_should_and_nothing_of_the_machine(packages: dict[str, Path]) -> None:
    with tarfile.open(packages["sdist"]) as sdist:
        names = {name.partition("/")[2] for name in sdist.getnames()}
    assert {"README.md", "LICENSE", "CHANGELOG.md", "pyproject.toml", "src/nabladp/py.typed"} <= names
    assert not [
        name for name in names if name.startswith((".venv", "demo/", "dist/")) or name.endswith((".db", ".pyc"))
    ]
    with zipfile.ZipFile(packages["wheel"]) as wheel:
        inside = set(wheel.namelist())
    ours = {str(path.relative_to(ROOT / "src")) for path in (ROOT / "src" / "nabladp").rglob("*.*") if path.is_file()}
    assert {name for name in ours if "__pycache__" not in name} <= inside  # pages, texts and proofs, too
    assert {name.split("/")[0].split("-")[0] for name in inside} == {"nabladp"}


def test_what_the_dockerfile_copies_is_enough_to_build(tmp_path: Path) -> None:
    ignored = (ROOT / ".dockerignore").read_text(encoding="utf-8").split()
    copies = [
        line.split()[1:]
        for line in (ROOT / "Dockerfile").read_text(encoding="utf-8").splitlines()
        if "COPY" in line[:4]
    ]
    for *sources, target in copies:
        for source in sources:
            assert source not in ignored
            goal = tmp_path / target.removeprefix("/source").strip("/")
            if (ROOT / source).is_dir():
                shutil.copytree(ROOT / source, goal, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy(ROOT / source, goal)
    build = "import sys; from hatchling.build import build_wheel; build_wheel(sys.argv[1])"
    run(sys.executable, "-c", build, tmp_path / "dist", cwd=tmp_path)
    assert len(list(tmp_path.glob("dist/*.whl"))) == 1


def test_every_optional_part_is_listed_with_its_packages_and_their_licences() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    page = (ROOT / "docs" / "install.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| `((?!nabladp)\w+)` \| (.*)$", page, re.M))
    assert rows.keys() == extras.keys() - {"all", "dev", "mutants"}
    for part, row in rows.items():
        for name in {Requirement(text).name for text in extras[part]}:
            assert name in row and licence(name) in row, f"{part}: {name} is under {licence(name)}"
    for name in closure("nabladp"):  # "The packages it always needs are under MIT, BSD or Apache-2.0"
        assert licence(name) in ("MIT", "BSD", "Apache", "ISC", "PSF"), name


def licence(name: str) -> str:
    """The family of a package's licence: MIT, BSD, Apache, LGPL."""
    told = metadata.metadata(name)
    classifiers = [text.rpartition(":: ")[2] for text in told.get_all("Classifier") or [] if "License ::" in text]
    text = told.get("License-Expression") or (classifiers or [told.get("License", "")])[0]
    return re.split(r"[ -]", text)[0]


@pytest.fixture(scope="module")
def demo(python: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder in which the wheel's own command made its demo."""
    folder = tmp_path_factory.mktemp("desk")
    said = run(python.parent / "nabladp", "demo", "demo", "--people", "2000", "--json", cwd=folder)
    assert json.loads(said)["figures"]["person"]["rho"] > 0
    return folder / "demo"


def test_the_demo_of_the_wheel_runs_where_only_its_dependencies_are(demo: Path) -> None:
    assert "<html" in (demo / "plan-release" / "report.html").read_text(encoding="utf-8")


def test_an_optional_part_that_is_missing_is_named_with_what_installs_it(python: Path, demo: Path) -> None:
    for module in ("sklearn", "openpyxl", "altair", "pyspark", "pandas", "polars"):
        assert run(python, "-c", f"import importlib.util as u; print(u.find_spec('{module}'))", cwd=demo) == "None\n"
    command = [python, "-m", "nabladp", "show", "plan-release", "--excel", "out.xlsx"]
    done = subprocess.run(command, cwd=demo, env={"PATH": "/nothing"}, capture_output=True, text=True)
    assert done.returncode != 0 and "nabladp[excel]" in done.stderr and "Traceback" not in done.stderr
