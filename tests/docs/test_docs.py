"""Every snippet of the documentation runs, every link leads somewhere, every generated page is current.

Fences and what happens to them, page by page, in order, in a folder of the page's own that holds ``people.csv`` and
``schema.toml`` (or what a comment ``<!-- files: … -->`` at the top of the page names: also ``demo`` and ``-``):

- python: run; blocks of a page share their names. Comments ``# > …`` must be what the block prints, line by line.
- console: each ``$ nabladp …``, ``$ python …`` and ``$ cd …`` is run; other lines must appear in its answer, in order.
  ``<!-- exit: 1 -->`` before the block is the exit code to expect of its last command.
- toml, json, and python with a file: written to the file named by ``<!-- file: … -->`` before the block.
- text: left alone.
"""

from __future__ import annotations

import contextlib
import csv
import io
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from doc_pages import Block, blocks, printed, script, slug
from schema_texts import AGE, AGE_BAND
from typer.testing import CliRunner

from nabladp import CDP, Statistics
from nabladp.cli import answer
from nabladp.cli.app import app
from nabladp.privacy.interpretation import posterior
from nabladp.release.demo import make_people, run_demo
from nabladp.schema import Schema

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").glob("*.md"))]
SCHEMA = f"""\
[[attribute]]
name = "region"
kind = "categorical"
values = ["north", "south", "east", "west", "capital", "islands"]

{AGE}{AGE_BAND}[[attribute]]
name = "sex"
kind = "categorical"
values = ["female", "male"]

[[attribute]]
name = "income"
kind = "real"
edges = [0, 5000, 10000, 20000, 30000, 50000, 75000, 100000, 250000]
unknown = "clamp"

[[attribute]]
name = "disability"
kind = "boolean"
"""


# Reading a page


def files_wanted(page: str) -> list[str]:
    found = re.match(r"<!-- files: (.+) -->\n", page)
    return found[1].split(", ") if found else ["people.csv", "schema.toml"]


# Running a page


@pytest.fixture(scope="session")
def people() -> list[list[Any]]:
    made = make_people(2000)
    columns = {name: list(made[name]) for name in ("region", "age", "sex", "income", "disability")}
    columns["age_band"] = ["child" if age < 18 else "adult" if age < 65 else "old" for age in columns["age"]]
    names = ["region", "age", "age_band", "sex", "income", "disability"]
    return [names, *map(list, zip(*(columns[name] for name in names), strict=True))]


def furnish(folder: Path, wanted: list[str], people: list[list[Any]]) -> None:
    for name in wanted:
        if name == "people.csv":
            with (folder / name).open("w", newline="", encoding="utf-8") as file:
                csv.writer(file).writerows(people)
        elif name == "schema.toml":
            (folder / name).write_text(SCHEMA, encoding="utf-8")
        elif name == "demo":
            run_demo(folder / "demo", 2000, quiet=True)
        elif name != "-":
            raise ValueError(f"no such file can be provided: {name}")


def run_python(block: Block, names: dict[str, Any], where: str) -> None:
    said = io.StringIO()
    code = compile("\n" * block.line + block.text, where, "exec", dont_inherit=True)  # line numbers as on the page
    with contextlib.redirect_stdout(said):
        exec(code, names)
    if expected := [line.rstrip() for line in printed(block)]:
        assert [line.rstrip() for line in said.getvalue().splitlines()] == expected, where


def run_console(block: Block, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commands: list[tuple[str, list[str]]] = []
    for line in block.text.splitlines():
        if line.startswith("$ "):
            commands.append((line[2:], []))
        elif line.strip():
            commands[-1][1].append(line)
    for position, (command, expected) in enumerate(commands):
        program, *arguments = shlex.split(command)
        if program == "cd":
            folder = (folder / arguments[0]).resolve()
            monkeypatch.chdir(folder)
            continue
        code, output = run_command(program, arguments, folder)
        wanted = int(block.notes.get("exit", 0)) if position == len(commands) - 1 else 0
        assert code == wanted, f"{command}\n{output}"
        assert_in_order(expected, output, command)


def run_command(program: str, arguments: list[str], folder: Path) -> tuple[int, str]:
    if program == "python":
        done = subprocess.run([sys.executable, *arguments], cwd=folder, capture_output=True, text=True)
        return done.returncode, done.stdout + done.stderr
    assert program == "nabladp", f"only nabladp, python and cd are run, not {program}"
    result = CliRunner().invoke(app, arguments, prog_name="nabladp")
    return result.exit_code, result.output


def assert_in_order(expected: list[str], output: str, command: str) -> None:
    said = iter([plain(line) for line in output.splitlines()])
    for line in expected:
        assert plain(line) in said, f"{command} does not say, or not in this order:\n{line}\nbut:\n{output}"


def plain(line: str) -> str:
    """Without the rules of a table and with single spaces."""
    return " ".join(re.sub("[│┃]", " ", line).split())


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_snippets_run(page: Path, tmp_path: Path, people: list[list[Any]], monkeypatch: pytest.MonkeyPatch) -> None:
    text = page.read_text(encoding="utf-8")
    found = list(blocks(text))
    if any(block.language != "text" for block in found):
        furnish(tmp_path, files_wanted(text), people)
    monkeypatch.chdir(tmp_path)
    for console in (answer.out, answer.err):  # as wide as where no terminal is
        monkeypatch.setattr(console, "_width", 80)
    names: dict[str, Any] = {"__name__": page.stem}
    for block in found:
        where = f"{page.name}:{block.line}"
        match block.language:
            case "python" if "file" not in block.notes:
                run_python(block, names, where)
            case "console":
                run_console(block, Path.cwd(), monkeypatch)
            case "toml" | "json" | "python":
                assert "file" in block.notes, f"{where}: which file is this?"
                (Path.cwd() / block.notes["file"]).write_text(block.text, encoding="utf-8")
            case other:
                assert other == "text", f"{where}: a block of {other or 'no language'} would not be run"


# Links


def prose(page: Path) -> str:
    return re.sub(r"^\s*```.*?^\s*```$", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)


def anchors(page: Path) -> set[str]:
    return {slug(heading) for heading in re.findall(r"^#+ (.+)$", prose(page), flags=re.MULTILINE)}


def links(page: Path) -> list[str]:
    found = re.findall(r"\]\(([^)\s]+)\)", re.sub(r"`[^`]*`", "", prose(page)))
    return [target for target in found if not re.match(r"[a-z]+:", target)]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_links_resolve(page: Path) -> None:
    for target in links(page):
        name, _, anchor = target.partition("#")
        goal = (page.parent / name).resolve() if name else page
        assert goal.exists(), f"{page.name} links to {target}"
        if anchor:
            assert anchor in anchors(goal), f"{page.name} links to {target}"


def test_every_page_is_linked_from_the_index() -> None:
    index = ROOT / "docs" / "index.md"
    linked = {(index.parent / target.partition("#")[0]).resolve() for target in links(index)}
    assert {page.resolve() for page in PAGES} - linked <= {index.resolve()}


def test_first_two_commands_of_the_readme() -> None:
    readme = blocks((ROOT / "README.md").read_text(encoding="utf-8"))
    first = next(block.text for block in readme if "make" in block.text)
    assert re.findall(r"^make \w+", first, flags=re.MULTILINE) == ["make demo", "make test"]


def test_the_first_screen_of_the_readme_is_what_the_command_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All but the noisy numbers; and the belief that its ρ stands for."""
    page = (ROOT / "README.md").read_text(encoding="utf-8")
    command, *expected = next(block.text for block in blocks(page) if "nabladp sql" in block.text).splitlines()
    run_demo(tmp_path / "demo", 100_000, quiet=True)
    monkeypatch.chdir(tmp_path)
    code, output = run_command("nabladp", shlex.split(command)[2:], tmp_path)
    assert code == 0
    noisy = r"\d+,\d+ \(.*"
    wanted = [re.sub(noisy, "", line) for line in expected if line.strip("─ ")]
    assert_in_order(wanted, re.sub(noisy, "", output), command)
    query = shlex.split(command)[4]
    claim = Statistics(CDP(0.1), query).guarantee(Schema.load("demo/schema.toml"), 100_000)
    assert round(claim.rho("income"), 9) == round(claim.rho(["income", "disability"]), 9) == 0.005
    belief = posterior(claim, ["income", "disability"], prior=0.5, delta=1e-6).value
    assert f"can become {belief:.1%} sure".replace("%", " %") in page


# What is generated


def test_picture_is_current() -> None:
    made = script("make_picture")
    assert made.TARGET.read_text(encoding="utf-8") == made.draw(made.demo_figures()), "run docs/make_picture.py"


def test_error_figure_is_current_and_follows_what_was_measured() -> None:
    made = script("make_error_figure")
    found = made.measured()
    assert made.TARGET.read_text(encoding="utf-8") == made.draw(found), "run docs/make_error_figure.py"
    found["curves"]["mwem"]["person"][3]["mean"] *= 1.01
    assert made.TARGET.read_text(encoding="utf-8") != made.draw(found)


def test_heavy_hitters_figure_and_tables_are_current_and_follow_what_was_measured() -> None:
    made = script("make_heavy_figures")
    found = made.measured()
    assert made.TARGET.read_text(encoding="utf-8") == made.draw(found), "run docs/make_heavy_figures.py"
    page = made.PAGE.read_text(encoding="utf-8")
    assert page == made.filled(page, found), "run docs/make_heavy_figures.py"
    found["by_d"]["pure"][2]["certified"] += 5
    assert page != made.filled(page, found)
    changed = made.draw(found)
    assert made.TARGET.read_text(encoding="utf-8") != changed
    found["hard_instance"]["cdp"]["curve"][-3]["success"] = 0.123
    assert changed != made.draw(found)


def test_learners_tables_are_current_and_follow_what_was_measured() -> None:
    made = script("make_learner_tables")
    found = made.measured()
    assert not found["quick"]
    for kind, place in made.PAGES.items():
        page = place.read_text(encoding="utf-8")
        assert page == made.filled(page, kind, found), "run docs/make_learner_tables.py"
        for name in made.tables(kind, found):
            assert f"<!-- measured: {name} -->\n|" in page
        found["needed"][kind]["pure"]["n"]["128"] += 1
        changed = made.filled(page, kind, found)
        assert page != changed
        found["needed"][kind]["cdp"]["slope_log_d"] += 1
        assert changed != made.filled(page, kind, found)


def test_halfspace_figure_and_table_are_current_and_follow_what_was_measured() -> None:
    made = script("make_halfspace_figures")
    found = made.measured()
    assert made.TARGET.read_text(encoding="utf-8") == made.draw(found), "run docs/make_halfspace_figures.py"
    page = made.PAGE.read_text(encoding="utf-8")
    assert page == made.filled(page, found), "run docs/make_halfspace_figures.py"
    found["curves"]["uniform"]["record_level"][-1]["mean"] -= 0.01
    assert made.TARGET.read_text(encoding="utf-8") != made.draw(found)
    assert page != made.filled(page, found)


def test_command_line_reference_is_current() -> None:
    made = script("make_cli_reference")
    assert made.TARGET.read_text(encoding="utf-8") == made.page(), "run docs/make_cli_reference.py"


# The checks themselves


def test_a_snippet_that_fails_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = "```python\nprint(1)  # > 2\n```\n\n<!-- exit: 1 -->\n```console\n$ nabladp --version\n```\n"
    python, console = blocks(page)
    with pytest.raises(AssertionError):
        run_python(python, {}, "page")
    with pytest.raises(AssertionError):
        run_console(console, tmp_path, monkeypatch)


def test_the_provided_schema_is_a_schema() -> None:
    assert Schema.parse(SCHEMA).derived == {"age_band": ("age",)}
