"""Accesses to device memory that use a part of what they fetch."""

from __future__ import annotations

from collections.abc import Iterator

from mucc.agent.core.analysis import Advice, Limit, Severity
from mucc.agent.profile.evidence import Evidence, Stage

SECTOR = 32
"""Bytes of a sector, the unit of traffic of the caches (CUDA C++ Programming Guide)."""

WARP = 32

LOADS = "l1tex__average_t_sectors_per_request_pipe_lsu_mem_global_op_ld.ratio"
STORES = "l1tex__average_t_sectors_per_request_pipe_lsu_mem_global_op_st.ratio"
HITS = "l1tex__t_sector_hit_rate.pct"

EXCESS, MUCH = 1.2, 2.0
"""Sectors of a request over those that the bytes of a warp fill: KernelPro (arXiv 2606.26453) warns above
1.2."""

FEW_HITS = 30.0
"""Percent of hits in L1 below which excess sectors are lost (KernelPro). Alone it says nothing: a kernel that
reads every byte once has no hits."""


class Coalescing:
    """Warps whose threads read or write bytes that do not lie together, or few at a time."""

    name = "coalescing"
    looks_at = "sectors of a request against those that its bytes fill, and which variant of a kernel ran"
    limits = frozenset({Limit.MEMORY, Limit.MIXED})
    sources = ("ncu", "sass")
    metrics = (LOADS, STORES, HITS)

    def check(self, seen: Evidence) -> Iterator[Advice]:
        for stage in seen.notable:
            if stage.choice is not None and stage.choice.by_tma:
                continue
            if (found := self._scattered(stage)) or (found := self._narrow(stage)):
                yield found

    def _scattered(self, stage: Stage) -> Advice | None:
        loads, stores = stage.counters.get(LOADS), stage.counters.get(STORES)
        codes = [k.code for k in stage.at_work if k.code]
        widest_load = max((w for c in codes for w in c.loads), default=16)
        widest_store = max((w for c in codes for w in c.stores), default=16)
        kinds = (("loads", loads, widest_load), ("stores", stores, widest_store))
        excess, what = (
            max(
                (sectors / (WARP * width / SECTOR), what)
                for what, sectors, width in kinds
                if sectors is not None
            )
            if loads is not None or stores is not None
            else (0.0, "")
        )
        hits = stage.counters.get(HITS)
        if excess <= EXCESS or (hits is not None and hits >= FEW_HITS):
            return None
        return Advice(
            self.name,
            Severity.CRITICAL if excess >= MUCH else Severity.WARNING,
            f"{what} touch {excess:.2g} times the sectors that their bytes fill: threads of a warp are not at"
            " neighbouring addresses",
            [
                "let the last axis be the contiguous one of what the stage reads and writes",
                "store the operand in that order where it is made: `stage` it, or change its layout",
                "gathered rows of whole 32 bytes lose nothing",
            ],
            stage.name,
            ["layout", "fusion"],
            {LOADS: loads, STORES: stores, HITS: hits, "excess": excess},
        )

    def _narrow(self, stage: Stage) -> Advice | None:
        """A map or a reduction that has a kernel for 16 bytes a thread, and could not use it."""
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


def _vectored(name: str) -> str:
    """What the kernel for whole vectors is called, beside that for single elements."""
    stem, wide = (name.removesuffix("_wide"), "_wide") if name.endswith("_wide") else (name, "")
    return f"{stem}_vector{wide}"
