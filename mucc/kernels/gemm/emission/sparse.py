"""Contraction kernels for Hopper whose first operand is sparse."""

from __future__ import annotations

from dataclasses import replace

from mucc.codegen.kernel_code import Headers
from mucc.kernels.gemm.emission.sm90 import Sm90Gemm

_MAINLOOPS = (
    "cutlass/gemm/collective/builders/sm90_sparse_gmma_builder.inl",
    "cutlass/gemm/collective/sm90_sparse_mma_tma_gmma_ss_warpspecialized.hpp",
    "cutlass/gemm/collective/sm90_sparse_mma_tma_gmma_ss_warpspecialized_fp8.hpp",
)


class SparseGemm(Sm90Gemm):
    """CUTLASS's collectives for a sparse A, whose values and metadata lie in one block of memory."""

    operator_class = "OpClassSparseTensorOp"

    @property
    def headers(self) -> Headers:
        return replace(super().headers, more=_MAINLOOPS)
