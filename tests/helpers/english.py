"""English words that are left in a text of another language."""

from __future__ import annotations

import re

WORDS = re.compile(  # English words that are none in German
    r"\b(the|of|and|with|are|is|be|can|from|by|on|to|at|this|that|which|each|every|nothing|most|rows|noise|error|"
    r"predicted|limit|someone|curious|search|show|page|release)\b",
    re.IGNORECASE,
)


# What is read and what is heard on a page, but for code
SHOWN = """() => {
  for (const node of document.querySelectorAll("pre, code, .mono, style, script")) node.remove();
  const said = ["aria-label", "placeholder", "title", "alt", "aria-valuetext"];
  const told = [...document.querySelectorAll("*")].flatMap((node) => said.map((name) => node.getAttribute(name) ?? ""));
  return [document.title, document.body.textContent, ...told];
}"""


def english_in(text: str) -> list[str]:
    """English words in a text with their surroundings, without what users and programs named."""
    plain = re.sub(r"[\w.-]+\.(parquet|json|db|html)|_\w+|\w+_\w*|“[^”]*”|„[^“]*“|NoisyMarginals", "", text)
    return [" ".join(plain[max(0, match.start() - 30) : match.end() + 30].split()) for match in WORDS.finditer(plain)]
