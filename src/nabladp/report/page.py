"""From releases, or guarantees alone, to what the page shows, as plain data."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from nabladp import __version__
from nabladp.displayed import Stage
from nabladp.errors import ReleaseError
from nabladp.privacy import Guarantee, Universe
from nabladp.release.cost import figure, format_cost
from nabladp.release.record import Release
from nabladp.report.chapter import Limits, blocks_of, chapter, format_costs, of_schema, set_rows
from nabladp.report.claims import Certificate
from nabladp.report.rendering import VIEW_SCRIPTS, VIEW_STYLE, assemble, pack
from nabladp.report.sentences import PRIOR, Sentences, one_in, power_of_ten
from nabladp.views.view import count_of, format_figure

SCRIPTS = ("guarantee.js", *VIEW_SCRIPTS, "released.js", "explorer.js")
STYLES = ("style.css", VIEW_STYLE)
BLOCKS, VIEWS = 2_600_000, 1_200_000  # base64 characters: all data, and what all views may have of it (page below 3 MB)
MOST_PLAN = 6_000  # characters of a plan that are shown
MOST_ROWS, MOST_PARTS = 20, 4  # what fits on the page; a part takes as much room as two rows of figures
MOST_ADVERSARIES = 6
MOST_SIGNS = 300  # of a note
MOST_NAMED = 4  # attributes beside the name of an adversary


def page(releases: Sequence[Release], title: str, stage: Stage) -> str:
    """The report page's data for releases about the same people: their guarantees composed, each one's values.

    Parts may have different δ. The whole is stated at the smallest: its figures there are largest, and hold for all.
    """
    check_releases(releases)
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
    )
    about = {"mark": "", "name": "", "note": "", "sets": [], **chapter(words, of_schema(releases[0].schema), limits)}
    about["certificate"] = certificate(title, words, about["costs"], lines, releases)
    blocks = {name: pack(content) for name, content in blocks_of([about]).items()}
    context = {
        "stamp": next((release.stamp for release in releases if release.stamp), None),
        "chapters": [about],
        "deltas": deltas if len(deltas) > 1 else [],
        "parts": _parts(releases, blocks, stage),
        "schema_text": releases[0].schema.to_toml(),
    }
    return _assemble(title, context, blocks)


def claims_page(certified: Certificate, title: str) -> str:
    """The report page's data for guarantees without releases, a chapter each."""
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
        )
        head, sets = set_rows(claim.guarantee, claim.delta)
        about: dict[str, Any] = {"mark": f"-{number}" if number else "", "name": claim.name, "note": claim.note}
        about |= {"sets": sets, "sets_head": head}
        about |= chapter(words, {name: {"note": note} for name, note in claim.attributes.items()})
        named = f"{title}: {claim.name}" if claim.name and claim.name != title else title
        about["certificate"] = certificate(named, words, about["costs"], fingerprint=claim.fingerprint)
        chapters.append(about)
    context = {"stamp": None, "chapters": chapters, "deltas": [], "parts": []}
    return _assemble(title, context, {**blocks_of(chapters), "record-0": certified.text})


def _assemble(title: str, context: Mapping[str, Any], blocks: Mapping[str, Any]) -> str:
    return assemble("page.html.j2", {"title": title, "prior": PRIOR, **context}, blocks, SCRIPTS, STYLES)


def check_releases(releases: Sequence[Release]) -> None:
    ours = Universe.of(releases[0].schema)
    if any(Universe.of(release.schema) != ours for release in releases):
        raise ReleaseError(
            "These releases are about different attributes, so their costs cannot be added up.",
            fix="Make a report for each.",
        )


def _parts(releases: Sequence[Release], blocks: dict[str, Any], stage: Stage) -> list[dict[str, Any]]:
    """The page's part on each release. Adds the data behind it: its views and, while there is room, its record."""
    views_of = []
    for number, release in enumerate(releases):
        stage("writing the report: release", number, len(releases))
        views_of.append([view.to_json() for view in release.views()])
    views_of = fit(views_of)
    blocks |= {f"views-{number}": pack(views) for number, views in enumerate(views_of)}
    parts = []
    for number, release in enumerate(releases):
        record = pack(release.text)
        embedded = len(record) + sum(map(len, blocks.values())) <= BLOCKS
        if embedded:
            blocks[f"record-{number}"] = record
        parts.append(_part(number, release, embedded))
    return parts


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
        "person": format_costs(figure(release.guarantee, release.guarantee.per_person().attributes, release.delta)),
        "summary": _summary(release.expected_error),
    }


def _plan(release: Release) -> str:
    """A release's parameters on the page, one entry per line; of very long ones the beginning."""
    given = {"mechanism": release.mechanism, **release.parameters}
    lines = [f"{name} = {json.dumps(value, ensure_ascii=False)}" for name, value in given.items()]
    text = "\n".join(lines)
    return text if len(text) <= MOST_PLAN else f"{text[:MOST_PLAN]} … (all of it is in release.json)"


def _summary(error: Any) -> list[tuple[str, str]]:
    """A mechanism's own summary of its error on the page; lists of marginals say it beside each table."""
    summary = error.get("summary", {}) if isinstance(error, Mapping) else {}
    return [(str(label), format_figure(value)) for label, value in summary.items()]


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


# ---- the certificate: one printed page ------------------------------------------------------------------------------


def certificate(
    title: str,
    words: Sentences,
    costs: Mapping[str, Any],
    limits: Sequence[Mapping[str, Any]] = (),
    releases: Sequence[Release] = (),
    fingerprint: str = "",
) -> dict[str, Any]:
    """The page's one-page certificate, of releases that were booked, or of a guarantee alone, which has a fingerprint
    and notes instead."""
    notes = [(head, _shorten(sentence)) for head, sentence in words.extra.items()][:MOST_PARTS]
    return {
        "title": title,
        "who": words.who(),
        "against": words.against(),
        "figures": _figures(costs, limits, MOST_ROWS - 2 * min(len(releases) + len(notes), MOST_PARTS)),
        "not_protected": words.exclusions(),
        "delta": f"{power_of_ten(words.delta)} ({one_in(words.delta)})",
        "attributes": count_of(len(costs["attributes"]), "protected attribute"),
        "statement": words.person(),
        "notes": notes,
        "fingerprint": fingerprint,
        "version": __version__,
        **(_ledger_facts(releases) if releases else {"parts": []}),
    }


def _ledger_facts(releases: Sequence[Release]) -> dict[str, Any]:
    return {
        "parts": [
            {
                "name": release.name.rpartition("/")[2],
                "mechanism": release.mechanism,
                "rows": release.n,
                "created": release.created,
                "entry": release.ledger["entry"],
                "hash": release.ledger["hash"],
                "digest": release.digest,
            }
            for release in releases[:MOST_PARTS]
        ],
        "more_parts": max(0, len(releases) - MOST_PARTS),
        "ledger": ", ".join(sorted({str(release.ledger["ledger"]) for release in releases})),
        "schema": releases[0].schema.fingerprint(),
        "version": releases[0].versions.get("nabladp", "unknown"),
    }


def _figures(costs: Mapping[str, Any], limits: Sequence[Mapping[str, Any]], rows: int) -> dict[str, Any]:
    """The certificate's figures: costliest attributes, named adversaries and the person; and how many attributes are
    not shown."""
    allowed = {tuple(line["attributes"]): line for line in limits}

    def line(label: str, figure: Mapping[str, float | None], attributes: Sequence[str]) -> dict[str, Any]:
        limit = allowed.get(tuple(sorted(attributes)))
        return {
            "label": label,
            **{key: format_cost(figure[key]) for key in ("rho", "epsilon", "epsilon_paper", "pure_epsilon")},
            "attributes": list(attributes[:MOST_NAMED]),
            "more": max(0, len(attributes) - MOST_NAMED),
            "limit": f"{limit['measure']} {format_cost(limit['allowed'], up=False)}" if limit else "–",
        }

    ranked = sorted(costs["attributes"].items(), key=lambda item: -_size(item[1]["rho"]))
    adversaries = costs["adversaries"][:MOST_ADVERSARIES]
    room = rows - len(adversaries)
    return {
        "attributes": [line(name, figure, [name]) for name, figure in ranked[:room]],
        "hidden": max(0, len(ranked) - room),
        "adversaries": [line(a["name"], a, a["attributes"]) for a in adversaries],
        "hidden_adversaries": len(costs["adversaries"]) - len(adversaries),
        "person": line("All protected attributes together", costs["person"], list(costs["attributes"])),
    }


def _shorten(sentence: str) -> str:
    return sentence if len(sentence) <= MOST_SIGNS else f"{sentence[:MOST_SIGNS]} …"


def _size(rho: float | None) -> float:
    return float("inf") if rho is None else rho
