"""NVIDIA Hopper, compiled for through CUTLASS 3.x collectives, and others of mucc's families."""

from __future__ import annotations

from collections.abc import Mapping

from mucc.kernels.gemm.scheduling import multistage, skinny
from mucc.kernels.gemm.scheduling.base import Family, GemmTarget
from mucc.kernels.gemm.scheduling.config import GemmConfig
from mucc.kernels.gemm.scheduling.multistage_family import Multistage
from mucc.kernels.violation import Violation

_CONVERTS = (
    "`stage h = dequantize(...)` or a `cast` has a kernel of its own convert them, which suits every mainloop"
)


class Sm90(GemmTarget):
    """sm_90a: TMA copies, wgmma, thread block clusters."""

    def refusal(self, config: GemmConfig) -> Violation | None:
        schedule = config.schedule
        from mucc.kernels.gemm.scheduling.copied_rules import MAINLOOP
        from mucc.kernels.gemm.scheduling.sm90_rules import BLOCK_MAINLOOPS, MAINLOOPS

        if config.problem.epilogue.ranges and schedule.mainloop == multistage.MAINLOOP:
            message = f"the {schedule.mainloop} mainloop stores no ranges of columns"
            note = "kernels that store by TMA do, and those for few rows"
            return Violation("MU3061", "mainloop", message, (note,), fix=MAINLOOPS[0])

        if schedule.mainloop not in (skinny.MAINLOOP, multistage.MAINLOOP, MAINLOOP):
            return None
        if config.problem.epilogue.group:
            message = f"the {schedule.mainloop} mainloop does not reduce groups of columns"
            note = "kernels that store by TMA do"
            return Violation("MU3061", "mainloop", message, (note,), fix=MAINLOOPS[0])
        if config.problem.narrow is not None and schedule.mainloop != skinny.MAINLOOP:
            message = f"the {schedule.mainloop} mainloop does not convert weights"
            return Violation("MU3130", "mainloop", message, (_CONVERTS,), fix=MAINLOOPS[0])
        if config.problem.blocks is None:
            return None
        message = f"the {schedule.mainloop} mainloop takes no block scales"
        return Violation("MU3034", "mainloop", message, fix=BLOCK_MAINLOOPS[0])

    def splits(self, config: GemmConfig) -> bool:
        from mucc.kernels.gemm.scheduling.sm90_rules import MAINLOOPS, SPLIT

        return config.problem.compute in SPLIT and config.schedule.mainloop in MAINLOOPS

    def pads(self, config: GemmConfig) -> bool:
        problem = config.problem
        from mucc.kernels.gemm.scheduling.copied_rules import MAINLOOP
        from mucc.kernels.gemm.scheduling.sm90_rules import MAINLOOPS

        plain = not problem.is_sparse and problem.narrow is None
        return plain and not problem.wide and config.schedule.mainloop in (*MAINLOOPS, MAINLOOP)

    @property
    def families(self) -> tuple[Family, ...]:
        from mucc.kernels.gemm.scheduling.copied import COPIED
        from mucc.kernels.gemm.scheduling.sm90_rules import COMPUTES
        from mucc.kernels.gemm.scheduling.sm90_schedule import TMA

        return TMA, COPIED, Multistage(beside=COMPUTES), skinny.Skinny()

    def picks(self, compute: str) -> bool:
        from mucc.kernels.gemm.scheduling.copied_rules import COMPUTES

        return compute in COMPUTES

    def copies(self, config: GemmConfig) -> Mapping[str, int]:
        from mucc.kernels.gemm.scheduling.copied_rules import MAINLOOP, granule

        if config.schedule.mainloop != MAINLOOP or not (size := granule(config.problem)):
            return {}
        return {"b" if config.schedule.exchanged else "a": size}

    @property
    def mixes(self) -> bool:
        return True

    def mixes_groups(self, group: int) -> bool:
        from mucc.kernels.gemm.scheduling.sm90_rules import mixes_group

        return mixes_group(group, 64)

    @property
    def grouped_mainloops(self) -> tuple[str, ...]:
        from mucc.kernels.gemm.scheduling import copied_rules
        from mucc.kernels.gemm.scheduling.sm90_rules import GROUPED

        return *GROUPED, copied_rules.MAINLOOP

    @property
    def block_mainloops(self) -> tuple[str, ...]:
        from mucc.kernels.gemm.scheduling.sm90_rules import BLOCK_MAINLOOPS

        return BLOCK_MAINLOOPS

    @property
    def list_mainloops(self) -> tuple[str, ...]:
        return ("cooperative",)

    @property
    def pair_mainloops(self) -> tuple[str, ...]:
        from mucc.kernels.gemm.scheduling.sm90_rules import PAIR_MAINLOOPS

        return PAIR_MAINLOOPS

    @property
    def reducing_mainloops(self) -> tuple[str, ...]:
        from mucc.kernels.gemm.scheduling.sm90_rules import MAINLOOPS

        return MAINLOOPS

    def stores_ranges(self, compute: str, a_k_major: bool, b_k_major: bool, result: str) -> bool:
        return self.has_pairs(compute, a_k_major, b_k_major, result)

    def reduces_groups(self, compute: str, a_k_major: bool, b_k_major: bool) -> bool:
        along_k = a_k_major and b_k_major
        return compute in ("bf16", "f16") or (compute == "tf32" and along_k)

    def has_pairs(self, compute: str, a_k_major: bool, b_k_major: bool, result: str) -> bool:
        if result not in ("bf16", "f16", "f32", "e4m3", "e5m2"):
            return False
        along_k = a_k_major and b_k_major
        return compute in ("bf16", "f16") or (compute in ("tf32", "e4m3", "e5m2") and along_k)
