"""Which family of kernels writes a contraction: its mainloop decides."""

from __future__ import annotations

from importlib import import_module

from mucc.dialects.cutlass.ops import GemmOp
from mucc.dialects.mu.schedule import Mainloop
from mucc.target.cuda.gemm import Gemm
from mucc.target.cuda.memory import EmissionError, Places

FAMILIES: dict[Mainloop, tuple[str, str]] = {
    Mainloop.COOPERATIVE: ("mucc.target.cuda.sm90_gemm", "Sm90Gemm"),
    Mainloop.PINGPONG: ("mucc.target.cuda.sm90_gemm", "Sm90Gemm"),
    Mainloop.WARPSPECIALIZED: ("mucc.target.cuda.sm90_gemm", "Sm90Gemm"),
    Mainloop.CPASYNC: ("mucc.target.cuda.copied_gemm", "CopiedGemm"),
    Mainloop.SKINNY: ("mucc.target.cuda.skinny", "SkinnyGemm"),
    Mainloop.ONE_SM: ("mucc.target.cuda.sm100_gemm", "Sm100Gemm"),
    Mainloop.TWO_SM: ("mucc.target.cuda.sm100_gemm", "Sm100Gemm"),
    Mainloop.MULTISTAGE: ("mucc.target.cuda.sm80_gemm", "Sm80Gemm"),
}
"""The module and class that write the kernels of a mainloop. A further family is a module with a `Gemm`."""


SPARSE = ("mucc.target.cuda.sparse_gemm", "SparseGemm")
"""The same for contractions with a sparse operand, whatever their mainloop."""


GROUPED: dict[Mainloop, tuple[str, str]] = {
    Mainloop.COOPERATIVE: ("mucc.target.cuda.grouped_gemm", "GroupedGemm"),
    Mainloop.PINGPONG: ("mucc.target.cuda.grouped_gemm", "GroupedGemm"),
    Mainloop.CPASYNC: ("mucc.target.cuda.copied_gemm", "CopiedGroupedGemm"),
}
"""The same for contractions whose rows are grouped."""


LISTED = ("mucc.target.cuda.list_gemm", "ListGemm")
"""The same for contractions that one launch computes for a list of problems."""


MIXED: dict[Mainloop, tuple[str, str]] = {
    Mainloop.COOPERATIVE: ("mucc.target.cuda.mixed_gemm", "MixedGemm"),
    Mainloop.PINGPONG: ("mucc.target.cuda.mixed_gemm", "MixedGemm"),
    Mainloop.WARPSPECIALIZED: ("mucc.target.cuda.mixed_gemm", "MixedGemm"),
    Mainloop.SKINNY: ("mucc.target.cuda.skinny", "SkinnyGemm"),
}
"""The same for contractions that convert an operand."""


def gemm_of(op: GemmOp, places: Places, *, canonical: bool = False) -> Gemm:
    """The text of a contraction kernel.

    With `canonical` its types are named and commented for no program in particular. Raises EmissionError
    where no family writes such kernels.
    """
    mainloop = op.mainloop.data if op.mainloop else None
    families = GROUPED if op.is_grouped else FAMILIES if op.narrow is None else MIXED
    if mainloop is None or mainloop not in families:
        raise EmissionError(f"no kernel for mainloop {mainloop or 'unset'}")
    module, name = SPARSE if op.is_sparse else LISTED if op.is_listed else families[mainloop]
    return getattr(import_module(module), name)(op, places, canonical=canonical)
