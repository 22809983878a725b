"""Time that threads wait at barriers of a block."""

from __future__ import annotations

from collections.abc import Iterator

from mucc.agent.core.analysis import Advice, Severity
from mucc.agent.profile.evidence import Evidence
from mucc.agent.profile.tools import EVERY
from mucc.agent.profile.tools.stalls import REASONS, shares

SHARE = 0.3
"""Of warps' time: KernelPro (arXiv 2606.26453). Kernels that load by TMA are left out: in the fastest of them
multiplying warps are at a barrier for 41 % of the time (test/data/profile), where they take turns."""


class Barriers:
    """Time at the barriers of a block."""

    name = "barriers"
    looks_at = "the share of warps' time at barriers"
    limits = EVERY
    sources = ("ncu", "sass")
    metrics = tuple(REASONS.values())

    def check(self, seen: Evidence) -> Iterator[Advice]:
        for stage in seen.notable:
            product = stage.choice is not None
            share = shares(stage.counters).get("barrier", 0.0)
            if share <= SHARE or (stage.choice is not None and stage.choice.by_tma):
                continue
            barriers = sum(k.code.count("BAR") for k in stage.at_work if k.code)
            yield Advice(
                self.name,
                Severity.WARNING,
                f"threads wait {share:.0%} of the time for others of their block",
                [
                    "a mainloop that loads by TMA, whose groups of warps wait for data only",
                    "a smaller tile: fewer warps to wait for",
                ]
                if product
                else ["fuse the reduction with what makes its operand, or reduce along the last axis"],
                stage.name,
                ["mainloop", "tile"] if product else ["fusion", "layout"],
                {"share": share, "barriers": barriers},
            )
