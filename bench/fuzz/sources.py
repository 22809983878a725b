"""Where programs come from: files of the repository, and generators of random ones."""

from __future__ import annotations

import random
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cache
from importlib import import_module
from typing import Any

from bench.common import ROOT
from bench.fuzz.chains import chain
from bench.fuzz.layers import layer
from bench.fuzz.schedules import scheduled
from bench.gpu_fuzz.choices import Choices
from bench.gpu_fuzz.programs import ALL_TARGETS, generate
from mucc.diagnostics.codes import CODES

FOLDERS = ("examples", "test", "mucc")
_FENCED = re.compile(r"```mcu\n(.*?)```", re.DOTALL)


@dataclass(frozen=True)
class Drawn:
    """A program, and what it is compiled for; `dims` are typical sizes of open dims."""

    text: str
    target: str
    origin: str
    dims: dict[str, int] = field(default_factory=dict[str, int])


@cache
def corpus() -> dict[str, str]:
    """The programs of the repository by name: examples, those of tests, those that explain codes."""
    paths = sorted(p for folder in FOLDERS for p in (ROOT / folder).rglob("*.mcu"))
    named = [(str(p.relative_to(ROOT)), p.read_text(encoding="utf-8", errors="replace")) for p in paths]
    for code, info in CODES.items():
        texts = enumerate(_FENCED.findall(info.explanation), 1)
        named += [(f"explain:{code}#{number}", text) for number, text in texts]
    first = {text: name for name, text in reversed(named) if text.strip()}
    return {name: text for name, text in named if first.get(text) == name}


@cache
def corpus_texts() -> tuple[str, ...]:
    """The programs of the repository."""
    return tuple(corpus().values())


def _of_forms(seed: str) -> Drawn:
    """A program of a form that kernels exist for (`bench.gpu_fuzz`)."""
    program = generate(Choices(seed), ALL_TARGETS)
    return Drawn(program.text, program.target, "forms", dict(program.hints))


BATCH = 20
"""Programs that Hypothesis draws at a time: starting it costs more than a program."""


@cache
def _batch(name: str, number: int) -> tuple[str, ...]:
    """Programs by a strategy of the unit tests, always the same for a number."""
    from hypothesis import HealthCheck, Phase, given, seed, settings

    folder = str(ROOT / "test" / "lib")
    if folder not in sys.path:
        sys.path.append(folder)
    found: list[str] = []

    def take(value: Any) -> None:
        found.append(_text(value))

    quiet = settings(
        max_examples=BATCH,
        phases=[Phase.generate],
        database=None,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
    )
    seed(number)(quiet(given(_strategy(name))(take)))()
    return tuple(found)


def _strategy(name: str) -> Any:
    if name == "kernels":
        random_ir: Any = import_module("irgen_random")
        return random_ir.samples(random_ir.Profile(("f32", "bf16", "f16")))
    strategies: Any = import_module("strategies")
    return strategies.sentences() if name == "sentences" else strategies.programs()


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    from mucc.frontend.source import module_text

    return module_text(value.module)


BATCHES = 60
"""How many batches there are: a worker keeps those that it has drawn."""


def _by_hypothesis(name: str, batches: int = BATCHES) -> Callable[[str], Drawn]:
    def draw(seed: str) -> Drawn:
        rng = random.Random(seed)
        texts = _batch(name, rng.randrange(batches))
        return Drawn(rng.choice(texts), rng.choice(ALL_TARGETS), name)

    return draw


GENERATORS: dict[str, Callable[[str], Drawn]] = {
    "forms": _of_forms,
    "contractions": _by_hypothesis("contractions"),
    "kernels": _by_hypothesis("kernels"),
}
"""Draw a program that the language takes, by seed. Equal seeds give equal programs."""

SENTENCES = _by_hypothesis("sentences", 4)
"""Sentences of the grammar, right in form and free of meaning: only for mutants."""


def program(seed: str) -> Drawn:
    """A random program by one of the generators; most by the one that knows most forms."""
    rng = random.Random(seed)
    name = rng.choices(list(GENERATORS), [4, *[1] * (len(GENERATORS) - 1)])[0]
    return GENERATORS[name](seed)


def chained(seed: str) -> Drawn:
    """A chain of operations on whole tensors; in every third nothing rounds before the results."""
    rng = random.Random(seed)
    target = rng.choice(("sm_90a", "sm_90a", *ALL_TARGETS))
    return Drawn(chain(seed, rounds=rng.randrange(3) > 0), target, "chains")


def layered(seed: str) -> Drawn:
    """A product or a convolution with norms and reductions behind."""
    return Drawn(layer(seed), random.Random(seed).choice(("sm_90a", "sm_90a", *ALL_TARGETS)), "layers")


def with_schedule(seed: str) -> Drawn:
    """Draw a program with a kernel that takes a schedule, and draw that schedule."""
    rng = random.Random(seed)
    draw = rng.choice((layered, layered, GENERATORS["forms"], GENERATORS["forms"], chained))
    while "@" not in (drawn := draw(seed)).text and not re.search(r"\b(conv|matmul|attention)", drawn.text):
        seed += "+"
    return replace(drawn, text=scheduled(seed, drawn.text, drawn.target), origin="schedules")


_FEW = _by_hypothesis("contractions", 4)


def origin(rng: random.Random, seed: str) -> Drawn:
    """What a mutant is made of."""
    target = rng.choice(("sm_90a", *ALL_TARGETS))
    match rng.randrange(10):
        case 0:
            return SENTENCES(seed)
        case 1:
            return _FEW(seed)
        case 2 | 3:
            return GENERATORS["forms"](seed)
        case _:
            return Drawn(rng.choice(corpus_texts()), target, "corpus")
