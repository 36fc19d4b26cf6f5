"""Maps: shapes from the publisher's own GeoJSON: checked, made small, kept beside the record, drawn by the report."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from report_pages import PURE, SCHEMA, session

from nabladp.errors import NablaDPError, PlanError
from nabladp.release import Release, shapes
from nabladp.release.imprint import Imprint
from nabladp.release.shapes import SIDE, Map, Shape, Shapes
from nabladp.report import verify, write
from nabladp.schema import Attribute

REGION = Attribute("region", "categorical", values=("north", "south", "east"), labels={"east": "The <East>"})


def ring(west: float, south: float, side: float = 1.0) -> list[list[float]]:
    return [[west, south], [west + side, south], [west + side, south + side], [west, south + side], [west, south]]


def feature(name: Any, *rings: Any, kind: str = "Polygon") -> dict[str, Any]:
    return {"type": "Feature", "properties": {"name": name}, "geometry": {"type": kind, "coordinates": list(rings)}}


def collection(*features: Any) -> dict[str, Any]:
    return {"type": "FeatureCollection", "features": list(features)}


COUNTRY = collection(
    feature("north", ring(0, 1)),
    feature("south", [ring(0, 0), ring(0.4, 0.4, 0.2)], kind="MultiPolygon"),  # with a hole
    feature("The <East>", ring(1, 0)),
    feature("elsewhere", ring(5, 5)),
    feature(None, ring(6, 6)),
)


def points(path: str) -> list[list[list[float]]]:
    return [[[float(n) for n in p.split()] for p in part[:-1].split("L")] for part in path.split("M")[1:]]


def test_shapes_lie_as_on_the_globe_with_north_above() -> None:
    found = Map.of_geojson(COUNTRY, "name", REGION)
    assert list(found.shapes) == ["north", "south", "east"] and max(found.width, found.height) == SIDE
    north, south, east = (points(shape.path) for shape in found.shapes.values())
    assert max(y for _, y in north[0]) <= min(y for _, y in south[0]), "north is above"
    assert max(x for x, _ in south[0]) <= min(x for x, _ in east[0]) and len(south) == 2, "a hole is a ring"
    wide, tall = np.ptp(np.array(north[0]), axis=0)
    assert wide / tall == pytest.approx(math.cos(math.radians(1)), rel=0.01), "as wide as its middle latitude"
    drawn = found.drawn(REGION)
    assert list(drawn["paths"]) == ["north", "south", "The <East>"] and Map.from_json(found.to_json()) == found
    _, x, y, room = drawn["paths"]["north"]
    assert room > 0.9 * wide and abs(x - wide / 2) < 5 and 0 < y < tall


def test_a_country_across_the_180th_meridian_stays_together() -> None:
    given = collection(feature("north", ring(178, 0)), feature("south", ring(-180, 0)), feature("east", ring(-179, 0)))
    found = Map.of_geojson(given, "name", REGION)
    left = [min(x for x, _ in points(shape.path)[0]) for shape in found.shapes.values()]
    assert found.width == SIDE and left == sorted(left)


def test_outlines_lose_points_and_no_more() -> None:
    """A circle of many points keeps its form to a unit or so; one that is invisibly small stays a mark."""
    turn = np.linspace(0, 2 * math.pi, 20_001)
    circle = np.column_stack([np.cos(turn), np.sin(turn)]).tolist()
    given = collection(feature("north", circle), feature("south", ring(0.5, 0.5, 1e-9)))
    found = Map.of_geojson(given, "name", REGION)
    (kept,) = points(found.shapes["north"].path)
    assert 20 < len(kept) < 400
    radius = np.hypot(*(np.array(kept) - SIDE / 2).T)
    assert np.abs(radius - SIDE / 2).max() < 2.5
    assert len(points(found.shapes["south"].path)[0]) == 4


REFUSED: dict[str, tuple[Any, str]] = {
    "no JSON": ("{", "is not JSON"),
    "no collection": (feature("north", ring(0, 0)), "not a GeoJSON FeatureCollection"),
    "no properties": (collection({"type": "Feature"}), "Feature 1 of .* has no properties"),
    "points": (collection(feature("north", [0, 1], kind="Point")), "is a 'Point', not a Polygon"),
    "no numbers": (collection(feature("north", [["a", "b"]] * 4)), "coordinates of feature 1"),
    "too few": (collection(feature("north", [[0, 0], [1, 1], [0, 0]])), "coordinates of feature 1"),
    "not finite": ('{"type":"FeatureCollection","features":[{"properties":{"name":"north"},"geometry":'
                   '{"type":"Polygon","coordinates":[[[0,0],[1,0],[1,1e999],[0,0]]]}}]}', "coordinates of feature 1"),
    "metres": (collection(feature("north", ring(4e6, 3e6))), "does not hold longitudes and latitudes"),
    "other key": (collection(feature("nowhere", ring(0, 0))), "No feature .* has a value of 'region'"),
    "too deep": ("[" * 100_000, "is not JSON"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_other_files_are_refused_with_what_to_do(tmp_path: Path, name: str) -> None:
    given, words = REFUSED[name]
    (tmp_path / "map.json").write_text(given if isinstance(given, str) else json.dumps(given))
    with pytest.raises(PlanError, match=words) as refused:
        Map.load(tmp_path / "map.json", "name", REGION)
    assert refused.value.fix


@pytest.mark.parametrize(
    "given",
    ["map.json", {}, {"region": "map.json"}, {"region": {"file": "map.json"}}, {"region": {"file": "x", "key": 1}},
     {"nowhere": {"file": "map.json", "key": "name"}}, {"region": {"file": "gone.json", "key": "name"}}],
)  # fmt: skip
def test_plans_that_name_shapes_badly_are_refused(tmp_path: Path, given: Any) -> None:
    with pytest.raises(NablaDPError) as refused:
        Imprint.of({"shapes": given}, tmp_path, SCHEMA)
    assert refused.value.fix


def test_too_detailed_shapes_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """One attribute's, or those of several together."""
    monkeypatch.setattr(shapes, "MOST_KEPT", 5_000)
    jagged = collection(feature("north", np.random.default_rng(1).uniform(0, 50, (1_000, 2)).tolist()))
    with pytest.raises(PlanError, match="of The map are too detailed"):
        Map.of_geojson(jagged, "name", REGION)
    large = Map(1, 1, {"north": Shape("M" + "L".join(["1 2"] * 8_000) + "Z", 0, 0, 0)})
    with pytest.raises(PlanError, match="together are too detailed"):
        Shapes({"region": large, "other": large})


def test_a_report_draws_the_map_and_verifies(tmp_path: Path, open_page: Any) -> None:
    """From a file to a published folder, its page and back; a shape that was changed is found."""
    (tmp_path / "regions.json").write_text(json.dumps(COUNTRY).replace("The <East>", "east"))
    imprint = Imprint.of({"shapes": {"region": {"file": "regions.json", "key": "name"}}}, tmp_path, SCHEMA)
    made = session(tmp_path, imprint=imprint)
    made.release_all([("single", PURE)], tmp_path / "out")
    made.ledger.close()
    write(tmp_path / "out")
    release = Release.read(tmp_path / "out" / "single")
    assert release.imprint == imprint and "shapes.json" in release.hashes
    assert verify(tmp_path / "out").ok
    watched = open_page(tmp_path / "out" / "report.html")
    assert watched.page.locator("#released .chart-shape").count() == 3
    shape = watched.page.locator("#released .chart-shape").nth(1)
    shape.scroll_into_view_if_needed()
    shape.hover(position={"x": 20, "y": 20})
    value, low, high = (round(own) for own in release.output["region"]["south"])
    told = f"south: {value} ({low} to {high})"
    assert watched.page.locator("#released .chart-readout").first.text_content() == told
    assert watched.is_quiet()
    kept = tmp_path / "out" / "single" / "shapes.json"
    kept.write_bytes(kept.read_bytes().replace(b'"width":', b'"width":1', 1))
    assert not verify(tmp_path / "out").ok
