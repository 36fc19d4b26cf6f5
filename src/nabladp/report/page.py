"""From releases, or guarantees alone, to what the page shows, as plain data."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from nabladp.displayed import Stage
from nabladp.errors import ReleaseError
from nabladp.privacy import Guarantee, Universe
from nabladp.release.cost import figure
from nabladp.release.record import Release
from nabladp.report.assembly import VIEW_SCRIPTS, VIEW_STYLE, assemble, packed
from nabladp.report.attributes import Limits, of_schema, shown_figure
from nabladp.report.certificate import certificate
from nabladp.report.chapter import blocks_of, chapter, set_rows
from nabladp.report.claims import Certificate
from nabladp.report.words import PRIOR, Words
from nabladp.views.view import format_figure

SCRIPTS = ("guarantee.js", *VIEW_SCRIPTS, "released.js", "explorer.js")
STYLES = ("style.css", VIEW_STYLE)
BLOCKS, VIEWS = 2_600_000, 1_200_000  # signs of base64: all data, and what all views may have of it (page below 3 MB)
MOST_PLAN = 6_000  # signs of a plan that are shown


def page(releases: Sequence[Release], title: str, stage: Stage) -> str:
    """One page for releases about the same people: their guarantees composed, each one's values.

    Parts may speak of different δ. The whole is told at the smallest: its figures there are largest, and hold for all.
    """
    checked(releases)
    deltas = sorted({release.delta for release in releases}, reverse=True)
    whole = Guarantee.compose(releases[0].schema, [release.guarantee for release in releases])
    lines = max(releases, key=lambda release: int(release.ledger["entry"])).limits
    limits = Limits.of(lines, whole.universe.protected)
    words = Words(
        whole,
        deltas[-1],
        [release.n for release in releases],
        max(release.rows_per_person for release in releases),
        {name: tuple(chosen) for release in releases for name, chosen in release.adversaries.items()},
        limits.person,
    )
    about = {"mark": "", "name": "", "note": "", "sets": [], **chapter(words, of_schema(releases[0].schema), limits)}
    about["certificate"] = certificate(title, words, about["told"], lines, releases)
    blocks = {name: packed(content) for name, content in blocks_of([about]).items()}
    context = {
        "stamp": next((release.stamp for release in releases if release.stamp), None),
        "chapters": [about],
        "deltas": deltas if len(deltas) > 1 else [],
        "parts": _parts(releases, blocks, stage),
        "schema_text": releases[0].schema.to_toml(),
    }
    return _assembled(title, context, blocks)


def claims_page(certified: Certificate, title: str) -> str:
    """One page for guarantees without releases, a chapter each."""
    chapters = []
    for number, claim in enumerate(certified.claims):
        words = Words(
            claim.guarantee,
            claim.delta,
            (),
            1,
            claim.adversaries,
            protects=claim.protects,
            extra=claim.not_covered,
            released=False,
        )
        head, sets = set_rows(claim.guarantee, claim.delta)
        about: dict[str, Any] = {"mark": f"-{number}" if number else "", "name": claim.name, "note": claim.note}
        about |= {"sets": sets, "sets_head": head}
        about |= chapter(words, {name: {"note": said} for name, said in claim.attributes.items()})
        named = f"{title}: {claim.name}" if claim.name and claim.name != title else title
        about["certificate"] = certificate(named, words, about["told"], fingerprint=claim.fingerprint)
        chapters.append(about)
    context = {"stamp": None, "chapters": chapters, "deltas": [], "parts": []}
    return _assembled(title, context, {**blocks_of(chapters), "record-0": certified.text})


def _assembled(title: str, context: Mapping[str, Any], blocks: Mapping[str, Any]) -> str:
    return assemble("page.html.j2", {"title": title, "prior": PRIOR, **context}, blocks, SCRIPTS, STYLES)


def checked(releases: Sequence[Release]) -> None:
    ours = Universe.of(releases[0].schema)
    if any(Universe.of(release.schema) != ours for release in releases):
        raise ReleaseError(
            "These releases are about different attributes, so their costs cannot be added up.",
            fix="Make a report for each.",
        )


def _parts(releases: Sequence[Release], blocks: dict[str, Any], stage: Stage) -> list[dict[str, Any]]:
    """What is told of each release. Adds the data behind it: its views and, while there is room, its record."""
    drawn = []
    for number, release in enumerate(releases):
        stage("writing the report: release", number, len(releases))
        drawn.append([view.to_json() for view in release.views()])
    drawn = fit(drawn)
    blocks |= {f"views-{number}": packed(views) for number, views in enumerate(drawn)}
    found = []
    for number, release in enumerate(releases):
        record = packed(release.text)
        embedded = len(record) + sum(map(len, blocks.values())) <= BLOCKS
        if embedded:
            blocks[f"record-{number}"] = record
        found.append(_part(number, release, embedded))
    return found


def _part(number: int, release: Release, embedded: bool) -> dict[str, Any]:
    return {
        "number": number,
        "name": release.name.rpartition("/")[2],
        "mechanism": release.mechanism,
        "created": release.created,
        "rows": release.n,
        "ledger": release.ledger,
        "digest": release.digest,
        "files": release.hashes,
        "versions": release.versions,
        "plan": _plan(release),
        "embedded": embedded,
        "size": len(release.text),
        "delta": release.delta,
        "person": shown_figure(figure(release.guarantee, release.guarantee.per_person().attributes, release.delta)),
        "summary": _summary(release.expected_error),
    }


def _plan(release: Release) -> str:
    """The parameters, an entry a line; of very long ones the beginning."""
    given = {"mechanism": release.mechanism, **release.parameters}
    lines = [f"{name} = {json.dumps(value, ensure_ascii=False)}" for name, value in given.items()]
    text = "\n".join(lines)
    return text if len(text) <= MOST_PLAN else f"{text[:MOST_PLAN]} … (all of it is in release.json)"


def _summary(error: Any) -> list[tuple[str, str]]:
    """A mechanism's own summary of its error, for people; lists of marginals say it beside each table."""
    summary = error.get("summary", {}) if isinstance(error, Mapping) else {}
    return [(str(label), format_figure(value)) for label, value in summary.items()]


def fit(drawn: Sequence[list[dict[str, Any]]], most: int = VIEWS) -> list[list[dict[str, Any]]]:
    """The views of all releases; the largest lose their rows until all fit (they are in the Parquet file)."""
    kept = [list(listed) for listed in drawn]
    while sum(len(packed(listed)) for listed in kept) > most:
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
