"""The certificate: what it promises, whom it names, what it leaves out; and checking a folder and its certificate."""

from __future__ import annotations

import base64
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from report_pages import MARGINALS, PURE, SCHEMA, session

from nabladp.errors import PlanError, ReleaseError, SourceError
from nabladp.mechanisms.mwem import MWEM
from nabladp.mechanisms.noisy_marginals import NoisyMarginals
from nabladp.mechanisms.synthesis import Synthesis
from nabladp.privacy import CDP, Budget, Guarantee, Rho
from nabladp.release import Release, Session
from nabladp.release.imprint import MOST_LOGO, Imprint, Logo
from nabladp.report import Certificate, Claim, load, report, verify, write
from nabladp.report.certificate import code_of_all, qr_path, release_code
from nabladp.schema import Attribute, Schema
from nabladp.workloads import Conjunctions

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="
)
TEXTS = {
    "title": "Survey of households <2026>",
    "issuer": "Office of statistics",
    "contact": "privacy@office.example",
    "purpose": "To publish tables",
    "population": "All who live here",
}


def text_of(page: str) -> str:
    return " ".join(re.sub(r"<[^>]+>", " ", page.split("<script")[0].split("</style>")[-1]).split())


def certificate_of(page: str) -> str:
    return text_of(page[page.index('<article class="certificate') :])


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that holds a ledger and a published folder with an imprint."""
    where = tmp_path_factory.mktemp("imprinted")
    made = session(where, imprint=Imprint(**TEXTS, logo=Logo(PNG)))
    made.release_all([("pairs", MARGINALS), ("single", PURE)], where / "out")
    made.release(PURE)  # booked later: the entries above are not the ledger's last
    made.ledger.close()
    return where


@pytest.fixture
def copy(published: Path, tmp_path: Path) -> Path:
    shutil.copytree(published, tmp_path / "copy")
    return tmp_path / "copy"


# ---- what it says ---------------------------------------------------------------------------------------------------


def test_it_names_who_issues_it_and_has_room_to_sign(published: Path) -> None:
    page = (published / "out" / "report.html").read_text(encoding="utf-8")
    told = certificate_of(page)
    for wanted in (*TEXTS.values(), "Place and date", "Name and office", "Signature", "2 parts"):
        assert wanted.replace("<", "&lt;").replace(">", "&gt;") in told, wanted
    assert f'src="{Logo(PNG).address}"' in page and f"<title>{TEXTS['title'].replace('<', '&lt;')[:20]}" in page
    releases = load(published / "out")
    codes = [release_code(release) for release in releases]
    for code in (*codes, code_of_all(codes)):
        assert code in told and f'd="{qr_path(code)[1]}"' in page
    for release in releases:
        assert release.digest in told and release.ledger["hash"] in told and release.hashes["logo.png"] in told
        assert release.imprint == Imprint(**TEXTS, logo=Logo(PNG))


def test_a_qr_code_holds_the_very_text() -> None:
    import segno

    text = "NABLADP:1:ABC:2:FF"
    size, path = qr_path(text)
    drawn = [[0] * size for _ in range(size)]
    for x, y, wide in re.findall(r"M(\d+) (\d+)h(\d+)v1h-\d+z", path):
        for i in range(int(wide)):
            drawn[int(y)][int(x) + i] = 1
    assert drawn == [list(row) for row in segno.make(text, error="m", micro=False).matrix]


def test_beliefs_come_first_and_epsilon_and_rho_are_explained_once(published: Path) -> None:
    told = certificate_of((published / "out" / "report.html").read_text(encoding="utf-8"))
    page_one = told[: told.index("Annex 1")]
    assert page_one.index("would bet 50:50") < page_one.index("at most sure") < page_one.index("ε tight")
    for once in ("ε bounds how much more likely", "ρ is the parameter of", "would bet 50:50"):
        assert told.count(once) == 1, once
    assert "who already knows every other row and all other attributes" in page_one


def test_with_one_protected_attribute_each_keeps_its_own_limit(tmp_path: Path) -> None:
    """Figures were keyed by set, so the limit of all protected attributes stood beside the attribute, too."""
    for name in ("income", "person"):
        schema = Schema((Attribute(name, "boolean"), Attribute("county", "boolean", public=True)))
        folder = tmp_path / name
        folder.mkdir()
        made = session(folder, schema, Budget(per_attribute=CDP(1), person=Rho(7)), adversaries={})
        page = report(made.release(NoisyMarginals(CDP(0.2), sets=((name,),))))
        made.ledger.close()
        rows = re.findall(r"<tr[^>]*><th scope=\"row\">(.*?)</tr>", page[page.index('class="certificate') :], re.DOTALL)
        told = [text_of(row).split() for row in rows if "nothing is promised." not in text_of(row)]
        assert [row[-2:] for row in told] == [["ρ", "0.5"], ["ρ", "7"], ["ρ", "0.5"]], told


def test_what_is_not_protected_is_as_long_as_in_the_report(published: Path) -> None:
    from nabladp.report.sentences import Sentences

    page = (published / "out" / "report.html").read_text(encoding="utf-8")
    lists = re.findall(r'<dl class="prose[^"]*">(.*?)</dl>', page, re.DOTALL)
    assert len(lists) == 2 and text_of(lists[0]) == text_of(lists[1])
    for head in ("Families and other groups", "What is true of people in general", "Public attributes"):
        assert head in lists[1]
    assert Sentences(Guarantee.none(SCHEMA), 1e-6, (), 1, {}).not_protected()


def test_public_attributes_are_named_wherever_the_person_is_meant(published: Path) -> None:
    page = text_of((published / "out" / "report.html").read_text(encoding="utf-8"))
    for found in re.finditer("[Aa]ll protected attributes", page):
        near = page[found.start() : found.start() + 130]
        alone = ("For all protected", "figure for all protected", "that all protected", "set of protected")
        before = page[max(0, found.start() - 12) : found.end()]
        assert "county" in near or any(text in before for text in alone) or "together" in near, near
    assert "whole person" not in page and "being in the table: a belief" not in page
    assert "Whether someone is in the table at all depends on all attributes together, and the public “county”" in page


# ---- the imprint ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"issuer": 3}, PlanError),
        ({"title": "two\nlines"}, PlanError),
        ({"title": "\u202eturned"}, PlanError),
        ({"purpose": "x" * 2001}, PlanError),
        ({"language": "xx"}, PlanError),
        ({"logo": "nowhere.png"}, SourceError),
        ({"logo": "picture.svg"}, PlanError),
        ({"logo": "large.png"}, SourceError),
        ({"logo": 7}, PlanError),
    ],
)
def test_an_imprint_that_cannot_be_used_is_refused(tmp_path: Path, options: Any, error: type[Exception]) -> None:
    (tmp_path / "picture.svg").write_text("<svg onload='alert(1)'/>")
    (tmp_path / "large.png").write_bytes(PNG + bytes(MOST_LOGO))
    with pytest.raises(error) as refused:
        Imprint.of(options, tmp_path, SCHEMA)
    assert refused.value.fix  # type: ignore[attr-defined]


def test_a_record_keeps_its_digest_without_the_logo(published: Path, tmp_path: Path) -> None:
    shutil.copy(published / "out" / "pairs" / "release.json", tmp_path)
    alone = Release.load(tmp_path)
    assert alone.digest == Release.load(published / "out" / "pairs").digest and alone.imprint.logo is None


def test_reports_of_synthetic_rows_are_verified(tmp_path: Path) -> None:
    """Also the first rows, which the record does not hold, with numbers drawn anywhere in their bins."""
    schema = Schema(
        (
            Attribute("size", "real", edges=(0, 1, 5, 20), decode="uniform"),
            Attribute("kind", "categorical", values=("x", "y")),
        )
    )
    rows = pa.table({"size": [0.5, 3.0, 7.5, 12.0] * 20, "kind": ["x", "y"] * 40})
    book = tmp_path / "ledger.db"
    owner = Session(rows, schema, Budget(per_attribute=CDP(3)), book, new_ledger=True)
    mechanisms = [("synthesis", Synthesis(CDP(1))), ("mwem", MWEM(CDP(1), Conjunctions(1), rounds=1, rows=80))]
    owner.release_all(mechanisms, tmp_path / "out")
    owner.ledger.close()
    found = verify(tmp_path / "out", book)
    assert found.ok and any("says to the letter" in text for text in found.checked)


def test_the_imprint_of_a_guarantee_alone(tmp_path: Path) -> None:
    given = Certificate((Claim(Guarantee.touch(["a"], "a", Rho(0.1))),), imprint=Imprint(**TEXTS, logo=Logo(PNG)))
    again = Certificate.load(given.save(tmp_path / "certificate.json"))
    assert again.imprint == given.imprint and Logo(PNG).address in report(again)
    assert verify(tmp_path / "certificate.json").ok


# ---- verify ---------------------------------------------------------------------------------------------------------


def test_a_published_folder_is_verified_with_its_ledger(published: Path) -> None:
    for subject in (published / "out", published / "out" / "report.html", published / "out" / "pairs"):
        found = verify(subject, published / "ledger.db")
        assert found.ok and found.problems == (), found
        assert any("is in the chain, and bound" in text for text in found.checked)
    whole = verify(published / "out", published / "ledger.db")
    assert any("says to the letter" in text for text in whole.checked) and whole.open == ()
    assert "No ledger was given" in verify(published / "out").open[-1]
    code = release_code(Release.load(published / "out" / "pairs"))
    assert verify(code.lower(), published / "ledger.db").ok


def rewrite(path: Path, old: str, new: str) -> None:
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")


CHANGES: dict[str, Callable[[Path], object]] = {
    "values": lambda out: (out / "pairs" / "values.parquet").write_bytes(b"other"),
    "missing": lambda out: (out / "pairs" / "values.parquet").unlink(),
    "logo": lambda out: (out / "single" / "logo.png").write_bytes(PNG + b"x"),
    "record": lambda out: rewrite(out / "pairs" / "release.json", '"n": 400', '"n": 401'),
    "list": lambda out: [
        rewrite(out / "pairs" / "release.json", '"n": 400', '"n": 401'),
        (out / "digests.txt").unlink(),
    ],
    "page": lambda out: rewrite(out / "report.html", "97.7%", "57.7%"),
    "part": lambda out: [shutil.rmtree(out / "single"), (out / "report.html").unlink()],
    "no list": lambda out: (out / "digests.txt").unlink(),
    "line added to the list": lambda out: (out / "digests.txt").write_bytes((out / "digests.txt").read_bytes() + b"\n"),
    "entry in the list": lambda out: rewrite(out / "digests.txt", " 2 pairs", " 3 pairs"),
    "list cut off": lambda out: (out / "digests.txt").write_text(
        (out / "digests.txt").read_text().splitlines(keepends=True)[0]
    ),
    "part added": lambda out: [shutil.copytree(out / "pairs", out / "zz"), (out / "report.html").unlink()],
}


@pytest.mark.parametrize("change", CHANGES)
def test_what_was_changed_is_found(copy: Path, change: str) -> None:
    assert verify(copy / "out", copy / "ledger.db").ok
    CHANGES[change](copy / "out")
    found = verify(copy / "out", copy / "ledger.db")
    assert not found.ok and found.problems


@pytest.mark.parametrize("where", [0.0, 0.5, 1.0])
def test_any_changed_byte_is_found(copy: Path, where: float) -> None:
    for path in sorted(path for path in (copy / "out").rglob("*") if path.is_file()):
        content = path.read_bytes()
        changed = bytearray(content)
        changed[int(where * (len(content) - 1))] ^= 1
        path.write_bytes(changed)
        assert not verify(copy / "out").ok, path.name
        path.write_bytes(content)


def test_what_nobody_wrote_of_and_what_is_missing_is_named(copy: Path) -> None:
    (copy / "out" / "pairs" / "extra.csv").write_text("1")
    (copy / "out" / "report.html").unlink()
    found = verify(copy / "out", copy / "ledger.db")
    assert found.ok and found.open == (
        "No record names these files: 'pairs/extra.csv'.",
        "There is no report.html in the folder, so no certificate was checked.",
    )


def test_a_certificate_alone_is_looked_up_in_its_ledger(published: Path, tmp_path: Path) -> None:
    alone = Path(shutil.copy(published / "out" / "report.html", tmp_path))
    found = verify(alone, published / "ledger.db")
    assert found.ok and sum("is in the chain, and bound" in text for text in found.checked) == 2
    assert "its words and figures were not compared" in found.open[0]
    assert not verify(alone).ok, "nothing was checked"
    for code in ("NABLADP:2:A:2:B:C", "NABLADP:1", "NABLADP:1:A:-2:B:C"):
        with pytest.raises(ReleaseError, match="not the code of a release"):
            verify(code, published / "ledger.db")


def test_another_ledger_and_another_code_are_refused(published: Path, tmp_path: Path) -> None:
    session(tmp_path).ledger.close()
    assert "not of this one" in verify(published / "out", tmp_path / "ledger.db").problems[0]
    code = release_code(Release.load(published / "out" / "pairs"))
    for old, new in ((code[-1], "0" if code[-1] != "0" else "1"),):
        assert not verify(code[:-1] + new, published / "ledger.db").ok, old
    parts = code.split(":")
    assert not verify(":".join([*parts[:3], "99", *parts[4:]]), published / "ledger.db").ok
    with pytest.raises(ReleaseError, match="PDF"):
        (tmp_path / "x.pdf").write_bytes(b"%PDF")
        verify(tmp_path / "x.pdf")
    with pytest.raises(ReleaseError, match="needs their files"):
        verify("NABLADP:1:ALL:2:FF")
    with pytest.raises(ReleaseError):
        verify(tmp_path)


def test_a_report_in_another_language_or_with_a_title_is_verified(copy: Path) -> None:
    write(copy / "out", title="Another", language="de")
    found = verify(copy / "out", copy / "ledger.db")
    assert found.ok and any("says to the letter" in text for text in found.checked)
