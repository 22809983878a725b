"""The kind of sort kernels."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from xdsl.ir import Operation

from mucc.dialects.cutlass.attributes import Bound, RequirementAttr
from mucc.dialects.cutlass.ops import ProgramOp
from mucc.dialects.mu.ops.base import AnchorOp
from mucc.dialects.mu.ops.sort import SortOp
from mucc.dialects.mu.ops.stage import StageOp
from mucc.dialects.mu.types import Dim, Shaped
from mucc.dialects.rewriting import Finding
from mucc.kernels.interface import Kind, Meaning
from mucc.kernels.lowering.inputs import Inputs
from mucc.kernels.sort.op import PositionOp, SortedOp, SortKernelOp
from mucc.kernels.sort.ways import LONGEST, MOST_PICKED, ways

if TYPE_CHECKING:
    from mucc.codegen.kernel_code import KernelCode
    from mucc.codegen.memory import Places
    from mucc.kernels.interpreter import CutlassFunctions
    from mucc.kernels.lowering.program import ProgramBuilder


def _extent(op: SortOp) -> Dim:
    """Return how many elements an operation sorts."""
    return Shaped.of(op.operand.type).dims[op.axis.value.data]


class SortKind(Kind[SortKernelOp]):
    """Kernels that sort rows of limited length, or pick the largest few elements of rows of any length.

    Pointwise work on the operand and on the result runs in the kernel. One kernel computes values and their
    positions.
    """

    name = "sort"
    op = SortKernelOp
    nodes = (SortedOp, PositionOp)

    def claims(self, anchor: AnchorOp | None, target: str | None = None) -> bool:
        return isinstance(anchor, SortOp) and bool(ways(_extent(anchor), anchor.taken))

    def instead(self, op: Operation) -> str | None:
        if not isinstance(op, SortOp):
            return None
        return (
            f"sort rows of at most {LONGEST} elements, as a kernel does; "
            f"`topk` and `argtopk` of up to {MOST_PICKED} elements take rows of any length"
        )

    def keeps_in_flight(self, anchor: AnchorOp) -> bool:
        return True

    def computes_with(self, anchor: AnchorOp, op: AnchorOp, inputs: Inputs) -> bool:
        return isinstance(anchor, SortOp) and isinstance(op, SortOp) and anchor.shares_order(op)

    def lower(self, builder: ProgramBuilder, stage: StageOp) -> None:
        from mucc.kernels.sort.lower import lower_sort

        lower_sort(builder, stage)

    def requirements(self, program: ProgramOp, op: SortKernelOp) -> Iterable[RequirementAttr | Finding]:
        """Require of each call that rows are short enough, and no shorter than what is taken of them."""
        extent, count = op.extent, op.taken
        if isinstance(extent, int):
            return
        if all(way.longest is not None for way in ways(extent, count)):
            yield RequirementAttr.of(extent, LONGEST, "longer rows are not sorted", Bound.AT_MOST)
        if count is not None:
            yield RequirementAttr.of(extent, count, f"topk takes {count} elements of it", Bound.AT_LEAST)

    def interpret(self, functions: CutlassFunctions, op: SortKernelOp, args: tuple[Any, ...]) -> None:
        functions.begin(op.extents)

    def meanings(self) -> Mapping[type[Operation], Meaning]:
        from mucc.kernels.sort.meaning import MEANINGS

        return MEANINGS

    def code(self, op: SortKernelOp, places: Places, *, canonical: bool = False) -> KernelCode:
        from mucc.kernels.sort.emission import SortCode

        return SortCode(op, places)
