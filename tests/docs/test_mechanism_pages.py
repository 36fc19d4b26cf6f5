"""Every mechanism has a page, all with the same parts, and a proof. Every key is told, every erratum shown.

A mechanism that was only just contributed has no place in the decision tree yet, and needs no page yet either.
"""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import pytest
from doc_pages import blocks, printed, script, slug

from nabladp.mechanisms import MECHANISMS, mechanism_class
from nabladp.noise import NoiseSource
from nabladp.release import plan
from nabladp.schema import Attribute

ROOT = Path(__file__).resolve().parents[2]
PLACED = [name for _, leaves in script("make_concept_figures").TREE for _, name in leaves]
PARTS = ("What it does", "Example", "In a plan", "Guarantee", "Error", "Time and memory", "Proof")
COSTS = ("an attribute", "any set T", "the whole person")


def page(mechanism: str) -> str:
    found = script("make_plan_reference").page_of(mechanism_class(mechanism))
    assert found is not None, f"no page has a section 'Proof' that leads to the note beside the code of {mechanism}"
    return str(found.read_text(encoding="utf-8"))


def sections(text: str) -> dict[str, str]:
    """What stands under each heading of the second level; fences are left as they are."""
    parts = re.split(r"^## (.+)$", text, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def missing(mechanism: str, text: str) -> list[str]:
    """What a page does not have, in words."""
    found = sections(text)
    kept = [name for name in found if name in PARTS]
    if kept != list(PARTS):
        return [f"the parts {', '.join(PARTS)}, in this order; it has {', '.join(kept)}"]
    example, planned = list(blocks(found["Example"])), list(blocks(found["In a plan"]))
    commands = " ".join(block.text for block in planned if block.language == "console")
    checks = {
        f"{mechanism} in its example": any(b.language == "python" and mechanism in b.text for b in example),
        f"a plan file with {mechanism}": any(
            b.language == "toml" and f'mechanism = "{mechanism}"' in b.text for b in planned
        ),
        "nabladp cost and nabladp release": "$ nabladp cost" in commands and "$ nabladp release" in commands,
        "when to use it": "**When to use it.**" in found["What it does"],
        "an error that is shown by running something": any(map(printed, blocks(found["Error"]))),
        "passes, time and memory": "| passes | time | memory |" in found["Time and memory"],
    } | {f"what {who} pays": f"| {who} |" in found["Guarantee"] for who in COSTS}
    return [what for what, there in checks.items() if not there]


def test_every_mechanism_that_comes_with_the_library_has_a_page_of_its_own() -> None:
    assert set(PLACED) <= set(MECHANISMS) and len(PLACED) >= 10
    assert len({page(mechanism) for mechanism in PLACED}) == len(PLACED)


@pytest.mark.parametrize("mechanism", PLACED)
def test_page_has_every_part(mechanism: str) -> None:
    assert missing(mechanism, page(mechanism)) == []


@pytest.mark.parametrize(
    ("taken_out", "told"),
    [
        ("## Error\n", "the parts"),
        ("| any set T |", "what any set T pays"),
        ("$ nabladp release", "nabladp cost and nabladp release"),
        ('mechanism = "MWEM"', "a plan file with MWEM"),
        ("| passes | time | memory |", "passes, time and memory"),
        ("**When to use it.**", "when to use it"),
    ],
)
def test_what_is_missing_is_noticed(taken_out: str, told: str) -> None:
    text = page("MWEM")
    assert taken_out in text
    assert any(said.startswith(told) for said in missing("MWEM", text.replace(taken_out, "…")))


# The errata


ERRATA = (ROOT / "docs" / "errata.md").read_text(encoding="utf-8")
LISTED = re.findall(r"^\| \[(.+?)\]\(#(.+?)\) \| .+? \| .+? \| (.+?) \|$", ERRATA, flags=re.MULTILINE)


def shown(section: str) -> str:
    """What the snippets of a section print."""
    return " ".join(line for block in blocks(section) for line in printed(block))


@pytest.mark.parametrize(("label", "anchor", "numbers"), LISTED, ids=[label for label, _, _ in LISTED])
def test_every_erratum_is_shown_by_running_something(label: str, anchor: str, numbers: str) -> None:
    own = {slug(name): text for name, text in sections(ERRATA).items()}
    computed = set(re.findall(r"\d+(?:\.\d+)?", shown(own[anchor])))
    told = re.findall(r"\d+(?:\.\d+)?", numbers)
    assert told and set(told) <= computed, f"{label} says {told}, its snippets print {sorted(computed)}"
    for said in ("**Printed.**", "**What we do.**"):
        assert said in own[anchor] or anchor.startswith("lemrobust"), f"{label} lacks {said}"


def test_no_erratum_is_left_out_of_the_list() -> None:
    headings = [name for name in sections(ERRATA) if re.match(r"\w+:", name)]
    assert len(headings) == len(LISTED) == 14


# Keys


@pytest.mark.parametrize("mechanism", PLACED)
def test_page_tells_every_option(mechanism: str) -> None:
    text = page(mechanism)
    untold = [field.name for field in fields(mechanism_class(mechanism)) if f"`{field.name}" not in text]
    assert not untold


def test_hand_written_pages_tell_every_key_of_plan_and_schema() -> None:
    told = {name: (ROOT / "docs" / f"{name}.md").read_text(encoding="utf-8") for name in ("plan", "schema")}
    keys = [key for section, known in plan._KEYS.items() if section for key in known]
    assert [key for key in keys if f"`{key}`" not in told["plan"]] == []
    assert [field.name for field in fields(Attribute) if f"`{field.name}`" not in told["schema"]] == []


def test_the_page_of_noise_lists_every_draw() -> None:
    told = (ROOT / "docs" / "noise.md").read_text(encoding="utf-8")
    draws = [name for name in vars(NoiseSource) if not name.startswith("_") and callable(getattr(NoiseSource, name))]
    assert not [name for name in draws if name not in ("seeded", "reseeded") and f"`{name}(" not in told]
