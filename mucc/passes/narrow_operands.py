"""Multiply operands that were cast to a wider format in their own format, where no number changes."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from functools import partial

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, f32
from xdsl.ir import Operation, SSAValue
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern

from mucc.dialects.mu import rules, window_rules
from mucc.dialects.mu.ops import elementwise as e
from mucc.dialects.mu.ops.by_name import is_convolution
from mucc.dialects.mu.ops.contraction import Compute, ComputeAttr, ContractionOp, GroupedMatmulOp, MatmulOp
from mucc.dialects.mu.ops.kernel import KernelOp
from mucc.dialects.mu.rules import TypeRuleError
from mucc.dialects.mu.types import DTYPES, Dim, Shaped, TensorType, dtype_name
from mucc.dialects.rewriting import Emit, Pass, rewrite
from mucc.kernels.lowering.widening import Narrow, element, is_widening
from mucc.target import DEFAULT_TARGET, get_target

OWN = ""
"""Stands for each operand's own format."""

HALVES = ("bf16", "f16")
FLOATS = ("e4m3", "e5m2")
LARGEST = {"s8": 128, "u8": 255}
"""Of the integers of a format, the largest magnitude."""


def _float_format(first: str, second: str, computes: Collection[str], exact: bool) -> str:
    """Return the format in which 8-bit floats are multiplied: f16 if sums must keep as many bits as f32."""
    return OWN if not exact and {first, second} <= {*computes} else "f16"


def _integer_format(first: str, second: str, inner: Dim, computes: Collection[str], exact: bool) -> str:
    """Return the format in which integers are multiplied: bf16 if s32 may not hold their sums."""
    fits = not exact or (isinstance(inner, int) and LARGEST.get(first, 0) ** 2 * inner < 2**31)
    return OWN if first == second and first in LARGEST and first in computes and fits else "bf16"


class _Narrow(RewritePattern):
    """`matmul(cast(x, f32), cast(w, f32))` -> `cast(matmul(x, w), f32)`, and so convolutions."""

    def __init__(self, computes: Collection[str], exact: bool):
        self.computes, self.exact = computes, exact

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        if not isinstance(op, ContractionOp) and not is_convolution(op):
            return
        wide = element(op.operands[0])
        if element(op.operands[1]) != wide or not (wide == f32 or (wide in rules.HALVES and not self.exact)):
            return
        lhs, rhs = Narrow.of(op.operands[0]), Narrow.of(op.operands[1])
        if lhs is None or rhs is None:
            return
        wanted = self._format(op, lhs.dtype, rhs.dtype)
        if wanted is None or wanted == dtype_name(wide):
            return
        dtype = None if wanted == OWN else DTYPES[wanted]
        emit = Emit()
        if (product := _product(op, lhs.build(emit, dtype), rhs.build(emit, dtype))) is None:
            emit.discard()
            return
        result = [] if element(product.results[0]) == wide else [e.CastOp(product, wide)]
        rewriter.replace(op, [*emit.ops, product, *result])

    def _convolved(self, op: Operation, first: str, second: str) -> str:
        """Return the format in which a convolution multiplies two operands of 8 bits."""
        keeps = first == "s8" or not self.exact or op.properties["compute"] == ComputeAttr(Compute.TF32)
        return OWN if first == second and DTYPES[first] in window_rules.NARROW and keeps else "f16"

    def _format(self, op: Operation, first: str, second: str) -> str | None:
        """Return the format in which two narrow operands are multiplied; None if that is the wide one."""
        halves = [f for f in (first, second) if f in HALVES]
        if len({*halves}) > 1:
            return None
        if not isinstance(op, ContractionOp):
            return self._convolved(op, first, second) if not halves else halves[0]
        if halves:
            return OWN
        if first in FLOATS and second in FLOATS:
            exact = self.exact and op.compute.data is not Compute.TF32
            return _float_format(first, second, self.computes, exact)
        inner = Shaped.of(op.lhs.type).dims[-1]
        return _integer_format(first, second, inner, self.computes, self.exact)


def _product(op: Operation, lhs: SSAValue | None, rhs: SSAValue | None) -> Operation | None:
    """Rebuild a product with other operands; None where one is missing or they do not fit."""
    if lhs is None or rhs is None:
        return None
    match op:
        case MatmulOp():
            build = partial(MatmulOp, lhs, rhs)
        case GroupedMatmulOp():
            build = partial(GroupedMatmulOp, lhs, rhs, op.offsets, op.scale, op.bias)
        case _:
            type = TensorType.of(
                Shaped.of(op.results[0].type).dims, window_rules.convolved_type(element(lhs))
            )
            compute = ComputeAttr.default(lhs.type, rhs.type)
            return op.__class__.create(
                operands=[lhs, rhs], result_types=[type], properties={**op.properties, "compute": compute}
            )
    try:
        return build()
    except TypeRuleError:
        return None


class _NarrowAttention(RewritePattern):
    """`attention(cast(q, f32), cast(k, f32), cast(v, f32))` -> `cast(attention(q, k, v), f32)`.

    Weights are rounded to the dtype of the values, which is faster, and less exact.
    """

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        if op.name != "mu.attention":
            return
        found = [Narrow.of(v) for v in op.operands[:3]]
        emit = Emit()
        built = [n.build(emit) for n in found if n is not None and n.dtype in HALVES]
        values = [b for b in built if b is not None]
        if len(values) != 3 or len({element(v) for v in values}) != 1:
            emit.discard()
            return
        q, k, v = values
        wide = element(op.results[0])
        new = type(op).create(
            operands=[q, k, v, *op.operands[3:]],
            result_types=[TensorType.of(Shaped.of(op.results[0].type).dims, element(v))],
            properties=op.properties,
        )
        rewriter.replace(op, [*emit.ops, new, e.CastOp(new, wide)])


@dataclass(frozen=True)
class NarrowOperands(Pass):
    """Multiply operands that were cast to f32 in the format that they were cast from.

    ```
    %a = mu.cast %x : bf16 to f32
    %b = mu.cast %w : bf16 to f32      ->      %y = mu.matmul bf16 %x, %w
    %y = mu.matmul f32 %a, %b                  %z = mu.cast %y : bf16 to f32
    ```

    Every product of two such numbers is exact in f32, and sums are f32 in either form: what the stage
    computes is never rounded to bf16 in between. 8-bit floats stay as they are where the product is
    computed in tf32, whose errors are larger than those of their sums; where f32 or tf32x3 is asked for they
    multiply in 16 bits. With `exact` off they always stay: no implementation needs more. What is computed
    and was never rounded to its dtype stays f32, as does a pair of which one is f32, or of bf16 with f16.
    """

    name = "narrow-operands"

    target: str = DEFAULT_TARGET
    exact: bool = True

    def apply(self, ctx: Context | None, op: ModuleOp) -> None:
        kernels = (kernel for kernel in op.body.block.ops if isinstance(kernel, KernelOp))
        inner = (inner for kernel in kernels for inner in kernel.body.block.ops)
        if any(isinstance(i, e.CastOp) and is_widening(i) for i in inner):
            computes = get_target(self.target).facts.multiprocessor.computes
            attention = () if self.exact else (_NarrowAttention(),)
            rewrite(op, [_Narrow(computes, self.exact), *attention])
