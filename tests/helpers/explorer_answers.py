"""What the page's scripts answer about sets of attributes, and whether Python says the same."""

from __future__ import annotations

import json
import math
from typing import Any

from nabladp.privacy import Guarantee
from nabladp.privacy.interpretation import posterior

Question = tuple[list[str], float, float]  # names, δ, belief before
ASK = """async ([data, questions, own]) => {
  await nabladp.ready;
  const g = data ? nabladp.guarantee(JSON.parse(data)) : nabladp.explorers[own].guarantee;
  const text = (units) => (units === null ? null : String(units));
  return questions.map(([names, delta, prior]) => ({
    rho_units: text(g.rhoUnits(names)), pure_units: text(g.pureUnits(names)),
    rho: g.rho(names), pure: g.pure(names), tight: g.epsilon(names, delta), paper: g.epsilon(names, delta, "paper"),
    group: g.groupBound(names), posterior: nabladp.posterior(g.figures(names, delta), prior).after,
    figures: g.figures(names, delta),
  }));
}"""


def close(ours: float | None, theirs: float) -> bool:
    """JSON carries no infinity from the page, playwright does."""
    assert ours is not None
    return ours == theirs or math.isclose(ours, theirs, rel_tol=1e-9, abs_tol=1e-12)


def compare(page: Any, guarantee: Guarantee, questions: list[Question], own: int | None = None) -> None:
    """Asks about a guarantee that is handed over, or the page's own of this number."""
    data = json.dumps(guarantee.to_json()) if own is None else None
    answers = page.ask(ASK, [data, questions, own])
    for (names, delta, prior), found in zip(questions, answers, strict=True):
        for key, units in (("rho_units", guarantee.rho_units(names)), ("pure_units", guarantee.pure_units(names))):
            assert found[key] == (None if units is None else str(units)), (key, names)
        assert close(found["rho"], guarantee.rho(names)) and close(found["pure"], guarantee.epsilon(names))
        for conversion in ("tight", "paper"):
            assert close(found[conversion], guarantee.epsilon(names, delta, conversion)), (conversion, names, delta)
        assert found["figures"] == {key: found[key] for key in ("rho", "pure", "tight", "paper")}
        rho, pure = guarantee.group_bound(names)
        assert close(found["group"]["rho"], rho) and close(found["group"]["pure"], pure), names
        exact = None if math.isfinite(guarantee.epsilon(names)) else delta
        assert close(found["posterior"], posterior(guarantee, names, prior, exact).value), names
