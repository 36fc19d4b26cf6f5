"""Which mechanisms there are: nabladp's own, listed in catalogue.pyi, and those of installed packages.

A package offers a mechanism by an entry point of the group ``nabladp.mechanisms``, named like the class. It is loaded
when a plan or a stored release names it. A mechanism of nabladp is found without looking at any other package.
"""

from __future__ import annotations

import re
import warnings
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nabladp.errors import NablaDPError, PlanError, quote, suggestion

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    from nabladp.mechanisms.mechanism import Mechanism

GROUP = "nabladp.mechanisms"
_LINE = re.compile(r"^from (nabladp\.mechanisms\.[\w.]+) import (\w+) as \2$", re.MULTILINE)
_CATALOGUE = Path(__file__).with_name("catalogue.pyi").read_text(encoding="utf-8")
HOMES = {name: module for module, name in _LINE.findall(_CATALOGUE)}  # where each of nabladp's own lives
MECHANISMS = tuple(HOMES)


def mechanism_class(name: str) -> type[Mechanism]:
    """The registered mechanism of this name, nabladp's own or that of an installed package, loaded when first asked
    for."""
    if isinstance(name, str) and name in HOMES:
        _warn_of_clash(name)
        own: type[Mechanism] = getattr(import_module(HOMES[name]), name)
        return own
    offered = plugins()
    if not isinstance(name, str) or name not in offered:
        known = (*MECHANISMS, *offered)
        fix = suggestion(name, known, f"Mechanisms: {', '.join(known)}. Others need the package that offers them.")
        raise PlanError(f"There is no mechanism {quote(name)}.", fix=fix)
    if len(offered[name]) > 1:
        packages = ", ".join(sorted(map(_package, offered[name])))
        raise PlanError(f"Several packages offer a mechanism {name!r}: {packages}.", fix="Uninstall all but one.")
    return _loaded(offered[name][0])


def plugins() -> dict[str, list[EntryPoint]]:
    """Mechanisms that installed packages register, by name, without those whose names are taken by nabladp's own."""
    return {name: listed for name, listed in _entries().items() if name not in HOMES}


def _entries() -> dict[str, list[EntryPoint]]:
    from importlib.metadata import entry_points  # takes a while to load

    listed: dict[str, list[EntryPoint]] = {}
    for entry in entry_points(group=GROUP):
        if entry not in listed.setdefault(entry.name, []):  # a package may be on the path twice
            listed[entry.name].append(entry)
    return listed


def _warn_of_clash(name: str) -> None:
    """Warn that a package cannot replace a mechanism of nabladp; whatever is wrong with packages, that one stays
    usable."""
    for entry in _clashes().get(name, ()):
        warnings.warn(
            f"The package {_package(entry)!r} offers a mechanism {name!r}, a name that nabladp has already. "
            f"nabladp's own is used. Uninstall that package, or ask its authors for another name.",
            stacklevel=3,
        )


@cache
def _clashes() -> dict[str, list[EntryPoint]]:
    try:
        return {name: listed for name, listed in _entries().items() if name in HOMES}
    except Exception:  # broken metadata of some package
        return {}


def _loaded(entry: EntryPoint) -> type[Mechanism]:
    from nabladp.mechanisms.mechanism import Mechanism

    what = f"The mechanism {entry.name!r} of the package {_package(entry)!r}"
    fix = f"Update or uninstall {_package(entry)!r}."
    try:
        offered: Any = entry.load()
    except Exception as fault:  # whatever the package does when it is imported
        raise PlanError(f"{what} cannot be loaded ({type(fault).__name__}).", fix=fix) from fault
    if not isinstance(offered, type) or not issubclass(offered, Mechanism):
        raise PlanError(f"{what} does not inherit nabladp.mechanisms.Mechanism.", fix=fix)
    if offered.__abstractmethods__:
        lacking = ", ".join(sorted(offered.__abstractmethods__))
        raise PlanError(f"{what} lacks {lacking}.", fix=fix)
    if offered.__name__ != entry.name:
        raise PlanError(f"{what} is a class of another name, {offered.__name__!r}.", fix=fix)
    try:
        offered.parameters()
    except (NablaDPError, TypeError) as fault:  # not a dataclass, or a parameter without a declaration
        raise PlanError(f"{what} does not declare its parameters: {fault}", fix=fix) from None
    return offered


def _package(entry: EntryPoint) -> str:
    return entry.dist.name if entry.dist is not None else entry.module.partition(".")[0]
