"""Code books, and the drafts of schemas that they fill in."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nabladp import CodeBook, Schema, draft_schema
from nabladp.errors import NablaDPError, SchemaError
from nabladp.schema import Column, draft

DICTIONARY: dict[str, Any] = {
    "AGEP": {"description": "Age", "values": {"min": 0, "max": 99}},
    "SEX": {"description": "Sex", "values": {"1": "Male", "2": "Female"}},
    "MSP": {"description": "Marital status", "values": {"N": "N/A (under 15)", "2": "Single", "1": "Married"}},
    "NOC": {"description": "Children", "values": {"N": "N/A", "0": "None", "min": 1, "max": 20, "21": "21 or more"}},
    "PINCP": {"description": "Income", "values": {"N": "N/A", "min": -9000, "max": 1341000}},
    "HOURS": {"description": "Hours", "values": {"min": 0, "max": 80, "99": "Refused", "98": "Don't know"}},
    "ODD": {"description": "Odd", "values": {"min": 0, "max": 80, "95": "Topcoded"}},
    "PUMA": {"description": "Area", "values": {"25-00503": "Middlesex", "01-01301": "Birmingham"}},
    "STATE": {"description": "State", "values": {"01": "Alabama", "25": "Massachusetts"}},
    "INDP": {"description": "Industry codes", "details": "There are 271 of them."},
}


def blocks(book: CodeBook, **words: str) -> dict[str, dict[str, Any]]:
    """The blocks of a draft by name, as the file has them."""
    import tomllib

    columns = [Column(name, word.removeprefix("coded "), word.startswith("coded")) for name, word in words.items()]
    listed = tomllib.loads(draft(columns, book))["attribute"]
    return {block.get("name", block.get("names")): block for block in listed}


def test_a_data_dictionary_fills_in_domains_labels_and_missing_codes() -> None:
    words = dict.fromkeys(DICTIONARY, "integer") | {"MSP": "coded integer", "PUMA": "text", "STATE": "text"}
    found = blocks(CodeBook.from_json(DICTIONARY), **words)
    assert (found["AGEP"]["kind"], found["AGEP"]["low"], found["AGEP"]["high"]) == ("integer", 0, 99)
    assert found["SEX"]["values"] == [1, 2] and found["SEX"]["labels"] == {"1": "Male", "2": "Female"}
    assert found["MSP"]["values"] == [1, 2] and found["MSP"]["null_values"] == ["N"]
    assert (found["NOC"]["low"], found["NOC"]["high"]) == (0, 21), "codes beside the range belong to it"
    assert found["HOURS"]["high"] == 80 and found["HOURS"]["null_values"] == [98, 99]
    assert "confirm" not in found["AGEP"] and "1341000" in found["PINCP"]["confirm"]
    assert found["PINCP"]["kind"] == "real" and found["PINCP"]["edges"][-1] == 1_400_000
    assert found["PINCP"]["decode"] == "smooth"  # synthetic incomes keep the mean, the top bin is no box
    assert found["ODD"]["null_values"] == ["FILL IN: is 95 a missing value?"]
    assert found["PUMA"]["values"] == ["25-00503", "01-01301"] and found["STATE"]["values"] == ["01", "25"]
    assert found["INDP"]["low"].startswith("FILL IN") and "271" in found["INDP"]["description"]
    with pytest.raises(
        SchemaError, match=r"2 attributes are still marked FILL IN: 'ODD', 'INDP'\. 1 attribute is to be"
    ):
        Schema.parse(
            draft([Column(name, word.split()[-1]) for name, word in words.items()], CodeBook.from_json(DICTIONARY))
        )


def test_a_bound_that_may_be_somebodys_waits_for_a_person() -> None:
    text = draft([("PINCP", "real")], CodeBook.from_json({"PINCP": DICTIONARY["PINCP"]}))
    with pytest.raises(SchemaError, match="'PINCP': it waits for your confirmation") as caught:
        Schema.parse(text)
    assert "remove the line 'confirm'" in caught.value.fix
    finished = "".join(line for line in text.splitlines(keepends=True) if not line.startswith("confirm"))
    assert Schema.parse(finished)["PINCP"].size == 16


@pytest.mark.parametrize(
    ("high", "round_"), [(99, True), (120, True), (5000, True), (95, False), (1341000, False), (52864.7, False)]
)
def test_which_bounds_people_agree_on(high: float, round_: bool) -> None:
    book = CodeBook.from_json({"x": {"description": "x", "min": 0, "max": high}})
    assert ("confirm" not in blocks(book, x="real")["x"]) is round_


SHAPES: dict[str, tuple[str, str]] = {
    "a dictionary": (
        "b.json",
        json.dumps({"sex": {"label": "Sex", "values": {"1": "Male", "2": "Female", "9": "n/a"}}}),
    ),
    "a list": (
        "b.json",
        json.dumps([{"name": "SEX", "description": "Sex", "codes": [{"code": i, "label": x} for i, x in
                                                                       ((1, "Male"), (2, "Female"), (9, "n/a"))]}]),
    ),
    "wrapped": (
        "b.json",
        json.dumps({"variables": {"SEX": {"description": "Sex", "categories": ["1", "2"], "missing": 9,
                                          "type": "integer", "values": {"1": "Male", "2": "Female"}}}}),
    ),
    "lines": ("b.csv", "variable,value,label\nSEX,,Sex\nSEX,1,Male\nSEX,2,Female\nSEX,9,Not applicable\n"),
    "names once": ("b.csv", "Name;Code;Meaning;Description\nsex;1;Male;Sex\n;2;Female;\n;9;N/A;\n"),
    "census": (
        "b.csv",
        'NAME,SEX,N,1,"Sex"\nVAL,SEX,N,1,1,1,"Male"\nVAL,SEX,N,1,2,2,"Female"\nVAL,SEX,N,1,9,9,"N/A"\n',
    ),
    "frictionless": (
        "b.json",
        json.dumps({"resources": [{"name": "t", "schema": {"missingValues": ["9"], "fields": [
            {"name": "SEX", "title": "Sex", "type": "integer",
             "categories": [{"value": 1, "label": "Male"}, {"value": 2, "label": "Female"}]}]}}]}),
    ),
}  # fmt: skip


@pytest.mark.parametrize("shape", SHAPES)
def test_one_variable_in_every_shape(shape: str, tmp_path: Any) -> None:
    name, content = SHAPES[shape]
    (tmp_path / name).write_text(content)
    (tmp_path / "t.csv").write_text("SEX\n1\n2\n9\n")
    schema = Schema.parse(draft_schema(tmp_path / "t.csv", tmp_path / name))
    sex = schema["SEX"]
    assert sex.title == "Sex" and sex.values == (1, 2) and sex.null_values in ((9,), ("9",))
    assert sex.code("Female") == 1 and sex.code_labels[:2] == ("Male", "Female")


def test_a_census_dictionary_has_ranges(tmp_path: Any) -> None:
    text = 'NAME,AGEP,N,2,"Age"\nVAL,AGEP,N,2,0,0,"Under 1 year"\nVAL,AGEP,N,2,1,99,"1 to 99 years"\n'
    (tmp_path / "b.csv").write_text(text)
    age = blocks(CodeBook.load(tmp_path / "b.csv"), AGEP="integer")["AGEP"]
    assert (age["low"], age["high"], age["labels"]) == (0, 99, {"0": "Under 1 year"})


def test_frictionless_and_csvw_bounds(tmp_path: Any) -> None:
    columns = [{"name": "age", "titles": {"en": "Age"}, "datatype": {"base": "integer", "minimum": 0, "maximum": 120}}]
    csvw = {"@context": "http://www.w3.org/ns/csvw", "tableSchema": {"columns": columns}}
    fields = [{"name": "age", "title": "Age", "type": "integer", "constraints": {"minimum": 0, "maximum": 120}}]
    for book in (csvw, {"fields": fields}):
        found = blocks(CodeBook.from_json(book), age="integer")["age"]
        assert (found["kind"], found["low"], found["high"], found["title"]) == ("integer", 0, 120, "Age")


def test_a_profile_of_the_data_is_no_code_book_without_a_second_look() -> None:
    profile = {
        "schema": {"JOB": {"dtype": "object", "values": ["a", "b"]}, "AGE": {"dtype": "int64", "min": 0, "max": 90}}
    }
    found = blocks(CodeBook.from_json(profile), JOB="text", AGE="integer")
    assert "read off the data" in found["JOB"]["confirm"] and "read off the data" in found["AGE"]["confirm"]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("b.txt", "x", "has an unknown file type"),
        ("b.json", "{", "not valid JSON"),
        ("b.json", "[" * 100_000, "cannot be read"),
        ("b.json", "{}", "names no variable"),
        ("b.json", "3", "not a list or an object of variables"),
        ("b.json", '{"a": 3}', "'a' of the code book is not described"),
        ("b.json", '[{"x": 1}]', "has no name"),
        ("b.json", b"\xff\xfe", "is not UTF-8"),
        ("b.csv", "a,b\n1,2\n", "no columns 'variable', 'value' and 'label'"),
        ("b.csv", "", "no columns 'variable', 'value' and 'label'"),
    ],
)
def test_what_is_no_code_book_is_refused(tmp_path: Any, name: str, content: Any, message: str) -> None:
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(NablaDPError, match=message) as caught:
        CodeBook.load(path)
    assert caught.value.fix
    with pytest.raises(NablaDPError, match="no code book"):
        CodeBook.load(tmp_path / "gone.json")


TEXTS = st.one_of(
    st.text(max_size=12), st.sampled_from(["1", "2", "01", "N", "true", "false", "1.5", "-9", "min", "0-9"])
)
ENTRIES = st.fixed_dictionaries(
    {},
    optional={
        "description": st.text(max_size=80),
        "values": st.one_of(
            st.dictionaries(TEXTS, st.one_of(TEXTS, st.sampled_from(["N/A", "Refused"]), st.integers(-9, 2000))),
            st.lists(TEXTS, max_size=6),
        ),
        "min": st.floats(-1e7, 1e7),
        "max": st.floats(-1e7, 1e7),
        "missing": st.lists(TEXTS, max_size=3),
        "ordered": st.booleans(),
        "type": st.sampled_from(["integer", "number", "boolean", "string"]),
    },
)


@settings(max_examples=100, deadline=None)
@given(
    st.dictionaries(st.sampled_from("abcdef"), ENTRIES, min_size=1),
    st.sampled_from(["integer", "real", "text", "boolean", "date"]),
    st.booleans(),
)
def test_whatever_a_book_holds_its_draft_is_a_schema_once_it_is_finished(book: Any, word: str, coded: bool) -> None:
    """A mark is the only thing that stops a draft."""
    text = draft([Column(name, word, coded) for name in book], CodeBook.from_json(book))
    finished = "".join(line for line in text.splitlines(keepends=True) if not line.startswith("confirm = "))
    try:
        Schema.parse(finished)
    except SchemaError as error:
        assert "FILL IN" in error.message, text


DDI = """<?xml version="1.0"?><!DOCTYPE codeBook SYSTEM "http://127.0.0.1:9/never.dtd">
<codeBook xmlns="ddi:codebook:2_5"><dataDscr>
<var name="SEX"><labl>Sex</labl><qstn><qstnLit>Are you male or female?</qstnLit></qstn>
<catgry><catValu>1</catValu><labl>Male</labl><catStat type="freq">4711</catStat></catgry>
<catgry><catValu>2</catValu><labl>Female</labl></catgry>
<catgry missing="Y"><catValu>9</catValu><labl>Refused</labl></catgry></var>
<var name="AGE"><labl>Age</labl><valrng><range min="0" max="99"/></valrng><invalrng><item VALUE="998"/></invalrng>
<sumStat type="max">93</sumStat></var></dataDscr></codeBook>"""


def test_ddi(tmp_path: Any) -> None:
    (tmp_path / "b.xml").write_text(DDI)
    text = draft([Column("SEX", "integer"), Column("AGE", "integer")], CodeBook.load(tmp_path / "b.xml"))
    schema = Schema.parse(text)
    assert "4711" not in text and "93" not in text, "statistics of the data are no domain"
    assert schema["SEX"].code_labels == ("Male", "Female", "Refused") and schema["SEX"].null_values == (9,)
    assert (schema["AGE"].low, schema["AGE"].high, schema["AGE"].null_values) == (0, 99, (998,))
    assert schema["SEX"].description == "Are you male or female?"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('<!DOCTYPE c [<!ENTITY a "x">]><c><var name="v"><labl>&a;</labl></var></c>', "declares entities"),
        ('<!DOCTYPE c [<!ENTITY a SYSTEM "file:///etc/passwd">]><c><var name="v">&a;</var></c>', "declares entities"),
        ("<c>" * 100, "nested too deeply"),
        ("<c><var name='v'>", "not valid XML"),
        ("<c></c>", "no <var> elements"),
    ],
)
def test_xml_that_is_not_safe_or_no_code_book(content: str, message: str, tmp_path: Any) -> None:
    (tmp_path / "b.xml").write_text(content)
    with pytest.raises(SchemaError, match=message):
        CodeBook.load(tmp_path / "b.xml")


@pytest.mark.parametrize("ending", ["dta", "sav"])
def test_value_labels_of_stata_and_spss(ending: str, tmp_path: Any) -> None:
    import pandas as pd

    pyreadstat = pytest.importorskip("pyreadstat")
    path = tmp_path / f"b.{ending}"
    frame = pd.DataFrame({"sex": [1.0, 2.0], "pay": [71234.0, 5.0]})
    more = {"missing_ranges": {"sex": [9]}} if ending == "sav" else {}
    getattr(pyreadstat, "write_" + ending)(
        frame,
        str(path),
        column_labels={"sex": "Sex", "pay": "Pay"},
        variable_value_labels={"sex": {1: "Male", 2: "Female", 9: "N/A"}},
        **more,
    )
    text = draft([Column("sex", "integer"), Column("pay", "real")], CodeBook.load(path))
    sex = Schema.parse(text.partition('[[attribute]]\nname = "pay"')[0])["sex"]
    assert sex.values == (1, 2) and sex.null_values == (9,) and sex.title == "Sex" and sex.code("Female") == 1
    assert "71234" not in text
    path.write_bytes(b"broken")
    with pytest.raises(SchemaError, match="cannot be read"):
        CodeBook.load(path)


def test_categories_of_data_frames() -> None:
    import pandas as pd
    import polars as pl
    import pyarrow as pa

    kind = pd.CategoricalDtype(["low", "high", "never"], ordered=True)
    pandas = pd.DataFrame({"a": pd.Series(["low", "high"], dtype=kind), "n": [1, 2]})
    polars = pl.DataFrame({"a": ["low", "high"]}, schema={"a": pl.Enum(["low", "high", "never"])})
    arrow = pa.table({"a": pa.array(["low", "high"]).dictionary_encode()})
    loose = pl.DataFrame({"a": ["low"]}, schema={"a": pl.Categorical})
    assert 'values = ["low", "high", "never"]' in draft_schema(pandas) and "confirm = " in draft_schema(pandas)
    assert Schema.parse(draft_schema(polars))["a"].kind == "ordered", "an Enum was declared by a person"
    assert 'values = ["low", "high"]' in draft_schema(arrow) and "confirm = " in draft_schema(arrow)
    assert '"low"' not in draft_schema(loose)
    book = {"a": {"values": {"low": "Low", "high": "High"}}}
    assert 'low = "Low"' in draft_schema(pandas, book), "a code book knows better"
