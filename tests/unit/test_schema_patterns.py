"""One block for many columns: names by a pattern, expanded when a schema is read."""

from __future__ import annotations

import pytest

from nabladp.errors import SchemaError
from nabladp.schema import Schema

BLOCK = '[[attribute]]\nnames = {}\nkind = "boolean"\n'


def names(pattern: str) -> tuple[str, ...]:
    return Schema.parse(BLOCK.format(pattern)).names


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ('"q{1..3}"', ("q1", "q2", "q3")),
        ('"q{8..10}"', ("q8", "q9", "q10")),
        ('"q{08..10}x"', ("q08x", "q09x", "q10x")),
        ('"q{000..001}"', ("q000", "q001")),
        ('"{5..5}"', ("5",)),
        ('"t{-1..1}"', ("t-1", "t0", "t1")),
        ('"{mon, tue,wed}_spend"', ("mon_spend", "tue_spend", "wed_spend")),
        ('"{a,b}_{1..2}"', ("a_1", "a_2", "b_1", "b_2")),
        ('"{a,b}{x,y}"', ("ax", "ay", "bx", "by")),
        ('["a", "b{1..2}", " c "]', ("a", "b{1..2}", " c ")),
    ],
)
def test_what_a_pattern_stands_for(pattern: str, expected: tuple[str, ...]) -> None:
    assert names(pattern) == expected


def test_the_schema_is_the_one_written_out() -> None:
    head = 'kind = "ordered"\nvalues = [1, 2, 3]\nnull = "category"\nlabels = { 1 = "low" }\n'
    short = Schema.parse(f'[[attribute]]\nnames = "q{{1..3}}"\n{head}[[attribute]]\nname = "z"\nkind = "boolean"\n')
    long = "".join(f'[[attribute]]\nname = "q{i}"\n{head}' for i in (1, 2, 3))
    written = Schema.parse(f'{long}[[attribute]]\nname = "z"\nkind = "boolean"\n')
    assert short == written and short.fingerprint() == written.fingerprint() and Schema.parse(short.to_toml()) == short


def test_derived_columns_may_be_alike() -> None:
    text = '[[attribute]]\nname = "age"\nkind = "integer"\nlow = 0\nhigh = 9\n'
    text += '[[attribute]]\nnames = ["old", "young"]\nkind = "boolean"\nderived_from = ["age"]\n'
    assert dict(Schema.parse(text).derived) == {"old": ("age",), "young": ("age",)}


@pytest.mark.parametrize(
    ("pattern", "says", "fix"),
    [
        ('"age"', "'age': the pattern has no part in braces", 'write name = "age"'),
        ('"q{1..3"', "a brace of the pattern is not closed", 'names = "q{1..120}"'),
        ('"q}"', "a brace of the pattern is not closed", 'names = "q{1..120}"'),
        ('"q{{1..3}}"', "braces are nested", 'names = "q{1..120}"'),
        ('"q{}"', "'{}' is neither a range nor a list", 'names = "q{1..120}"'),
        ('"q{a}"', "'{a}' is neither a range nor a list", 'names = "q{1..120}"'),
        ('"q{a,}"', "is neither a range nor a list", 'names = "q{1..120}"'),
        ('"q{1..}"', "is neither a range nor a list", 'names = "q{1..120}"'),
        ('"q{1...5}"', "is neither a range nor a list", 'names = "q{1..120}"'),
        ('"q{a..f}"', "is neither a range nor a list", 'names = "q{1..120}"'),
        ('"q{²..5}"', "is neither a range nor a list", 'names = "q{1..120}"'),
        ('"q{9..1}"', "the range 9..1 runs backwards", "Write 1..9"),
        ('"q{01..120}"', "must be of one width", "{001..120}"),
        ('"q{a,a}"', "'names' gives 'qa' twice", "once"),
        ('["a", "a"]', "'names' gives 'a' twice", "once"),
        ("[]", "'names' must be a pattern or a list", 'names = ["a", "b"]'),
        ("[1]", "'names' must be a pattern or a list", 'names = ["a", "b"]'),
        ("3", "'names' must be a pattern or a list", 'names = ["a", "b"]'),
        ('["", "a"]', "it has no name", "as the column is called"),
        ('"q{1..3}"\nname = "x"', "it has both 'name' and 'names'", "Remove one"),
        ('"q{1..3}"\nkindd = "x"', "there is no key 'kindd'", "Did you mean 'kind'"),
    ],
)
def test_refused(pattern: str, says: str, fix: str) -> None:
    with pytest.raises(SchemaError) as caught:
        names(pattern)
    assert says in caught.value.message and fix in caught.value.fix


@pytest.mark.parametrize("pattern", ["q{1..100001}", "q{1..999999999999999}", "{1..999}" * 40, "{1..9}{1..99999}"])
def test_too_many_are_refused_before_they_are_made(pattern: str) -> None:
    with pytest.raises(SchemaError, match="the limit is 100,000"):
        names(f'"{pattern}"')


def test_blocks_are_counted_together() -> None:
    text = BLOCK.format('"a{1..60000}"') + BLOCK.format('"b{1..60000}"')
    with pytest.raises(SchemaError, match="The schema has 120,000 attributes"):
        Schema.parse(text)


def test_a_draft_names_the_pattern_once() -> None:
    text = '[[attribute]]\nnames = "q{1..1359}"\nkind = "integer"\nlow = "FILL IN: smallest"\nhigh = 3\n'
    other = '[[attribute]]\nname = "x"\nkind = "categorical"\nvalues = ["FILL IN: every value"]\n'
    with pytest.raises(SchemaError, match=r"2 attributes are still marked FILL IN: 'q\{1\.\.1359\}', 'x'"):
        Schema.parse(text + other)
