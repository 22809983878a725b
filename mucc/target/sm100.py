"""NVIDIA Blackwell for data centres, compiled for through CUTLASS's Sm100 collectives.

No kernel of this target has run yet.
"""

from __future__ import annotations

from mucc.target import multistage, skinny
from mucc.target.base import Family, Target
from mucc.target.config import GemmConfig, Violation


class Sm100(Target):
    """sm_100a: TMA copies, tcgen05 with tensor memory, clusters whose blocks multiply in pairs."""

    def refusal(self, config: GemmConfig) -> Violation | None:
        from mucc.target import rules

        return rules.no_block_scales(self.name) if config.blocks is not None else None

    @property
    def families(self) -> tuple[Family, ...]:
        from mucc.target.sm100_rules import COMPUTES
        from mucc.target.sm100_schedule import Sm100Tma

        return Sm100Tma(), multistage.Multistage(beside=COMPUTES), skinny.Skinny()
