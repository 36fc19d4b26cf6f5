"""The sentences and rows behind the page: true numbers, nothing left out, also in odd cases."""

from __future__ import annotations

import itertools
import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from report_pages import MARGINALS, PURE, SCHEMA, session

from nabladp.errors import ReleaseError
from nabladp.mechanisms.noisy_marginals import NoisyMarginals
from nabladp.noise import NoiseSource
from nabladp.privacy import CDP, Budget, Guarantee, Pure, Rho, Universe
from nabladp.privacy.interpretation import posterior
from nabladp.privacy.ledger import Spending
from nabladp.privacy.units import format_rounded
from nabladp.release import Release
from nabladp.report import load, report, write
from nabladp.report.chapter import Limits, attribute_rows, costliest, limit_bar, of_schema
from nabladp.report.language import language
from nabladp.report.page import VIEWS, fit
from nabladp.report.sentences import Belief, Sentences
from nabladp.report.sentences import belief as belief_in
from nabladp.schema import Attribute, Schema
from nabladp.tables import CodedTable
from nabladp.views.view import count_of

UNIVERSE = Universe(("a", "b", "c"), {"d": ("a", "b")}, frozenset({"c"}))
GAUSSIAN = Guarantee.touch(UNIVERSE, ["a", "b"], Rho(0.02)) + Guarantee.touch(UNIVERSE, ["a"], Rho(0.03))
LAPLACE = Guarantee.touch(UNIVERSE, ["a"], Pure(0.5))


ENGLISH = language("en")


def belief(guarantee: Guarantee, attributes: tuple[str, ...]) -> Belief:
    return belief_in(guarantee, "", "", attributes, 1e-6, ENGLISH)


def words(guarantee: Guarantee, rows: tuple[int, ...] = (1000,), each: int = 1, **options: Any) -> Sentences:
    return Sentences(guarantee, 1e-6, rows, each, options.pop("adversaries", {}), **options)


def text_of(said: Sentences) -> str:
    parts = [said.who(), said.against(), said.reading(), said.unread_note() or ""]
    return " ".join([*parts, *(f"{head}. {sentence}" for head, sentence in said.not_protected())])


def test_who_is_protected() -> None:
    assert words(GAUSSIAN).who() == "Each of the 1,000 people in the table, whatever their values are, common or rare."
    assert "at most 3 rows in the table of 1,000 rows" in words(GAUSSIAN, each=3).who()
    assert words(GAUSSIAN, rows=()).who().startswith("Everyone in the table, whatever")
    assert "1,000 and 2,000" in words(GAUSSIAN, rows=(2000, 1000, 2000)).who()
    nobody = words(Guarantee.none(Universe(("a",), {}, frozenset({"a"}))))
    assert nobody.who().startswith("Nobody") and nobody.beliefs() == []
    assert "Nothing is promised" in text_of(nobody)


def test_beliefs_follow_the_interpretation() -> None:
    said = words(GAUSSIAN, adversaries={"both": ("d",), "nosy": ("c", "a")})
    assert [shown.label for shown in said.beliefs()] == [
        "someone curious about “a” only; no single attribute costs more",
        "both",
        "someone curious about all protected attributes together",
    ], "nothing is promised about sets that hold a public attribute"
    for shown in said.beliefs():
        assert not shown.certain
        assert shown.after == posterior(GAUSSIAN, shown.attributes, 0.5, 1e-6).value
        assert shown.epsilon == GAUSSIAN.epsilon(shown.attributes, 1e-6, "paper")
        assert float(shown.percent[:-1]) / 100 >= shown.after
    pure = words(LAPLACE)
    assert all(shown.certain and shown.after == posterior(LAPLACE, shown.attributes).value for shown in pure.beliefs())
    assert "without exception" in pure.reading() and "without exception" not in said.reading()
    assert "1 in 1,000,000" in said.reading() and "always" not in said.reading()
    mixed = words(LAPLACE + Guarantee.touch(UNIVERSE, "b", Rho(0.1)), adversaries={"one": ("a",)})
    assert "always" in mixed.reading()


def test_what_is_not_protected_names_numbers() -> None:
    line = {"spent": 0.25, "allowed": 1.0, "measure": "ρ"}
    said = dict(words(GAUSSIAN, person_limit=line).not_protected())
    person = belief(GAUSSIAN, ("a", "b"))
    head = "Attributes that give others away"
    assert person.percent in said[head] and "1 in 1,000,000 for each person" in said[head]
    pair = belief(GAUSSIAN.for_rows(2), ("a", "b"))
    assert pair.percent in said["Families and other groups"] and pair.after > person.after
    assert "ρ = 0.25 of the 1" in said["Other releases"]
    assert (
        "“c”" in said["Public attributes"] and "“d” is computed from others" in said["Attributes that give others away"]
    )
    assert "ledger" in dict(words(GAUSSIAN).not_protected())["Other releases"]


def test_membership_is_bounded_per_person_unless_an_attribute_is_public() -> None:
    """Replacing a row changes its public attributes too, so no figure bounds membership where there are any."""
    head = "Being in the table"
    guarantee = Guarantee.touch(["a", "b"], ["a", "b"], Rho(0.02))
    said = words(guarantee)
    assert (
        said.person().percent in dict(said.not_protected())[head]
        and "1 in 1,000,000" in dict(said.not_protected())[head]
    )
    for public in (words(guarantee.with_public("b")), words(GAUSSIAN)):
        sentence = dict(public.not_protected())[head]
        assert "Nothing is promised" in sentence and "%" not in sentence and "ε" not in sentence
        assert public.public[0] in sentence and public.public[0] in public.apart(), "they are named"


def test_beliefs_are_for_someone_who_knows_the_rest() -> None:
    said = words(GAUSSIAN)
    for sentence in (said.against(), said.assumes()):
        assert "already knows every other row" in sentence and "knows less may also learn" in sentence


def test_someone_who_knows_less_may_learn_more() -> None:
    """Twenty people share one bit, and its counts are released: who knows that they share it becomes nearly certain,
    far beyond the bound that is stated; so the sentences say for whom it holds."""
    schema = Schema((Attribute("bit", "boolean"),))
    mechanism = NoisyMarginals(CDP(0.2), sets=(("bit",),))
    said = words(mechanism.guarantee(schema, 20))
    assert said.person().percent == "74.5%"
    table, noise = CodedTable(schema, {"bit": np.ones(20, dtype=np.int64)}), NoiseSource.seeded(3)
    sure = []
    for _ in range(100):
        found = mechanism.run(table, noise).tables[0].raw
        no, yes = found.counts.tolist()
        gain = (no**2 + (yes - 20) ** 2 - (no - 20) ** 2 - yes**2) / (2 * found.scale**2)
        sure.append(1 / (1 + math.exp(gain)))
    assert 0.999 < np.median(sure) < 0.9999 and np.mean(np.array(sure) > said.person().after) > 0.85
    assert "someone who knows less may also learn from rows" in said.against()
    assert "may also learn from other attributes, and from other people's rows" in said.assumes()


def test_without_a_bound_and_with_a_useless_one() -> None:
    lonely = Guarantee.from_graph(("v", "w"), [("0", "1", Pure(1))], on="v", values={"v": "012"})
    said = words(lonely)
    assert "there is no bound" in text_of(said) and said.person().percent == "100.0%"
    assert "can become near certainty" in text_of(words(Guarantee.touch(UNIVERSE, ["a", "b"], Rho(50))))


def test_what_was_not_read_is_named() -> None:
    assert words(GAUSSIAN).unread_note() is None
    said = words(LAPLACE).unread_note()
    assert said is not None and "did not read “b”" in said


def test_small_words() -> None:
    t = ENGLISH
    assert [t.one_in(delta) for delta in (1e-6, 1e-9, 0.3)] == ["1 in 1,000,000", "1 in 1,000,000,000", "1 in 3"]
    assert [t.power(delta) for delta in (1e-6, 1e-12, 3e-7, 0.5)] == ["10⁻⁶", "10⁻¹²", "3e-07", "0.5"]
    assert t.names(["a"]) == "“a”" and t.names(["a", "b", "c"]) == "“a”, “b” and “c”"
    assert t.names([str(i) for i in range(9)], 2) == "“0”, “1” and 7 more"
    assert count_of(1, "row") == "1 row" and count_of(2000, "row") == "2,000 rows"
    assert t.quoted("\u202ex") == "“\u2068\u202ex\u2069”"


def test_every_number_a_person_sees_is_rounded_the_safe_way(folder: Path) -> None:
    releases = load(folder)
    whole = Guarantee.compose(SCHEMA, [release.guarantee for release in releases])
    text = re.sub(r"<[^>]+>", " ", (folder / "report.html").read_text(encoding="utf-8"))
    row = re.search(r"which is public: nothing is promised about it\s+([\d.]+)\s+([\d.]+)\s+([\d.]+)", text)
    assert row is not None
    person = whole.per_person()
    for said, true in zip(row.groups(), (person.epsilon(1e-6), person.epsilon(1e-6, "paper"), person.rho), strict=True):
        assert true * (1 - 1e-11) <= float(said) <= true * 1.001


# ---- rows and bars --------------------------------------------------------------------------------------------------


def test_attribute_rows_hold_limits_and_what_is_derived(folder: Path) -> None:
    from nabladp.release.cost import figures

    releases = load(folder)
    whole = Guarantee.compose(SCHEMA, [release.guarantee for release in releases])
    limits = Limits.of(releases[0].limits, whole.universe.protected)
    rows = attribute_rows(of_schema(SCHEMA), words(whole), figures(whole, {}, 1e-6), limits)
    by_name = {row["name"]: row for row in rows}
    assert list(by_name) == list(SCHEMA.roots) and [d["name"] for d in by_name["age"]["derived"]] == ["band"]
    assert by_name["county"]["public"] and by_name["county"]["figure"] is None
    assert by_name["unused"]["unread"] and by_name["sick"]["limits"][0]["allowed"] == "0.245"
    assert by_name["sick"]["limits"][0]["shares"]["here"] == pytest.approx(100 * whole.rho("sick") / 0.245, abs=0.01)


def line(**changed: Any) -> dict[str, Any]:
    start = {"limit": "a", "attributes": ["a"], "measure": "ρ", "allowed": 0.1, "spent": 0.08, "left": 0.02}
    return {**start, "exceeded": False, **changed}


def test_limit_bars() -> None:
    bar = limit_bar(GAUSSIAN, line(), ENGLISH)
    assert bar["here"] == "0.05" and bar["others"] == "0.03" and bar["left"] == "0.02"
    assert bar["shares"] == {"others": 30.0, "here": 50.0, "allowed": 100.0}
    over = limit_bar(GAUSSIAN, line(spent=0.2, left=0.0, exceeded=True), ENGLISH)
    assert over["shares"]["allowed"] == 50.0 and over["shares"]["others"] + over["shares"]["here"] == pytest.approx(100)
    unbounded = limit_bar(GAUSSIAN, line(measure="pure ε", spent=None, left=0.0, exceeded=True), ENGLISH)
    assert unbounded["here"] == "no bound" and unbounded["shares"]["here"] == 100.0
    assert limit_bar(LAPLACE, line(measure="pure ε", allowed=1.0, spent=0.5), ENGLISH)["here"] == "0.5"


def test_limits_on_an_attribute_called_person_are_its_own() -> None:
    budget = Budget(per_attribute=CDP(1), sets={"person+a": Rho(1)}, person=Rho(2))
    names = ("a", "person")
    lines = [Spending(limit, 0).to_json() for limit in budget.limits(names)]
    found = Limits.of(lines, names)
    assert list(found.single) == ["a", "person"] and found.person is not None and found.person["allowed"] == 2
    assert [line["limit"] for line in found.sets] == ["person+a"]
    alone = Limits.of([Spending(limit, 0).to_json() for limit in budget.limits(("a", "person"))][:2], ("a",))
    assert alone.person is None
    one = Budget(attributes={"a": CDP(1)}, person=Rho(2))
    found = Limits.of([Spending(limit, 0).to_json() for limit in one.limits(("a",))], ("a",))
    assert found.person is not None and len(found.single["a"]) == 1


def test_costliest_where_every_set_cannot_be_looked_at() -> None:
    names = [f"a{i}" for i in range(40)]
    many = Guarantee.compose(
        names, [Guarantee.touch(names, [a, b], Rho(0.01)) for a, b in itertools.combinations(names, 2)]
    )
    found = costliest(many)
    assert len(found) == 10 and found[0]["exact"]
    assert all(worst["rho"] <= worst["at_most"] for worst in found) and not all(worst["exact"] for worst in found)
    assert costliest(Guarantee.none(Universe(("a",), {}, frozenset({"a"})))) == []


# ---- the page as a whole --------------------------------------------------------------------------------------------


def test_parts_with_different_delta(folder: Path) -> None:
    """The whole at the smallest δ, which holds at all; each part's own figure at its own."""
    one, other = load(folder)
    page = report([one, replace(other, delta=1e-9)], "x")
    text = " ".join(re.sub(r"<[^>]+>", " ", page).split())
    assert "different δ: 10⁻⁶ and 10⁻⁹" in text and "use the smallest, 10⁻⁹" in text
    whole = one.guarantee + other.guarantee
    for name in ("income", "region"):
        assert f">{format_rounded(whole.epsilon(name, 1e-9), 4, up=True)}</td>" in page
    assert f"ε = {format_rounded(whole.per_person().epsilon(1e-9), 4, up=True)}" in text
    for part, delta in ((one, 1e-6), (other, 1e-9)):
        person = part.guarantee.per_person()
        tight, paper = (format_rounded(person.epsilon(delta, kind), 4, up=True) for kind in ("tight", "paper"))
        assert f"ε = {tight} by the tight conversion at its δ = {ENGLISH.power(delta)}, {paper} by the paper’s" in text
    assert report([replace(other, delta=1e-9), one], "x").count("use the smallest, 10⁻⁹") == 1, "whatever the order"
    same = report([one, other], "x")
    assert "different δ" not in same and "at its δ" not in same


def test_several_rows_a_person_and_old_records(tmp_path: Path) -> None:
    made = session(tmp_path, rows_per_person=2)
    release = made.release(NoisyMarginals(CDP(0.2), k=1))
    made.ledger.close()
    assert "at most 2 rows" in report(release) and "at most 2 per person" in report(release)
    old = report(replace(release, limits=()))
    assert "no limit on record" in old and "no limit of its own on record" in old


def test_everything_public(tmp_path: Path) -> None:
    schema = Schema((Attribute("a", "boolean", public=True), Attribute("b", "boolean")))
    made = session(tmp_path, schema, Budget(person=Rho(1)), adversaries={"x": ("a",)})
    release = made.release(NoisyMarginals(CDP(0.2), k=1))
    made.ledger.close()
    assert "Public: nothing is promised." in report(release)
    all_public = Schema((Attribute("a", "boolean", public=True), Attribute("b", "boolean", public=True)))
    shown = report(replace(release, schema=all_public, guarantee=release.guarantee.with_public("b"), limits=()))
    assert "Nobody: every attribute is declared public" in shown


def test_releases_that_do_not_belong_together_are_refused(tmp_path: Path, folder: Path) -> None:
    one, other = load(folder)
    with pytest.raises(ReleaseError, match="different attributes"):
        report([one, replace(other, schema=Schema(tuple(SCHEMA)[:2]))])
    with pytest.raises(ReleaseError):
        report([])
    with pytest.raises(ReleaseError, match="output path"):
        write(one)
    assert report([one, other], "x") == report(folder, "x")
    assert report(one).count("<article") == 2, "one part and the certificate"


def test_misspelt_folders_and_goals(tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)  # where a report could be made, but was not asked for
    for wrong in ("singel", "relaese.json"):
        with pytest.raises(ReleaseError, match=f"no file or folder '{wrong}'"):
            write(wrong, tmp_path / "x.html")
    with pytest.raises(ReleaseError, match="no release in"):
        write(tmp_path)
    assert list(tmp_path.iterdir()) == []
    assert write("single", tmp_path) == tmp_path / "report.html" and len(list(tmp_path.iterdir())) == 1


def test_composition_over_the_parts(folder: Path) -> None:
    """The page of a folder tells what all its parts tell together."""
    pairs, single = (Release.load(folder / name) for name in ("pairs", "single"))
    whole = pairs.guarantee + single.guarantee
    assert pairs.guarantee == MARGINALS.guarantee(SCHEMA, 400) and single.guarantee == PURE.guarantee(SCHEMA, 400)
    shown = words(whole).person()
    assert shown.percent in (folder / "report.html").read_text(encoding="utf-8")
    assert math.isinf(whole.per_person().pure) and not math.isinf(single.guarantee.per_person().pure)


def test_very_large_values_lose_their_rows_and_stay_below_the_limit() -> None:
    small = {"title": "small", "rows": [[1], [2]]}
    large = {"title": "large", "rows": [[i * 7919 % 100_003, i * 104_729 % 99_991] for i in range(200_000)]}
    [[kept, cut]] = fit([[small, large]], 100_000)
    assert kept == small and cut == {"title": "large", "rows": [], "left_out": 200_000}
    assert fit([[small]], VIEWS) == [[small]] and fit([[{"title": "none"}]], 1) == [[{"title": "none"}]]


def test_a_record_too_large_is_not_embedded(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nabladp.report.page.BLOCKS", 10)
    text = report(folder)
    assert 'id="data-record-0"' not in text and "too large to be embedded" in text
