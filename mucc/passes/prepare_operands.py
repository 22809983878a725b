"""Insert kernels that copy or split matrices which a kernel cannot read or write where they lie."""

from __future__ import annotations

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp

from mucc.dialects.rewriting import Pass
from mucc.kernels.registry import kernels_of, kind_of


class PrepareOperands(Pass):
    """Copy matrices, or split them, for kernels that read and write them in another form."""

    name = "prepare-operands"

    def apply(self, ctx: Context | None, op: ModuleOp) -> None:
        for program, kernel in list(kernels_of(op)):
            kind_of(kernel).prepare(program, kernel)
