"""Interpreter of the nodes of attention kernels."""

from __future__ import annotations

import math
from typing import Any

from mucc.dialects.mu.meanings.composite import attended, causal_scores, score_sums
from mucc.kernels.attention.op import AttendOp, AttentionKernelOp, ScoreOp, ScoreSumOp
from mucc.kernels.interpreter import CutlassFunctions


def score(functions: CutlassFunctions, op: ScoreOp, args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Multiply queries and keys."""
    query, key = map(functions.read, args)
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
    scores, value = seen_scores(functions, op, args), functions.read(args[1])
    empty = 0.0 if op.nan_rows is None else math.nan
    result = attended(functions, scores, value, op.value.type, causal=False, empty=empty)
    functions.begin(kernel.results_space)
    # Sums are the same for all columns.
    sums = score_sums(functions, scores)
    functions.launch.accumulators = (sums.reshape((*sums.shape, 1)),)
    return (functions.over_space(result),)


def seen_scores(functions: CutlassFunctions, op: AttendOp, args: tuple[Any, ...]) -> Any:
    """Return scores, -infinity where a row does not see a column."""
    kernel = op.parent_op()
    assert isinstance(kernel, AttentionKernelOp)
    scores = functions.over_space(args[0])
    if op.first is not None or op.last is not None:
        columns = functions.indices(len(kernel.extents) - 1)
        if op.first is not None:
            scores = _kept(functions, args[2] <= columns, scores)
        if op.last is not None:
            scores = _kept(functions, columns <= args[-1], scores)
    return causal_scores(functions, scores) if op.causal is not None else scores


def _kept(functions: CutlassFunctions, seen: Any, scores: Any) -> Any:
    return functions.arrays.xp.where(seen, scores, functions.arrays.full((), -math.inf))
