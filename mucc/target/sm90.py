"""NVIDIA Hopper, compiled for through CUTLASS 3.x collectives."""

from __future__ import annotations

from mucc.target import skinny, sm90_memory
from mucc.target.base import Family, Target
from mucc.target.config import GemmConfig, Violation


class Sm90(Target):
    """sm_90a: TMA copies, wgmma, thread block clusters."""

    def smem_bytes_used(self, config: GemmConfig, stages: int) -> int:
        if config.mainloop == skinny.MAINLOOP:
            return skinny.smem_bytes(config, stages)
        return sm90_memory.kernel_storage(config, stages)

    def max_stages(self, config: GemmConfig) -> int:
        if config.mainloop == skinny.MAINLOOP:
            return skinny.max_stages(self.facts, config)
        return sm90_memory.max_stages(config, self.smem_bytes)

    def violations(self, config: GemmConfig, stages: int | None = None) -> list[Violation]:
        from mucc.target.sm90_rules import violations

        if config.mainloop == skinny.MAINLOOP:
            return skinny.violations(self.facts, config, stages, self.has_clusters)
        return violations(self.facts.limits, config, stages)

    @property
    def families(self) -> tuple[Family, ...]:
        from mucc.target.sm90_schedule import TMA

        return (TMA, skinny.Skinny())

    def is_legal(self, config: GemmConfig, stages: int | None = None) -> bool:
        from mucc.target.sm90_rules import broken

        if config.mainloop == skinny.MAINLOOP:
            return not self.violations(config, stages)
        return next(broken(self.facts.limits, config, stages), None) is None

    @property
    def pair_mainloops(self) -> tuple[str, ...]:
        from mucc.target.sm90_rules import PAIR_MAINLOOPS

        return PAIR_MAINLOOPS

    def has_pairs(self, compute: str, a_k_major: bool, b_k_major: bool, result: str) -> bool:
        if result not in ("bf16", "f16", "f32"):
            return False
        along_k = a_k_major and b_k_major
        return compute in ("bf16", "f16") or (compute in ("tf32", "e4m3", "e5m2") and along_k)
