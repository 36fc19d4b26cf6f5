"""The certificate: one printed page that says what was released, what it can tell at most, and how to check it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from nabladp import __version__
from nabladp.release.cost import shown
from nabladp.release.record import Release
from nabladp.report.phrases import chance, plural, power
from nabladp.report.words import Words

MOST_ROWS, MOST_PARTS = 20, 4  # what fits on the page; a part takes as much room as two rows of figures
MOST_ADVERSARIES = 6
MOST_SIGNS = 300  # of a note
MOST_NAMED = 4  # attributes beside the name of an adversary


def certificate(
    title: str,
    words: Words,
    told: Mapping[str, Any],
    limits: Sequence[Mapping[str, Any]] = (),
    releases: Sequence[Release] = (),
    fingerprint: str = "",
) -> dict[str, Any]:
    """Of releases that were booked, or of a guarantee alone, which has a fingerprint and notes instead."""
    notes = [(head, _cut(sentence)) for head, sentence in words.extra.items()][:MOST_PARTS]
    return {
        "title": title,
        "who": words.who(),
        "against": words.against(),
        "figures": _figures(told, limits, MOST_ROWS - 2 * min(len(releases) + len(notes), MOST_PARTS)),
        "not_protected": words.exclusions(),
        "delta": f"{power(words.delta)} ({chance(words.delta)})",
        "attributes": plural(len(told["attributes"]), "protected attribute"),
        "statement": words.person(),
        "notes": notes,
        "fingerprint": fingerprint,
        "version": __version__,
        **(_booked(releases) if releases else {"parts": []}),
    }


def _booked(releases: Sequence[Release]) -> dict[str, Any]:
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


def _figures(told: Mapping[str, Any], limits: Sequence[Mapping[str, Any]], rows: int) -> dict[str, Any]:
    """The costliest attributes, the named adversaries and the person; how many attributes are not shown."""
    allowed = {tuple(line["attributes"]): line for line in limits}

    def line(label: str, figure: Mapping[str, float | None], attributes: Sequence[str]) -> dict[str, Any]:
        limit = allowed.get(tuple(sorted(attributes)))
        return {
            "label": label,
            **{key: shown(figure[key]) for key in ("rho", "epsilon", "epsilon_paper", "pure_epsilon")},
            "attributes": list(attributes[:MOST_NAMED]),
            "more": max(0, len(attributes) - MOST_NAMED),
            "limit": f"{limit['measure']} {shown(limit['allowed'], up=False)}" if limit else "–",
        }

    ranked = sorted(told["attributes"].items(), key=lambda item: -_size(item[1]["rho"]))
    adversaries = told["adversaries"][:MOST_ADVERSARIES]
    room = rows - len(adversaries)
    return {
        "attributes": [line(name, figure, [name]) for name, figure in ranked[:room]],
        "hidden": max(0, len(ranked) - room),
        "adversaries": [line(a["name"], a, a["attributes"]) for a in adversaries],
        "hidden_adversaries": len(told["adversaries"]) - len(adversaries),
        "person": line("All protected attributes together", told["person"], list(told["attributes"])),
    }


def _cut(sentence: str) -> str:
    return sentence if len(sentence) <= MOST_SIGNS else f"{sentence[:MOST_SIGNS]} …"


def _size(rho: float | None) -> float:
    return float("inf") if rho is None else rho
