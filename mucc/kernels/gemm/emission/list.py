"""Contractions of lists of problems for Hopper: the kernels of `sm90_gemm`, problems in the place of batches.

Every problem of a launch has its parameters beside those of the others (mucc/lists.cuh).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from mucc.codegen.kernel_code import Headers
from mucc.kernels.gemm.emission.lean import LeanEpilogue
from mucc.kernels.gemm.emission.sm90 import Sm90Gemm


@dataclass
class ListEpilogue(LeanEpilogue):
    """mucc's own epilogue for the problem that a tile belongs to."""

    @property
    def wrapper(self) -> str:
        return "mucc::gemm::ListEpilogue<"


class ListGemm(Sm90Gemm):
    """A contraction that one launch computes for each of a list of problems."""

    @property
    def headers(self) -> Headers:
        return replace(
            super().headers,
            device="mucc/lists.cuh",
            host="mucc/lists_launch.h",
            driver="mucc::gemm::ListHost",
        )

    def build_epilogue(self) -> LeanEpilogue:
        self.c = None  # read by the epilogue, as any other matrix is
        self.scales = []
        return self.lean_epilogue(ListEpilogue)

    @property
    def fetched(self) -> list[str]:
        return []

    @property
    def tile_scheduler(self) -> str:
        return "mucc::gemm::ListTiles"

    @property
    def mainloop_wrapper(self) -> str:
        return "mucc::gemm::ListMainloop<"
