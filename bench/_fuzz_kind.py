"""What a kind of input is, and calls of public functions as kinds."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench._fuzz_values import mutated, odd

Once = Callable[[random.Random, Any], None]


@dataclass(frozen=True)
class Kind:
    """``once(rng, scene)`` tries one input; ``prepare(folder)`` makes the scene, once for each worker.

    ``full`` and ``quick`` say how many inputs a run has. ``permitted`` names files that may hold what is in the data.
    """

    name: str
    once: Once
    full: int
    quick: int
    prepare: Callable[[Path], Any] = lambda folder: folder
    permitted: Callable[[Path], bool] = lambda path: False
    warm: Callable[[Any], None] = lambda scene: None  # whatever loads libraries or compiles loops, before time counts


@dataclass(frozen=True)
class Call:
    """A public function and arguments that it takes; ``then`` are further questions to what it returns."""

    function: Callable[..., Any]
    arguments: tuple[Any, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    then: Sequence[Callable[[Any], Any]] = ()

    def tried(self, rng: random.Random) -> None:
        """Half of the time one argument is changed, otherwise several are made up."""
        arguments, options = list(self.arguments), dict(self.options)
        places: list[Any] = [*range(len(arguments)), *options]
        if places:
            many = 1 if rng.random() < 0.8 else rng.randrange(1, len(places) + 1)
            change = mutated if rng.random() < 0.5 else _replaced
            for place in rng.sample(places, min(many, len(places))):
                held: Any = arguments if isinstance(place, int) else options
                held[place] = change(rng, held[place])
        found = self.function(*arguments, **options)
        for question in self.then:
            question(found)


def _replaced(rng: random.Random, _: Any) -> Any:
    return odd(rng)


def calls(name: str, made: Callable[[], Sequence[Call]], full: int, quick: int) -> Kind:
    """A kind whose inputs are calls of one of these, made when first needed."""

    def once(rng: random.Random, scene: Sequence[Call]) -> None:
        rng.choice(scene).tried(rng)

    return Kind(name, once, full, quick, prepare=lambda folder: made())
