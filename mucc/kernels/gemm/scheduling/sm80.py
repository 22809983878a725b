"""NVIDIA GPUs without wgmma and tensor memory, compiled for through CUTLASS 2.x mainloops."""

from __future__ import annotations

from mucc.kernels.gemm.scheduling import multistage, skinny
from mucc.kernels.gemm.scheduling.base import Family, GemmTarget
from mucc.kernels.gemm.scheduling.config import GemmConfig
from mucc.kernels.gemm.scheduling.multistage_family import Multistage
from mucc.kernels.violation import Violation


class Sm80(GemmTarget):
    """sm_80, sm_89, sm_120a: cp.async and mma.sync. What tells them apart is in their data files."""

    def refusal(self, config: GemmConfig) -> Violation | None:
        problem = config.problem
        from mucc.kernels.gemm.scheduling import multistage_rules

        computes = self.facts.multiprocessor.computes
        if problem.compute not in computes:
            return multistage_rules.no_format(self.name, problem.compute, computes)
        if refusal := self.block_refusal(config):
            return refusal
        if config.schedule.mainloop not in (skinny.MAINLOOP, multistage.MAINLOOP):
            return multistage_rules.no_mainloop(self.name, config.schedule.mainloop)
        return None

    @property
    def families(self) -> tuple[Family, ...]:
        return Multistage(), skinny.Skinny()
