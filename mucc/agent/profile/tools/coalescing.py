"""Accesses to device memory that use a part of what they fetch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from mucc.agent.core.analysis import Advice, Limit, Severity
from mucc.agent.profile.evidence import Evidence, Stage
from mucc.agent.profile.tools.stalls import REASONS, shares

SECTOR = 32
"""Bytes of a sector, the unit of traffic of the caches (CUDA C++ Programming Guide)."""

KINDS = ("ld", "st")
SECTORS = {kind: f"l1tex__t_sectors_pipe_lsu_mem_global_op_{kind}.sum" for kind in KINDS}
USED = {kind: f"smsp__sass_average_data_bytes_per_sector_mem_global_op_{kind}.ratio" for kind in KINDS}
"""Sectors that global loads and stores touch, and the bytes that they use of one."""

HITS = "l1tex__t_sector_hit_rate.pct"

EXCESS, MUCH = 1.2, 2.0
"""Sectors that are touched over those that the bytes fill: KernelPro (arXiv 2606.26453) warns above 1.2."""

FEW_HITS, WAITS = 30.0, 0.4
"""Percent of hits in L1 below which, and share of stalls on loads and stores above which excess sectors cost
time (KernelPro). Few hits alone say nothing: a kernel that reads every byte once has none."""


class Coalescing:
    """Warps whose threads read or write bytes that do not lie together, or few at a time."""

    name = "coalescing"
    looks_at = (
        "sectors that are touched against those that their bytes fill, and which variant of a kernel ran"
    )
    limits = frozenset({Limit.MEMORY, Limit.MIXED})
    sources = ("ncu", "ptxas")
    metrics = (*SECTORS.values(), *USED.values(), HITS, *REASONS.values())

    def check(self, seen: Evidence) -> Iterator[Advice]:
        for stage in seen.notable:
            if stage.choice is not None and stage.choice.by_tma:
                continue
            if found := self._scattered(stage) or self._narrow(stage):
                yield found

    def _scattered(self, stage: Stage) -> Advice | None:
        excess = _excess(stage.counters)
        if excess is None or excess <= EXCESS:
            return None
        hits, reasons = stage.counters.get(HITS, 0.0), shares(stage.counters)
        waiting = reasons.get("long_scoreboard", 0.0) + reasons.get("lg_throttle", 0.0)
        if hits >= FEW_HITS and waiting <= WAITS:
            return None
        return Advice(
            self.name,
            Severity.CRITICAL if excess >= MUCH else Severity.WARNING,
            f"{excess:.2g} times the sectors are touched that the bytes fill: threads of a warp are not at"
            " neighbouring addresses, or rows do not begin at whole sectors",
            [
                "let the last axis be the contiguous one of what the stage reads and writes",
                "rows of whole 16 bytes: `where K % 8 == 0` for 16 bits, `K % 4 == 0` for f32",
                "store the operand in that order where it is made: `stage` it, or change its layout",
            ],
            stage.name,
            ["layout", "fusion"],
            {"excess": excess, HITS: hits, "waiting": waiting},
        )

    def _narrow(self, stage: Stage) -> Advice | None:
        """Return a map or a reduction that has a kernel for 16 bytes a thread, and could not use it."""
        names = {k.name for k in stage.kernels}
        slow = [n for n in stage.ran if "_vector" not in n and _vectored(n) in names]
        if not slow:
            return None
        return Advice(
            self.name,
            Severity.WARNING,
            "it runs its kernel for single elements: rows are no multiple of 16 bytes, or do not lie on them",
            [
                "promise it where it holds: `where N % 8 == 0` (16 bits), `N % 4 == 0` (f32)",
                "give the operand rows of whole 16 bytes",
            ],
            stage.name,
            ["layout"],
            {"kernels": slow},
        )


def _excess(counters: Mapping[str, float]) -> float | None:
    """Sectors over those that the bytes fill; None where it was not counted, or nothing is accessed.

    Copies that go past registers touch sectors, but use no bytes by that counter: they are left out.
    """
    pairs = [(counters.get(SECTORS[kind], 0.0), counters.get(USED[kind], 0.0)) for kind in KINDS]
    touched = sum(sectors for sectors, used in pairs if used > 0)
    filled = sum(sectors * used / SECTOR for sectors, used in pairs)
    return touched / filled if filled > 0 else None


def _vectored(name: str) -> str:
    """Return the name of the kernel for whole vectors beside that for single elements."""
    stem, wide = (name.removesuffix("_wide"), "_wide") if name.endswith("_wide") else (name, "")
    return f"{stem}_vector{wide}"
