"""Products that ptxas serialised."""

from __future__ import annotations

from collections.abc import Iterator

from mucc.agent.core.analysis import Advice, Severity
from mucc.agent.profile.evidence import Evidence
from mucc.agent.profile.tools import EVERY

UNDONE = "MU5202"
"""What mucc warns of where ptxas serialised wgmma or ignored setmaxnreg (C7504, C7509, C7510)."""


class Serialised:
    """Warnings of the build that wgmma or setmaxnreg were undone: speed collapses."""

    name = "serialised"
    looks_at = "ptxas's warnings that wgmma was serialised or setmaxnreg ignored"
    limits = EVERY
    sources = ("ptxas",)
    metrics = ()

    def check(self, seen: Evidence) -> Iterator[Advice]:
        said = [message for code, message in seen.warnings if code == UNDONE]
        if not said:
            return
        products = [stage for stage, _ in seen.products]
        yield Advice(
            self.name,
            Severity.CRITICAL,
            said[0],
            ["choose another tile, which holds fewer accumulators", "choose another mainloop"],
            products[0].name if len(products) == 1 else "",
            ["tile", "mainloop"],
            {"warnings": len(said)},
        )
