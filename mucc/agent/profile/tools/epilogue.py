"""Epilogues that no product hides."""

from __future__ import annotations

from collections.abc import Iterator

from mucc.agent.core.analysis import Advice, Limit, Severity
from mucc.agent.profile.evidence import Evidence

SHARE, MOST = 0.2, 0.4
"""Of the estimated time, by the cost model: what of the epilogue runs while the tensor cores wait (own
choice)."""


class Epilogue:
    """Time in which results are stored and nothing multiplies."""

    name = "epilogue"
    looks_at = "the share of the time in which an epilogue runs and nothing is multiplied"
    limits = frozenset({Limit.COMPUTE, Limit.MIXED, Limit.MEMORY})
    sources = ("schedule",)
    metrics = ()

    def check(self, seen: Evidence) -> Iterator[Advice]:
        for stage, choice in seen.products:
            if (share := choice.part("epilogue")) < SHARE:
                continue
            advice = [
                "a smaller tile, of which a multiprocessor has several in turn",
                "another epilogue tile",
            ]
            levers = ["tile", "epilogue"]
            if choice.mainloop != "pingpong":
                advice.insert(
                    0, "mainloop = pingpong: one half of the warps stores while the other multiplies"
                )
                levers.insert(0, "mainloop")
            yield Advice(
                self.name,
                Severity.CRITICAL if share >= MOST else Severity.WARNING,
                f"{share:.0%} of the time goes to an epilogue that nothing hides",
                advice,
                stage.name,
                levers,
                {"share": share, "mainloop": choice.mainloop},
            )
