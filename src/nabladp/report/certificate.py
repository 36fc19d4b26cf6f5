"""The certificate as plain data: one page to read and sign, and annexes that leave nothing out."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

from nabladp import __version__
from nabladp.release.imprint import Imprint
from nabladp.release.record import Release
from nabladp.report.chapter import NO_LIMITS, Limits, Line
from nabladp.report.language import Language
from nabladp.report.sentences import Belief, Sentences

MOST_ADVERSARIES = 3  # on page one; all of them are in the annex


def certificate(
    title: str,
    words: Sentences,
    about: Mapping[str, Any],
    imprint: Imprint,
    limits: Limits = NO_LIMITS,
    releases: Sequence[Release] = (),
    fingerprint: str = "",
) -> dict[str, Any]:
    """The certificate of a chapter: of releases that were booked, or of a guarantee alone, which has a fingerprint
    instead."""
    adversaries = _adversaries(words, about["costs"], limits)
    shown = adversaries if len(adversaries) <= MOST_ADVERSARIES else []
    codes = [release_code(release) for release in releases] or [guarantee_code(fingerprint)]
    code = code_of_all(codes)
    small = [_row(own["belief"], own["costs"], (), words.t) for own in about["small"]]
    promises = _promises(words, about["costs"], limits, shown)
    certain = [row["certain"] for row in promises]
    annexes = ["attributes", *(["small"] if small else []), *(["adversaries"] if adversaries else []), "origin"]
    return {
        "certain": all(certain),
        "some_certain": any(certain),
        "title": title,
        "imprint": imprint,
        "issued": words.t.date(max(release.created for release in releases)) if releases else "",
        "code": code,
        "qr": qr_path(code),
        "promises": promises,
        "attributes": _attributes(words, about, limits),
        "small": small,
        "annex": {name: number for number, name in enumerate(annexes, 1)},
        "adversaries": adversaries,
        "elsewhere": len(adversaries) - len(shown),
        "fingerprint": fingerprint,
        "version": releases[0].versions.get("nabladp", "unknown") if releases else __version__,
        "limited": bool(releases),
        "parts": [_part(release, own) for release, own in zip(releases, codes, strict=False)],
        "ledger": ", ".join(sorted({str(release.ledger["ledger"]) for release in releases})),
        "schema": releases[0].schema.fingerprint() if releases else "",
    }


def _promises(
    words: Sentences, costs: Mapping[str, Any], limits: Limits, adversaries: Sequence[dict[str, Any]]
) -> list[dict[str, Any]]:
    """Page one's promises: the costliest attribute, few named adversaries, and all protected attributes together."""
    if not words.protected:
        return []
    rows: list[dict[str, Any]] = []
    if words.read:
        worst = max(words.read, key=words.guarantee.rho)
        rows.append(_row(words.attribute(worst), costs["attributes"][worst], limits.single.get(worst, ()), words.t))
        rows[-1]["costliest"] = True
    rows += [row for row in adversaries if not row["public"]]
    person = _row(words.person(), costs["person"], [limits.person] if limits.person else [], words.t)
    return [*rows, person | {"whole": True}]


def _attributes(words: Sentences, about: Mapping[str, Any], limits: Limits) -> list[dict[str, Any]]:
    """Annex: every attribute in order, with its own limits; what is public, and what is derived from it."""
    rows = []
    for row in about["attributes"]:
        name, facts = row["name"], {key: row[key] for key in ("name", "shown", "unit", "public", "derived")}
        if row["public"]:
            rows.append(facts)
        else:
            figure = about["costs"]["attributes"][name]
            rows.append(_row(words.attribute(name), figure, limits.single.get(name, ()), words.t) | facts)
    return rows


def _adversaries(words: Sentences, costs: Mapping[str, Any], limits: Limits) -> list[dict[str, Any]]:
    """Annex: every named adversary, with all its attributes, and limits on just these."""
    rows = []
    for body in costs["adversaries"]:
        name, chosen = body["name"], body["attributes"]
        facts = {"name": name, "attributes": chosen, "public": not words.is_protected(chosen)}
        if facts["public"]:
            rows.append(facts)
            continue
        wanted = words.guarantee.universe.sources(chosen)
        own = [line for line in limits.sets if words.guarantee.universe.sources(line["attributes"]) == wanted]
        own += limits.single.get(next(iter(wanted)), ()) if len(wanted) == 1 else ()
        rows.append(_row(words.adversary(name), body, own, words.t) | facts)
    return rows


def _row(belief: Belief, figure: Mapping[str, Any], lines: Sequence[Line], t: Language) -> dict[str, Any]:
    return {
        "name": "",
        "costliest": False,
        "whole": False,
        "about": belief.about,
        "percent": belief.percent,
        "certain": belief.certain,
        **{key: t.cost(figure[key]) for key in ("rho", "epsilon", "epsilon_paper", "pure_epsilon")},
        "pure": figure["pure_epsilon"] is not None,
        "limits": [f"{t.measure(line['measure'])} {t.cost(line['allowed'], up=False)}" for line in lines],
    }


def _part(release: Release, code: str) -> dict[str, Any]:
    return {
        "code": code,
        "qr": qr_path(code),
        "name": release.name.rpartition("/")[2],
        "mechanism": release.mechanism,
        "rows": release.n,
        "population": release.population,
        "created": release.created,
        "entry": release.ledger["entry"],
        "hash": release.ledger["hash"],
        "digest": release.digest,
        "files": dict(release.hashes),
    }


# ---- codes: what a certificate says of its hashes, as one line of text and as a QR code ------------------------------
# Capital letters, digits, ":" and "-" only: a QR code holds these in half the room.

MARK = "NABLADP:1"


def release_code(release: Release) -> str:
    """Which ledger entry booked a release, with its hash, and the SHA-256 of its record."""
    booked = release.ledger
    return f"{MARK}:{booked['ledger']}:{booked['entry']}:{booked['hash']}:{release.digest}".upper()


def guarantee_code(fingerprint: str) -> str:
    return f"{MARK}:GUARANTEE:{fingerprint}".upper()


def code_of_all(codes: Sequence[str]) -> str:
    """The code of page one: that of the only part, or the SHA-256 of the codes of all parts, a line each."""
    if len(codes) == 1:
        return codes[0]
    return f"{MARK}:ALL:{len(codes)}:{hashlib.sha256(chr(10).join(codes).encode()).hexdigest()}".upper()


def qr_path(text: str) -> tuple[int, str]:
    """A text as a QR code: how many modules it is wide, and a path of SVG that fills the dark ones."""
    import segno

    matrix = segno.make(text, error="m", micro=False).matrix
    runs = []
    for y, row in enumerate(matrix):
        x = 0
        for dark, modules in groupby(row):
            wide = len(list(modules))
            if dark:
                runs.append(f"M{x} {y}h{wide}v1h-{wide}z")
            x += wide
    return len(matrix), "".join(runs)
