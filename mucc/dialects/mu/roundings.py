"""Interpreters of programs with stages, with and without the roundings of device kernels.

The difference of their results bounds the error that rounding explains, for given inputs.
"""

from __future__ import annotations

from typing import Any

from xdsl.interpreter import Interpreter, PythonValues, impl, register_impls
from xdsl.ir import Operation, SSAValue

from mucc.dialects.mu.arrays import to_tf32
from mucc.dialects.mu.interpreter import MuFunctions
from mucc.dialects.mu.ops.contraction import Compute, ContractionOp
from mucc.dialects.mu.ops.elementwise import StoredOp
from mucc.dialects.mu.ops.pointwise import S32
from mucc.dialects.mu.ops.reduction import ReduceOp
from mucc.dialects.mu.ops.stage import StageOp
from mucc.dialects.mu.types import Shaped

EPSILON = 2.0**-23
"""The spacing of f32 numbers at 1: the relative error of each term in a sum, in any order."""

TF32 = 2.0**-11
"""Half the spacing of tf32 numbers at 1: the relative error of each term of a product with tf32 operands."""


@register_impls
class ExactFunctions(MuFunctions):
    """Interpret stages without rounding between them, except at boundaries that the user pinned."""

    @impl(StoredOp)
    def as_stored(self, interpreter: Interpreter, op: StoredOp, args: PythonValues) -> PythonValues:
        return args

    def passed(self, stage: StageOp, value: Any, type: Any) -> Any:
        return value if stage.pinned is None else self.stored(value, type)


@register_impls
class RoundedFunctions(MuFunctions):
    """Interpret stages as device kernels compute them: in f32, with operands in the format of tensor cores.

    Sums and products get an additional error as large as the rounding of their terms may cause.
    """

    lost = EPSILON
    """The relative error of each term of a product."""
    sign = 1.0
    """The sign of the additional errors, besides a pseudo-random one for each element."""

    def computed(self, op: Operation, value: Any) -> Any:
        is_exact = str(value.dtype).endswith("bool") or Shaped.of(op.results[0].type).element_type == S32
        return value if is_exact else self.arrays.round_to(value, "f32")

    def factor(self, op: Operation, operand: SSAValue, value: Any) -> Any:
        value = super().factor(op, operand, value)
        is_tf32 = isinstance(op, ContractionOp) and op.compute.data is Compute.TF32
        self.lost = TF32 if is_tf32 else EPSILON
        return to_tf32(self.arrays, value) if is_tf32 else value

    def product(self, a: Any, b: Any, scales: Any, blocks: tuple[int, int] | None) -> Any:
        result = super().product(a, b, scales, blocks)
        if blocks is not None or not result.shape[-1]:
            return result
        # The error where terms cancel; its sign is pseudo-random, because alternating signs would cancel too.
        sizes = (a * a).sum(-1)[..., :, None] * (b * b).sum(-2)[..., None, :]
        k = max(int(a.shape[-1]), 1)
        row, column = (self.arrays.float64(range(int(n))) for n in result.shape[-2:])
        xp = self.arrays.xp
        sign = xp.sign(xp.sin(12.9898 * row[:, None] + 78.233 * column[None, :] + 1))
        return result + self.sign * sign * self.lost * (sizes / k) ** 0.5

    @impl(ReduceOp)
    def reduce(self, interpreter: Interpreter, op: ReduceOp, args: PythonValues) -> PythonValues:
        axes, value = op.axes.get_values(), self.reduced_over(op, args[0])
        if Shaped.of(op.result.type).element_type == S32:
            return (value,)
        if op.kind.data.value == "sum" and axes:
            value = value + self.sign * EPSILON * self.arrays.reduce("sum", args[0] * args[0], axes) ** 0.5
        return (self.computed(op, value),)


class OppositeFunctions(RoundedFunctions):
    """`RoundedFunctions` with errors of sums and products of the opposite sign."""

    sign = -1.0
