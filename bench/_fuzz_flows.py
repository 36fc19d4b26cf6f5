"""Kinds of input: whole flows. Sessions and plans on tables with faults, commands, audits, saved models."""

from __future__ import annotations

import contextlib
import io
import json
import os
import random
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

from bench._fuzz_files import odd_path
from bench._fuzz_kind import Call, Kind, calls
from bench._fuzz_privacy import SCHEMA
from bench._fuzz_scene import BUDGET, PLAN, Scene, bad_people, csv_text, people
from bench._fuzz_values import CANARIES, TEXTS, deep_json, mutated, mutated_bytes, mutated_text, odd
from nabladp import NoisyMarginals
from nabladp.audit import audit, exact_audit, statistical_audit
from nabladp.audit.statistical import check_options
from nabladp.noise import NoiseSource
from nabladp.privacy import CDP
from nabladp.release import Plan, Session
from nabladp.schema import Attribute, Schema

MOST_READ = 1 << 24
BITS = Schema((Attribute("a", "boolean"), Attribute("b", "boolean")))


class Leak(Exception):
    """A published file or a message shows a value of the data."""


def check_files(folder: Path) -> None:
    """No file that was written may hold a canary; the data lies elsewhere."""
    for path in folder.rglob("*"):
        if path.is_symlink() or not path.is_file() or path.stat().st_size > MOST_READ:
            continue
        if any(canary.encode() in path.read_bytes() for canary in CANARIES):
            raise Leak(path.name)


def session_call(rng: random.Random, scene: Scene) -> None:
    """Sessions made and used with wrong arguments."""
    place = scene.place()
    table = pa.table(people(20))
    given: dict[str, Any] = {
        "table": table,
        "schema": SCHEMA,
        "budget": BUDGET,
        "ledger": place / "ledger.db",
        "noise": NoiseSource.seeded(1),
        "delta": 1e-6,
        "adversaries": {"a": ["age", "sick"]},
        "rows": 20,
        "rows_per_person": 1,
        "new_ledger": True,
    }
    mechanism = NoisyMarginals(CDP(0.1), sets=(("age",), ("sick", "band")))
    if rng.random() < 0.6:
        name = rng.choice(list(given))
        given[name] = mutated(rng, given[name]) if rng.random() < 0.5 else odd(rng)
    session = Session(given.pop("table"), given.pop("schema"), **given)
    try:
        _use_session(rng, session, mechanism, place)
    finally:
        session.ledger.close()
    check_files(place)


def _use_session(rng: random.Random, session: Session, mechanism: Any, place: Path) -> None:
    repr(session)
    name = odd(rng) if rng.random() < 0.5 else rng.choice(("x", "../x", "digests.txt", "a/b", "", "é"))
    to = rng.choice((None, place / "out", odd(rng))) if rng.random() < 0.5 else place / "out"
    if isinstance(to, str) and not to.startswith(str(place)):
        to = None  # nothing is written elsewhere
    pick = rng.random()
    if pick < 0.25:
        session.cost(mechanism if rng.random() < 0.5 else odd(rng))
    elif pick < 0.5:
        session.release(odd(rng) if rng.random() < 0.5 else mechanism, name, None if not isinstance(to, Path) else to)
    elif pick < 0.75:
        named = [("x", mechanism), (name, mechanism)]
        session.release_all(mutated(rng, named) if rng.random() < 0.5 else named, place / "all")
    else:
        session.with_table(odd(rng) if rng.random() < 0.5 else pa.table(people(5)))


def plan_run(rng: random.Random, scene: Scene) -> None:
    """A right plan on a table that may have a fault; all that is written is looked through."""
    place = scene.place()
    _written(rng, place)
    plan = Plan.load(place / "plan.toml")
    try:
        plan.run(test_seed=1, new_ledger=True)
    finally:
        _without_data(place)


def _written(rng: random.Random, place: Path) -> None:
    (place / "data").mkdir()
    given = bad_people(rng) if rng.random() < 0.7 else people(60)
    text = csv_text(given)
    if rng.random() < 0.4:
        head, _, rest = text.partition("\n")
        text = f"{head}\n{mutated_text(rng, rest)}"
    (place / "data" / "people.csv").write_bytes(text.encode("utf-8", "surrogatepass"))
    SCHEMA.save(place / "schema.toml")
    plan = PLAN.replace("rows = 60\n", "") if rng.random() < 0.5 else PLAN
    plan = plan if rng.random() < 0.3 else plan.replace(_LEARNER, "")
    (place / "plan.toml").write_text(mutated_text(rng, plan) if rng.random() < 0.2 else plan)


_LEARNER = PLAN[PLAN.index('[[release]]\nmechanism = "HalfspaceLearner"') : PLAN.index("[[adversary]]")]


def _without_data(place: Path) -> None:
    for path in (place / "data").iterdir():
        path.unlink()
    check_files(place)


@contextlib.contextmanager
def _inside(folder: Path) -> Iterator[None]:
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


class Unexpected(Exception):
    """A command that said that something unexpected went wrong."""


def command(rng: random.Random, scene: Scene) -> None:
    """A command line on files that may be damaged; what it prints is listened to."""
    from nabladp.cli.app import run

    place = scene.place()
    _written(rng, place)
    arguments = _arguments(rng, place)
    said = io.StringIO()
    listening = contextlib.redirect_stdout(said), contextlib.redirect_stderr(said)
    with _inside(place), listening[0], listening[1], contextlib.suppress(SystemExit):
        run(arguments)
    text = said.getvalue()
    print(text)
    if '"Unexpected"' in text or "Something unexpected" in text or "The system refused" in text:
        raise Unexpected(f"{arguments[0]}: {' '.join(text.split())[:150]}")
    if arguments[0] != "init":  # which writes the names of columns
        _without_data(place)


def _arguments(rng: random.Random, place: Path) -> list[str]:
    made: list[list[str]] = [
        ["check", "data/people.csv", "--schema", "schema.toml"],
        ["cost", "plan.toml", "--set", "age+sick", "--worst", "2", "--prior", "0.5"],
        ["release", "plan.toml", "--test-seed", "1", "--new-ledger"],
        ["release", "plan.toml", "--test-seed", "1", "--to", "out"],
        ["ledger", "create", "plan.toml"],
        ["ledger", "show", "ledger.db"],
        ["ledger", "verify", "ledger.db"],
        ["report", "out"],
        ["init", "data/people.csv", "--schema", "draft.toml"],
        ["compare", "out", "data/people.csv"],
    ]
    arguments = rng.choice(made) + (["--json"] if rng.random() < 0.5 else [])
    for _ in range(rng.choice((0, 1, 1, 2))):
        where = rng.randrange(1, len(arguments))
        odd_text = rng.choice([text for text in TEXTS if len(text) < 1000])
        arguments[where] = mutated_text(rng, arguments[where]) if rng.random() < 0.5 else odd_text
    if rng.random() < 0.1:
        name = rng.choice(("plan.toml", "schema.toml"))
        (place / name).unlink()
        odd_path(rng, place, name)
    return [text.replace("\0", "") for text in arguments]


def audits() -> list[Call]:
    """How long an audit may take is for the caller to say, so that alone stays as it is."""
    mechanism = NoisyMarginals(CDP(1), k=1)
    exactly, sampled = partial(exact_audit, seconds=0.5), partial(statistical_audit, seconds=0.02, runs=32)
    both = partial(audit, seconds=0.5, statistical=False)
    return [
        Call(exactly, (mechanism, BITS, 1), {"guarantee": mechanism.guarantee(BITS, 1)}, (repr,)),
        Call(sampled, (mechanism, BITS), {"sets": ["a"], "rows": 2, "beta": 0.01}, (repr,)),
        Call(both, (mechanism, BITS), {"sets": [("a", "b")], "beta": 0.01}, (repr,)),
        Call(check_options, (0.01, 1000, 40.0)),
    ]


# ---- saved models --------------------------------------------------------------------------------------------------


def prepare_models(folder: Path) -> tuple[Scene, dict[str, Any]]:
    from nabladp import Synthesis

    scene = Scene.build(folder)
    session = Session(
        pa.table(people(60)), SCHEMA, BUDGET, folder / "ledger.db", noise=NoiseSource.seeded(1), new_ledger=True
    )
    output: Any = session.release(Synthesis(CDP(1.0), workload=2, rounds=1)).output
    output.save(folder / "model.json")
    session.ledger.close()
    return scene, json.loads((folder / "model.json").read_text())


def saved_model(rng: random.Random, prepared: tuple[Scene, dict[str, Any]]) -> None:
    from nabladp.mechanisms.synthesis.output import SyntheticModel

    scene, right = prepared
    path: Any = scene.place() / "model.json"
    pick = rng.random()
    if pick < 0.6:
        try:
            path.write_text(json.dumps(mutated(rng, right), default=repr, skipkeys=True))
        except (ValueError, RecursionError, OverflowError, TypeError):
            path.write_text(deep_json(rng))
    elif pick < 0.9:
        path.write_bytes(mutated_bytes(rng, json.dumps(right).encode()))
    else:
        path = odd_path(rng, scene.place(), "model.json")
    model = SyntheticModel.load(path)
    repr(model)
    model.to_json()


KINDS: tuple[Kind, ...] = (
    Kind("sessions", session_call, 3000, 100, Scene.build),
    Kind("plans run", plan_run, 2200, 60, Scene.build),
    Kind("command lines", command, 2200, 60, Scene.build),
    Kind("saved models", saved_model, 3000, 100, prepare_models),
    calls("audits", audits, 3000, 100),
)
