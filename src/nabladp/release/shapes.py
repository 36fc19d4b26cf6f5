"""Shapes: where on a map the values of an attribute lie, read from a GeoJSON file and made small enough for a report.

The file is public and given by the publisher. A plan names it under ``[report.shapes]``; what is drawn of it is kept as
``shapes.json`` beside the release's record, which holds its hash.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from nabladp.arrays import Floats
from nabladp.checks import as_path, read_file
from nabladp.errors import PlanError, SourceError, quote, quote_path
from nabladp.schema import Attribute, Schema

MOST_FILE = 10 << 20  # bytes of a GeoJSON file
MOST_KEPT = 400_000  # bytes of what is kept of all maps
SIDE = 1500  # units of the longer side of a map
_STEPS = (1.0, 2.5, 6.0)  # units by which an outline may be simplified
_STRETCH = 256  # points of an outline that are simplified at a time: more would take too long where few can go
_PATH = re.compile(r"(?:M-?\d+ -?\d+(?:L-?\d+ -?\d+)+Z)+")
FILE = "shapes.json"
_EXAMPLE = 'Write region = { file = "regions.geojson", key = "code" } under [report.shapes].'
_CONVERT = "Convert it: ogr2ogr -t_srs EPSG:4326 -lco RFC7946=YES regions.geojson INPUT."
_SIMPLIFY = f"Simplify the outlines: about {MOST_KEPT:,} bytes fit. E.g. ogr2ogr -simplify 0.01 SIMPLE.geojson INPUT."
Ring = Floats  # points by longitude and latitude, later by x and y


@dataclass(frozen=True)
class Shape:
    """An outline as an SVG path in whole units, and the middle of the widest line inside it, where a text has room."""

    path: str
    x: int
    y: int
    room: int

    def to_json(self) -> list[Any]:
        return [self.path, self.x, self.y, self.room]

    @classmethod
    def from_json(cls, data: Any) -> Shape:
        path, *numbers = data
        if not isinstance(path, str) or not _PATH.fullmatch(path) or len(numbers) != 3:
            raise ValueError
        return cls(path, *(_whole(number) for number in numbers))


@dataclass(frozen=True)
class Map:
    """The shapes of an attribute's values, by the values' texts."""

    width: int
    height: int
    shapes: Mapping[str, Shape]

    @classmethod
    def load(cls, path: str | Path, key: str, attribute: Attribute) -> Map:
        """The map of an attribute from a GeoJSON file: the property ``key`` of a feature is a value or its label."""
        where = as_path(path, "The file of shapes")
        named = quote_path(where)
        try:
            text = read_file(where, f"The file of shapes {named}", MOST_FILE)
        except SourceError:
            raise
        except OSError:
            raise SourceError(f"There is no readable file of shapes {named}.", fix="Give a GeoJSON file.") from None
        try:
            data = json.loads(text)
        except (ValueError, RecursionError):
            raise PlanError(f"{named} is not JSON.", fix=f"Give a GeoJSON file. {_CONVERT}") from None
        return cls.of_geojson(data, key, attribute, named)

    @classmethod
    def of_geojson(cls, data: Any, key: str, attribute: Attribute, named: str = "The map") -> Map:
        found = _rings_by_value(data, key, attribute, named)
        flat = _flatten(found)
        points = np.concatenate([ring for rings in flat.values() for ring in rings])
        low, high = points.min(axis=0), points.max(axis=0)
        scale = SIDE / max(float((high - low).max()), 1e-12)
        placed = {text: [(ring - low) * scale for ring in rings] for text, rings in flat.items()}
        width, height = (max(1, math.ceil(float(side))) for side in (high - low) * scale)
        for step in _STEPS:
            shapes = _simplify(placed, step)
            if shapes is not None:
                return cls(width, height, shapes)
        raise PlanError(f"The shapes of {named} are too detailed for a report.", fix=_SIMPLIFY)

    def to_json(self) -> dict[str, Any]:
        shapes = {text: shape.to_json() for text, shape in self.shapes.items()}
        return {"width": self.width, "height": self.height, "shapes": shapes}

    @classmethod
    def from_json(cls, data: Any) -> Map:
        shapes = {str(text): Shape.from_json(shape) for text, shape in data["shapes"].items()}
        return cls(_whole(data["width"]), _whole(data["height"]), shapes)

    def drawn(self, attribute: Attribute) -> dict[str, Any]:
        """What a page needs: the shapes by the labels of values."""
        codes = {text: attribute.code(text) for text in self.shapes}
        paths = {attribute.label(code): self.shapes[text].to_json() for text, code in codes.items() if code is not None}
        return {"width": self.width, "height": self.height, "paths": paths}


@dataclass(frozen=True)
class Shapes:
    """The maps of some attributes, by their names."""

    maps: Mapping[str, Map]

    def __post_init__(self) -> None:
        if len(self.content) > MOST_KEPT + 50_000:
            raise PlanError("The shapes together are too detailed for a report.", fix=_SIMPLIFY)

    @classmethod
    def load(cls, given: Any, schema: Schema, folder: Path = Path()) -> Shapes:
        """Shapes as a plan names them: for each attribute a file and the property of its features that is the value."""
        if not isinstance(given, Mapping) or not given:
            raise PlanError("'shapes' in [report] names no attribute with its file.", fix=_EXAMPLE)
        maps = {}
        for name, options in given.items():
            if not isinstance(options, Mapping) or set(options) != {"file", "key"}:
                raise PlanError(f"The shapes of {quote(name)} need 'file' and 'key'.", fix=_EXAMPLE)
            if not isinstance(options["key"], str):
                raise PlanError(f"The 'key' of the shapes of {quote(name)} is not text.", fix=_EXAMPLE)
            path = folder / as_path(options["file"], "The file of shapes")
            maps[name] = Map.load(path, options["key"], schema[name])
        return cls(maps)

    @cached_property
    def content(self) -> bytes:
        """The file that is kept beside a record."""
        body = {name: own.to_json() for name, own in self.maps.items()}
        return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()

    @classmethod
    def of_content(cls, content: bytes) -> Shapes:
        return cls({str(name): Map.from_json(own) for name, own in json.loads(content).items()})

    @classmethod
    def of_folder(cls, folder: Path) -> Shapes:
        return cls.of_content(read_file(folder / FILE, "The shapes", MOST_KEPT + 50_000))


def _whole(number: Any) -> int:
    if not isinstance(number, int) or isinstance(number, bool) or not -2 * SIDE <= number <= 2 * SIDE:
        raise ValueError
    return number


# ---- reading GeoJSON -------------------------------------------------------------------------------------------------


def _rings_by_value(data: Any, key: str, attribute: Attribute, named: str) -> dict[str, list[Ring]]:
    """The rings of each value's polygons, in longitude and latitude."""
    features = data.get("features") if isinstance(data, Mapping) else None
    if not isinstance(features, list) or data.get("type") != "FeatureCollection":
        raise PlanError(f"{named} is not a GeoJSON FeatureCollection.", fix=f"Give a GeoJSON file. {_CONVERT}")
    found: dict[str, list[Ring]] = {}
    known = set[str]()
    for number, feature in enumerate(features, 1):
        properties = feature.get("properties") if isinstance(feature, Mapping) else None
        if not isinstance(properties, Mapping):
            raise PlanError(f"Feature {number} of {named} has no properties.", fix=f"Give each the property {key!r}.")
        known |= {str(name) for name in properties}
        code = attribute.code(properties[key]) if properties.get(key) is not None else None
        if code is None or code >= attribute.ordered_size:
            continue
        text = attribute.text(code)
        found.setdefault(text, []).extend(_rings(feature.get("geometry"), number, named))
    if not any(found.values()):
        names = ", ".join(sorted(map(quote, known))[:8]) or "none"
        raise PlanError(
            f"No feature of {named} has a value of {attribute.name!r} as its property {quote(key)}.",
            fix=f"Name the property that holds it; the features have {names}.",
        )
    return {text: rings for text, rings in found.items() if rings}


def _rings(geometry: Any, number: int, named: str) -> Iterator[Ring]:
    kind = geometry.get("type") if isinstance(geometry, Mapping) else None
    if geometry is None:
        return
    if kind not in ("Polygon", "MultiPolygon"):
        raise PlanError(
            f"Feature {number} of {named} is a {quote(kind)}, not a Polygon or MultiPolygon.",
            fix="Give areas; points and lines have no shape.",
        )
    polygons = [geometry["coordinates"]] if kind == "Polygon" else geometry.get("coordinates")
    fix = f"Repair it, e.g. with ogr2ogr -makevalid. {_CONVERT}"
    damaged = PlanError(f"The coordinates of feature {number} of {named} are not a polygon's.", fix=fix)
    try:
        rings = [np.array([point[:2] for point in ring], dtype=np.float64) for rings in polygons for ring in rings]
    except (TypeError, ValueError, LookupError):
        raise damaged from None
    for ring in rings:
        if ring.ndim != 2 or ring.shape[1] != 2 or len(ring) < 4 or not np.isfinite(ring).all():
            raise damaged
        if np.abs(ring).max(axis=0)[0] > 360 or np.abs(ring[:, 1]).max() > 90:
            raise PlanError(f"{named} does not hold longitudes and latitudes.", fix=_CONVERT)
        yield ring


def _flatten(found: Mapping[str, Sequence[Ring]]) -> dict[str, list[Ring]]:
    """Rings on a plane, y downwards: longitudes shrink with the cosine of the middle latitude, and are cut where the
    widest stretch without any lies, so that what crosses the 180th meridian stays together."""
    points = np.concatenate([ring for rings in found.values() for ring in rings])
    longitudes = np.unique(points[:, 0] % 360)
    gaps = np.diff(longitudes, append=longitudes[0] + 360)
    start = longitudes[(int(gaps.argmax()) + 1) % len(longitudes)]
    middle = math.radians((float(points[:, 1].min()) + float(points[:, 1].max())) / 2)
    shrink = max(math.cos(middle), 0.05)
    return {
        text: [np.column_stack([((ring[:, 0] % 360 - start) % 360) * shrink, -ring[:, 1]]) for ring in rings]
        for text, rings in found.items()
    }


# ---- fewer points ----------------------------------------------------------------------------------------------------


def _simplify(placed: Mapping[str, Sequence[Ring]], step: float) -> dict[str, Shape] | None:
    """All shapes with outlines that are right to ``step``; None where they take too much."""
    shapes, size = {}, 0
    for text, rings in placed.items():
        shapes[text] = _shape(rings, step)
        size += len(shapes[text].path)
        if size > MOST_KEPT:
            return None
    return shapes


def _shape(rings: Sequence[Ring], step: float) -> Shape:
    thinned = [_thin(ring, step) for ring in rings]
    kept = [ring for ring in thinned if len(ring) > 2] or [_dot(rings)]
    path = "".join("M" + "L".join(f"{x} {y}" for x, y in ring.tolist()) + "Z" for ring in kept)
    return Shape(path, *_widest(kept))


def _dot(rings: Sequence[Ring]) -> Any:
    """A shape too small to be seen, as a small square."""
    x, y = np.rint(rings[0][0]).astype(np.int64).tolist()
    return np.array([[x, y], [x + 4, y], [x + 4, y + 4], [x, y + 4]])


def _thin(ring: Ring, step: float) -> Any:
    """A ring in whole units, without points closer than ``step`` to the line between those that stay."""
    units = np.rint(ring).astype(np.int64)
    different = np.any(units != np.roll(units, 1, axis=0), axis=1)
    units = units[different]
    if len(units) < 4:
        return units
    far = int(np.abs(units - units[0]).sum(axis=1).argmax())
    keep = np.zeros(len(units) + 1, dtype=bool)
    closed = np.vstack([units, units[:1]])
    ends = sorted({0, far, len(units), *range(0, len(units), _STRETCH)})
    keep[ends] = True
    spans = list(pairwise(ends))
    while spans:
        first, last = spans.pop()
        if last - first < 2:
            continue
        start, along = closed[first].astype(float), (closed[last] - closed[first]).astype(float)
        apart = closed[first + 1 : last] - start
        share = np.clip(apart @ along / max(float(along @ along), 1e-9), 0, 1)
        gaps = np.hypot(*(apart - share[:, None] * along).T)
        if float(gaps.max()) > step:
            worst = first + 1 + int(gaps.argmax())
            keep[worst] = True
            spans += [(first, worst), (worst, last)]
    return units[keep[:-1]]


def _widest(rings: Sequence[Any]) -> tuple[int, int, int]:
    """The middle of the widest stretch inside the rings along one of some horizontal lines, and how wide it is."""
    ends = np.concatenate([np.hstack([ring, np.roll(ring, -1, axis=0)]) for ring in rings]).astype(float)
    low, high = ends[:, [1, 3]].min(), ends[:, [1, 3]].max()
    best = (0.0, float(ends[0, 0]), float(low))
    for share in (0.5, 0.4, 0.6, 0.3, 0.7, 0.2, 0.8):
        y = low + share * (high - low) + 0.01
        x1, y1, x2, y2 = ends.T
        crossing = (y1 <= y) != (y2 <= y)
        places = np.sort((x1 + (y - y1) / np.where(crossing, y2 - y1, 1) * (x2 - x1))[crossing])
        for left, right in zip(places[::2].tolist(), places[1::2].tolist(), strict=False):
            if right - left > 1.25 * best[0]:
                best = (right - left, (left + right) / 2, y)
    width, x, y = best
    return round(x), round(y), int(width)
