"""The kind of scan kernels."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from xdsl.ir import Operation

from mucc.dialects.mu.ops.base import AnchorOp
from mucc.dialects.mu.ops.scan import ScanOp
from mucc.dialects.mu.ops.stage import StageOp
from mucc.kernels.interface import Kind, Meaning
from mucc.kernels.scan.op import RunningOp, ScanKernelOp

if TYPE_CHECKING:
    from mucc.codegen.kernel_code import KernelCode
    from mucc.codegen.memory import Places
    from mucc.kernels.interpreter import CutlassFunctions
    from mucc.kernels.lowering.program import ProgramBuilder


class ScanKind(Kind[ScanKernelOp]):
    """Kernels that form running sums or products along an axis, in one pass over memory.

    Pointwise work on the operand, masks included, and on the result runs in the kernel.
    """

    name = "scan"
    op = ScanKernelOp
    nodes = (RunningOp,)

    def claims(self, anchor: AnchorOp | None, target: str | None = None) -> bool:
        return isinstance(anchor, ScanOp)

    def keeps_in_flight(self, anchor: AnchorOp) -> bool:
        return True

    def lower(self, builder: ProgramBuilder, stage: StageOp) -> None:
        from mucc.kernels.scan.lower import lower_scan

        lower_scan(builder, stage)

    def takes_scratch(self, op: ScanKernelOp) -> bool:
        return True

    def needs_scratch(self, op: ScanKernelOp) -> bool:
        return True

    def interpret(self, functions: CutlassFunctions, op: ScanKernelOp, args: tuple[Any, ...]) -> None:
        functions.begin(op.extents)

    def meanings(self) -> Mapping[type[Operation], Meaning]:
        from mucc.kernels.scan.meaning import running

        return {RunningOp: running}

    def code(self, op: ScanKernelOp, places: Places, *, canonical: bool = False) -> KernelCode:
        from mucc.kernels.scan.emission import ScanCode

        return ScanCode(op, places)
