"""Kinds of input: the files that people and the library write: schemas, plans, releases, certificates."""

from __future__ import annotations

import json
import os
import random
import shutil
from pathlib import Path
from typing import Any

from bench._fuzz_kind import Kind
from bench._fuzz_privacy import SCHEMA, _every_shape, figures
from bench._fuzz_scene import PLAN, Scene
from bench._fuzz_values import deep_json, deep_toml, mutated, mutated_bytes, mutated_text, odd
from nabladp.privacy import Ledger
from nabladp.release import Plan, Release, recover
from nabladp.release.publish import check_published
from nabladp.report import Certificate, Claim, report
from nabladp.schema import Schema


def odd_path(rng: random.Random, folder: Path, name: str) -> Any:
    """A pipe, a device, a folder, a link to itself, or no path at all."""
    path, pick = folder / name, rng.randrange(8)
    if pick == 0:
        os.mkfifo(path)
    elif pick == 1:
        path.symlink_to(rng.choice(("/dev/zero", "/dev/stdin", "/dev/full", "/proc/self/mem", path)))
    elif pick == 2:
        path.mkdir()
    elif pick == 3:
        return rng.choice((Path("/dev/zero"), "/dev/zero", str(folder) + "\0", Path("a\0"), "\ud800", "x" * 5000))
    elif pick == 4:
        return odd(rng)
    elif pick == 5:
        path.touch()
        path.chmod(0)
    elif pick == 6:
        with path.open("wb") as file:
            file.truncate(1 << 36)  # holes: takes no disk
    return path


def _toml_input(rng: random.Random, right: str) -> bytes:
    """Half of them right texts with changes."""
    pick = rng.random()
    if pick < 0.5:
        return mutated_text(rng, right).encode("utf-8", "surrogatepass")
    if pick < 0.6:
        return mutated_bytes(rng, right.encode())
    if pick < 0.65:
        return rng.randbytes(rng.choice((0, 10, 1000)))
    if pick < 0.75:
        return deep_toml(rng).encode()
    if pick < 0.8:
        return right.encode() + b"\n" + deep_toml(rng).encode()
    return mutated_text(rng, mutated_text(rng, right)).encode("utf-8", "surrogatepass") * rng.choice((1, 1, 1, 2, 50))


def schema_file(rng: random.Random, scene: Scene) -> None:
    place = scene.place()
    path: Any = place / "schema.toml"
    if rng.random() < 0.1:
        path = odd_path(rng, place, "schema.toml")
    else:
        path.write_bytes(_toml_input(rng, SCHEMA.to_toml()))
    found = Schema.load(path)
    found.fingerprint()
    repr(found)


def plan_file(rng: random.Random, scene: Scene) -> None:
    path: Any = scene.folder / "changed.toml"
    if rng.random() < 0.05:
        path = odd_path(rng, scene.place(), "plan.toml")
    else:
        path.write_bytes(_toml_input(rng, PLAN))
    plan = Plan.load(path)
    repr(plan)
    if rng.random() < 0.3:
        plan.cost().to_json()


def plan_data(rng: random.Random, scene: Scene) -> None:
    import tomllib

    data: Any = tomllib.loads(PLAN)
    data = mutated(rng, data) if rng.random() < 0.7 else mutated(rng, mutated(rng, data))
    plan = Plan.of(data, scene.folder)
    repr(plan)
    if rng.random() < 0.3:
        plan.cost().to_json()


# ---- releases ------------------------------------------------------------------------------------------------------


def use_release(release: Release, rng: random.Random) -> None:
    repr(release)
    release.to_json()
    release._repr_html_()
    if rng.random() < 0.2:
        release.parquet  # noqa: B018
        release.extra  # noqa: B018


def release_record(rng: random.Random, scene: Scene) -> None:
    """A record that travels alone, without digests beside it."""
    name = rng.choice(list(scene.records))
    path: Any = scene.place() / "release.json"
    pick = rng.random()
    if pick < 0.75:
        changed: Any = mutated(rng, scene.records[name])
        path.write_text(json.dumps(changed, default=repr, skipkeys=True) if can_dump(changed) else deep_json(rng))
    elif pick < 0.85:
        path.write_bytes(mutated_bytes(rng, json.dumps(scene.records[name]).encode()))
    elif pick < 0.95:
        path.write_text(json.dumps(scene.records[name])[:-1] + ', "x": ' + deep_json(rng) + "}")
    else:
        path = odd_path(rng, scene.place(), "release.json")
    use_release(Release.load(path), rng)


def can_dump(value: Any) -> bool:
    try:
        json.dumps(value, default=repr, skipkeys=True)
    except (ValueError, TypeError, RecursionError, OverflowError):
        return False
    return True


def release_folder(rng: random.Random, scene: Scene) -> None:
    """A whole published folder in which one file was changed."""
    name = rng.choice(list(scene.records))
    place = scene.place() / "release"
    shutil.copytree(scene.folder / "releases" / name, place)
    victim = rng.choice(sorted(place.iterdir()))
    if rng.random() < 0.85:
        victim.write_bytes(mutated_bytes(rng, victim.read_bytes()))
    else:
        victim.unlink()
        odd_path(rng, place, victim.name)
    given = rng.choice((place, str(place), place / "release.json", victim))
    found = Release.load(given)
    use_release(found, rng)
    with Ledger.read(scene.folder / "ledger.db") as ledger:
        if rng.random() < 0.5:
            check_published(place, ledger)
        else:
            hidden = place.parent / ".release.pending-00ff"
            place.rename(hidden)
            recover(hidden, ledger)


def report_release(rng: random.Random, scene: Scene) -> None:
    """The page of a record that was changed."""
    path = scene.place() / "release.json"
    changed: Any = mutated(rng, scene.records[rng.choice(list(scene.records))])
    path.write_text(json.dumps(changed, default=repr, skipkeys=True) if can_dump(changed) else "{}")
    report(path)


# ---- certificates --------------------------------------------------------------------------------------------------


def certificate_file(rng: random.Random, scene: Scene) -> None:
    claim = Claim(_every_shape(), "one", 1e-6, attributes={"age": "years"}, adversaries={"a": ["age", "sick"]})
    right: Any = Certificate((claim,)).to_json() if rng.random() < 0.7 else _every_shape().to_json()
    path: Any = scene.place() / "certificate.json"
    pick = rng.random()
    if pick < 0.6:
        changed = mutated(rng, right)
        path.write_text(json.dumps(changed, default=repr, skipkeys=True) if can_dump(changed) else deep_json(rng))
    elif pick < 0.8:
        path.write_bytes(mutated_bytes(rng, json.dumps(right).encode()))
    elif pick < 0.9:
        path.write_text(deep_json(rng))
    else:
        path = odd_path(rng, scene.place(), "certificate.json")
    if rng.random() < 0.9:
        for found in Certificate.load(path).claims:
            figures(found.guarantee)
    else:
        report(path)


def _released(folder: Path) -> Scene:
    return Scene.build(folder, releases=True)


def _warm(scene: Scene) -> None:
    for name in scene.records:
        report(scene.folder / "releases" / name)


KINDS: tuple[Kind, ...] = (
    Kind("schema files", schema_file, 6000, 300, Scene.build),
    Kind("plan files", plan_file, 8000, 300, Scene.build),
    Kind("plans as data", plan_data, 8000, 300, Scene.build),
    Kind("release records", release_record, 20_000, 400, _released),
    Kind("release folders", release_folder, 4000, 150, _released),
    Kind("reports of releases", report_release, 3000, 100, _released, warm=_warm),
    Kind("certificates", certificate_file, 12_000, 300, Scene.build),
)
