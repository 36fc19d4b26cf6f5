"""Guarantees without a release: kept as JSON, shown on the same page, true to Python, and as safe."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from explorer_answers import compare

from nabladp.cli import main
from nabladp.errors import BudgetError, GuaranteeError, ReleaseError, UnknownAttribute
from nabladp.privacy import CDP, Guarantee, Pure, Rho, Universe
from nabladp.privacy.units import format_rounded
from nabladp.report import Certificate, Claim, report, write
from nabladp.report.chapter import MOST_SETS, set_rows
from nabladp.report.language import language

HOSTILE = [
    "</script><img src=x onerror=alert(1)>",
    '"><svg onload=alert(2)>',
    "{{ 7 * 7 }}{% for x in y %}",
    "__proto__",
    "' onmouseover='alert(3)",
    "\u202eright to left",
    "x" * 150,
]
UNIVERSE = Universe(("age", "income", "sick", "county"), {"band": ("age",)}, frozenset({"county"}))
ROWS = Guarantee.touch(UNIVERSE, ["age", "income"], Rho(0.02)) + Guarantee.touch(UNIVERSE, ["income"], CDP(0.3))
HOMES = Guarantee.linear(("rooms", "rent", "street", "unread"), ["rooms", "rent", "street"], Pure(0.1))


def certificate() -> Certificate:
    people = Claim(
        ROWS,
        "People",
        1e-9,
        note="From a table that was never here.",
        attributes={"age": "in full years", "band": "young or old"},
        adversaries={"a neighbour": ("income", "band")},
        not_covered={"Totals": "Published as they are."},
    )
    return Certificate((people, Claim(HOMES, "Homes", protects=("home", "homes"))), "Two tables")


def text_of(page: str) -> str:
    return " ".join(re.sub(r"<[^>]+>", " ", page.split("<script")[0].split("</style>")[-1]).split())


# ---- what is kept ---------------------------------------------------------------------------------------------------


def test_it_comes_back_from_json(tmp_path: Path) -> None:
    one = certificate()
    again = Certificate.load(one.save(tmp_path / "certificate.json"))
    assert again.to_json() == one.to_json() and again.text == one.text
    assert [claim.guarantee for claim in again.claims] == [ROWS, HOMES]
    assert again.claims[0].fingerprint == one.claims[0].fingerprint != one.claims[1].fingerprint
    bare = Certificate.from_json(json.loads(json.dumps(ROWS.to_json())))
    assert bare.claims[0].guarantee == ROWS and bare.title == "Privacy guarantee"


@pytest.mark.parametrize(
    "change",
    [
        lambda data: [],
        lambda data: 7,
        lambda data: {},
        lambda data: data | {"kind": "nabladp release"},
        lambda data: data | {"format": 2},
        lambda data: data | {"claims": []},
        lambda data: data | {"claims": {"a": 1}},
        lambda data: data | {"title": ["x"]},
        lambda data: data | {"claims": [data["claims"][0] | {"name": 3}]},
        lambda data: data | {"claims": [data["claims"][0] | {"protects": ["one"]}]},
        lambda data: data | {"claims": [data["claims"][0] | {"adversaries": {"x": ["nobody"]}}]},
        lambda data: data | {"claims": [data["claims"][0] | {"delta": "small"}]},
        lambda data: data | {"claims": [data["claims"][0], data["claims"][0]]},
        lambda data: data | {"claims": [data["claims"][0] | {"guarantee": {}}]},
        lambda data: data["claims"][0]["guarantee"] | {"format": 9},
    ],
)
def test_what_is_no_certificate_is_refused(change: Callable[[Any], Any], tmp_path: Path) -> None:
    place = tmp_path / "certificate.json"
    place.write_text(json.dumps(change(certificate().to_json())), encoding="utf-8")
    with pytest.raises((GuaranteeError, BudgetError, UnknownAttribute)) as refused:
        report(place)
    assert refused.value.fix


def test_odd_claims_and_files_are_refused(tmp_path: Path) -> None:
    for wrong, error in (
        ({"delta": 0.0}, BudgetError),
        ({"attributes": {"nobody": "x"}}, UnknownAttribute),
        ({"adversaries": {"x": ()}}, GuaranteeError),
    ):
        with pytest.raises(error):
            Claim(ROWS, **wrong)
    with pytest.raises(GuaranteeError, match="names"):
        Certificate((Claim(ROWS), Claim(HOMES)))
    (tmp_path / "x.json").write_bytes(b"\xff{")
    for place in (tmp_path / "x.json", tmp_path / "nowhere.json"):
        with pytest.raises(GuaranteeError, match="Cannot read"):
            Certificate.load(place)
    with pytest.raises(GuaranteeError, match="Cannot write"):
        certificate().save(tmp_path / "no" / "x.json")
    with pytest.raises(ReleaseError, match="output path"):
        write(ROWS)


# ---- the page -------------------------------------------------------------------------------------------------------


def test_pairs_and_triples_are_all_there_and_costliest_first() -> None:
    names = [f"a{i}" for i in range(6)]
    whole = Guarantee.compose(names, [Guarantee.touch(names, [n, names[0]], Rho(i + 1)) for i, n in enumerate(names)])
    head, rows = set_rows(whole, 1e-6, language("en"))
    assert head == "Pairs and triples"
    wanted = [frozenset(c) for size in (2, 3) for c in itertools.combinations(names, size)]
    assert sorted(map(sorted, wanted)) == sorted(sorted(row["attributes"]) for row in rows)
    costs = [whole.rho(row["attributes"]) for row in rows]
    assert costs[:15] == sorted(costs[:15], reverse=True) and costs[15:] == sorted(costs[15:], reverse=True)
    many = [f"a{i}" for i in range(25)]
    head, rows = set_rows(Guarantee.touch(many, many[:2], Rho(1)), 1e-6, language("en"))
    assert head == "Pairs" and len(rows) == 300 <= MOST_SETS
    assert set_rows(Guarantee.none([f"a{i}" for i in range(40)]), 1e-6, language("en")) == ("", [])
    assert set_rows(Guarantee.none(("a", "b")), 1e-6, language("en")) == ("", []), (
        "the whole record stands on top anyway"
    )


def test_every_word_is_about_a_guarantee_not_a_release() -> None:
    text = text_of(report(certificate()))
    for wanted in (
        "What can be learned about one person or one home",
        "People : All protected attributes",
        "From a table that was never here.",
        "Every home in the table, whatever its values are",
        "Two homes together are protected less",
        "These figures are for this guarantee alone",
        "The publication did not read “sick”",
        "Totals Published as they are.",
        "A guarantee only",
        "in full years",
        "Public: nothing is promised.",
        "band is derived",
    ):
        assert wanted in text, wanted
    for never in ("ledger booked", "nabladp ledger", "Of its limit", "Rows", "this release", "schema, the plan"):
        assert never not in text, never
    homes = text[text.index("Homes : in words") : text.index("What this page is based on")]
    assert "person" not in homes and "people" not in homes


def test_both_conversions_stand_beside_each_other() -> None:
    page = report(Certificate((Claim(ROWS, delta=1e-9),), "x"))
    for chosen in (("age",), ("income",), ("sick",), ("age", "income"), ("age", "sick"), ("age", "income", "sick")):
        for kind in ("tight", "paper"):
            assert f">{format_rounded(ROWS.epsilon(chosen, 1e-9, kind), 4, up=True)}</td>" in page, (chosen, kind)
    assert "δ = 10⁻⁹" in page and "Rows</dt>" not in page


def test_by_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    certificate().save("certificate.json")
    Path("bare.json").write_text(json.dumps(ROWS.to_json()), encoding="utf-8")
    for arguments, page, title in (
        (["certificate.json"], "report.html", "Two tables"),
        (["bare.json", "--to", "bare.html", "--title", "Mine"], "bare.html", "Mine"),
    ):
        with pytest.raises(SystemExit) as ended:
            main(["report", *arguments, "--json"])
        assert ended.value.code in (0, None) and json.loads(capsys.readouterr().out)["report"] == page
        assert f"<h1><bdi>{title}</bdi></h1>" in Path(page).read_text(encoding="utf-8")
    assert Path("report.html").read_text(encoding="utf-8") == report(certificate())
    Path("other.json").write_text("{}", encoding="utf-8")
    with pytest.raises(SystemExit) as ended:
        main(["report", "other.json", "--json"])
    assert ended.value.code == 1 and json.loads(capsys.readouterr().out)["error"] == "GuaranteeError"


def test_a_folder_above_releases_says_which_it_could_have_been(tmp_path: Path, folder: Path) -> None:
    for number in range(4):
        (tmp_path / "demo" / f"plan-{number}").mkdir(parents=True)
    (tmp_path / "demo" / "plan-2" / "single").symlink_to(folder / "single")
    with pytest.raises(ReleaseError, match="no release in") as refused:
        report(tmp_path / "demo")
    assert refused.value.fix == f"Give the folder of a release. Below it there is '{tmp_path}/demo/plan-2'."
    with pytest.raises(ReleaseError) as refused:
        report(tmp_path)
    assert "/demo/plan-2'" in refused.value.fix, "also from further above"
    for number in (0, 1, 3):
        (tmp_path / "demo" / f"plan-{number}" / "single").symlink_to(folder / "single")
    with pytest.raises(ReleaseError) as refused:
        report(tmp_path / "demo")
    assert "there are '" in refused.value.fix and "(and 1 more)" in refused.value.fix
    (tmp_path / "nothing").mkdir()
    with pytest.raises(ReleaseError) as refused:
        report(tmp_path / "nothing")
    assert refused.value.fix == "Give the folder of a release."


# ---- in a browser ---------------------------------------------------------------------------------------------------


def test_each_explorer_answers_for_its_own_guarantee(open_page: Any) -> None:
    watched = open_page(report(certificate()), "#explore-1?a=rooms&a=street&delta=1e-3")
    for own, guarantee in enumerate((ROWS, HOMES)):
        names = (*guarantee.universe.roots, *guarantee.universe.derived)
        sets = [list(c) for size in range(len(names) + 1) for c in itertools.combinations(names, size)]
        compare(watched, guarantee, [(chosen, 1e-9, 0.5) for chosen in sets], own=own)
    first, second = watched.page.locator(".result").all()
    assert "Nothing is ticked" in first.inner_text() and "All protected attributes" in first.inner_text()
    shown = second.inner_text()
    assert "curious about rooms + street" in shown and "All protected attributes" in shown and "ε pure 0.2" in shown
    assert "person" not in shown
    watched.page.locator(".explore").first.get_by_text("a neighbour").click()
    assert watched.ask("location.hash") == "#explore?a=income&a=band"
    watched.page.locator("#delta-1").fill("7")
    assert watched.page.inner_text("#wrong-1") and not watched.page.inner_text("#wrong")
    assert watched.ask("location.hash") == "#explore-1?a=rooms&a=street&delta=7"
    assert watched.is_quiet()


def test_what_was_claimed_is_downloaded(open_page: Any) -> None:
    watched = open_page(report(certificate()))
    with watched.page.expect_download() as download:
        watched.page.locator(".download").click()
    assert download.value.suggested_filename == "certificate.json"
    assert Path(download.value.path()).read_text(encoding="utf-8") == certificate().text
    assert watched.is_quiet()


@pytest.fixture(scope="module")
def hostile() -> str:
    sets = [Guarantee.touch(HOSTILE, [one, other], Rho(0.1)) for one, other in itertools.pairwise(HOSTILE)]
    words = dict.fromkeys(HOSTILE, HOSTILE[0])
    given = {"attributes": words, "adversaries": dict.fromkeys(HOSTILE, HOSTILE[:2]), "not_covered": words}
    claims = [
        Claim(Guarantee.compose(HOSTILE, sets), name, protects=(HOSTILE[0], HOSTILE[1]), note=HOSTILE[2], **given)
        for name in (HOSTILE[0], HOSTILE[6])
    ]
    return report(Certificate(tuple(claims), HOSTILE[1]))


def test_hostile_names_do_nothing(open_page: Any, hostile: str) -> None:
    watched = open_page(hostile)
    for place in watched.page.locator(".explore").all():
        place.locator("fieldset >> nth=0 >> button").first.click()
        place.locator("button", has_text="All").click()
    assert watched.page.locator("img, iframe, object, embed").count() == 0
    assert watched.page.locator("script:not([type])").count() == 1
    text = watched.page.locator("body").evaluate("(body) => body.textContent")
    for name in HOSTILE:
        assert name in text
    assert watched.page.locator(".choices input:checked").count() == 2 * len(HOSTILE)
    assert watched.is_quiet()


def test_hostile_names_on_a_phone_and_on_paper(open_page: Any, hostile: str) -> None:
    watched = open_page(hostile, width=360, height=740)
    assert watched.width() <= 360
    assert watched.page.locator("nav").bounding_box()["height"] < 80, "one line that can be moved sideways"
    watched.page.emulate_media(media="print")
    printed = watched.page.locator("#certificate").inner_text()
    assert all(" ".join(name.split()) in " ".join(printed.split()) for name in HOSTILE), "nothing is cut"
