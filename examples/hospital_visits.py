"""A hospital publishes from visits, several for most patients: ``python examples/hospital_visits.py``.

At most five visits of each patient are used, in the order in which they were entered. Every figure is for all visits of
a patient together.
"""

from __future__ import annotations

import math
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa

from nabladp import CDP, Attribute, Budget, NoisyMarginals, Person, Rho, Schema, Session
from nabladp.errors import LedgerError

WARDS, DIAGNOSES = ("surgery", "medicine", "cardiology"), ("injury", "infection", "heart", "cancer")
PATIENTS, VISITS = 20_000, 60_000
PERSON = Person("patient", rows=5, row_id="visit")
SCHEMA = Schema(
    (
        Attribute("ward", "categorical", values=WARDS),
        Attribute("diagnosis", "categorical", values=DIAGNOSES, unknown="other"),
        Attribute("days", "integer", low=1, high=60, unknown="clamp"),
    )
)

ABOUT_PEOPLE = """SELECT ward, COUNT(DISTINCT patient) AS patients,
                  SUM_PER_PERSON(days, 0, 40) / COUNT(DISTINCT patient) AS days FROM visits GROUP BY ward"""


def visits(seed: int) -> pa.Table:
    """Made-up visits: a few patients come often. Neither the patient nor the visit's number is in the schema."""
    draw = np.random.default_rng(seed)
    often = draw.pareto(2.5, PATIENTS) + 0.5
    patient = draw.choice(PATIENTS, VISITS, p=often / often.sum())
    return pa.table(
        {
            "patient": [f"P{number:06}" for number in patient],
            "visit": draw.permutation(VISITS),
            "ward": np.array(WARDS)[draw.integers(0, 3, VISITS)],
            "diagnosis": np.array((*DIAGNOSES, "rare"))[draw.integers(0, 5, VISITS)],
            "days": 1 + draw.poisson(4, VISITS),
        }
    )


def shown(cost: float) -> str:
    """Rounded up: a promise must not look stronger than it is."""
    return f"{math.ceil(100 * cost) / 100:.2f}"


def main() -> None:
    table, budget = visits(1), Budget(per_attribute=CDP(8), person=Rho(40))
    counts = NoisyMarginals(CDP(0.4), sets=[("ward", "diagnosis")])
    query = "SELECT ward, COUNT(*) AS visits, AVG(days) AS days FROM visits GROUP BY ward"
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        session = Session(table, SCHEMA, budget, folder / "ledger.db", person=PERSON, new_ledger=True)
        print(f"{PERSON}; ρ of the diagnosis in all of them: {shown(session.cost(counts).guarantee.rho('diagnosis'))}")

        release = session.release(counts, name="visits", to=folder / "published")
        error = release["ward", "diagnosis"].half_width(0.95)
        print(f"{release.n:,} visits are in use; each count is within ±{error:.0f} of the true one (95% interval)")
        answers = session.sql(query, CDP(0.8), name="days")
        print(f"{len(answers.to_pandas())} wards have an average of days")

        people = session.sql(ABOUT_PEOPLE, CDP(1), name="patients")
        costs = [f"{name} {shown(people.release.guarantee.rho(name))}" for name in ("ward", "days")]
        wards = len(people.to_pandas())
        print(f"{wards} wards have a number of patients, and of days per patient; ρ: {', '.join(costs)}")

        left_out = session.sql("SELECT ROWS_LEFT_OUT(20) AS visits FROM visits", CDP(0.5), name="left-out").rows[0]
        width = (left_out["visits_high"] - left_out["visits_low"]) / 2
        print(f"how many visits are not in use is known within ±{width:.0f}, at a cost of its own")

        report = (folder / "published" / "report.html").read_text(encoding="utf-8")
        print(f"the report says so: {'at most 5 rows of each person are used' in report}")
        patients = set(table["patient"].to_pylist())
        print(f"patients named in the report: {sum(patient in report for patient in patients)}")
        try:
            Session(table, SCHEMA, None, folder / "ledger.db", person=Person("patient", rows=9, row_id="visit"))
        except LedgerError as error_:
            print(error_.message)
        session.ledger.close()


if __name__ == "__main__":
    main()
