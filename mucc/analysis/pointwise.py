"""Count elementwise operations: arithmetic, special functions, reductions, windows."""

from __future__ import annotations

from xdsl.ir import Operation

from mucc.analysis.masks import hides_by_data
from mucc.analysis.products import Term, term
from mucc.dialects.mu.ops import elementwise as e
from mucc.dialects.mu.ops.attention import (
    AttentionLogSumExpOp,
    AttentionOp,
    GradientOp,
    ScoredAttentionOp,
)
from mucc.dialects.mu.ops.normalisation import NormalizeOp
from mucc.dialects.mu.ops.pooling import PoolOp
from mucc.dialects.mu.ops.random import RandomOp
from mucc.dialects.mu.ops.reduction import ArgReduceOp, ReduceOp, VarianceOp
from mucc.dialects.mu.ops.scan import ScanOp
from mucc.dialects.mu.ops.sort import SortOp
from mucc.dialects.mu.types import Shaped

SPECIAL: dict[type[Operation], tuple[int, int]] = {
    **dict.fromkeys((e.ExpOp, e.Expm1Op, e.LogOp, e.Log1pOp, e.SqrtOp, e.RsqrtOp, e.TanhOp), (1, 0)),
    e.DivOp: (1, 1),
    e.ErfOp: (1, 8),
    e.SigmoidOp: (1, 2),
    e.GeluOp: (1, 8),
    e.SoftplusOp: (2, 3),
    e.PowOp: (2, 1),
    **dict.fromkeys((e.SinOp, e.CosOp), (1, 1)),
    e.TanOp: (3, 2),
    e.Atan2Op: (1, 8),
    e.FloorDivideOp: (1, 2),
    **dict.fromkeys((e.FmodOp, e.RemainderOp), (1, 3)),
}
"""The least special functions and further arithmetic per element."""

FREE = (e.CastOp, e.RetypeOp, e.StoredOp, e.AndOp, e.OrOp, e.NotOp)
"""Operations that are free with loads, stores and comparisons."""


def pointwise(op: Operation, *, masked: bool = False) -> list[tuple[str, Term]]:
    """Count the operations of everything but products, by unit; `masked` is that of `products`."""
    special, plain = 0, 0
    match op:
        case e.ElementwiseOp():
            special, plain = (0, 0) if isinstance(op, FREE) else SPECIAL.get(type(op), (0, 1))
            dims = Shaped.of(op.result.type).dims
        case ReduceOp() | ArgReduceOp() | ScanOp() | SortOp():
            # Each element is combined with, or compared to, another one at least once.
            plain, dims = 1, Shaped.of(op.operand.type).dims
        case RandomOp():
            # Ten rounds of two products, four exclusive ors and two sums make four numbers.
            plain, dims = 20, Shaped.of(op.result.type).dims
        case VarianceOp():
            plain, dims = 4, Shaped.of(op.operand.type).dims
        case NormalizeOp():
            plain, dims = 6, Shaped.of(op.operand.type).dims
        case PoolOp():
            # Overlapping windows can share what they have in common; each new element is taken in once.
            plain, dims = 1, (*Shaped.of(op.result.type).dims, *(min(w.size, w.stride) for w in op.windows))
        case ScoredAttentionOp() if op.without_softmax is not None:
            return []
        case AttentionOp() | ScoredAttentionOp():
            columns = 1 if hides_by_data(op) and not masked else op.columns
            scores = (*Shaped.of(op.result.type).dims[:-1], columns)
            special, plain, dims = 1, 4, scores
        case AttentionLogSumExpOp() | GradientOp() if not _is_shared(op):
            columns = op.columns if isinstance(op, AttentionLogSumExpOp) else Shaped.of(op.key.type).dims[-2]
            scores = (*Shaped.of(op.query.type).dims[:-1], columns)
            special, plain, dims = 1, 4, scores
        case _:
            return []
    counts = (("special", special), ("fp32", plain))
    return [(unit, term(count, dims)) for unit, count in counts if count]


def _is_shared(op: AttentionLogSumExpOp | GradientOp) -> bool:
    """Whether another operation computes the exponentials of the same scores."""
    users = (use.operation for use in op.query.uses)
    if isinstance(op, AttentionLogSumExpOp):
        return any(op.is_of(other) for other in users)
    return any(other is not op and op.is_beside(other) and other.is_before_in_block(op) for other in users)
