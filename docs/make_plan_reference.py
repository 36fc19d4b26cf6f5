"""Write docs/plan-reference.md from the code that reads plans and schemas: ``python docs/make_plan_reference.py``."""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from fractions import Fraction
from pathlib import Path
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from nabladp.errors import NablaDPError
from nabladp.mechanisms import MECHANISMS, Mechanism, Parameter, mechanism_class
from nabladp.privacy import CDP, Approx, Budget, Pure, Rho
from nabladp.release import plan
from nabladp.schema import Attribute
from nabladp.schema.rules import KINDS
from nabladp.tables.spark import reading
from nabladp.workloads import LinearQuery
from nabladp.workloads.linear import FAMILIES

TARGET = Path(__file__).with_name("plan-reference.md")
HEAD = """\
# Plan and schema: every key

This page is written by `docs/make_plan_reference.py` from the code that reads plans and schemas; do not edit it by
hand. What the keys mean, with examples, is on the pages [plan](plan.md) and [schema](schema.md), and on that of each
mechanism.

A name that is not listed here is refused, and the nearest one suggested. "required" means that there is no default.
"""
VALUES = (Pure(1), CDP(0.5), Rho(0.125), Approx(1, 1e-6))
WORDS = {
    str: "text",
    int: "whole number",
    float: "number",
    bool: "true or false",
    Any: "anything",
    LinearQuery: "query",
}
PLURALS = {"text": "names", "anything": "values", "query": "queries"}
SHAPED = {  # an example of each kind of attribute; what it gives is what the kind needs
    "categorical": Attribute("region", "categorical", values=("north", "south")),
    "ordered": Attribute("band", "ordered", values=("child", "adult")),
    "integer": Attribute("age", "integer", low=0, high=99),
    "real": Attribute("income", "real", edges=(0.0, 10.0, 50.0)),
    "boolean": Attribute("ill", "boolean"),
    "date": Attribute("admitted", "date", low="2020-01-01", high="2020-12-31"),
}


# What a field takes


def kind(hint: Any) -> str:
    """A type in the words of TOML; None only says that a field may be left out."""
    parts = get_args(hint)
    if get_origin(hint) in (Union, UnionType):
        named = list(dict.fromkeys(kind(part) for part in parts if part is not type(None)))
        return " or ".join(word for word in named if not (word == "whole number" and "number" in named))
    if get_origin(hint) is tuple:
        return f"list of {plural(kind(parts[0]))}"
    if inspect.isclass(get_origin(hint)) and issubclass(get_origin(hint), Mapping):
        return f"table of {plural(kind(parts[1]))}"
    if hint in map(type, VALUES):
        return "budget"
    if is_dataclass(hint) and hint is not LinearQuery:
        return f"table with {', '.join(f'`{field.name}`' for field in fields(hint))}"
    return WORDS.get(hint) or ("number" if hint is Fraction else hint.__name__.lower())


def plural(words: str) -> str:
    if words in PLURALS:
        return PLURALS[words]
    first, of, rest = words.partition(" of ")
    return (
        f"{first}s{of}{rest}" if of else " or ".join(one if one == "text" else f"{one}s" for one in words.split(" or "))
    )


def default(field: Any) -> str:
    if field.default is not MISSING:
        value = field.default
    elif field.default_factory is not MISSING:
        value = field.default_factory()
    else:
        return "required"
    return written(value)


def written(value: Any) -> str:
    """A default as a plan file has it; nothing where it only stands for "not given"."""
    if value is None or value in ((), {}, ""):
        return ""
    plain = f'"{value}"' if isinstance(value, str) else str(value)
    return f"`{plain.lower() if isinstance(value, bool) else plain}`"


def options(described: type[Any]) -> str:
    hints = get_type_hints(described)
    rows = [f"| `{field.name}` | {takes(described, field, hints)} | {default(field)} |" for field in fields(described)]
    return "| key | takes | default |\n|---|---|---|\n" + "\n".join(rows) + "\n"


def takes(described: type[Any], field: Any, hints: Mapping[str, Any]) -> str:
    words = " or ".join(f'`"{word}"`' for word in words_of(described, field.name))
    plain = kind(hints[field.name])
    return plain.replace("text", words, 1) if words and plain.startswith("text") else plain


def words_of(described: type[Any], name: str) -> list[str]:
    """The words that a field of an attribute takes, as the schema tells them to someone who gives it another one."""
    if name == "formula":  # any expression
        return []
    if described is not Attribute:
        return []
    try:
        shape: dict[str, Any] = {"kind": "date"} if name == "level" else {"kind": "real", "edges": (0.0, 1.0)}
        Attribute(**{"name": "x", **shape} | {name: "?"})
    except NablaDPError as error:
        if "'?'" in error.message:
            listed = re.sub(r"^.*?(?: one of |: )", "", error.fix) if "'" not in error.fix else ""
            return re.findall(r"'(\w+)'", error.fix) or re.findall(r"\w+", listed)
    return []


def parameters(mechanism: type[Mechanism]) -> str:
    """As the mechanism declares them."""
    rows = [
        f"| `{each.name}` | {_without_article(each.kind.takes)} | {_default(each)} | {each.help} |"
        for each in mechanism.parameters()
    ]
    return "| key | takes | default | meaning |\n|---|---|---|---|\n" + "\n".join(rows) + "\n"


def _without_article(takes: str) -> str:
    return re.sub(r'("[^"]+")', r"`\1`", re.sub(r"^(?:an?|the) ", "", takes))


def _default(declared: Parameter) -> str:
    return "required" if declared.required else written(declared.default)


def told(described: type[Any], paragraphs: int | None = None) -> str:
    """The docstring, in Markdown."""
    text = re.sub(r":class:`~?(?:\w+\.)*(\w+)`", r"`\1`", inspect.cleandoc(described.__doc__ or ""))
    return "\n\n".join(text.replace("``", "`").split("\n\n")[:paragraphs]) + "\n"


# The page


def schema_part() -> list[str]:
    needs = {name: [f.name for f in fields(Attribute) if f.name in made.to_json()] for name, made in SHAPED.items()}
    rows = [f"| `{name}` | {', '.join(f'`{key}`' for key in needs[name][2:]) or 'nothing more'} |" for name in KINDS]
    return [
        "## Schema: `[[attribute]]`\n",
        options(Attribute),
        "| kind | needs |\n|---|---|\n" + "\n".join(rows) + "\n",
        told(Attribute),
    ]


def plan_part() -> list[str]:
    lines = ["## Plan\n", "| section | keys |\n|---|---|"]
    for section, keys in plan._KEYS.items():
        if section:
            shown = f"[[{section}]]" if section == "adversary" else f"[{section}]"
            lines.append(f"| `{shown}` | {', '.join(f'`{key}`' for key in keys)} |")
    lines.append("| `[[release]]` | `mechanism`, `name`, and the keys of the mechanism, below |\n")
    lines += spark_part()
    lines += ["### Budget values\n", "| in a plan | in Python | |\n|---|---|---|"]
    for value in VALUES:
        written = ", ".join(f"{name} = {number:g}" for name, number in value.to_json().items())
        python = ", ".join(f"{getattr(value, field.name):g}" for field in fields(value))
        meaning = (type(value).__doc__ or "").split("\n")[0]
        lines.append(f"| `{{ {written} }}` | `{type(value).__name__}({python})` | {meaning} |")
    return [*lines, "\n### Limits in `[budget]`\n", options(Budget)]


def spark_part() -> list[str]:
    """What ``source`` holds where the table lies on a cluster."""
    common = ", ".join(f"`{key}`" for key in reading._COMMON)
    lines = ["### A `source` on Spark\n", f"Any of them: {common}. What they mean: [Spark](spark.md#in-a-plan).\n"]
    lines.append("| `spark =` | needs | may have |\n|---|---|---|")
    for reader, keys in reading._OWN.items():
        needed = reading._NEEDED[reader]
        rest = ", ".join(f"`{key}`" for key in keys if key not in needed)
        lines.append(f'| `"{reader}"` | {", ".join(f"`{key}`" for key in needed)} | {rest} |')
    return [*lines, f"\n`split` has {', '.join(f'`{key}`' for key in reading._SPLIT)}.\n"]


def workload_part() -> list[str]:
    lines = ["## Workloads\n", '`workload = { queries = "…", … }`, or a list of such. See [workloads](workloads.md).\n']
    for name, family in FAMILIES.items():
        lines += [f'### `queries = "{name}"`\n', told(family, 1), options(family)]
    return [*lines, "### A query of `each`\n", told(LinearQuery, 1), options(LinearQuery)]


def page_of(mechanism: type[Any]) -> Path | None:
    """The page whose proof is the one beside the mechanism's code, if there is such a page."""
    note = "/".join(mechanism.__module__.split(".")[:-1]) + "/PROOF.md"
    for page in sorted(TARGET.parent.glob("*.md")):
        _, heading, proof = page.read_text(encoding="utf-8").partition("\n## Proof\n")
        if heading and re.findall(r"\]\(\.\./src/([^)]+)\)", proof)[:1] == [note]:
            return page
    return None


def mechanism_part() -> list[str]:
    lines = ["## Mechanisms\n"]
    for name in MECHANISMS:
        found = mechanism_class(name)
        page = page_of(found)
        link = f"See [its page]({page.name}).\n" if page else ""
        lines += [f"### {name}\n", told(found), parameters(found), link]
    return lines


def page() -> str:
    parts = [HEAD, *plan_part(), *mechanism_part(), *workload_part(), *schema_part()]
    return "\n".join(part for part in parts if part)


if __name__ == "__main__":
    TARGET.write_text(page(), encoding="utf-8")
