"""A survey office publishes quarterly tables from 30,000 made-up people: ``python examples/survey_office.py``.

Two quarters are released under one budget. A third would break a limit and is refused.
"""

from __future__ import annotations

import math
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa

from nabladp import CDP, Attribute, Budget, NoisyMarginals, Rho, Schema, Session
from nabladp.errors import BudgetExceeded

REGIONS = ("north", "south", "east", "west")
PEOPLE = 30_000
SCHEMA = Schema(
    (
        Attribute("region", "categorical", values=REGIONS),
        Attribute("age", "integer", low=16, high=99),
        Attribute("age_band", "ordered", values=("16-29", "30-64", "65+"), derived_from=("age",)),
        Attribute("employed", "boolean"),
        Attribute("income", "real", edges=(*range(0, 60_000, 5_000), 80_000, 200_000), unknown="clamp"),
        Attribute("health", "ordered", values=("poor", "fair", "good")),
    )
)


def answers(seed: int) -> pa.Table:
    """One quarter's answers; the domains above come from the questionnaire, never from here."""
    draw = np.random.default_rng(seed)
    age = draw.integers(16, 100, PEOPLE)
    employed = draw.random(PEOPLE) < np.where(age < 65, 0.75, 0.1)
    income = np.exp(draw.normal(np.where(employed, 10.3, 9.3), 0.5))
    health = np.digitize(draw.random(PEOPLE) + age / 250, [0.35, 0.75])
    return pa.table(
        {
            "region": np.array(REGIONS)[draw.integers(0, 4, PEOPLE)],
            "age": age,
            "age_band": np.array(["16-29", "30-64", "65+"])[np.digitize(age, [30, 65])],
            "employed": employed,
            "income": np.round(income, 2),
            "health": np.array(["good", "fair", "poor"])[health],
        }
    )


def shown(cost: float) -> str:
    """Rounded up: a promise must not look stronger than it is."""
    return f"{math.ceil(100 * cost) / 100:.2f}"


def main() -> None:
    tables = NoisyMarginals(
        CDP(0.3),
        sets=[("region", "income"), ("age_band", "employed"), ("region", "health")],
        budgets={"health": CDP(0.1)},
    )
    budget = Budget(per_attribute=CDP(0.5), attributes={"health": CDP(0.15)}, person=Rho(0.3))
    with tempfile.TemporaryDirectory() as folder:
        session = Session(
            answers(1),
            SCHEMA,
            budget,
            Path(folder) / "ledger.db",
            adversaries={"an insurer": ("age", "health")},
            new_ledger=True,
        )
        cost = session.cost(tables)
        sets = {" and ".join(who): who for who in (["income"], ["health"], ["age", "health"])}
        for named, who in (sets | {"all protected attributes": SCHEMA.names}).items():
            tight, paper = (cost.guarantee.epsilon(who, 1e-6, conversion) for conversion in ("tight", "paper"))
            print(f"{named}: ε = {shown(tight)} (tight, δ = 1e-6), {shown(paper)} (paper)")
        for error in tables.expected_error(SCHEMA, PEOPLE):
            print(f"each count of {' by '.join(error.attributes)} will be within ±{error.half_width} (95% interval)")

        for quarter in (1, 2, 3):
            try:
                here = session.with_table(answers(quarter))
                release = here.release(tables, name=f"quarter {quarter}", to=Path(folder) / f"quarter-{quarter}")
            except BudgetExceeded as refused:
                print(f"quarter {quarter} is refused: {refused.fix}")
                break
            mean = release.mean("income")
            print(f"quarter {quarter}: mean income {mean.value:,.0f} (between {mean.low:,.0f} and {mean.high:,.0f})")
        session.ledger.close()


if __name__ == "__main__":
    main()
