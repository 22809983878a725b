"""By how much the machine code of two builds differs."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass

from mucc.build.toolchain.machine_code import Function


def count_differences(a: Sequence[str], b: Sequence[str]) -> int:
    """How many lines must be changed, inserted or deleted to make `b` of `a`."""
    if a == b:
        return 0
    matcher = difflib.SequenceMatcher(None, a, b, autojunk=False)
    return sum(max(i2 - i1, j2 - j1) for op, i1, i2, j1, j2 in matcher.get_opcodes() if op != "equal")


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two builds: how many `instructions` and `encodings` differ, `of` how many in the first one."""

    instructions: int
    encodings: int
    of: int


def compare(plain: Sequence[Function], split: Sequence[Function]) -> Comparison:
    """Compare builds of one program, whose functions go by other names: each with the one most like it."""
    left = list(split)
    instructions = encodings = 0
    for function in plain:
        if not left:
            instructions += len(function.instructions)
            encodings += len(function.encodings)
            continue
        counts = [count_differences(function.instructions, other.instructions) for other in left]
        nearest = counts.index(min(counts))
        instructions += counts[nearest]
        encodings += count_differences(function.encodings, left.pop(nearest).encodings)
    return Comparison(
        instructions + sum(len(f.instructions) for f in left),
        encodings + sum(len(f.encodings) for f in left),
        sum(len(f.instructions) for f in plain),
    )
