"""NVIDIA Hopper, compiled for through CUTLASS 3.x collectives, and others of mucc's families."""

from __future__ import annotations

from mucc.target import multistage, skinny, sm90_memory
from mucc.target.base import Family, Target
from mucc.target.config import GemmConfig, Violation


class Sm90(Target):
    """sm_90a: TMA copies, wgmma, thread block clusters."""

    def smem_bytes_used(self, config: GemmConfig, stages: int) -> int:
        match config.mainloop:
            case skinny.MAINLOOP:
                return skinny.smem_bytes(config, stages)
            case multistage.MAINLOOP:
                return multistage.smem_bytes(config, stages)
            case _:
                return sm90_memory.kernel_storage(config, stages)

    def max_stages(self, config: GemmConfig) -> int:
        match config.mainloop:
            case skinny.MAINLOOP:
                return skinny.max_stages(self.facts, config)
            case multistage.MAINLOOP:
                return multistage.max_stages(config, self.smem_bytes)
            case _:
                return sm90_memory.max_stages(config, self.smem_bytes)

    def violations(self, config: GemmConfig, stages: int | None = None) -> list[Violation]:
        from mucc.target import multistage_rules, sm90_rules

        if config.blocks is not None and config.mainloop in (skinny.MAINLOOP, multistage.MAINLOOP):
            message = f"the {config.mainloop} mainloop takes no block scales"
            return [Violation("MU3034", "mainloop", message, fix=sm90_rules.BLOCK_MAINLOOPS[0])]
        match config.mainloop:
            case skinny.MAINLOOP:
                return skinny.violations(self.facts, config, stages, self.has_clusters)
            case multistage.MAINLOOP:
                return multistage_rules.violations(self.facts.limits, config, stages)
            case _:
                return sm90_rules.violations(self.facts.limits, config, stages)

    @property
    def families(self) -> tuple[Family, ...]:
        from mucc.target.sm90_rules import COMPUTES
        from mucc.target.sm90_schedule import TMA

        return TMA, multistage.Multistage(beside=COMPUTES), skinny.Skinny()

    def is_legal(self, config: GemmConfig, stages: int | None = None) -> bool:
        from mucc.target.sm90_rules import broken

        if config.mainloop == skinny.MAINLOOP:
            return not self.violations(config, stages)
        return next(broken(self.facts.limits, config, stages), None) is None

    @property
    def grouped_mainloops(self) -> tuple[str, ...]:
        from mucc.target.sm90_rules import GROUPED

        return GROUPED

    @property
    def pair_mainloops(self) -> tuple[str, ...]:
        from mucc.target.sm90_rules import PAIR_MAINLOOPS

        return PAIR_MAINLOOPS

    def has_pairs(self, compute: str, a_k_major: bool, b_k_major: bool, result: str) -> bool:
        if result not in ("bf16", "f16", "f32", "e4m3", "e5m2"):
            return False
        along_k = a_k_major and b_k_major
        return compute in ("bf16", "f16") or (compute in ("tf32", "e4m3", "e5m2") and along_k)
