"""A hospital publishes tables and a risk score from 8,000 made-up stays: ``python examples/hospital.py``.

A patient may have up to two stays, diagnosis is protected more than the rest, and the score is tried on new people.
"""

from __future__ import annotations

import math
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa

from nabladp import CDP, Attribute, Budget, HalfspaceLearner, NoisyMarginals, Rho, Schema, Session

WARDS, DIAGNOSES = ("surgery", "medicine", "cardiology"), ("injury", "infection", "heart", "cancer")
STAYS = 8_000
SCHEMA = Schema(
    (
        Attribute("ward", "categorical", values=WARDS),
        Attribute("age", "integer", low=0, high=109),
        Attribute("diagnosis", "categorical", values=DIAGNOSES, unknown="other"),
        Attribute("smoker", "boolean", null="category"),
        Attribute("days", "integer", low=1, high=60, unknown="clamp"),
        Attribute("returned", "boolean", note="within 30 days"),
    )
)
FEATURES = ("ward", "age", "smoker", "days")


def stays(count: int, seed: int) -> pa.Table:
    draw = np.random.default_rng(seed)
    age, days = draw.integers(0, 100, count), 1 + draw.poisson(5, count)
    smokes, asked = draw.random(count) < 0.3, draw.random(count) < 0.9
    risk = 0.04 * (age - 60) + 0.25 * (days - 6) + 1.2 * smokes + draw.normal(0, 1, count)
    return pa.table(
        {
            "ward": np.array(WARDS)[draw.integers(0, 3, count)],
            "age": age,
            "diagnosis": np.array((*DIAGNOSES, "rare"))[draw.integers(0, 5, count)],
            "smoker": pa.array(smokes, mask=~asked),
            "days": days,
            "returned": risk > 0,
        }
    )


def shown(cost: float) -> str:
    """Rounded up: a promise must not look stronger than it is."""
    return f"{math.ceil(100 * cost) / 100:.2f}"


def main() -> None:
    budget = Budget(
        per_attribute=CDP(2.0), attributes={"diagnosis": CDP(0.5)}, sets={"diagnosis+smoker": Rho(2.1)}, person=Rho(6.0)
    )
    tables = NoisyMarginals(
        CDP(0.4), sets=[("ward", "diagnosis"), ("diagnosis", "returned")], budgets={"diagnosis": CDP(0.2)}
    )
    score = HalfspaceLearner(CDP(0.7), "returned", over=FEATURES)
    with tempfile.TemporaryDirectory() as folder:
        session = Session(
            stays(STAYS, 1), SCHEMA, budget, Path(folder) / "ledger.db", rows_per_person=2, new_ledger=True
        )
        cost = session.cost(tables, score)
        for who in (["diagnosis"], ["diagnosis", "smoker"]):
            print(f"ρ of {' and '.join(who)}, for a patient with two stays: {shown(cost.guarantee.rho(who))}")
        print(f"ρ of the whole patient: {shown(cost.guarantee.per_person().rho)}; within all limits: {cost.fits}")

        counts = session.release(tables, name="tables")["ward", "diagnosis"]
        print(f"{len(counts)} counts, each within ±{counts.half_width(0.95):.0f} of the true count (95% interval)")
        model = session.release(score, name="risk score").output
        print(f"the score is right about {model.score(stays(5000, 2)):.0%} of new people")
        print(f"ρ left for diagnosis: {session.left()['diagnosis']:.3f}")
        session.ledger.close()


if __name__ == "__main__":
    main()
