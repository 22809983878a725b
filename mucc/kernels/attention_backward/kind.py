"""The kind of kernels for gradients of attention."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from xdsl.ir import Operation, SSAValue

from mucc.dialects.cutlass.attributes import RequirementAttr
from mucc.dialects.cutlass.ops import ProgramOp, is_reproducible
from mucc.dialects.mu.ops.attention import AttentionBackwardOp
from mucc.dialects.mu.ops.base import AnchorOp
from mucc.dialects.mu.ops.stage import StageOp
from mucc.dialects.mu.settings import REPRODUCIBLE
from mucc.dialects.mu.types import Shaped
from mucc.dialects.rewriting import Finding
from mucc.kernels.attention_backward.op import AttentionBackwardKernelOp, DifferentiateOp, StoreGradientOp
from mucc.kernels.attention_backward.operands import takes_gradient
from mucc.kernels.interface import Kind, Meaning
from mucc.kernels.lowering.inputs import Inputs

if TYPE_CHECKING:
    from mucc.codegen.kernel_code import KernelCode
    from mucc.codegen.memory import Places
    from mucc.kernels.interpreter import CutlassFunctions
    from mucc.kernels.lowering.program import ProgramBuilder


class AttentionBackwardKind(Kind[AttentionBackwardKernelOp]):
    """Kernels for the gradients of attention, all of one attention at once, without scores in memory.

    Blocks add to the gradients of queries in no fixed order: their last bits may differ between two calls.
    """

    name = "attention_backward"
    op = AttentionBackwardKernelOp
    nodes = (DifferentiateOp, StoreGradientOp)

    def claims(self, anchor: AnchorOp | None, target: str | None = None) -> bool:
        return isinstance(anchor, AttentionBackwardOp) and takes_gradient(anchor, target)

    def computes_with(self, anchor: AnchorOp, op: AnchorOp, inputs: Inputs) -> bool:
        if not isinstance(anchor, AttentionBackwardOp) or not isinstance(op, AttentionBackwardOp):
            return False
        return anchor.is_beside(op)

    def memory_operands(self, anchor: AnchorOp) -> Sequence[SSAValue]:
        assert isinstance(anchor, AttentionBackwardOp)
        return anchor.operands[:6]

    def repeats(self, anchor: AnchorOp, operand: SSAValue) -> Collection[int]:
        return range(len(Shaped.of(operand.type).dims))

    def lower(self, builder: ProgramBuilder, stage: StageOp) -> None:
        from mucc.kernels.attention_backward.lower import lower_backward

        lower_backward(builder, stage)

    def reads(self, op: AttentionBackwardKernelOp) -> Sequence[SSAValue]:
        node = op.differentiate
        return (node.gradient, node.query, node.key, node.value, node.logsumexp, node.sums)

    def alignments(self, op: AttentionBackwardKernelOp, granule: int) -> Iterator[tuple[SSAValue, int]]:
        """Yield what TMA loads: all but numbers of rows."""
        node = op.differentiate
        return ((value, granule) for value in (node.gradient, node.query, node.key, node.value))

    def requirements(
        self, program: ProgramOp, op: AttentionBackwardKernelOp
    ) -> Iterable[RequirementAttr | Finding]:
        """Refuse `reproducible = on`."""
        if is_reproducible(op):
            yield Finding(
                code="MU3075",
                message="gradients of queries are added by atomics, in an order that differs from run to run",
                location=op.location,
                kernel=program.sym_name.data,
                stage=op.stage.data,
                setting=REPRODUCIBLE.name,
                notes=("each block of keys adds to the gradients of all queries that see them",),
                helps=("write the products and the softmax of the gradients, which become several kernels",),
            )

    def takes_scratch(self, op: AttentionBackwardKernelOp) -> bool:
        return True

    def needs_scratch(self, op: AttentionBackwardKernelOp) -> bool:
        return True

    def interpret(
        self, functions: CutlassFunctions, op: AttentionBackwardKernelOp, args: tuple[Any, ...]
    ) -> None:
        functions.begin(op.extents)

    def meanings(self) -> Mapping[type[Operation], Meaning]:
        from mucc.kernels.attention_backward.meaning import differentiate, store_gradient

        return {DifferentiateOp: differentiate, StoreGradientOp: store_gradient}

    def code(self, op: AttentionBackwardKernelOp, places: Places, *, canonical: bool = False) -> KernelCode:
        from mucc.kernels.attention_backward.emission import AttentionBackwardCode

        return AttentionBackwardCode(op, places)
