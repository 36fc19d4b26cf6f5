"""One folder per mechanism, each with its proof. Mechanisms are listed in the registry.

What a mechanism is made of loads when first used, so that the registry stays light.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from nabladp.mechanisms.registry import MECHANISMS, mechanism_class

if TYPE_CHECKING:
    from nabladp.mechanisms.mechanism import Auditable as Auditable
    from nabladp.mechanisms.mechanism import Branch as Branch
    from nabladp.mechanisms.mechanism import ExpectedError as ExpectedError
    from nabladp.mechanisms.mechanism import Law as Law
    from nabladp.mechanisms.mechanism import Mechanism as Mechanism
    from nabladp.mechanisms.mechanism import Output as Output
    from nabladp.mechanisms.mechanism import Records as Records
    from nabladp.mechanisms.mechanism import ReleaseContext as ReleaseContext
    from nabladp.mechanisms.mechanism import Scenario as Scenario
    from nabladp.mechanisms.mechanism import ValueLaw as ValueLaw
    from nabladp.mechanisms.noise_uses import Charge as Charge
    from nabladp.mechanisms.noise_uses import NoiseUse as NoiseUse
    from nabladp.mechanisms.parameters import Parameter as Parameter
    from nabladp.mechanisms.parameters import parameter as parameter

_AUDITED = ("Auditable", "Branch", "Law", "Scenario", "ValueLaw")
_CONTRACT = (*_AUDITED, "ExpectedError", "Mechanism", "Output", "Records", "ReleaseContext")
_HOME = dict.fromkeys(_CONTRACT, "mechanism") | dict.fromkeys(("Parameter", "parameter"), "parameters")
_HOME |= dict.fromkeys(("Charge", "NoiseUse"), "noise_uses")
__all__ = ["MECHANISMS", "mechanism_class", *_HOME]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
    globals()[name] = value
    return value
