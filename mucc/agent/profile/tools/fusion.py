"""Bytes that pass through device memory between stages."""

from __future__ import annotations

from collections.abc import Iterator

from mucc.agent.core.analysis import Advice, Limit, Severity
from mucc.agent.profile.evidence import Evidence

EXTRA, MUCH = 1.3, 2.0
"""Bytes as staged over those of the fused program: a third more is what another stage costs; at twice as many
half of the traffic is between stages (own choice)."""


class Fusion:
    """Stages that store what the next one reads."""

    name = "fusion"
    looks_at = "bytes that pass through memory between stages, against those of the fused program"
    limits = frozenset({Limit.MEMORY, Limit.MIXED, Limit.LATENCY})
    sources = ("schedule",)
    metrics = ()

    def check(self, seen: Evidence) -> Iterator[Advice]:
        for report in seen.sol:
            stages = report.get("stages", [])
            limits = report.get("limits", {})
            fused = limits["dram"]["amount"] if "dram" in limits else 0
            staged = report.get("staged_bytes", 0)
            if len(stages) < 2 or not fused or staged <= EXTRA * fused:
                continue
            kernel = report.get("kernel", "")
            rest = [s for s in stages if s.get("kind") != "contraction"] or stages
            worst = max(rest, key=lambda s: s.get("bytes", 0))
            yield Advice(
                self.name,
                Severity.WARNING if staged >= MUCH * fused else Severity.INFO,
                f"{kernel} moves {staged / fused:.2g} times the bytes that one fused kernel would, in"
                f" {len(stages)} stages",
                [
                    f"let {kernel}.{worst.get('name')} be part of its neighbour: drop `stage`, or reorder",
                    "store what lies between stages in 16 bits, if the policy of precision permits it",
                ],
                f"{kernel}.{worst.get('name')}",
                ["fusion", "precision"],
                {"staged_bytes": staged, "fused_bytes": fused, "stages": len(stages)},
            )
