"""Choose the emitter of a contraction by the family of its mainloop."""

from __future__ import annotations

from importlib import import_module

from mucc.codegen.memory import EmissionError, Places
from mucc.dialects.mu.schedule_attributes import Mainloop
from mucc.kernels.gemm.emission.gemm import Gemm
from mucc.kernels.gemm.op import GemmOp

FAMILIES: dict[Mainloop, tuple[str, str]] = {
    Mainloop.COOPERATIVE: ("mucc.kernels.gemm.emission.sm90", "Sm90Gemm"),
    Mainloop.PINGPONG: ("mucc.kernels.gemm.emission.sm90", "Sm90Gemm"),
    Mainloop.WARPSPECIALIZED: ("mucc.kernels.gemm.emission.sm90", "Sm90Gemm"),
    Mainloop.CPASYNC: ("mucc.kernels.gemm.emission.copied", "CopiedGemm"),
    Mainloop.SKINNY: ("mucc.kernels.gemm.emission.skinny", "SkinnyGemm"),
    Mainloop.ONE_SM: ("mucc.kernels.gemm.emission.sm100", "Sm100Gemm"),
    Mainloop.TWO_SM: ("mucc.kernels.gemm.emission.sm100", "Sm100Gemm"),
    Mainloop.MULTISTAGE: ("mucc.kernels.gemm.emission.sm80", "Sm80Gemm"),
}
"""The module and class that write the kernels of a mainloop. A further family is a module with a `Gemm`."""


SPARSE = ("mucc.kernels.gemm.emission.sparse", "SparseGemm")
"""The same for contractions with a sparse operand, whatever their mainloop."""


GROUPED: dict[Mainloop, tuple[str, str]] = {
    Mainloop.COOPERATIVE: ("mucc.kernels.gemm.emission.grouped", "GroupedGemm"),
    Mainloop.PINGPONG: ("mucc.kernels.gemm.emission.grouped", "GroupedGemm"),
    Mainloop.CPASYNC: ("mucc.kernels.gemm.emission.copied", "CopiedGroupedGemm"),
}
"""The same for contractions whose rows are grouped."""


LISTED = ("mucc.kernels.gemm.emission.list", "ListGemm")
"""The same for contractions that one launch computes for a list of problems."""


MIXED: dict[Mainloop, tuple[str, str]] = {
    Mainloop.COOPERATIVE: ("mucc.kernels.gemm.emission.mixed", "MixedGemm"),
    Mainloop.PINGPONG: ("mucc.kernels.gemm.emission.mixed", "MixedGemm"),
    Mainloop.WARPSPECIALIZED: ("mucc.kernels.gemm.emission.mixed", "MixedGemm"),
    Mainloop.SKINNY: ("mucc.kernels.gemm.emission.skinny", "SkinnyGemm"),
}
"""The same for contractions that convert an operand."""


def gemm_of(op: GemmOp, places: Places, *, canonical: bool = False) -> Gemm:
    """Return the C++ of a contraction kernel.

    With `canonical` its types are named and commented for no program in particular. Raises EmissionError
    where no family writes such kernels.
    """
    mainloop = op.mainloop.data if op.mainloop else None
    families = GROUPED if op.is_grouped else FAMILIES if op.narrow is None else MIXED
    if mainloop is None or mainloop not in families:
        raise EmissionError(f"no kernel for mainloop {mainloop or 'unset'}")
    module, name = SPARSE if op.is_sparse else LISTED if op.is_listed else families[mainloop]
    return getattr(import_module(module), name)(op, places, canonical=canonical)
