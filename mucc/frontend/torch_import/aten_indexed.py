"""ATen operations that look elements up, and attention."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mucc.dialects.mu.ops import elementwise as e
from mucc.dialects.mu.ops.indexed import GatherOp
from mucc.dialects.mu.ops.reduction import ReduceOp
from mucc.dialects.mu.ops.shape import IotaOp
from mucc.dialects.mu.ops.views import ExpandOp, TransposeOp
from mucc.frontend.torch_import import composites
from mucc.frontend.torch_import.aten_contraction import product
from mucc.frontend.torch_import.aten_normalisation import MEAN, SUM, loss
from mucc.frontend.torch_import.aten_reduction import reduced
from mucc.frontend.torch_import.lowering import (
    Builder,
    Built,
    Unsupported,
    aten,
    dims_of,
    dtype_of,
    fixed,
    lowers,
)


@lowers(aten.embedding.default)
def embedding(b: Builder, table: Any, rows: Any, *_: Any) -> Built:
    return b.add(GatherOp(table, rows))


@lowers(aten.index_select.default)
def index_select(b: Builder, x: Any, axis: int, rows: Any) -> Built:
    if axis != 0:
        raise Unsupported("index_select of another axis than the first")
    return b.add(GatherOp(x, rows))


@lowers(aten.index.Tensor)
def index(b: Builder, x: Any, indices: Sequence[Any]) -> Built:
    first, *others = indices
    if first is None or any(i is not None for i in others) or dtype_of(first) == "bool":
        raise Unsupported("indexing by other than the first axis")
    return b.add(GatherOp(x, first))


@lowers(aten.cross_entropy_loss.default)
def cross_entropy(
    b: Builder,
    x: Any,
    target: Any,
    weight: Any = None,
    reduction: int = 1,
    ignore: int = -100,
    smoothing: float = 0.0,
) -> Built:
    if weight is not None or smoothing or dtype_of(target) not in ("s32", "s8", "u8"):
        raise Unsupported("cross entropy with weights, smoothing or probabilities")
    axis = 1 if len(dims_of(x)) > 1 else 0
    logs = composites.log_softmax(b, b.value(x), axis)
    classes = fixed(dims_of(x)[axis])
    numbers = b.column(b.add(IotaOp((classes,), 0)), axis, len(dims_of(x)))
    # Numbers of classes are exact in f32, and a target that is none of them counts for nothing.
    chosen = b.add(e.CmpOp("eq", b.add(ExpandOp(target, [axis])), numbers))
    found = b.add(ReduceOp("sum", b.call(e.SelectOp, chosen, logs, 0), [axis]))
    counts = b.add(e.CmpOp("ne", target, b.number(ignore)))
    losses = b.call(e.SelectOp, counts, b.call(e.NegOp, found), 0)
    if reduction != MEAN:
        return loss(b, losses, reduction)
    return b.call(e.DivOp, loss(b, losses, SUM), reduced(b, "sum", counts))


@lowers(aten.scaled_dot_product_attention.default)
def attention(
    b: Builder,
    q: Any,
    k: Any,
    v: Any,
    mask: Any = None,
    dropout: float = 0.0,
    causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Built:
    if dropout:
        raise Unsupported("random numbers: they come from torch's generator")
    if enable_gqa:
        raise Unsupported("attention with fewer heads of keys than of queries")
    if any(isinstance(d, str) for d in dims_of(q)[-1:]):
        raise Unsupported("attention over an open extent")
    factor = fixed(dims_of(q)[-1]) ** -0.5 if scale is None else scale
    scores = b.call(e.MulOp, product(b, q, b.call(TransposeOp, k)), factor)
    if causal:
        rows, columns = (fixed(d) for d in dims_of(scores)[-2:])
        later = b.add(e.CmpOp("gt", b.add(IotaOp((rows, columns), 1)), b.add(IotaOp((rows, columns), 0))))
        scores = b.call(e.SelectOp, later, float("-inf"), scores)
    if mask is not None and dtype_of(mask) == "bool":
        scores = b.call(e.SelectOp, mask, scores, float("-inf"))
    elif mask is not None:
        scores = b.call(e.AddOp, scores, mask)
    weights = b.cast(composites.softmax(b, scores, len(dims_of(scores)) - 1), dtype_of(v))
    return product(b, weights, v)
