"""Free answers: with next to no noise they are those of the table, from whatever tables hold the question; refusals."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from nabladp.cli import main
from nabladp.errors import MechanismError, NablaDPError, ReleaseError, UnknownAttribute
from nabladp.mechanisms.noisy_marginals import NoisyMarginals
from nabladp.mechanisms.statistics import Statistics
from nabladp.noise import NoiseSource
from nabladp.privacy import CDP, Budget
from nabladp.release import Release, Releases, Session
from nabladp.schema import Attribute, Schema

SCHEMA = Schema(
    (
        Attribute("sex", "categorical", values=("f", "m"), labels={"f": "Female, she", "m": "Male"}),
        Attribute("age", "integer", low=0, high=9),
        Attribute("pay", "real", edges=(0, 10, 20, 40), null="category"),
        Attribute("size", "ordered", values=("small", "middle", "large")),
        Attribute("sick", "boolean"),
    )
)


@pytest.fixture(scope="module")
def people() -> pd.DataFrame:
    draws = np.random.default_rng(2)
    pay = draws.uniform(0, 40, 400)
    return pd.DataFrame(
        {
            "sex": draws.choice(["f", "m"], 400),
            "age": draws.binomial(9, 0.4, 400),
            "pay": np.where(draws.random(400) < 0.1, np.nan, pay),
            "size": draws.choice(["small", "middle", "large"], 400, p=[0.2, 0.5, 0.3]),
            "sick": draws.random(400) < 0.3,
        }
    )


@pytest.fixture(scope="module")
def folder(people: pd.DataFrame, tmp_path_factory: pytest.TempPathFactory) -> Path:
    where = tmp_path_factory.mktemp("free")
    noise = NoiseSource.seeded(3)
    session = Session(people, SCHEMA, Budget(per_attribute=CDP(90)), where / "l.db", new_ledger=True, noise=noise)
    pairs = [("sex", "age"), ("sex", "pay"), ("size", "sick"), ("sex", "sick")]
    again = NoisyMarginals(CDP(3), sets=[("sick", "sex")])
    queries = Statistics(CDP(1), "SELECT sex, COUNT(*) AS people FROM people GROUP BY sex")
    parts = [("pairs", NoisyMarginals(CDP(5), sets=pairs)), ("again", again), ("queries", queries)]
    session.release_all(parts, where / "out")
    return where / "out"


@pytest.fixture(scope="module")
def release(folder: Path) -> Any:
    return Release.load(folder / "pairs")


def test_answers_are_those_of_the_table(people: pd.DataFrame, release: Release) -> None:
    by_sex = people.groupby("sex")
    assert [row["value"] for row in release.mean("age", by="sex")] == pytest.approx(by_sex.age.mean().tolist(), abs=0.1)
    assert release.sum("age", where={"sex": "f"}).value == pytest.approx(by_sex.age.sum()["f"], abs=12)
    older = people[people.age.between(3, 7)]
    assert release.count("sex", {"age": "3..7"})["m"].value == pytest.approx((older.sex == "m").sum(), abs=4)
    assert release.count(where={"age": ["3", 4]}).value == pytest.approx(people.age.isin([3, 4]).sum(), abs=4)
    small = people[people["size"] != "large"]
    share = release.share({"sick": True}, where={"size": ["small", "middle"]})
    assert share.value == pytest.approx(small.sick.mean(), abs=0.02) and share.sources == ("size+sick",)
    assert release.quantile("age", 0.5, by="sex")["Male"].value == by_sex.age.median()["m"]
    assert release.quantile("size", 0.5).value == "middle" and release.count().value == 400
    pay = release.mean("pay", where={"pay": "10.."})
    assert 10 <= pay.low < people.pay[people.pay >= 10].mean() < pay.high <= 40 and "bin of pay" in pay.note  # type: ignore[operator]
    groups = release.mean("age", by="sex")
    gap = groups.difference("f", "Male")
    assert gap.value == pytest.approx(by_sex.age.mean()["f"] - by_sex.age.mean()["m"], abs=0.1)
    women, men = by_sex.size()
    assert release.count("sex").ratio("f", "m").value == pytest.approx(women / men, abs=0.02)
    assert "costs nothing" in repr(groups) and "costs nothing" in repr(gap) and "<table" in groups._repr_html_()
    assert list(groups.to_pandas().columns) == ["sex", "value", "low", "high"] and len(groups) == 2


def test_tables_of_a_whole_plan_are_pooled(folder: Path, release: Release) -> None:
    whole = Release.load(folder)
    assert isinstance(whole, Releases)
    both = whole.count(["sex", "sick"])
    assert both.sources == ("pairs: sex+sick", "again: sick+sex")
    alone = release.count(["sex", "sick"])
    assert both["f", True].high - both["f", True].low < alone["f", True].high - alone["f", True].low  # type: ignore[operator]
    with pytest.raises(ReleaseError, match=r"no free answers: Statistics"):
        whole["queries"].mean("age")
    with pytest.raises(ReleaseError, match="None of 'queries'"):
        Releases({"queries": whole["queries"]}).count()


REFUSED: dict[str, tuple[Any, str, str]] = {
    "not together": (
        lambda own: own.mean("age", by="sick"),
        "No released table of counts holds sick and age together.",
        'Release NoisyMarginals with sets = [["sick", "age"]], or ask about one of sex+age, size+sick, sex+sick.',
    ),
    "unknown": (lambda own: own.count("sec"), "There is no attribute 'sec'.", "Did you mean 'sex'?"),
    "not a value": (
        lambda own: own.count(where={"sex": "x"}),
        "'x' is not a value of 'sex'.",
        "Values: Female, she, Male.",
    ),
    "inside a bin": (
        lambda own: own.count(where={"pay": "5..20"}),
        "5 lies inside a bin of 'pay'.",
        "Use edges of its bins: 0, 10, 20, 40.",
    ),
    "not a range": (
        lambda own: own.count(where={"age": "a..b"}),
        "'a..b' is not a range of numbers.",
        'Write where={"region": "north", "age": "18..65"}.',
    ),
    "no mapping": (
        lambda own: own.count(where="sex = 'f'"),
        "'where' cannot be \"sex = 'f'\".",
        'Write where={"region": "north", "age": "18..65"}.',
    ),
    "no condition": (
        lambda own: own.share({}),
        "A share needs a condition.",
        'Write share({"sick": True}, by="region").',
    ),
    "grouped by itself": (
        lambda own: own.mean("age", by="age"),
        "'age' is named twice.",
        "Group by other attributes than the one asked for.",
    ),
    "one group": (
        lambda own: own.count("sex").difference("f", "f"),
        "A group is compared with itself.",
        "Name two groups.",
    ),
    "a group left out": (
        lambda own: own.count("sex", {"sex": "f"})["m"],
        "The group 'm' is not part of this answer.",
        "Drop its 'where'.",
    ),
    "words compared": (
        lambda own: own.quantile("size", 0.5, by="sick").ratio("true", "false"),
        "The 0.5-quantile of size is not a number, so it has no ratio.",
        "Compare counts or shares.",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refusals_say_what_to_write(release: Release, case: str) -> None:
    ask, message, fix = REFUSED[case]
    with pytest.raises(NablaDPError) as caught:
        ask(release)
    assert isinstance(caught.value, (MechanismError, UnknownAttribute, TypeError))
    assert (caught.value.message, caught.value.fix) == (message, fix)


def test_noise_may_hide_a_value_but_not_its_interval() -> None:
    from nabladp.tables import CodedTable

    few = CodedTable(SCHEMA, {name: np.zeros(9, np.int64) for name in SCHEMA.names})
    tables = NoisyMarginals(CDP(0.01), sets=[("sex", "age"), ("sex",)]).run(few, NoiseSource.seeded(4))
    found = tables.mean("age", by="sex")
    hidden = [row for row in found if row["value"] is None]
    assert hidden and all((row["low"], row["high"]) == (0, 9) for row in hidden)
    assert found.difference("f", "m").value is None and "hidden by the noise" in str(found[hidden[0]["sex"]])


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    with pytest.raises(SystemExit) as end:
        main(["show", *arguments])
    told = capsys.readouterr()
    return int(end.value.code or 0), told.out + told.err


def test_the_command_answers_too(folder: Path, release: Release, capsys: pytest.CaptureFixture[str]) -> None:
    where = str(folder / "pairs")
    code, text = run(capsys, where, "--mean", "age", "--by", "sex", "--json")
    assert code == 0 and [row["value"] for row in json.loads(text)["values"]] == [
        row["value"] for row in release.mean("age", by="sex")
    ]
    code, text = run(capsys, where, "--count", "--where", "sex=Female, she", "--where", "age=3..7")
    assert code == 0 and "From sex+age; costs nothing." in text
    code, text = run(capsys, where, "--share", "sick=true", "--by", "sex", "--difference", "m,f", "--csv")
    assert code == 0 and text.startswith('"value","low","high"')
    code, text = run(capsys, str(folder), "--quantile", "age=0.5")
    assert code == 0 and "pairs: sex+age" in text
    assert run(capsys, where, "--sum", "age", "--by", "sex", "--ratio", "m,f")[0] == 0
    for wrong in (["--by", "sex"], ["--mean", "age", "--count"], ["--quantile", "age"], ["--count", "--where", "sex"]):
        code, text = run(capsys, where, *wrong)
        assert code != 0 and "fix:" in text
