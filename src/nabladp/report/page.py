"""From releases, or guarantees alone, to what the page shows, as plain data."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from nabladp import __version__
from nabladp.displayed import Stage
from nabladp.errors import ReleaseError
from nabladp.privacy import Guarantee, Universe
from nabladp.release.cost import figure
from nabladp.release.record import CSV, Release
from nabladp.release.verdict import budget_lines
from nabladp.report.certificate import certificate, release_code
from nabladp.report.chapter import Limits, blocks_of, chapter, format_costs, of_schema, set_rows
from nabladp.report.claims import Certificate
from nabladp.report.language import Language, language
from nabladp.report.rendering import VIEW_SCRIPTS, VIEW_STYLE, assemble, pack
from nabladp.report.sentences import PRIOR, Sentences
from nabladp.report.view_texts import ViewTexts
from nabladp.views.condense import condense
from nabladp.views.view import format_figure

SCRIPTS = ("guarantee.js", *VIEW_SCRIPTS, "released.js", "explorer.js")
STYLES = ("style.css", VIEW_STYLE)
BLOCKS, VIEWS = 2_600_000, 1_200_000  # base64 characters: all data, and what all views may have of it (page below 3 MB)
MOST_PACKED = 10  # times: a record shrinks less than that
MOST_PLAN = 6_000  # characters of a plan that are shown


def page(releases: Sequence[Release], title: str, stage: Stage, spoken: str | None = None) -> str:
    """The report page's data for releases about the same people: their guarantees composed, each one's values.

    Parts may have different δ. The whole is stated at the smallest: its figures there are largest, and hold for all.
    """
    check_releases(releases)
    t = language(spoken or releases[0].imprint.language)
    deltas = sorted({release.delta for release in releases}, reverse=True)
    guarantee = Guarantee.compose(releases[0].schema, [release.guarantee for release in releases])
    lines = max(releases, key=lambda release: int(release.ledger["entry"])).limits
    limits = Limits.of(lines, guarantee.universe.protected)
    words = Sentences(
        guarantee,
        deltas[-1],
        [release.n for release in releases],
        max(release.rows_per_person for release in releases),
        {name: tuple(chosen) for release in releases for name, chosen in release.adversaries.items()},
        limits.person,
        titles=releases[0].schema.titles,
        spoken=t,
        bounded=all(release.person.id is not None for release in releases),
    )
    about = {"mark": "", "name": "", "note": "", "sets": [], **chapter(words, of_schema(releases[0].schema), limits)}
    about["certificate"] = certificate(title, words, about, releases[0].imprint, limits, releases)
    blocks: dict[str, Any] = {name: pack(content) for name, content in blocks_of([about]).items()}
    context = {
        "stamp": next((release.stamp for release in releases if release.stamp), None),
        "chapters": [about],
        "deltas": deltas if len(deltas) > 1 else [],
        "parts": _parts(releases, blocks, stage, t),
        "schema_text": releases[0].schema.to_toml(),
    }
    blocks["certificate"] = _codes(about["certificate"], releases, title, t)
    return _assemble(title, context, blocks, t)


def _codes(certified: Mapping[str, Any], releases: Sequence[Release], title: str, t: Language) -> dict[str, Any]:
    """What `nabladp verify` reads from a page: the certificate's codes, and how to write the same page again."""
    codes = [release_code(release) for release in releases]
    return {"codes": codes, "code": certified["code"], "version": __version__, "title": title, "language": t.code}


def claims_page(certified: Certificate, title: str, spoken: str | None = None) -> str:
    """The report page's data for guarantees without releases, a chapter each."""
    t = language(spoken or certified.imprint.language)
    chapters = []
    for number, claim in enumerate(certified.claims):
        words = Sentences(
            claim.guarantee,
            claim.delta,
            (),
            1,
            claim.adversaries,
            protects=claim.protects,
            extra=claim.not_covered,
            released=False,
            spoken=t,
        )
        head, sets = set_rows(claim.guarantee, claim.delta, t)
        about: dict[str, Any] = {"mark": f"-{number}" if number else "", "name": claim.name, "note": claim.note}
        about |= {"sets": sets, "sets_head": head}
        about |= chapter(words, {name: {"note": note} for name, note in claim.attributes.items()})
        named = f"{title}: {claim.name}" if claim.name and claim.name != title else title
        about["certificate"] = certificate(named, words, about, certified.imprint, fingerprint=claim.fingerprint)
        chapters.append(about)
    context = {"stamp": None, "chapters": chapters, "deltas": [], "parts": []}
    return _assemble(title, context, {**blocks_of(chapters), "record-0": certified.text}, t)


def _assemble(title: str, context: Mapping[str, Any], blocks: Mapping[str, Any], t: Language) -> str:
    return assemble("page.html.j2", {"title": title, "prior": PRIOR, **context}, blocks, SCRIPTS, STYLES, t)


def check_releases(releases: Sequence[Release]) -> None:
    ours = Universe.of(releases[0].schema)
    if any(Universe.of(release.schema) != ours for release in releases):
        raise ReleaseError(
            "These releases are about different attributes, so their costs cannot be added up.",
            fix="Make a report for each.",
        )


def _parts(releases: Sequence[Release], blocks: dict[str, Any], stage: Stage, t: Language) -> list[dict[str, Any]]:
    """The page's part on each release. Adds the data behind it: its views and, while there is room, its record."""
    views_of = []
    texts = ViewTexts.of_schema(t, releases[0].schema)
    for number, release in enumerate(releases):
        stage("writing the report: release", number, len(releases))
        views_of.append([texts.view(condense(view).to_json()) for view in release.views()])
    views_of = fit(views_of)
    blocks |= _maps(releases, views_of)
    blocks |= {f"views-{number}": pack(views) for number, views in enumerate(views_of)}
    parts = []
    for number, release in enumerate(releases):
        room = BLOCKS - sum(map(len, blocks.values()))
        record = pack(release.text) if len(release.text) <= MOST_PACKED * room else None
        embedded = record is not None and len(record) <= room
        if record is not None and embedded:
            blocks[f"record-{number}"] = record
        parts.append(
            _part(number, release, embedded, t)
            | {"csv": _csv(release, len(releases))}
            | {"explanation": texts(release.explanation()), "summary": _summary(release.expected_error, texts)}
        )
    return parts


def _maps(releases: Sequence[Release], views_of: Sequence[Sequence[dict[str, Any]]]) -> dict[str, Any]:
    """The page's shapes of attributes, once for all views; columns of views that list values of these name them."""
    found: dict[str, Any] = {}
    for release, listed in zip(releases, views_of, strict=True):
        maps = release.imprint.shapes.maps if release.imprint.shapes else {}
        known = {word: release.schema[name] for name in maps for word in (name, release.schema[name].heading)}
        for column in (view["columns"][number] for view in listed for number in view["names"]):
            if column["name"] in known:
                attribute = known[column["name"]]
                column["shapes"] = attribute.name
                found[attribute.name] = maps[attribute.name].drawn(attribute)
    return {"shapes": pack(found)} if found else {}


def _part(number: int, release: Release, embedded: bool, t: Language) -> dict[str, Any]:
    person = figure(release.guarantee, release.guarantee.per_person().attributes, release.delta)
    return {
        "number": number,
        "name": release.name.rpartition("/")[2],
        "mechanism": release.mechanism,
        "created": release.created,
        "rows": release.n,
        "population": release.population,
        "ledger": release.ledger,
        "digest": release.digest,
        "files": release.hashes,
        "versions": release.versions,
        "plan": _plan(release, t),
        "embedded": embedded,
        "size": len(release.text),
        "delta": release.delta,
        "person": format_costs(person, t),
    }


def _csv(release: Release, parts: int) -> str:
    """Where all values of a part lie beside the page; nothing where the page may lie in the part's folder or above."""
    plan, _, name = release.name.rpartition("/")
    if CSV not in release.hashes or (plan and parts == 1):
        return ""
    return f"{name}/{CSV}" if parts > 1 else CSV


def _plan(release: Release, t: Language) -> str:
    """A release's parameters on the page, one entry per line, and its budgets in every measure; of very long ones the
    beginning."""
    given = {"mechanism": release.mechanism, **release.parameters}
    lines = [f"{name} = {json.dumps(value, ensure_ascii=False)}" for name, value in given.items()]
    text = "\n".join([*lines, *(f"# {line}" for line in budget_lines(release.parameters, release.delta))])
    return text if len(text) <= MOST_PLAN else f"{text[:MOST_PLAN]} … ({t('page.plan_cut')})"


def _summary(error: Any, texts: ViewTexts) -> list[tuple[str, str]]:
    """A mechanism's own summary of its error on the page; lists of marginals say it beside each table."""
    summary = error.get("summary", {}) if isinstance(error, Mapping) else {}
    return [(texts(str(label)), texts(format_figure(value))) for label, value in summary.items()]


def fit(views: Sequence[list[dict[str, Any]]], most: int = VIEWS) -> list[list[dict[str, Any]]]:
    """The views of all releases on a page; the largest lose their rows until all fit (they are in the Parquet file)."""
    kept = [list(listed) for listed in views]
    while sum(len(pack(listed)) for listed in kept) > most:
        sizes = [(len(view.get("rows", ())), i, j) for i, listed in enumerate(kept) for j, view in enumerate(listed)]
        sizes.sort(reverse=True)
        if not sizes or sizes[0][0] == 0:
            break
        half = sum(rows for rows, _, _ in sizes) / 2
        for rows, i, j in sizes:
            if half <= 0 or rows == 0:
                break
            kept[i][j] = {**kept[i][j], "rows": [], "left_out": rows}
            half -= rows
    return kept
