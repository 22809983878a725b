"""C++ of reduction kernels (mucc/reduce.cuh)."""

from __future__ import annotations

from mucc.codegen.kernel_code import LightCode
from mucc.codegen.memory import Places
from mucc.codegen.pointwise import Pointwise
from mucc.codegen.texts import Texts
from mucc.kernels.reduce.op import ReduceKernelOp


class ReduceCode(LightCode):
    """A kernel of mucc/reduce.cuh."""

    HEADER = "mucc/reduce.cuh"

    def __init__(self, op: ReduceKernelOp, places: Places):
        self.op, self.places = op, places

    def summary(self) -> str:
        axes = list(self.op.axes.get_values())
        return f"reduce of [{', '.join(map(str, self.op.extents))}] over axes {axes}"

    def texts(self, entry: str) -> Texts:
        axes = self.op.axes.get_values()
        return Pointwise(self.op, self.op.extents, self.places, axes).texts(entry)
