"""Schemas: sources, files, fingerprints and drafts."""

from __future__ import annotations

import json
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st
from schema_texts import AGE, AGE_BAND

from nabladp.errors import SchemaError, SourceError, UnknownAttribute
from nabladp.schema import Attribute, Schema, draft
from nabladp.schema.rules import is_control

TEXT = f"""
{AGE}{AGE_BAND}[[attribute]]
name = "sex"
kind = "categorical"
values = ["f", "m"]
public = true

[[attribute]]
name = "group"
kind = "boolean"
derived_from = ["sex", "age_band"]
"""


def flag(name: str, *sources: str) -> Attribute:
    return Attribute(name, "boolean", derived_from=sources)


def test_sources_are_resolved_to_roots():
    schema = Schema.parse(TEXT)
    assert schema.names == ("age", "age_band", "sex", "group") and len(schema) == 4
    assert schema.roots == ("age", "sex") and schema.public == {"sex"}
    assert schema.derived == {"age_band": ("age",), "group": ("age", "sex")}
    assert schema.sizes(["age", "sex"]) == (100, 2) and schema.cells(schema.names) == 100 * 3 * 2 * 2


def test_a_schema_is_what_the_accounting_asks_for():
    from nabladp.checks import HasAttributes
    from nabladp.privacy.universe import Universe

    schema = Schema.parse(TEXT)
    assert isinstance(schema, HasAttributes) and Universe.of(schema).sources("group") == {"age", "sex"}


def test_looking_up():
    schema = Schema.parse(TEXT)
    assert schema["age"].high == 99 and "age" in schema and "agge" not in schema
    assert [a.name for a in schema] == list(schema.names)
    with pytest.raises(UnknownAttribute, match="Did you mean 'age'"):
        schema["agge"]


def test_cells_are_exact_however_many():
    schema = Schema(tuple(Attribute(f"a{i}", "integer", low=0, high=9) for i in range(100)))
    assert schema.cells(schema.names) == 10**100


def test_a_long_chain_of_derived_columns():
    schema = Schema((flag("c0"), *(flag(f"c{i}", f"c{i - 1}") for i in range(1, 2000))))
    assert schema.derived["c1999"] == ("c0",)


REFUSED = [
    ((), "no attributes"),
    ((flag("a"), flag("a")), "two attributes have this name"),
    ((flag("age"), flag("b", "agee")), "Did you mean 'age'"),
    ((flag("a", "b"), flag("b", "c"), flag("c", "a"), flag("d")), "derived from itself"),
]


@pytest.mark.parametrize(("attributes", "says"), REFUSED, ids=[says for _, says in REFUSED])
def test_contradictions_between_attributes(attributes, says):
    with pytest.raises(SchemaError, match=says) as caught:
        Schema(attributes)
    assert caught.value.fix


BAD_FILES = [
    ("[[attribute]\nname = 1", "line 1"),
    ("[[attribute]]\nname = 'x'\nkind = \n", "line 3"),
    ("[[attributes]]\nname = 'x'", "Did you mean 'attribute'"),
    ("[attribute]\nname = 'x'", r"Write \[\[attribute\]\]"),
    ("attribute = [1]", "list of blocks"),
    ("", "no attributes"),
    ("[[attribute]]\nkind = 'boolean'", "has no name"),
    ("[[attribute]]\nname = 'x'", "has no kind"),
    ("[[attribute]]\nname = 'x'\nkind = 'boolean'\nnulls = 'refuse'", "Did you mean 'null'"),
    ("[[attribute]]\nname = 'x'\nkind = 'categorical'\nvalues = [2020-01-01]", "quotes around every value"),
]


@pytest.mark.parametrize(("text", "says"), BAD_FILES, ids=[says for _, says in BAD_FILES])
def test_files_that_are_not_schemas(text, says):
    with pytest.raises(SchemaError, match=says) as caught:
        Schema.parse(text)
    assert caught.value.fix


def test_files(tmp_path):
    path = tmp_path / "schema.toml"
    schema = Schema.parse(TEXT)
    schema.save(path)
    assert Schema.load(path) == schema == Schema.load(str(path))
    assert os.listdir(tmp_path) == ["schema.toml"]


def test_files_that_cannot_be_read_or_written(tmp_path):
    with pytest.raises(SourceError, match="There is no schema file") as caught:
        Schema.load(tmp_path / "absent.toml")
    assert "nabladp init" in caught.value.fix
    with pytest.raises(SourceError, match="cannot be read"):
        Schema.load(tmp_path)
    (tmp_path / "latin.toml").write_bytes("name = 'é'".encode("latin-1"))
    with pytest.raises(SchemaError, match="UTF-8"):
        Schema.load(tmp_path / "latin.toml")
    with pytest.raises(SourceError, match="cannot be written"):
        Schema.parse(TEXT).save(tmp_path / "no" / "such" / "folder.toml")


def test_the_fingerprint_follows_the_facts_only():
    schema = Schema.parse(TEXT)
    assert schema.fingerprint() == Schema.from_json(json.loads(json.dumps(schema.to_json()))).fingerprint()
    assert (
        schema.fingerprint() == Schema.parse(TEXT.replace("public = true", "public = true\nnote = 'x'")).fingerprint()
    )
    assert schema.fingerprint() != Schema.parse(TEXT.replace("99", "98")).fingerprint()
    assert schema.fingerprint() != Schema(schema.attributes[::-1]).fingerprint()
    one, same = (Attribute("x", "categorical", values=v) for v in [(1, 2), (1.0, 2.0)])
    assert Schema((one,)).fingerprint() == Schema((same,)).fingerprint()


signs = st.characters().filter(lambda sign: not is_control(sign))
words = st.text(signs, min_size=1, max_size=8).filter(lambda word: word.strip() and not word.startswith("FILL IN"))
policies = {
    "null": st.sampled_from(["refuse", "category"]),
    "note": st.text(max_size=9).filter(lambda t: "FILL" not in t),
}
numbers = st.floats(allow_nan=False, allow_infinity=False, width=32)
attributes = st.one_of(
    st.builds(
        Attribute,
        words,
        st.just("categorical"),
        st.lists(words.filter(lambda w: w != "(null)"), min_size=1, max_size=4, unique=True).map(tuple),
        **policies,
    ),
    st.builds(
        Attribute,
        words,
        st.just("real"),
        edges=st.lists(numbers, min_size=2, max_size=5, unique=True).map(lambda e: tuple(sorted(e))),
        unknown=st.sampled_from(["clamp", "other", "refuse"]),
        **policies,
    ),
)


@given(st.lists(attributes, min_size=1, max_size=5, unique_by=lambda a: a.name))
def test_any_schema_survives_toml_and_json(attributes):
    schema = Schema(tuple(attributes))
    assert Schema.parse(schema.to_toml()) == schema == Schema.from_json(schema.to_json())
    for attribute in schema:
        assert len(set(attribute.code_labels)) == attribute.size


def test_two_thousand_attributes_survive_their_file():
    schema = Schema(tuple(Attribute(f"a{i}", "integer", low=0, high=i) for i in range(2000)))
    assert Schema.parse(schema.to_toml()) == schema


def test_a_draft_says_why_and_is_refused_until_filled_in():
    columns = [
        ("age", "integer"),
        ("pay", "real"),
        ("job", "text"),
        ("born", "date"),
        ("odd", "struct"),
        ("ok", "boolean"),
    ]
    text = draft(columns)
    assert "somebody's income" in text and text.count("[[attribute]]") == 6
    for name, word in columns:
        with_one = draft([(name, word)])
        if word == "boolean":
            assert Schema.parse(with_one)[name].kind == "boolean"
        else:
            with pytest.raises(SchemaError, match="still marked FILL IN"):
                Schema.parse(with_one)
    filled = draft([("age", "integer")]).replace('"FILL IN: smallest"', "0").replace('"FILL IN: largest"', "99")
    assert Schema.parse(filled)["age"].size == 100


def test_all_that_a_draft_leaves_open_is_named_at_once():
    from nabladp.schema import draft

    text = draft([("age", "integer"), ("job", "text"), ("sick", "boolean")])
    with pytest.raises(SchemaError, match="2 attributes are still marked FILL IN: 'age', 'job'"):
        Schema.parse(text)
