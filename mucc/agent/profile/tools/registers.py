"""Registers that do not suffice, or that cost warps."""

from __future__ import annotations

from collections.abc import Iterator

from mucc.agent.core.analysis import Advice, Severity
from mucc.agent.profile.evidence import Evidence, Stage
from mucc.agent.profile.tools import EVERY

MANY = 96
"""Registers of a thread: KernelPro (arXiv 2606.26453) warns above. Kernels of contractions hold their
accumulators in registers by design, and are left out."""

HEAVY = 64
"""Loads and stores of local memory in the code above which spilling is no matter of a few values (own
choice)."""


class Registers:
    """Spilled registers, and maps and reductions that hold many."""

    name = "registers"
    looks_at = "loads and stores of local memory, and registers of a thread"
    limits = EVERY
    sources = ("sass", "ptxas")
    metrics = ()

    def check(self, seen: Evidence) -> Iterator[Advice]:
        for stage in seen.notable:
            if found := self._spills(stage) or self._many(stage):
                yield found

    def _spills(self, stage: Stage) -> Advice | None:
        kernels = stage.at_work
        accesses = max((k.code.spills for k in kernels if k.code), default=0)
        frame = max((k.resources.stack for k in kernels if k.resources), default=0)
        if not accesses and (not frame or any(k.code for k in kernels)):
            return None
        product = stage.choice is not None
        return Advice(
            self.name,
            Severity.CRITICAL if accesses >= HEAVY else Severity.WARNING,
            f"registers spill to memory: {accesses} loads and stores, a frame of {frame} bytes a thread"
            if accesses
            else f"a thread has {frame} bytes of local memory",
            ["a smaller tile holds fewer accumulators", "split the epilogue with `stage`"]
            if product
            else ["split the expression with `stage`, so that each kernel holds fewer values"],
            stage.name,
            ["tile", "fusion"] if product else ["fusion"],
            {"accesses": accesses, "frame": frame},
        )

    def _many(self, stage: Stage) -> Advice | None:
        registers = max((k.resources.registers for k in stage.at_work if k.resources), default=0)
        if stage.choice is not None or registers <= MANY:
            return None
        return Advice(
            self.name,
            Severity.WARNING,
            f"{registers} registers a thread leave room for few warps",
            ["split the expression with `stage`, so that each kernel holds fewer values"],
            stage.name,
            ["fusion"],
            {"registers": registers},
        )
