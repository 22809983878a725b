"""NVIDIA GPUs without wgmma and tensor memory, compiled for through CUTLASS 2.x mainloops."""

from __future__ import annotations

from mucc.target import multistage, skinny
from mucc.target.base import Family, Target
from mucc.target.config import GemmConfig, Violation


class Sm80(Target):
    """sm_80, sm_89, sm_120a: cp.async and mma.sync. What tells them apart is in their data files."""

    def smem_bytes_used(self, config: GemmConfig, stages: int) -> int:
        if config.mainloop == skinny.MAINLOOP:
            return skinny.smem_bytes(config, stages)
        return multistage.smem_bytes(config, stages)

    def max_stages(self, config: GemmConfig) -> int:
        if config.mainloop == skinny.MAINLOOP:
            return skinny.max_stages(self.facts, config)
        return multistage.max_stages(config, self.smem_bytes)

    def violations(self, config: GemmConfig, stages: int | None = None) -> list[Violation]:
        from mucc.target import multistage_rules

        computes = self.facts.multiprocessor.computes
        if config.compute not in computes:
            return [multistage_rules.no_format(self.name, config.compute, computes)]
        match config.mainloop:
            case skinny.MAINLOOP:
                return skinny.violations(self.facts, config, stages, self.has_clusters)
            case multistage.MAINLOOP:
                return multistage_rules.violations(self.facts.limits, config, stages)
            case _:
                return [multistage_rules.no_mainloop(self.name, config.mainloop)]

    @property
    def families(self) -> tuple[Family, ...]:
        return multistage.Multistage(), skinny.Skinny()
