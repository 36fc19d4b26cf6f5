"""Reading a stored record: what it must hold before anything is made of it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from nabladp.checks import is_number, is_share, is_whole
from nabladp.errors import ReleaseError
from nabladp.person import Person
from nabladp.privacy import Guarantee
from nabladp.privacy.guarantee import MOST_ROWS
from nabladp.schema import Schema

MOST_PEOPLE = 1 << 53
_DIGEST = re.compile(r"[0-9a-f]{64}")
_ERROR_NUMBERS = ("scale", "mean_absolute", "standard_deviation")


def check_record(data: Any) -> None:
    """Check a release's record: everything but the schema, the guarantee and the values, which their own classes
    read."""
    _need(isinstance(data, Mapping), "the record")
    _need(isinstance(data.get("files"), Mapping), "files")
    _need(all(isinstance(digest, str) and _DIGEST.fullmatch(digest) for digest in data["files"].values()), "files")
    for key in ("name", "mechanism", "created"):
        _need(isinstance(data.get(key), str) and 0 < len(data[key]) < 1000, key)
    _need(_is_time(data["created"]), "created")
    _need("stamp" in data and (data["stamp"] is None or isinstance(data["stamp"], str)), "stamp")
    _need(is_whole(data.get("n"), 1, MOST_PEOPLE), "n")
    _need(is_whole(data.get("rows_per_person"), 1, MOST_ROWS), "rows_per_person")
    _check_person(data)
    for key in ("parameters", "values", "figures", "ledger", "versions"):
        _need(isinstance(data.get(key), Mapping), key)
    _need(_all_texts(data["versions"]), "versions")
    _need(is_share(data["figures"].get("delta")), "delta")
    _check_population(data.get("population"))
    _check_ledger(data["ledger"])
    _check_limits(data.get("limits", []))
    report = data.get("report", {})
    _need(isinstance(report, Mapping) and _all_texts(report), "report")
    _check_error(data.get("expected_error"))


def _check_person(data: Mapping[str, Any]) -> None:
    """A record names the column of people where it bounds their rows; otherwise their number is a promise."""
    if "person" in data:
        _need(isinstance(data["person"], Mapping) and data["person"].get("rows") == data["rows_per_person"], "person")
        _need(Person.from_json(data["person"]).id is not None, "person")


def read_person(data: Mapping[str, Any]) -> Person:
    return Person.from_json(data["person"]) if "person" in data else Person(rows=data["rows_per_person"])


def read_adversaries(data: Mapping[str, Any], guarantee: Guarantee) -> dict[str, tuple[str, ...]]:
    """A record's named adversaries: sets of attributes that the guarantee speaks of."""
    listed = data["figures"].get("adversaries")
    _need(isinstance(listed, list) and all(isinstance(body, Mapping) for body in listed), "adversaries")
    adversaries = {}
    for body in listed:
        name, chosen = body.get("name"), body.get("attributes")
        _need(isinstance(name, str) and isinstance(chosen, list) and len(chosen) > 0, "adversaries")
        guarantee.universe.sources(chosen)  # refuses what is no attribute
        adversaries[name] = tuple(chosen)
    return adversaries


def check_same_attributes(schema: Schema, guarantee: Guarantee) -> None:
    universe = guarantee.universe
    same = (universe.roots, dict(universe.derived), universe.public) == (
        tuple(schema.roots),
        dict(schema.derived),
        schema.public,
    )
    _need(same, "guarantee")


def _check_population(given: Any) -> None:
    if given is not None:
        _need(isinstance(given, Mapping) and _all_texts(given) and given.keys() <= {"sentence", "query"}, "population")
        _need("sentence" in given, "population")


def _check_ledger(booked: Mapping[str, Any]) -> None:
    for key in ("ledger", "name", "hash"):
        _need(isinstance(booked.get(key), str), "ledger")
    _need(is_whole(booked.get("entry"), 1, MOST_PEOPLE), "ledger")


def _check_limits(limits: Any) -> None:
    _need(isinstance(limits, list), "limits")
    for line in limits:
        _need(isinstance(line, Mapping), "limits")
        _need(isinstance(line.get("limit"), str) and line.get("measure") in ("ρ", "pure ε"), "limits")
        _need(_are_texts(line.get("attributes")) and isinstance(line.get("value"), Mapping), "limits")
        _need(is_number(line.get("allowed")) and is_number(line.get("left")), "limits")
        _need("spent" in line and (line["spent"] is None or is_number(line["spent"])), "limits")
        _need(isinstance(line.get("exceeded"), bool), "limits")


def _check_error(error: Any) -> None:
    """Check a record's expected error: a list of the errors of marginals, or an object that sums itself up in words."""
    if isinstance(error, list):
        for part in error:
            _need(isinstance(part, Mapping) and _are_texts(part.get("attributes")), "expected_error")
            _need(is_whole(part.get("cells"), 1) and is_whole(part.get("half_width"), 0), "expected_error")
            _need(all(is_number(part[name]) for name in _ERROR_NUMBERS if name in part), "expected_error")
            _need("scale" in part and "mean_absolute" in part, "expected_error")
        return
    _need(isinstance(error, Mapping) and isinstance(error.get("summary", {}), Mapping), "expected_error")
    for value in error.get("summary", {}).values():
        _need(value is None or isinstance(value, (bool, str)) or is_number(value), "expected_error")


def _is_time(text: str) -> bool:
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return False
    return True


def _all_texts(mapping: Mapping[Any, Any]) -> bool:
    return all(isinstance(key, str) and isinstance(value, str) for key, value in mapping.items())


def _are_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(part, str) for part in value)


def _need(condition: object, field: str) -> None:
    if not condition:
        raise ReleaseError(
            f"This is not a release record: {field!r} is missing or not what nabladp writes.",
            fix="Give a folder written by nabladp, or fetch it again.",
            field=field,
        )
