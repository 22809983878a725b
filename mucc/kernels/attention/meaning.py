"""Interpreter of the nodes of attention kernels."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from mucc.dialects.mu.meanings.composite import attended, causal_scores, in_pages, score_sums
from mucc.kernels.attention.op import AttendOp, AttentionKernelOp, ScoreOp, ScoreSumOp
from mucc.kernels.interpreter import CutlassFunctions

if TYPE_CHECKING:
    from mucc.kernels.attention_backward.op import DifferentiateOp


def _rank(op: ScoreOp | AttendOp) -> int:
    """Return the rank of attention's scores."""
    kernel = op.parent_op()
    assert isinstance(kernel, AttentionKernelOp)
    return len(kernel.extents)


def score(functions: CutlassFunctions, op: ScoreOp, args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Multiply queries and keys."""
    query, key, *pages = map(functions.read, args)
    functions.launch.accumulators = tuple(pages)
    if pages:
        key = in_pages(functions, key, pages[0], _rank(op))
    product = query @ functions.arrays.xp.swapaxes(key, -1, -2)
    return (functions.over_space(op.scale.value.data * product),)


def score_sum(functions: CutlassFunctions, op: ScoreSumOp, args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return what the node that attends left: it has seen which columns count."""
    (sums,) = functions.launch.accumulators
    # What is stored of rows has one column; results keep theirs.
    functions.launch.space = tuple(sums.shape)
    return (sums,)


def attend(functions: CutlassFunctions, op: AttendOp, args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Multiply values with the softmax of the scores; from here on nodes are over the results."""
    kernel = op.parent_op()
    assert isinstance(kernel, AttentionKernelOp)
    scores = seen_columns(functions, functions.over_space(args[0]), op, args)
    value = functions.read(args[1])
    if kernel.score.pages is not None:
        value = in_pages(functions, value, functions.launch.accumulators[0], _rank(op))
    if op.without_softmax is not None:
        weights = functions.arrays.xp.where(scores == -math.inf, functions.arrays.full((), 0.0), scores)
        result = functions.narrowed(weights, op.value.type) @ value
        functions.begin(kernel.results_space)
        return (functions.over_space(result),)
    empty = 0.0 if op.nan_rows is None else math.nan
    sinks = None if op.sink is None else args[list(op.operands).index(op.sink)]
    result = attended(functions, scores, value, op.value.type, causal=False, empty=empty, sinks=sinks)
    functions.begin(kernel.results_space)
    # Sums are the same for all columns.
    sums = score_sums(functions, scores)
    functions.launch.accumulators = (sums.reshape((*sums.shape, 1)),)
    return (functions.over_space(result),)


def seen_columns(
    functions: CutlassFunctions, scores: Any, op: AttendOp | DifferentiateOp, args: tuple[Any, ...]
) -> Any:
    """Hide the columns before a row's first and behind its last one, and those with other labels."""
    given = dict(zip(op.operands, args, strict=True))
    columns = functions.indices(len(scores.shape) - 1)
    if op.first is not None:
        scores = _kept(functions, functions.read(given[op.first]) <= columns, scores)
    if op.last is not None:
        scores = _kept(functions, columns <= functions.read(given[op.last]), scores)
    if op.labels is not None:
        row, column = (functions.read(given[label]) for label in op.labels)
        scores = _kept(functions, row == column, scores)
    return causal_scores(functions, scores) if op.causal is not None else scores


def _kept(functions: CutlassFunctions, seen: Any, scores: Any) -> Any:
    return functions.arrays.xp.where(seen, scores, functions.arrays.full((), -math.inf))
