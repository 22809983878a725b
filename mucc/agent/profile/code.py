"""Count the instructions in the machine code of a kernel."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

_OPCODE = re.compile(r"(?:@!?U?P\w+\s+)?(?P<name>[A-Z][A-Z0-9_]*)(?P<rest>(?:\.[A-Za-z0-9_]+)*)")
_WIDTH = {"U8": 1, "S8": 1, "U16": 2, "S16": 2, "64": 8, "128": 16}

TENSOR = ("HGMMA", "QGMMA", "IGMMA", "BGMMA", "HMMA", "IMMA", "DMMA", "QMMA")
"""Tensor-core instructions; those with a G are Hopper's, of four warps together (wgmma)."""


@dataclass(frozen=True, slots=True)
class Code:
    """Instructions of a kernel, counted where they stand, not how often they run.

    `opcodes` counts them by name without modifiers. `loads` and `stores` count accesses to global memory by
    the bytes of one thread.
    """

    opcodes: Mapping[str, int]
    loads: Mapping[int, int]
    stores: Mapping[int, int]

    @staticmethod
    def of(instructions: Iterable[str]) -> Code:
        """Count the instructions of a listing of `cuobjdump -sass`."""
        opcodes: Counter[str] = Counter()
        loads: Counter[int] = Counter()
        stores: Counter[int] = Counter()
        for text in instructions:
            if (match := _OPCODE.match(text)) is None:
                continue
            name = match["name"]
            opcodes[name] += 1
            if name in ("LDG", "STG", "LDGSTS"):
                width = next((_WIDTH[m] for m in match["rest"].split(".") if m in _WIDTH), 4)
                (stores if name == "STG" else loads)[width] += 1
        return Code(opcodes, loads, stores)

    @property
    def instructions(self) -> int:
        return sum(self.opcodes.values())

    def count(self, *names: str) -> int:
        """Return the number of instructions with one of these names."""
        return sum(self.opcodes.get(name, 0) for name in names)

    @property
    def spills(self) -> int:
        """Loads and stores of local memory: spilled registers, or arrays that have to be addressed."""
        return self.count("LDL", "STL")

    @property
    def wgmma(self) -> int:
        return self.count(*(name for name in TENSOR if "GMMA" in name))

    @property
    def mma(self) -> int:
        """Tensor-core instructions of one warp."""
        return self.count(*(name for name in TENSOR if "GMMA" not in name))
