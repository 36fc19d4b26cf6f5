"""A site publishes what visitors commonly do, from 50,000 made-up visits: ``python examples/web_analytics.py``.

Thirty yes/no columns say which pages a visitor opened: 2³⁰ possible visits, of which a dozen or so are common. Each
page has a small ε of its own. Together they are one secret, a visitor's browsing: the figure for all is what counts.
"""

from __future__ import annotations

import math
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa

from nabladp import CDP, Attribute, Budget, HeavyHitters, NoisyMarginals, Schema, Session

VISITORS, PAGES = 50_000, [f"page{i:02d}" for i in range(30)]
SCHEMA = Schema(
    (
        *(Attribute(page, "boolean") for page in PAGES),
        Attribute("country", "categorical", values=("DE", "FR", "IT", "PL"), unknown="other"),
        Attribute("minutes", "real", edges=(0, 1, 3, 10, 30, 120), unknown="clamp"),
    )
)


def visits() -> pa.Table:
    """Most visitors follow one of twelve paths through the site, some open pages at random."""
    draw = np.random.default_rng(1)
    paths = draw.random((12, len(PAGES))) < 0.2
    opened = paths[draw.choice(12, VISITORS, p=np.arange(12, 0, -1) / 78)]
    opened = np.where(draw.random((VISITORS, 1)) < 0.3, draw.random(opened.shape) < 0.1, opened)
    country = np.array(["DE", "FR", "IT", "PL", "elsewhere"])[draw.integers(0, 5, VISITORS)]
    minutes = np.round(draw.exponential(1 + opened.sum(axis=1)), 1)
    return pa.table(dict(zip(PAGES, opened.T, strict=True)) | {"country": country, "minutes": minutes})


def shown(cost: float) -> str:
    """Rounded up: a promise must not look stronger than it is."""
    return f"{math.ceil(100 * cost) / 100:.2f}"


def main() -> None:
    common = HeavyHitters(CDP(0.2), over=tuple(PAGES))
    times = NoisyMarginals(CDP(0.2), sets=[("country", "minutes")])
    with tempfile.TemporaryDirectory() as folder:
        session = Session(
            visits(), SCHEMA, Budget(per_attribute=CDP(0.3)), Path(folder) / "ledger.db", rows=VISITORS, new_ledger=True
        )
        cost = session.cost(common, times)
        sets = {"one page": ["page00"], "three pages": PAGES[:3], "all pages": PAGES, "the whole visitor": SCHEMA.names}
        for named, who in sets.items():
            tight, paper = (cost.guarantee.epsilon(who, 1e-6, conversion) for conversion in ("tight", "paper"))
            print(f"{named}: ε = {shown(tight)} (tight, δ = 1e-6), {shown(paper)} (paper)")

        found = session.release(common, name="common visits").output
        print(
            f"with probability 95%, every visit shared by {found.certified} or more is listed, "
            f"its count within ±{found.error}"
        )
        heaviest = found.heaviest(1).to_arrow(SCHEMA).to_pylist()[0]
        opened = [page for page in PAGES if heaviest[page] == "true"]
        print(f"the most common visit: {', '.join(opened) or 'no page'}, by about {heaviest['value']:,} visitors")
        table = session.release(times, name="minutes")
        median = table.quantile("minutes", 0.5)
        print(f"median stay: {median.value} minutes")
        session.ledger.close()


if __name__ == "__main__":
    main()
