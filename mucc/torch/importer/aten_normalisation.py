"""Lower ATen's normalisations, softmax, losses and scans."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from xdsl.ir import SSAValue

from mucc.dialects.mu.ops import elementwise as e
from mucc.dialects.mu.ops.normalisation import (
    AlongAxisOp,
    LogSoftmaxOp,
    LogSumExpOp,
    NormalizeOp,
    SoftmaxOp,
)
from mucc.dialects.mu.ops.reduction import ReduceOp, VarianceOp
from mucc.dialects.mu.ops.scan import ScanOp
from mucc.library.extents import divide
from mucc.torch.importer.aten_reduction import axes_of, reduced
from mucc.torch.importer.aten_views import reshaped
from mucc.torch.importer.lowering import (
    LOWERINGS,
    Builder,
    Built,
    Unsupported,
    aten,
    axis_of,
    dims_of,
    dtype_of,
    lowers,
)


def _affine(b: Builder, value: SSAValue, weight: Any, bias: Any) -> SSAValue:
    if weight is not None:
        value = b.call(e.MulOp, value, weight)
    return value if bias is None else b.call(e.AddOp, value, bias)


def _channels(b: Builder, vector: Any, rank: int) -> Any:
    return None if vector is None else b.column(vector, 1, rank)


def _last(x: SSAValue, count: int) -> list[int]:
    rank = len(dims_of(x))
    return list(range(rank - count, rank))


def _standard(b: Builder, x: SSAValue, axes: Sequence[int], eps: float) -> SSAValue:
    return b.add(NormalizeOp("standard", x, list(axes), eps))


@lowers(aten.layer_norm.default)
def layer_norm(
    b: Builder, x: Any, shape: Sequence[int], weight: Any = None, bias: Any = None, eps: float = 1e-5, *_: Any
) -> Built:
    return _affine(b, _standard(b, x, _last(x, len(shape)), eps), weight, bias)


@lowers(aten.native_layer_norm.default)
def native_layer_norm(b: Builder, x: Any, shape: Sequence[int], weight: Any, bias: Any, eps: float) -> Built:
    return _affine(b, _standard(b, x, _last(x, len(shape)), eps), weight, bias), None, None


@lowers(aten.rms_norm.default)
def rms_norm(b: Builder, x: Any, shape: Sequence[int], weight: Any = None, eps: float | None = None) -> Built:
    eps = 1.1920928955078125e-07 if eps is None else eps
    return _affine(b, b.add(NormalizeOp("rms", x, _last(x, len(shape)), eps)), weight, None)


@lowers(aten.group_norm.default)
def group_norm(
    b: Builder, x: Any, groups: int, weight: Any = None, bias: Any = None, eps: float = 1e-5, *_: Any
) -> Built:
    dims = dims_of(x)
    grouped = reshaped(b, x, (dims[0], groups, divide(dims[1], groups), *dims[2:]))
    axes = range(2, len(dims_of(grouped)))
    value = reshaped(b, _standard(b, grouped, list(axes), eps), dims)
    return _affine(b, value, _channels(b, weight, len(dims)), _channels(b, bias, len(dims)))


@lowers(aten.instance_norm.default)
def instance_norm(
    b: Builder,
    x: Any,
    weight: Any,
    bias: Any,
    mean: Any,
    var: Any,
    use_input_stats: bool,
    momentum: float,
    eps: float,
    *_: Any,
) -> Built:
    if not use_input_stats or mean is not None:
        raise Unsupported("instance normalisation with running statistics")
    rank = len(dims_of(x))
    value = _standard(b, x, list(range(2, rank)), eps)
    return _affine(b, value, _channels(b, weight, rank), _channels(b, bias, rank))


def _batch_axes(x: SSAValue) -> list[int]:
    return [n for n in range(len(dims_of(x))) if n != 1]


def _blend(b: Builder, old: Any, new: SSAValue, momentum: float) -> SSAValue:
    return b.call(e.AddOp, b.call(e.MulOp, old, 1 - momentum), b.call(e.MulOp, new, momentum))


@lowers(aten._native_batch_norm_legit_functional.default)
def batch_norm(
    b: Builder,
    x: Any,
    weight: Any,
    bias: Any,
    mean: Any,
    var: Any,
    training: bool,
    momentum: float,
    eps: float,
) -> Built:
    """In training by the statistics of the batch, which also move the running ones (variance unbiased)."""
    rank = len(dims_of(x))
    if not training:
        return (_with_statistics(b, x, weight, bias, mean, var, eps), None, None, mean, var)
    axes = _batch_axes(x)
    value = _standard(b, x, axes, eps)
    value = _affine(b, value, _channels(b, weight, rank), _channels(b, bias, rank))
    batch_mean = b.add(ReduceOp("mean", x, axes))
    new_mean = _blend(b, mean, batch_mean, momentum)
    new_var = _blend(b, var, b.add(VarianceOp(x, axes, 1.0)), momentum)
    return value, None, None, new_mean, new_var


@lowers(aten._native_batch_norm_legit.no_stats)
def batch_norm_no_stats(
    b: Builder, x: Any, weight: Any, bias: Any, training: bool, momentum: float, eps: float
) -> Built:
    rank = len(dims_of(x))
    value = _standard(b, x, _batch_axes(x), eps)
    return _affine(b, value, _channels(b, weight, rank), _channels(b, bias, rank)), None, None


@lowers(aten._native_batch_norm_legit_no_training.default)
def batch_norm_inference(
    b: Builder, x: Any, weight: Any, bias: Any, mean: Any, var: Any, momentum: float, eps: float
) -> Built:
    return _with_statistics(b, x, weight, bias, mean, var, eps), None, None


def _with_statistics(b: Builder, x: Any, weight: Any, bias: Any, mean: Any, var: Any, eps: float) -> SSAValue:
    rank = len(dims_of(x))
    scale = b.call(e.RsqrtOp, b.call(e.AddOp, var, eps))
    centred = b.call(e.SubOp, x, _channels(b, mean, rank))
    value = b.call(e.MulOp, centred, _channels(b, scale, rank))
    return _affine(b, value, _channels(b, weight, rank), _channels(b, bias, rank))


def _along(cls: type[AlongAxisOp]) -> Callable[..., Built]:
    def build(b: Builder, x: Any, axis: int, *_: Any, **options: Any) -> Built:
        return b.add(cls(b.value(x), axis_of(axis, len(dims_of(x)))))

    return build


for _overload, _cls in (
    (aten.softmax.int, SoftmaxOp),
    (aten._softmax.default, SoftmaxOp),
    (aten.log_softmax.int, LogSoftmaxOp),
    (aten._log_softmax.default, LogSoftmaxOp),
):
    LOWERINGS[_overload] = _along(_cls)


@lowers(aten._safe_softmax.default)
def safe_softmax(b: Builder, x: Any, axis: int, dtype: Any = None) -> Built:
    """Compute a softmax that is 0 in rows where all is -infinity: scores that are masked completely."""
    value = b.cast(x, "f32")
    axes = axes_of(value, axis)
    most = b.keep(b.add(ReduceOp("max", value, axes)), axes)
    is_masked = b.add(e.CmpOp("eq", most, b.number(-math.inf)))
    raised = b.call(e.ExpOp, b.call(e.SubOp, value, b.call(e.SelectOp, is_masked, 0.0, most)))
    total = b.keep(b.add(ReduceOp("sum", raised, axes)), axes)
    return b.call(e.DivOp, raised, b.call(e.SelectOp, is_masked, 1.0, total))


@lowers(aten.logsumexp.default)
def logsumexp(b: Builder, x: Any, axes: Any, keepdim: bool = False) -> Built:
    value = b.value(x)
    positions = axes_of(value, axes)
    return b.keep(b.add(LogSumExpOp(value, positions)), positions, keepdim)


def _scan(kind: str) -> Callable[..., Built]:
    def build(b: Builder, x: Any, axis: int, **options: Any) -> Built:
        if dtype_of(b.value(x)) not in ("f32", "bf16", "f16"):
            raise Unsupported("a scan of integers")
        return b.add(ScanOp(kind, x, axis_of(axis, len(dims_of(x)))))

    return build


LOWERINGS[aten.cumsum.default] = _scan("sum")
LOWERINGS[aten.cumprod.default] = _scan("prod")

MEAN, SUM = 1, 2
"""torch's `reduction` of losses; 0 is none."""


def loss(b: Builder, value: SSAValue, reduction: int) -> SSAValue:
    """Reduce the loss of every element as torch names it."""
    if reduction == 0:
        return value
    return reduced(b, "mean" if reduction == MEAN else "sum", value)


@lowers(aten.mse_loss.default)
def mse_loss(b: Builder, x: Any, target: Any, reduction: int = MEAN) -> Built:
    difference = b.call(e.SubOp, x, target)
    return loss(b, b.call(e.MulOp, difference, difference), reduction)


@lowers(aten.smooth_l1_loss.default)
def smooth_l1_loss(b: Builder, x: Any, target: Any, reduction: int = MEAN, beta: float = 1.0) -> Built:
    size = b.call(e.AbsOp, b.call(e.SubOp, x, target))
    if beta == 0:
        return loss(b, size, reduction)
    square = b.call(e.MulOp, b.call(e.MulOp, size, size), 0.5 / beta)
    near = b.add(e.CmpOp("lt", size, b.number(beta)))
    return loss(b, b.call(e.SelectOp, near, square, b.call(e.SubOp, size, 0.5 * beta)), reduction)


@lowers(aten.huber_loss.default)
def huber_loss(b: Builder, x: Any, target: Any, reduction: int = MEAN, delta: float = 1.0) -> Built:
    size = b.call(e.AbsOp, b.call(e.SubOp, x, target))
    square = b.call(e.MulOp, b.call(e.MulOp, size, size), 0.5)
    near = b.add(e.CmpOp("le", size, b.number(delta)))
    far = b.call(e.MulOp, b.call(e.SubOp, size, 0.5 * delta), delta)
    return loss(b, b.call(e.SelectOp, near, square, far), reduction)
