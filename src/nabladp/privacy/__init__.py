"""What a release costs, for every set of attributes; limits on it; and the ledger that keeps count."""

from nabladp.privacy.budget import Budget, Limit
from nabladp.privacy.conversion import epsilon_from_rho
from nabladp.privacy.guarantee import Figure, Guarantee
from nabladp.privacy.ledger import Ledger
from nabladp.privacy.universe import Universe
from nabladp.privacy.values import CDP, Approx, BudgetValue, Pure, Rho, as_value

__all__ = [
    "CDP",
    "Approx",
    "Budget",
    "BudgetValue",
    "Figure",
    "Guarantee",
    "Ledger",
    "Limit",
    "Pure",
    "Rho",
    "Universe",
    "as_value",
    "epsilon_from_rho",
]
