"""A static site of one ledger or several: every release with its date and cost, all of them together, what is left."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from nabladp.displayed import Stage
from nabladp.errors import ReleaseError, quote_path
from nabladp.privacy import Guarantee, Ledger
from nabladp.privacy.ledger import Entry
from nabladp.release.cost import DELTA, figure
from nabladp.release.record import CSV, RECORD, Release
from nabladp.report import FILE, report
from nabladp.report.chapter import explorer
from nabladp.report.language import Language, language
from nabladp.report.rendering import VIEW_SCRIPTS, VIEW_STYLE, assemble

MARKER, REPORTS = "site.json", "reports"
SPENDING = ("reserve", "external")
WIDTH, HEIGHT = 960, 220  # of the timeline
LEFT, BOTTOM, MARGIN = 60, 26, 10  # beside and below its curve, and before its first point
APART, DAY = 14.0, 86_400.0  # points, at least; seconds


@dataclass(frozen=True)
class Booked:
    """A release as the ledger booked it. ``state`` is published, external, unfinished, failed or voided."""

    entry: Entry
    state: str
    digest: str | None

    @property
    def counts(self) -> bool:
        return self.state != "voided"


def write_site(
    ledgers: Sequence[str | Path],
    to: str | Path,
    releases: Sequence[str | Path] = (),
    *,
    title: str = "",
    delta: float = DELTA,
    spoken: str = "en",
    stage: Stage | None = None,
) -> Path:
    """Write the site of these ledgers into a folder, which must be new, empty or an older site. Reports are linked for
    the published folders given. Returns the first page."""
    t, goal = language(spoken), Path(os.path.abspath(to))
    _refuse_other(goal)
    if not ledgers:
        raise ReleaseError("There is no ledger to show.", fix="Give the path of one, such as ledger.db.")
    folders = _find_records(releases)
    goal.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{goal.name}-", dir=goal.parent) as draft, ExitStack() as open_books:
        folder = Path(draft)
        books = [open_books.enter_context(Ledger.read(where)) for where in ledgers]
        stated, names = (
            [],
            [title] if title and len(books) == 1 else [t("site.ledger", name=own) for own in _names(books)],
        )
        for number, book in enumerate(books):
            if stage is not None:
                stage("writing the site: ledger", number, len(books))
            name = "index.html" if len(books) == 1 else f"ledger-{number + 1}.html"
            stated.append(_write_ledger(book, folder, name, folders, names[number], delta, t))
        if len(books) > 1:
            context = {"title": title or t("site.ledgers"), "ledgers": stated, "delta": delta}
            _write(folder / "index.html", assemble("site_index.html.j2", context, {}, ("guarantee.js",), spoken=t))
        _write(folder / MARKER, json.dumps({"kind": "nabladp site", "ledgers": stated}, indent=1, ensure_ascii=False))
        _replace(goal, folder)
    return Path(to) / "index.html"


def _refuse_other(goal: Path) -> None:
    if goal.exists() and not (goal / MARKER).exists() and (not goal.is_dir() or any(goal.iterdir())):
        raise ReleaseError(
            f"{quote_path(goal)} exists and is not a site of ledgers.", fix="Choose another folder for --to."
        )


def _replace(goal: Path, folder: Path) -> None:
    """Put the new site where the older one is."""
    try:
        shutil.rmtree(goal, ignore_errors=True)
        shutil.copytree(folder, goal)
    except OSError:
        raise ReleaseError(f"Cannot write {goal.name!r}.", fix="Choose a folder that is writable.") from None


def _find_records(places: Sequence[str | Path]) -> dict[str, Path]:
    """The folder of every published record at or below these places, by the digest that a ledger binds."""
    found: dict[str, Path] = {}
    for place in map(Path, places):
        if not place.exists():
            raise ReleaseError(f"There is no folder {quote_path(place)}.", fix="Give folders of releases.")
        for record in sorted(place.rglob(RECORD)):
            with suppress(ReleaseError):  # not a release, or one that was changed: it gets no link
                found[Release.read(record).digest] = record.parent
    return found


def _names(books: Sequence[Ledger]) -> list[str]:
    """What tells ledgers apart: the names of their files; where these are the same, with their folders; or the ids."""
    paths = [Path(os.path.abspath(book.label)) for book in books]
    choices = [path.name for path in paths], [f"{path.parent.name}/{path.name}" for path in paths]
    return next((names for names in choices if len(set(names)) == len(names)), [book.id for book in books])


# ---- one ledger ------------------------------------------------------------------------------------------------------


def _write_ledger(
    book: Ledger, folder: Path, name: str, folders: dict[str, Path], title: str, delta: float, t: Language
) -> dict[str, Any]:
    mark = "" if name == "index.html" else f"{Path(name).stem}-"  # entries of several ledgers have the same numbers

    def link(booked: Booked) -> str | None:
        source = folders.get(booked.digest or "")
        return None if source is None else _add_report(source, f"{mark}entry-{booked.entry.seq}", folder, t)

    guarantee = book.guarantee()
    facts = ledger_facts(book, guarantee, delta, t, link)
    context = {**facts, "title": title, "several": name != "index.html"}
    blocks = {"guarantee": guarantee.to_json(), "explorer": explorer(guarantee, delta, [])}
    scripts = ("guarantee.js", *VIEW_SCRIPTS, "released.js", "explorer.js")
    page = assemble("site.html.j2", context, blocks, scripts, ("style.css", VIEW_STYLE), t)
    _write(folder / name, page)
    stated = {"title": title, "page": name, "ledger": book.id, "head": book.head.seq, "releases": facts["rows"]}
    return stated | {"rho": facts["rho"], "epsilon": facts["epsilon"], "cost": facts["whole"]}


def ledger_facts(
    book: Ledger, guarantee: Guarantee, delta: float, t: Language, link: Callable[[Booked], str | None]
) -> dict[str, Any]:
    """What a page about a ledger shows: every release, newest first, and where its report is; what is left; a timeline.
    ``guarantee`` is the ledger's own, of everything that counts."""
    booked = _booked_releases(book)
    whole = figure(guarantee, guarantee.per_person().attributes, delta)
    public = [name for name in guarantee.universe.roots if name in guarantee.universe.public]
    return {
        "stamp": "TEST — NOT PRIVATE" if book.test else None,
        "rows": [_row(one, delta, t) | {"report": link(one)} for one in reversed(booked)],
        "limits": [_limit(line.to_json(), t) for line in book.spent()],
        "whole": {key: t.cost(value) for key, value in whole.items()},
        "rho": whole["rho"],
        "epsilon": whole["epsilon"],
        "protected": len(guarantee.universe.protected),
        "apart": t("words.apart", names=t.names(public), count=len(public)) if public else "",
        "delta": delta,
        "timeline": _timeline(booked, t),
        "ledger": book.id,
        "head": book.head,
    }


def _booked_releases(book: Ledger) -> list[Booked]:
    """Every release of a ledger, in order, with what became of it."""
    entries = list(book.entries())
    ends = {entry.ref: entry for entry in entries if entry.ref is not None}
    found = []
    for entry in entries:
        if entry.kind in SPENDING:
            end = ends.get(entry.seq)
            if end is not None and end.kind == "failed":
                end = ends.get(end.seq, end)  # it may have been voided afterwards
            found.append(Booked(entry, _state(entry, end), None if end is None else end.digest))
    return found


def _state(entry: Entry, end: Entry | None) -> str:
    if end is None:
        return "external" if entry.kind == "external" else "unfinished"
    return {"bind": "published", "failed": "failed", "void": "voided"}[end.kind]


def _row(booked: Booked, delta: float, t: Language) -> dict[str, Any]:
    entry, cost = booked.entry, _cost(booked.entry, delta)
    return {
        "entry": entry.seq,
        "name": entry.name,
        "date": t.date(entry.time),
        "time": entry.time,
        "what": str(entry.details.get("mechanism") or entry.payload.get("who") or ""),
        "state": booked.state,
        "rho": t.cost(cost["rho"]),
        "epsilon": t.cost(cost["epsilon"]),
        "attributes": len(_spent_attributes(entry)),
        "digest": booked.digest,
    }


def _cost(entry: Entry, delta: float) -> dict[str, float | None]:
    spent = entry.guarantee
    return {"rho": 0.0, "epsilon": 0.0} if spent is None else figure(spent, spent.per_person().attributes, delta)


def _spent_attributes(entry: Entry) -> list[str]:
    """The protected attributes that a release spent anything on."""
    spent = entry.guarantee
    return [] if spent is None else [name for name in spent.universe.protected if spent.rho([name]) > 0]


def _add_report(source: Path, name: str, folder: Path, t: Language) -> str:
    """The report of a published release in the site: the one beside it, or a new one; with the values that it links."""
    goal = folder / REPORTS / name / FILE
    goal.parent.mkdir(parents=True)
    if (source / CSV).is_file():
        shutil.copyfile(source / CSV, goal.parent / CSV)
    own = source / FILE
    if own.is_file():
        shutil.copyfile(own, goal)
    else:
        _write(goal, report(source, language=t.code))
    return f"{REPORTS}/{name}/{goal.name}"


def _limit(line: dict[str, Any], t: Language) -> dict[str, Any]:
    spent, allowed = line["spent"], line["allowed"]
    share = 100.0 if spent is None else min(100.0, 100 * spent / allowed) if allowed else 100.0
    return {
        "name": line["limit"],
        "measure": line["measure"],
        "allowed": t.cost(allowed, up=False),
        "spent": t.cost(spent),
        "left": t.cost(line["left"], up=False),
        "exceeded": line["exceeded"],
        "share": round(share, 2),
    }


# ---- the timeline ----------------------------------------------------------------------------------------------------


def _timeline(booked: Sequence[Booked], t: Language) -> dict[str, Any] | None:
    """A curve of what all protected attributes together had cost after each release, as points of a picture."""
    spent = [(one.entry, one.entry.guarantee) for one in booked if one.counts]
    steps: list[tuple[float, float, Entry]] = []
    rho = 0.0
    for entry, cost in spent:
        if cost is not None:
            rho += cost.rho(cost.universe.protected)  # ρ of releases adds up
            steps.append((_seconds(entry.time), rho, entry))
    if not steps:
        return None
    finite = [rho for _, rho, _ in steps if rho < float("inf")]
    across = _places([when for when, _, _ in steps])
    top = max([*finite, 1e-12])
    points = []
    for x, (_, rho, entry) in zip(across, steps, strict=True):
        y = (HEIGHT - BOTTOM) - (HEIGHT - BOTTOM - 16) * min(rho / top, 1.0)
        points.append({"x": round(x, 1), "y": round(y, 1), "entry": entry.seq, "name": entry.name, "rho": t.cost(rho)})
    path = f"M{LEFT} {HEIGHT - BOTTOM}H{points[0]['x']}V{points[0]['y']}"
    path += "".join(f"H{point['x']}V{point['y']}" for point in points[1:]) + f"H{WIDTH}"
    ends = (t.date(steps[0][2].time), t.date(steps[-1][2].time))
    return {"points": points, "path": path, "top": t.cost(top), "first": ends[0], "last": ends[1]}


def _places(times: Sequence[float]) -> list[float]:
    """Where releases stand across the picture: by time, but never so close that one hides another; those of a day, or
    too many for that, one after another at equal distances."""
    first, span, wide = times[0], times[-1] - times[0], WIDTH - LEFT - 2 * MARGIN
    if span < DAY or (len(times) - 1) * APART > wide / 2:
        return [LEFT + MARGIN + wide * (i + 0.5) / len(times) for i in range(len(times))]
    room, found = wide - (len(times) - 1) * APART, []
    for i, when in enumerate(times):
        found.append(LEFT + MARGIN + room * (when - first) / span + i * APART)
    return found


def _seconds(time: str) -> float:
    return datetime.fromisoformat(time).timestamp()


def _write(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8", newline="\n")
