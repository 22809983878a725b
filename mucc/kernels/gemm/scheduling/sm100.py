"""NVIDIA Blackwell for data centres, compiled for through CUTLASS's Sm100 collectives.

No kernel of this target has run yet.
"""

from __future__ import annotations

from mucc.kernels.gemm.scheduling import skinny
from mucc.kernels.gemm.scheduling.base import Family, GemmTarget
from mucc.kernels.gemm.scheduling.multistage_family import Multistage


class Sm100(GemmTarget):
    """sm_100a: TMA copies, tcgen05 with tensor memory, clusters whose blocks multiply in pairs."""

    @property
    def families(self) -> tuple[Family, ...]:
        from mucc.kernels.gemm.scheduling.sm100_rules import COMPUTES
        from mucc.kernels.gemm.scheduling.sm100_schedule import Sm100Tma

        return Sm100Tma(), Multistage(beside=COMPUTES), skinny.Skinny()
