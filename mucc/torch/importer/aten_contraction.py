"""Lower ATen's matrix products."""

from __future__ import annotations

from typing import Any

from xdsl.ir import SSAValue

from mucc.dialects.mu.ops import elementwise as e
from mucc.dialects.mu.ops.contraction import Compute, ComputeAttr, MatmulOp
from mucc.dialects.mu.ops.reduction import ReduceOp
from mucc.dialects.mu.ops.views import ExpandOp, TransposeOp
from mucc.torch.importer.lowering import Builder, Built, Unsupported, aten, dims_of, dtype_of, lowers


def product(b: Builder, x: Any, y: Any) -> SSAValue:
    """`x @ y` of matrices, in the format that the importer was told for f32."""
    lhs, rhs = b.value(x), b.value(y)
    choices = ComputeAttr.choices(lhs.type, rhs.type)
    if not choices or dtype_of(lhs) != dtype_of(rhs):
        raise Unsupported(f"a product of {dtype_of(lhs)} and {dtype_of(rhs)}")
    compute = ComputeAttr(Compute(b.compute)) if dtype_of(lhs) == "f32" else None
    return b.add(MatmulOp(lhs, rhs, compute))


def _scaled(b: Builder, value: SSAValue, factor: float) -> SSAValue:
    return value if factor == 1 else b.call(e.MulOp, value, factor)


@lowers(aten.linear.default)
def linear(b: Builder, x: Any, w: Any, bias: Any = None) -> Built:
    weight = b.call(TransposeOp, w)
    if len(dims_of(x)) == 1:
        row = product(b, b.add(ExpandOp(x, [0])), weight)
        value = b.add(ReduceOp("sum", row, [0]))
    else:
        value = product(b, x, weight)
    return value if bias is None else b.call(e.AddOp, value, bias)


@lowers(aten.mm.default, aten.bmm.default)
def mm(b: Builder, x: Any, y: Any) -> Built:
    return product(b, x, y)


@lowers(aten.addmm.default, aten.baddbmm.default)
def addmm(b: Builder, bias: Any, x: Any, y: Any, beta: float = 1, alpha: float = 1) -> Built:
    value = _scaled(b, product(b, x, y), alpha)
    return value if beta == 0 else b.call(e.AddOp, value, _scaled(b, bias, beta))


@lowers(aten.mv.default, aten.dot.default, aten.matmul.default)
def matmul(b: Builder, x: Any, y: Any) -> Built:
    left, right = len(dims_of(x)), len(dims_of(y))
    if left > 1 and right > 1:
        return product(b, x, y)
    if left == 1 and right == 1:
        return b.add(ReduceOp("sum", b.call(e.MulOp, x, y)))
    if left == 1:
        row = product(b, b.add(ExpandOp(x, [0])), y)
        return b.add(ReduceOp("sum", row, [-2]))
    column = product(b, x, b.add(ExpandOp(y, [1])))
    return b.add(ReduceOp("sum", column, [-1]))
