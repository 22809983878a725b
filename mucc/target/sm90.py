"""NVIDIA Hopper, compiled for through CUTLASS 3.x collectives."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from mucc.target import sm90_memory
from mucc.target.base import Target
from mucc.target.config import GemmConfig, Problem, Schedule, Violation


class Sm90(Target):
    """sm_90a: TMA copies, wgmma, thread block clusters."""

    def __init__(self, name: str):
        super().__init__(name)
        self._chosen: dict[object, Schedule] = {}

    def smem_bytes_used(self, config: GemmConfig, stages: int) -> int:
        return sm90_memory.kernel_storage(config, stages)

    def max_stages(self, config: GemmConfig) -> int:
        return sm90_memory.max_stages(config, self.smem_bytes)

    def violations(self, config: GemmConfig, stages: int | None = None) -> list[Violation]:
        from mucc.target.sm90_rules import violations

        return violations(self.facts.limits, config, stages)

    def default_schedule(self, problem: Problem, fixed: Mapping[str, str] = MappingProxyType({})) -> Schedule:
        from mucc.target.sm90_schedule import choose

        # Kernels of one file often pose the same problem.
        key = (problem, tuple(sorted(fixed.items())))
        if key not in self._chosen:
            self._chosen[key] = choose(self.facts, problem, fixed)
        return self._chosen[key]

    def exchanges_operands(self, compute: str, a_k_major: bool, b_k_major: bool) -> bool:
        """Whether a product has to be computed as Dᵀ = Bᵀ Aᵀ.

        Of tf32 operands, wgmma takes only A from registers, and B must be contiguous along K. CUTLASS
        would exchange them itself, but its TMA epilogues do not follow.
        """
        return compute == "tf32" and a_k_major and not b_k_major
