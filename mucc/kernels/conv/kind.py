"""The kind of convolution kernels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from xdsl.ir import Operation, SSAValue

from mucc.dialects.mu.ops.base import AnchorOp
from mucc.dialects.mu.ops.by_name import is_convolution, is_pool
from mucc.dialects.mu.ops.kernel import KernelOp
from mucc.dialects.mu.ops.reduction import ReduceOp
from mucc.dialects.mu.ops.stage import StageOp
from mucc.kernels.conv.op import ConvKernelOp, ConvolvedOp, PooledSumsOp, StoreMomentsOp, StrategyAttr
from mucc.kernels.interface import Answer, FormingStage, Kind, Meaning
from mucc.kernels.lowering.access import Axes

if TYPE_CHECKING:
    from mucc.codegen.kernel_code import KernelCode
    from mucc.codegen.memory import Places
    from mucc.kernels.interpreter import CutlassFunctions
    from mucc.kernels.lowering.program import ProgramBuilder


def _is_reduced(stage: FormingStage) -> bool:
    """Whether a stage has values in flight that are reduced over channels."""
    return any(len(axes) < len(stage.space) for axes in stage.axes.values())


class ConvKind(Kind[ConvKernelOp]):
    """Kernels that convolve a tensor with weights, with pointwise work on the outputs.

    They read both operands, and write results, in any layout.
    """

    name = "conv"
    op = ConvKernelOp
    nodes = (ConvolvedOp, PooledSumsOp, StoreMomentsOp)
    attributes = (StrategyAttr,)

    def claims(self, anchor: AnchorOp | None, target: str | None = None) -> bool:
        return is_convolution(anchor)

    def memory_operands(self, anchor: AnchorOp) -> Sequence[SSAValue]:
        return anchor.operands

    def operand_orders(self, anchor: AnchorOp, target: str) -> Mapping[SSAValue, Sequence[int]]:
        from mucc.kernels.conv.lower import weight_order
        from mucc.target import get_target

        assert is_convolution(anchor)
        order = weight_order(anchor, get_target(target).facts)
        return {} if order is None else {anchor.weight: order}

    def result_orders(self, kernel: KernelOp, target: str) -> Mapping[SSAValue, Sequence[int]]:
        from mucc.kernels.conv.orders import stored_orders
        from mucc.target import get_target

        return stored_orders(kernel, get_target(target).facts)

    def keeps_in_flight(self, anchor: AnchorOp) -> bool:
        return True

    def takes(self, stage: FormingStage, op: AnchorOp) -> Answer:
        from mucc.kernels.conv import channels, windows

        return windows.takes(stage, op) if is_pool(op) else channels.takes(stage, op)

    def placed(self, stage: FormingStage, op: Operation) -> Axes | None:
        from mucc.kernels.conv import channels, windows

        if is_pool(op) or windows.pooled_dims(stage) is not None:
            return windows.placed(stage, op)
        if isinstance(op, ReduceOp) or _is_reduced(stage):
            return channels.placed(stage, op)
        return super().placed(stage, op)

    def lower(self, builder: ProgramBuilder, stage: StageOp) -> None:
        from mucc.kernels.conv.lower import lower_convolution

        lower_convolution(builder, stage)

    def details(self, op: ConvKernelOp) -> dict[str, Any]:
        return {"strategy": op.strategy.data.value, "compute": op.compute.data.value}

    def reasons(self, target: str, op: ConvKernelOp, sizes: Mapping[str, int]) -> Sequence[str]:
        from mucc.kernels.conv.strategies import reasons
        from mucc.target import get_target

        return reasons(op, get_target(target).facts, sizes)

    def seconds(self, target: str, op: ConvKernelOp, sizes: Mapping[str, int]) -> float | None:
        from mucc.kernels.conv.strategies import expected
        from mucc.target import get_target

        return expected(op, get_target(target).facts, sizes)

    def interpret(self, functions: CutlassFunctions, op: ConvKernelOp, args: tuple[Any, ...]) -> None:
        from mucc.kernels.conv.meaning import sums

        functions.begin(op.extents, sums(functions, op, args), axes=(op.channel_axis,))

    def meanings(self) -> Mapping[type[Operation], Meaning]:
        def convolved(functions: CutlassFunctions, op: ConvolvedOp, args: tuple[Any, ...]) -> tuple[Any, ...]:
            return (functions.launch.accumulators[0],)

        from mucc.kernels.conv.meaning import pooled, store_moments

        return {ConvolvedOp: convolved, PooledSumsOp: pooled, StoreMomentsOp: store_moments}

    def code(self, op: ConvKernelOp, places: Places, *, canonical: bool = False) -> KernelCode:
        from mucc.kernels.conv.code import ConvCode

        return ConvCode(op, places)
