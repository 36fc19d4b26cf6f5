"""A new mechanism is its own folder, one line and one row: docs/contributing.md, followed to the letter.

The page's edits are made in a copy of the repository. Its tests run there, the package is built and installed from
there, and the command releases, reports, compares and audits what was added. Nothing is patched.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from every_mechanism import SCHEMA
from installed import Desk, pip_install, run_python
from jsonschema import Draft202012Validator

from nabladp.tables import CodedTable

pytestmark = pytest.mark.slow
ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "contributing.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```\w+\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
PARTS = ("src", "tests", "docs", "pyproject.toml", "README.md", "LICENSE", "mkdocs.yml")
LEFT_OUT = shutil.ignore_patterns("__pycache__", "*.png", "evidence")


def block(start: str) -> str:
    (found,) = (text for text in BLOCKS if text.startswith(start))
    return found


class Copy:
    """A copy of the repository, and the files of it that were edited or made."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.edited = folder, set[str]()
        for part in PARTS:
            if (ROOT / part).is_dir():
                shutil.copytree(ROOT / part, folder / part, ignore=LEFT_OUT)
            else:
                shutil.copy(ROOT / part, folder / part)

    def put(self, path: str, text: str) -> None:
        self.edited.add(path)
        (self.folder / path).parent.mkdir(exist_ok=True)
        (self.folder / path).write_text(text, encoding="utf-8")

    def read(self, path: str) -> str:
        return (self.folder / path).read_text(encoding="utf-8")

    def add_line(self, path: str, line: str, after: str) -> None:
        """After the last line that starts like this."""
        lines = self.read(path).splitlines(keepends=True)
        last = max(number for number, text in enumerate(lines) if text.startswith(after))
        self.put(path, "".join([*lines[: last + 1], line, *lines[last + 1 :]]))

    def python(self, *arguments: str, code: int | None = 0) -> str:
        return run_python(self.folder / "src", *arguments, cwd=self.folder, code=code)

    def test(self, *chosen: str, code: int | None = 0) -> str:
        return self.python("-m", "pytest", "-p", "no:cacheprovider", *chosen, code=code)


@pytest.fixture(scope="module")
def edited(tmp_path_factory: pytest.TempPathFactory) -> Copy:
    copy = Copy(tmp_path_factory.mktemp("repository"))
    home, tests = "src/nabladp/mechanisms/yes_count/", "tests/mechanisms/yes_count.py"
    catalogue, table = "src/nabladp/mechanisms/catalogue.pyi", "docs/which-mechanism.md"
    assert all(f"`{path}`" in PAGE for path in (home, tests, catalogue, table)), "the page names them"
    copy.put(home + "mechanism.py", BLOCKS[0])
    copy.put(home + "__init__.py", block('"""How many rows'))
    copy.put(home + "PROOF.md", block("# YesCount: proof"))
    copy.add_line(catalogue, block("from nabladp.mechanisms.yes_count"), after="from nabladp")
    copy.add_line(table, block("| how many"), after="| correlations")
    copy.put(tests, block('"""YesCount: examples'))
    said = copy.test("tests/contract/test_proofs.py", "-k", "yes_count", code=1)
    (line,) = set(re.findall(r"fingerprint: \w{16}", said))  # the test says it
    copy.put(home + "PROOF.md", copy.read(home + "PROOF.md").replace("fingerprint: unchecked", line))
    for command in re.findall(r"^\$ python (.+)$", PAGE, re.MULTILINE):
        copy.python(command)
    return copy


@pytest.fixture(scope="module")
def desk(edited: Copy, tmp_path_factory: pytest.TempPathFactory) -> Desk:
    """The package, built and installed from the copy."""
    site = pip_install(edited.folder, tmp_path_factory.mktemp("site"))
    found = run_python(site, "-c", "import nabladp; print(nabladp.__file__, nabladp.YesCount.__module__)", cwd=site)
    assert found.split() == [str(site / "nabladp/__init__.py"), "nabladp.mechanisms.yes_count.mechanism"]
    return Desk(site, tmp_path_factory.mktemp("desk"), "YesCount")


def test_it_touches_its_folder_its_tests_one_line_and_one_row(edited: Copy) -> None:
    homes = {path.rsplit("/", 1)[0] for path in edited.edited}
    assert len(edited.edited) == 6 and len(homes) == 4
    for path in ("src/nabladp/mechanisms/catalogue.pyi", "docs/which-mechanism.md"):
        before, after = (ROOT / path).read_text(encoding="utf-8").splitlines(), edited.read(path).splitlines()
        assert len(after) == len(before) + 1 and set(before) < set(after)


PROMISES = {  # how many tests of a file speak of it: those of its name, and those that ask whether it was forgotten
    "tests/contract/test_mechanisms.py": 10,
    "tests/contract/test_tapes.py": 2,
    "tests/contract/test_proofs.py": 3,
    "tests/contract/test_rooms.py": 1,
    "tests/broken/test_zoo.py": 3,
}
ABOUT_IT = "YesCount or yes_count or every_mechanism_is_here or folder or rooms or (yes and scale) or is_left_out"


def test_it_keeps_all_promises(edited: Copy) -> None:
    said = edited.test("-vv", *PROMISES, "-k", ABOUT_IT)
    passed = Counter(re.findall(r"^(tests/\S+?)::.* PASSED", said, re.MULTILINE))
    assert all(passed[file] >= promises for file, promises in PROMISES.items()), passed


def test_pages_and_their_tests_know_it(edited: Copy) -> None:
    edited.test("tests/docs/test_site.py", "-k", "plan_reference or decision or concepts")
    reference = edited.read("docs/plan-reference.md")
    assert "### YesCount" in reference and "| `column` | name of an attribute | required | The column" in reference
    assert "YesCount" in edited.read("docs/which_mechanism.svg")


def test_its_code_is_tidy(edited: Copy) -> None:
    ruff = [str(Path(sys.executable).with_name("ruff")), "check", "--no-cache", "src/nabladp/mechanisms/yes_count"]
    done = subprocess.run(ruff, cwd=edited.folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_it_is_planned_released_reported_compared_and_audited(desk: Desk) -> None:
    priced = desk.ask("cost", "plan.toml", "--json")
    assert priced["fits"] and priced["attributes"]["sick"]["pure_epsilon"] == 0.5
    desk.ask("release", "plan.toml", "--new-ledger", "--json")
    (record,) = (desk.folder / "plan-release").rglob("release.json")
    body = json.loads(record.read_bytes())
    described = json.loads((ROOT / "docs/release-schema.json").read_text(encoding="utf-8"))
    assert not list(Draft202012Validator(described).iter_errors(body))
    desk.ask("report", "plan-release")
    assert "YesCount" in (desk.folder / "plan-release/report.html").read_text(encoding="utf-8")

    told = desk.ask("compare", "plan-release", "people.parquet", "--to", "mine.html", "--json")
    (line,) = told["releases"][0]["tables"]
    true = int(CodedTable(SCHEMA, desk.people).marginals([("sick",)])[0][1])
    assert line["table"] == "count" and line["actual"] == abs(body["values"]["count"] - true)
    assert line["predicted"] == pytest.approx(body["expected_error"][0]["mean_absolute"])

    assert desk.ask("audit", "plan.toml", "--seconds", "2", "--set", "sick", "--json")["passed"]


def test_wrong_options_are_refused_as_declared(desk: Desk) -> None:
    plan = (desk.folder / "plan.toml").read_text(encoding="utf-8")
    for change, error, words in (
        (('column = "sick"', 'colum = "sick"'), "PlanError", "has no option 'colum'"),
        (('column = "sick"\n', ""), "PlanError", "needs a column"),
        (('column = "sick"', "column = 3"), "MechanismError", "'column' must be the name of an attribute"),
        (("budget = { pure = 0.5 }", "budget = { cdp = 0.5 }"), "BudgetError", "does not support Laplace noise"),
    ):
        (desk.folder / "wrong.toml").write_text(plan.replace(*change), encoding="utf-8")
        answer = desk.ask("cost", "wrong.toml", "--json", code=1)
        assert answer["error"] == error and words in answer["message"]
