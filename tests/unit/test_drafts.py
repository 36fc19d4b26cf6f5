"""What a draft says of a table's columns, and what it keeps to itself."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pandas as pd
import pytest

from nabladp import Person, Plan, Schema, draft_plan, draft_schema
from nabladp.errors import DataError, SchemaError
from nabladp.schema import Column, draft
from nabladp.tables import check_table, look_at_columns, open_table


def csv(folder: Path, *lines: str, name: str = "t.csv") -> Path:
    (folder / name).write_text("\n".join(lines) + "\n")
    return folder / name


def test_numbers_with_some_codes_are_numbers(tmp_path: Path) -> None:
    rows = [
        f"{i % 7 if i % 5 else 'N'},{i}.5,{'x' * i if i % 2 else i},{i:05},{i if i % 3 else ''},{i}.0"
        for i in range(60)
    ]
    path = csv(tmp_path, "coded,real,mixed,county,gaps,whole", *rows)
    words = ["coded integer", "real", "text", "text", "integer gaps", "integer"]
    found = {
        own.name: " ".join(["coded"] * own.coded + [own.word] + ["gaps"] * own.gaps) for own in look_at_columns(path)
    }
    assert found == dict(zip(("coded", "real", "mixed", "county", "gaps", "whole"), words, strict=True))
    frame = pd.read_csv(path, dtype=str)
    assert {own.name: own.word for own in look_at_columns(frame)}["coded"] == "integer"
    block = tomllib.loads(draft_schema(path))["attribute"][0]
    assert block["kind"] == "integer" and block["null_values"][0].startswith("FILL IN") and block["null"] == "category"


def test_no_value_is_in_a_draft(tmp_path: Path) -> None:
    path = csv(
        tmp_path, "job,pay,code", *(f"quillwright{i},{71234 + i}.5,{'Zq' if i % 9 == 0 else i}" for i in range(99))
    )
    for text in (draft_schema(path), draft_plan(path)):
        assert "quillwright" not in text and "7123" not in text and "Zq" not in text


def names_of(*names: str, word: str = "integer") -> list[str]:
    """The name or pattern of each block of the draft for such columns."""
    text = draft([Column(name, word) for name in names])
    blocks = tomllib.loads(text)["attribute"]
    filled = text.replace('"FILL IN: smallest"', "0").replace('"FILL IN: largest"', "9")
    assert Schema.parse(filled).names == names, "a pattern stands for these columns, in this order"
    return [block.get("names", block.get("name")) for block in blocks]


def test_runs_of_like_columns_are_one_block() -> None:
    assert names_of(*(f"q{i}" for i in range(1, 1360))) == ["q{1..1359}"]
    assert names_of("id", *(f"q{i:03}" for i in range(8, 121)), "sex") == ["id", "q{008..120}", "sex"]
    assert names_of("q8", "q9", "q10", "q12", "q13") == ["q{8..10}", "q12", "q13"]
    assert names_of("q08", "q09", "q10", "q100") == ["q{08..10}", "q100"]
    assert names_of("a_1_x", "a_2_x", "a_3_x", "b_1") == ["a_{1..3}_x", "b_1"]
    assert names_of("spend_mon", "spend_tue", "spend_wed", "age") == ["spend_{mon,tue,wed}", "age"]
    assert names_of("a{1", "a{2", "a{3") == ["a{1", "a{2", "a{3"]
    assert names_of("x_a,b", "x_c", "x_d") == ["x_a,b", "x_c", "x_d"]
    mixed = draft([Column("q1", "integer"), Column("q2", "integer"), Column("q3", "real"), Column("q4", "integer")])
    assert "names = " not in mixed.partition("[[attribute]]")[2]


def test_a_draft_of_very_many_columns_is_quick_and_short() -> None:
    text = draft([Column(f"{'ab'[i % 2]}{i}x", "integer") for i in range(3_000)])
    assert text.count("[[attribute]]") == 3_000
    assert draft([Column(f"c{i}", "boolean") for i in range(3_000)]).count("[[attribute]]") == 1


def test_duplicate_names_are_refused_by_position(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"Columns 1 and 3 of the file '.*' have the same name\.") as caught:
        draft_schema(csv(tmp_path, "Smith,age,Smith", "a,1,b"))
    assert "Smith" not in str(caught.value), "a first line may be a row"


@pytest.mark.parametrize("line", ["north,55", "2020-01-31,x", "a,-1.5"])
def test_a_first_line_of_values_is_refused_until_somebody_says_what_it_is(tmp_path: Path, line: str) -> None:
    path = csv(tmp_path, line, "south,3", "east,4")
    with pytest.raises(SchemaError, match="may be a row") as caught:
        draft_schema(path)
    assert "header=False" in caught.value.fix
    assert len(Schema.parse(finished(draft_schema(path, header=True)))) == 2
    assert Schema.parse(finished(draft_schema(path, header=False))).names == ("column_1", "column_2")


def finished(text: str) -> str:
    return text.replace('"FILL IN: smallest"', "0").replace('"FILL IN: largest"', "9").replace("FILL IN", "x")


def test_a_plan_draft_is_ready_for_cost(tmp_path: Path) -> None:
    path = csv(tmp_path, ",".join(f"c{i}" for i in range(40)), ",".join("1" * 40))
    (tmp_path / "schema.toml").write_text(finished(draft_schema(path)))
    (tmp_path / "plan.toml").write_text(draft_plan(path))
    plan = Plan.load(tmp_path / "plan.toml")
    assert plan.cost().fits and plan.releases[0][0] == "one-way"
    uncommented = draft_plan(path).replace("# [[", "[[").replace("# name", "name").replace("# sets", "sets")
    uncommented = uncommented.replace("# mechanism", "mechanism").replace("# budget = {", "budget = {")
    (tmp_path / "plan.toml").write_text(uncommented.replace("# attributes = [", "attributes = ["))
    more = Plan.load(tmp_path / "plan.toml")
    assert len(more.releases) == 2 and len(more.adversaries) == 1, "what is commented out is right, too"


def test_a_plan_draft_shows_how_people_with_many_rows_are_declared(tmp_path: Path) -> None:
    (tmp_path / "visits.csv").write_text("patient,visit,ward\nA,1,x\nA,2,y\nA,3,x\n")
    (tmp_path / "schema.toml").write_text('[[attribute]]\nname = "ward"\nkind = "categorical"\nvalues = ["x", "y"]\n')
    text = draft_plan(tmp_path / "visits.csv")
    for line in ("[person]", 'id = "patient"', "rows = 5 ", 'row_id = "visit"'):
        assert f"\n# {line}" in text
        text = text.replace(f"\n# {line}", f"\n{line}")
    (tmp_path / "plan.toml").write_text(text.replace("rows = 5 ", "rows = 2 "))
    plan = Plan.load(tmp_path / "plan.toml")
    assert plan.person == Person("patient", 2, "visit") and plan.open_table().n == 2


def test_odd_names_and_sources_are_quoted_in_a_plan(tmp_path: Path) -> None:
    path = csv(tmp_path, "a\"b,'c\\d", "1,2", name='it\'s "odd".csv')
    plan = tomllib.loads(draft_plan(path, 'sch"ema.toml'))
    assert plan["table"] == {"source": str(path), "schema": 'sch"ema.toml'}
    query = "select 1 as a, 2 as b"
    assert tomllib.loads(draft_plan(query))["table"]["source"] == query


def test_the_census_excerpt_and_its_code_book(data: Path) -> None:
    """A person types six lines between the draft and a schema that the real table matches."""
    folder = data / "nist_acs_excerpts"
    text = draft_schema(folder / "national2019.csv.gz", folder / "data_dictionary.json")
    with pytest.raises(SchemaError, match=r"still marked FILL IN: 'INDP'\. 3 attributes are to be confirmed: 'NOC'"):
        Schema.parse(text)
    known = {"low": "170", "high": "9920", "null_values": '["N"]'}
    typed = 0
    lines = []
    for line in text.splitlines(keepends=True):
        key = line.partition(" ")[0]
        if key == "confirm":
            typed += 1
        elif "FILL IN" in line and not line.startswith("#"):
            lines.append(f"{key} = {known[key]}\n")
            typed += 1
        else:
            lines.append(line)
    schema = Schema.parse("".join(lines))
    assert typed == 6 and len(schema) == 24
    assert check_table(open_table(folder / "national2019.csv.gz", schema)) == []
    assert schema["EDU"].code("Masters degree") == 9 and schema["MSP"].code_labels[-1].startswith("N/A")
