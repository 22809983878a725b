"""Detect costly reductions of the parts of a divided K."""

from __future__ import annotations

from collections.abc import Iterator

from mucc.agent.core.analysis import Advice, Severity
from mucc.agent.profile.evidence import Evidence
from mucc.agent.profile.tools import EVERY

SHARE, MOST = 0.2, 0.4
"""Of the estimated time. Adding up a fifth of it gains less than half as many pieces would (own choice)."""


class Split:
    """K divided into more pieces than it pays to add up."""

    name = "split"
    looks_at = "the time that adding up the pieces of a divided K takes"
    limits = EVERY
    sources = ("schedule",)
    metrics = ()

    def check(self, seen: Evidence) -> Iterator[Advice]:
        for stage, choice in seen.products:
            share = choice.part("reduction")
            if choice.scheduler == "persistent" or share < SHARE:
                continue
            yield Advice(
                self.name,
                Severity.CRITICAL if share >= MOST else Severity.WARNING,
                f"adding up {choice.splits} pieces of K takes {share:.0%} of the time",
                [
                    f"fewer pieces: split_k({max(choice.splits // 2, 2)})",
                    "a smaller tile instead, which fills the card without dividing K",
                    "stream_k, which divides only the tiles of the last waves",
                ],
                stage.name,
                ["split_k", "tile", "stream_k"],
                {"share": share, "splits": choice.splits},
            )
