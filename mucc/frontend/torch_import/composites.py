"""What torch has as one operation and `mu` says in several: softmax, normalisation, attention."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import SSAValue

from mucc.dialects.mu.ops import elementwise as e
from mucc.dialects.mu.ops.reduction import ReduceOp, VarianceOp
from mucc.dialects.mu.ops.views import ExpandOp
from mucc.frontend.torch_import.lowering import Builder


def reduced(b: Builder, kind: str, x: SSAValue, axes: Sequence[int]) -> SSAValue:
    """A reduction whose axes stay, with extent 1."""
    return b.keep(b.add(ReduceOp(kind, x, axes)), axes)


def softmax(b: Builder, x: SSAValue, axis: int) -> SSAValue:
    """exp(x) over its sum along an axis; the largest element is taken off first."""
    powers = b.call(e.ExpOp, b.call(e.SubOp, x, reduced(b, "max", x, [axis])))
    return b.call(e.DivOp, powers, reduced(b, "sum", powers, [axis]))


def log_softmax(b: Builder, x: SSAValue, axis: int) -> SSAValue:
    """log(softmax(x)) along an axis."""
    shifted = b.call(e.SubOp, x, reduced(b, "max", x, [axis]))
    total = reduced(b, "sum", b.call(e.ExpOp, shifted), [axis])
    return b.call(e.SubOp, shifted, b.call(e.LogOp, total))


def logsumexp(b: Builder, x: SSAValue, axes: Sequence[int]) -> SSAValue:
    """log(sum(exp(x))) over axes, which are dropped."""
    largest = b.add(ReduceOp("max", x, axes))
    powers = b.call(e.ExpOp, b.call(e.SubOp, x, b.add(ExpandOp(largest, axes))))
    return b.call(e.AddOp, b.call(e.LogOp, b.add(ReduceOp("sum", powers, axes))), largest)


def standardised(b: Builder, x: SSAValue, axes: Sequence[int], eps: float) -> SSAValue:
    """(x - mean) / sqrt(variance + eps) over axes."""
    centred = b.call(e.SubOp, x, reduced(b, "mean", x, axes))
    variance = b.keep(b.add(VarianceOp(x, axes, 0.0)), axes)
    return b.call(e.MulOp, centred, b.call(e.RsqrtOp, b.call(e.AddOp, variance, eps)))


def rms(b: Builder, x: SSAValue, axes: Sequence[int], eps: float) -> SSAValue:
    """x / sqrt(mean(x²) + eps) over axes."""
    square = reduced(b, "mean", b.call(e.MulOp, x, x), axes)
    return b.call(e.MulOp, x, b.call(e.RsqrtOp, b.call(e.AddOp, square, eps)))
