"""NVIDIA Blackwell for data centres, compiled for through CUTLASS's Sm100 collectives.

No kernel of this target has run yet.
"""

from __future__ import annotations

from functools import partial

from mucc.target import multistage, skinny, sm100_memory
from mucc.target.base import Family, Target
from mucc.target.config import GemmConfig, Violation


class Sm100(Target):
    """sm_100a: TMA copies, tcgen05 with tensor memory, clusters whose blocks multiply in pairs."""

    def smem_bytes_used(self, config: GemmConfig, stages: int) -> int:
        if config.mainloop == skinny.MAINLOOP:
            return skinny.smem_bytes(config, stages)
        if config.mainloop == multistage.MAINLOOP:
            return multistage.smem_bytes(config, stages)
        return sm100_memory.kernel_storage(config, stages)

    def max_stages(self, config: GemmConfig) -> int:
        if config.mainloop == skinny.MAINLOOP:
            return skinny.max_stages(self.facts, config)
        if config.mainloop == multistage.MAINLOOP:
            return multistage.max_stages(config, self.smem_bytes)
        return sm100_memory.max_stages(config, self.smem_bytes)

    def violations(self, config: GemmConfig, stages: int | None = None) -> list[Violation]:
        from mucc.target import multistage_rules, rules, sm100_rules

        if config.mainloop == skinny.MAINLOOP:
            return skinny.violations(self.facts, config, stages, self.has_clusters)
        if config.mainloop == multistage.MAINLOOP:
            return multistage_rules.violations(self.facts.limits, config, stages)
        return rules.violations(
            partial(sm100_rules.broken, self.facts.limits), sm100_rules.mended, config, stages
        )

    @property
    def families(self) -> tuple[Family, ...]:
        from mucc.target.sm100_rules import COMPUTES
        from mucc.target.sm100_schedule import Sm100Tma

        return Sm100Tma(), multistage.Multistage(beside=COMPUTES), skinny.Skinny()

    def is_legal(self, config: GemmConfig, stages: int | None = None) -> bool:
        from mucc.target.sm100_rules import broken

        if config.mainloop in (skinny.MAINLOOP, multistage.MAINLOOP):
            return not self.violations(config, stages)
        return next(broken(self.facts.limits, config, stages), None) is None
