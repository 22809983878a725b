"""Code that is longer than the caches of instructions."""

from __future__ import annotations

from collections.abc import Iterator

from mucc.agent.core.analysis import Advice, Limit, Severity
from mucc.agent.profile.evidence import Evidence
from mucc.agent.profile.tools.stalls import REASONS, shares

REASON = "no_instruction"

SHARE = 0.3
"""Of warps' time. On an H200 it is 36 % in a product whose epilogue has erf and tanh in 10,000 instructions,
and whose tensor cores work 24 % of the time; in others of that size it is about 1 % (test/data/profile)."""

BYTES = 16
"""Of an instruction."""


class CodeSize:
    """Warps that wait for instructions. Small problems do so as well: their code comes from a cold cache."""

    name = "code_size"
    looks_at = "the share of warps' time that they wait for instructions"
    limits = frozenset({Limit.COMPUTE, Limit.MIXED})
    sources = ("ncu", "sass")
    metrics = (REASONS[REASON],)

    def check(self, seen: Evidence) -> Iterator[Advice]:
        for stage in seen.notable:
            if (share := shares(stage.counters).get(REASON, 0.0)) <= SHARE:
                continue
            size = max((k.code.instructions * BYTES for k in stage.at_work if k.code), default=0)
            yield Advice(
                self.name,
                Severity.WARNING,
                f"warps wait {share:.0%} of the time for instructions"
                + (f": the code has {size / 1024:.0f} KB" if size else ""),
                [
                    "cheaper functions: tanh-form GELU for erf, sigmoid for tanh",
                    "split the expression with `stage`, so that each kernel does less",
                    "a narrower tile: an epilogue is unrolled over its columns",
                ],
                stage.name,
                ["fusion", "tile"],
                {"share": share, "bytes": size},
            )
