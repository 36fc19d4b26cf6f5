"""How many people say yes, as a mechanism for nabladp."""

from nabladp_yes_total.mechanism import Total, YesTotal

__all__ = ["Total", "YesTotal"]
