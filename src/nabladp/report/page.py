"""From releases to what the page shows, as plain data."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from nabladp.errors import ReleaseError
from nabladp.privacy import Guarantee, Universe
from nabladp.privacy.worst import worst_subset
from nabladp.release.cost import figure, figures, finite, shown
from nabladp.release.record import Release
from nabladp.report import views as released
from nabladp.report.assembly import assemble, packed
from nabladp.report.attributes import Limits, attribute_rows, limit_bar
from nabladp.report.certificate import certificate
from nabladp.report.words import PRIOR, Words

SCRIPTS = ("guarantee.js", *released.SCRIPTS, "released.js", "explorer.js")
STYLES = ("style.css", released.STYLE)
COSTLIEST = 10  # the explorer marks the costliest 1 … 10 attributes
MOST_LOOKS = 20_000_000  # terms times subsets looked at for each, about a second; beyond it the search may miss
BLOCKS, VIEWS = 2_600_000, 1_200_000  # signs of base64: all data, and what all views may have of it (page below 3 MB)
MOST_PLAN = 6_000  # signs of a plan that are shown


def page(releases: Sequence[Release], title: str) -> str:
    """One page for releases about the same people: their guarantees composed, each one's values."""
    checked(releases)
    whole = Guarantee.compose(releases[0].schema, [release.guarantee for release in releases])
    delta = releases[0].delta
    adversaries = {name: tuple(chosen) for release in releases for name, chosen in release.adversaries.items()}
    lines = max(releases, key=lambda release: int(release.ledger["entry"])).limits
    limits = Limits.of(lines, whole.universe.protected)
    told = figures(whole, adversaries, delta)
    words = Words(
        whole,
        delta,
        [release.n for release in releases],
        max(release.rows_per_person for release in releases),
        adversaries,
        limits.person,
    )
    explorer = {"delta": delta, "prior": PRIOR, "adversaries": told["adversaries"], "costliest": costliest(whole)}
    blocks: dict[str, Any] = {"guarantee": packed(whole.to_json()), "explorer": packed(explorer)}
    parts = _parts(releases, blocks)
    context = {
        "title": title,
        "stamp": next((release.stamp for release in releases if release.stamp), None),
        "delta": delta,
        "prior": PRIOR,
        "words": words,
        "person": _shown_figure(told["person"]),
        "attributes": attribute_rows(releases[0].schema, whole, told, limits),
        "person_limit": limit_bar(whole, limits.person) if limits.person else None,
        "set_limits": [limit_bar(whole, line) for line in limits.sets],
        "pure": told["person"]["pure_epsilon"] is not None,
        "some_pure": any(f["rho"] and f["pure_epsilon"] is not None for f in told["attributes"].values()),
        "parts": parts,
        "certificate": certificate(releases, title, words, told, lines),
        "schema_text": releases[0].schema.to_toml(),
    }
    return assemble("page.html.j2", context, blocks, SCRIPTS, STYLES)


def checked(releases: Sequence[Release]) -> None:
    ours = Universe.of(releases[0].schema)
    if any(Universe.of(release.schema) != ours for release in releases):
        raise ReleaseError(
            "These releases are about different attributes, so their costs cannot be added up.",
            fix="Make a report for each.",
        )


def costliest(guarantee: Guarantee) -> list[dict[str, Any]]:
    """The costliest 1, 2, … protected attributes, each with whether that is certain."""
    sizes = range(1, min(COSTLIEST, len(guarantee.universe.protected)) + 1)
    looks = min(20_000, MOST_LOOKS // (len(guarantee.terms) + 1))
    found = [worst_subset(guarantee, size, looks) for size in sizes]
    return [
        {
            "attributes": list(worst.attributes),
            "rho": finite(worst.rho),
            "at_most": finite(worst.at_most),
            "exact": worst.exact,
        }
        for worst in found
    ]


def _parts(releases: Sequence[Release], blocks: dict[str, Any]) -> list[dict[str, Any]]:
    """What is told of each release. Adds the data behind it: its views and, while there is room, its record."""
    drawn = fit([released.views(release) for release in releases])
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
        "person": _shown_figure(figure(release.guarantee, release.guarantee.per_person().attributes, release.delta)),
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
    return [(str(label), _worded(value)) for label, value in summary.items()]


def _worded(value: Any) -> str:
    if value is None:
        return "no bound"
    if isinstance(value, bool | str):
        return str(value)
    return f"{value:,}" if isinstance(value, int) else f"{value:.4g}"


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


def _shown_figure(figure: Mapping[str, float | None]) -> dict[str, str]:
    return {name: shown(value) for name, value in figure.items()}
