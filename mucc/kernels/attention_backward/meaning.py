"""Interpreter of the nodes of kernels for gradients of attention."""

from __future__ import annotations

from typing import Any

from mucc.dialects.mu.meanings.composite import gradient_of
from mucc.kernels.attention.meaning import seen_columns
from mucc.kernels.attention_backward.op import AttentionBackwardKernelOp, DifferentiateOp, StoreGradientOp
from mucc.kernels.interpreter import CutlassFunctions


def differentiate(functions: CutlassFunctions, op: DifferentiateOp, args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Keep scores and tensors: what is stored decides what is computed of them."""
    score, *tensors = args[:7]
    scores = seen_columns(functions, functions.over_space(score), op, args)
    functions.launch.accumulators = tuple(map(functions.read, tensors))
    return (scores,)


def store_gradient(
    functions: CutlassFunctions, op: StoreGradientOp, args: tuple[Any, ...]
) -> tuple[Any, ...]:
    """Compute a gradient from the scores, and store it."""
    kernel = op.parent_op()
    assert isinstance(kernel, AttentionBackwardKernelOp)
    types = (kernel.differentiate.gradient.type, op.destination.type)
    scale, tensors = kernel.score.scale.value.data, functions.launch.accumulators
    result = gradient_of(functions, op.of.data, args[0], tensors, scale, types)
    functions.write(args[1], op.destination.type, result)
    return ()
