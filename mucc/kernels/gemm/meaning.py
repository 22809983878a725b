"""What a contraction kernel computes before its epilogue, in float64."""

from __future__ import annotations

from typing import Any

from mucc.dialects.mu.interpreter import grouped_product
from mucc.dialects.mu.types import Shaped
from mucc.kernels.gemm.op import GemmOp
from mucc.kernels.interpreter import CutlassFunctions


def interpret(functions: CutlassFunctions, op: GemmOp, args: tuple[Any, ...]) -> None:
    """Form the products of a kernel: its accumulators."""
    values = [functions.read(v) for v in args[: len(args) - len(op.prepared)]]
    scales = values[len(values) - len(op.scales) :]
    a, b, *more = values[: len(values) - len(scales)]
    if op.prepared:
        a, b, *more[: len(op.prepared) - 2] = (
            functions.read(v) for v in args[len(args) - len(op.prepared) :]
        )
    if op.parts > 1:
        a, b = (v.reshape(*v.shape[:-2], -1) for v in (a, b))
        b = functions.arrays.xp.swapaxes(b, -1, -2)
    m, n, _, batch = op.shape.extents
    # Where no operand has batch axes, every batch has the same product.
    if op.is_grouped:
        products = [grouped_product(functions.arrays, a, b, more[0])]
        functions.ends = more[0]
    elif (side := op.narrow) is not None:
        wide = op.b.type if side == 0 else op.a.type
        element = Shaped.of(wide).element_type
        products = [functions.mixed_product(a, b, scales, op.group, side, element)]
    else:
        products = [functions.product(a, right, scales, op.blocks) for right in (b, *more)]
    functions.begin((*batch, *m, *n), *products)
