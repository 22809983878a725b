"""Lower ATen's attention, its log-sum-exps, and its gradients.

Operations of PyTorch's backends have further results: numbers of random generators, which are 0 where nothing
is dropped, and offsets of sequences, which these forms have none of.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from xdsl.ir import SSAValue

from mucc.dialects.mu.ops.attention import (
    OPERANDS,
    AttentionGradientOp,
    AttentionLogSumExpOp,
    AttentionOp,
    Wanted,
)
from mucc.dialects.mu.ops.shape import FullOp, ReshapeOp
from mucc.dialects.mu.ops.views import BroadcastOp, ExpandOp
from mucc.dialects.mu.types import Dims
from mucc.torch.importer.aten_views import reshaped
from mucc.torch.importer.lowering import Builder, Built, Unsupported, aten, dims_of, lowers


@dataclass(frozen=True)
class Operands:
    """Queries, keys, values and the mask of attention, and the axes of queries that share heads of keys."""

    query: SSAValue
    key: SSAValue
    value: SSAValue
    mask: SSAValue | None
    groups: Dims | None = None
    """The leading axes where heads of keys are shared: `[.., heads of keys, queries of each]`."""

    @staticmethod
    def of(b: Builder, q: Any, k: Any, v: Any, mask: Any) -> Operands:
        """Take operands as ATen has them; fewer heads of keys than of queries are shared.

        Raises Unsupported for heads that do not divide.
        """
        heads_of = [dims_of(x)[-3:-2] for x in (q, k, v)]
        if () in heads_of or all(heads in (heads_of[0], (1,)) for heads in heads_of):
            return Operands(q, k, v, mask)  # what has no heads, or one, broadcasts
        *lead, heads, rows, width = dims_of(q)
        fewer = dims_of(k)[-3]
        if (
            dims_of(v)[-3] != fewer
            or not isinstance(heads, int)
            or not isinstance(fewer, int)
            or heads % fewer
        ):
            raise Unsupported("heads of keys and values that do not divide those of queries")
        groups = (*lead, fewer, heads // fewer)
        key, value = (b.add(ExpandOp(b.value(x), [len(groups) - 1])) for x in (k, v))
        mask = _of_groups(b, mask, groups)
        return Operands(reshaped(b, q, (*groups, rows, width)), key, value, mask, groups)

    @staticmethod
    def shared(b: Builder, q: Any, k: Any, v: Any, mask: Any) -> Operands:
        """Return operands with shared keys and values as they are before `repeat_kv`; not for gradients."""
        if dims_of(k)[-3:-2] != dims_of(q)[-3:-2]:
            return Operands.of(b, q, k, v, mask)
        key, value = _with_groups(b.value(k)), _with_groups(b.value(v))
        if key is None or value is None:
            return Operands(q, k, v, mask)
        (repeated, wide), (repeated_value, wide_value) = key, value
        groups, (rows, width) = wide[:-2], dims_of(q)[-2:]
        if groups != wide_value[:-2] or (*groups[:-2], *dims_of(k)[-3:-2]) != dims_of(q)[:-2]:
            return Operands(q, k, v, mask)
        mask = _of_groups(b, mask, groups)
        return Operands(reshaped(b, q, (*groups, rows, width)), repeated, repeated_value, mask, groups)

    def of_rows(self, b: Builder, value: Any, behind: int) -> SSAValue:
        """Return a tensor with rows as queries have them, which has so many axes behind its heads."""
        if self.groups is None:
            return b.value(value)
        dims = dims_of(value)
        return reshaped(b, value, (*self.groups, *dims[len(dims) - behind :]))


def _of_groups(b: Builder, mask: Any, groups: Dims) -> Any:
    """Return a mask that has an axis for heads of keys, and one for the queries of each."""
    if mask is None or len(dims := dims_of(mask)) < 3:
        return mask
    if dims[-3] == 1:
        return b.add(ExpandOp(b.value(mask), [len(dims) - 2]))
    return reshaped(b, mask, (*dims[:-3], *groups[-2:], *dims[-2:]))


def _with_groups(value: SSAValue) -> tuple[SSAValue, Dims] | None:
    """Find what a value of `[.., heads, keys, width]` repeats, as `repeat_kv` of transformers does.

    Returns `[.., heads of keys, 1, keys, width]`, and the extents with the number of repetitions in place of
    the 1; None for a value that repeats no head.
    """
    reshape = value.owner
    if not isinstance(reshape, ReshapeOp) or not isinstance(broadcast := reshape.operand.owner, BroadcastOp):
        return None
    narrow, wide, merged = (dims_of(x) for x in (broadcast.operand, broadcast.result, value))
    axis = len(wide) - 3
    if axis < 1 or len(narrow) != len(wide) or narrow[axis] != 1:
        return None
    heads, each = wide[axis - 1 : axis + 1]
    if not isinstance(heads, int) or not isinstance(each, int):
        return None
    repeats = wide == (*narrow[:axis], each, *narrow[axis + 1 :])
    merges = merged == (*wide[: axis - 1], heads * each, *wide[axis + 1 :])
    return (broadcast.operand, wide) if repeats and merges else None


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
    _refuse_dropout(dropout)
    given = Operands.shared(b, q, k, v, mask)
    return _attended(b, given, causal, scale, (*dims_of(q)[:-1], dims_of(v)[-1]))


def _refuse_dropout(dropout: float) -> None:
    if dropout:
        raise Unsupported("random numbers: they come from torch's generator")


def _attended(b: Builder, given: Operands, causal: bool, scale: float | None, dims: Dims) -> SSAValue:
    result = b.add(AttentionOp(given.query, given.key, given.value, given.mask, causal, scale))
    return result if given.groups is None else reshaped(b, result, dims)


def _sums(b: Builder, given: Operands, causal: bool, scale: float | None) -> SSAValue | None:
    """Return the log-sum-exp with the extents that PyTorch has; None for extents that are padded."""
    wanted = b.results[1] if len(b.results) > 1 else None
    if wanted is None:
        return None
    made = AttentionLogSumExpOp(given.query, given.key, given.mask, causal, scale)
    *lead, rows = dims_of(made.result)
    if given.groups is not None:
        *lead, fewer, each = lead
        assert isinstance(fewer, int) and isinstance(each, int)
        lead = [*lead, fewer * each]
    if wanted.dims not in ((*lead, rows), (*lead, rows, 1)):
        return None
    value = b.add(made)
    return value if dims_of(value) == wanted.dims else reshaped(b, value, wanted.dims)


def _seeds(b: Builder) -> list[SSAValue | None]:
    """Return 0 for each number of a random generator among the results: backward passes read them."""
    return [
        b.add(FullOp((), 0.0, meta.element_type))
        if meta is not None and meta.dims == () and meta.dtype == "int64"
        else None
        for meta in b.results[2:]
    ]


def _attended_with_sums(
    b: Builder,
    q: Any,
    k: Any,
    v: Any,
    mask: Any,
    dropout: float,
    causal: bool,
    scale: float | None,
    *,
    sums: bool = True,
) -> Built:
    """Return attention, its log-sum-exp where `sums` asks for it, and seeds, as PyTorch's backends do."""
    _refuse_dropout(dropout)
    given = Operands.shared(b, q, k, v, mask)
    result = _attended(b, given, causal, scale, (*dims_of(q)[:-1], dims_of(v)[-1]))
    return result, _sums(b, given, causal, scale) if sums else None, *_seeds(b)


@lowers(
    aten._scaled_dot_product_flash_attention.default, aten._scaled_dot_product_flash_attention_for_cpu.default
)
def flash_attention(
    b: Builder,
    q: Any,
    k: Any,
    v: Any,
    dropout: float = 0.0,
    causal: bool = False,
    debug: bool = False,
    *,
    attn_mask: Any = None,
    scale: float | None = None,
) -> Built:
    return _attended_with_sums(b, q, k, v, attn_mask, dropout, causal, scale)


@lowers(
    aten._scaled_dot_product_efficient_attention.default, aten._scaled_dot_product_cudnn_attention.default
)
def biased_attention(
    b: Builder,
    q: Any,
    k: Any,
    v: Any,
    bias: Any,
    logsumexp: bool,
    dropout: float = 0.0,
    causal: bool = False,
    debug: bool = False,
    *,
    scale: float | None = None,
) -> Built:
    return _attended_with_sums(b, q, k, v, bias, dropout, causal, scale, sums=logsumexp)


# Gradients


def _gradients(
    b: Builder, tensors: tuple[Any, ...], mask: Any, dropout: float, causal: bool, scale: float | None
) -> tuple[SSAValue, ...]:
    """Return the gradients of queries, keys and values; `tensors` are in the order of ATen.

    These are the gradient of the result, queries, keys, values, the result, and the log-sum-exp.
    """
    _refuse_dropout(dropout)
    gradient, q, k, v, result, sums = tensors
    given = Operands.of(b, q, k, v, mask)
    if (rows := (*dims_of(q)[:-2], dims_of(q)[-2])) != dims_of(sums):
        if dims_of(sums) != (*rows, 1):
            raise Unsupported("a log-sum-exp with padded rows")
        sums = reshaped(b, sums, rows)
    operands = (
        given.of_rows(b, gradient, 2),
        *(given.query, given.key, given.value),
        given.of_rows(b, sums, 1),
        given.of_rows(b, result, 2),
    )
    found = (b.add(AttentionGradientOp(of, operands, given.mask, causal, scale)) for of in OPERANDS)
    return tuple(
        x if dims_of(x) == dims_of(own) else reshaped(b, x, dims_of(own))
        for x, own in zip(found, (q, k, v), strict=True)
    )


@lowers(aten._scaled_dot_product_flash_attention_for_cpu_backward.default)
def cpu_gradients(b: Builder, *given: Any, attn_mask: Any = None, scale: float | None = None) -> Built:
    *tensors, dropout, causal = given
    return _gradients(b, tuple(tensors), attn_mask, dropout, causal, scale)


@lowers(aten._scaled_dot_product_flash_attention_backward.default)
def flash_gradients(b: Builder, *given: Any, scale: float | None = None) -> Built:
    dropout, causal = given[10:12]
    return _gradients(b, given[:6], None, dropout, causal, scale)


@lowers(aten._scaled_dot_product_cudnn_attention_backward.default)
def cudnn_gradients(b: Builder, *given: Any, scale: float | None = None) -> Built:
    mask, dropout, causal = given[8], *given[13:15]
    return _gradients(b, given[:6], mask, dropout, causal, scale)


@lowers(aten._scaled_dot_product_efficient_attention_backward.default)
def efficient_gradients(
    b: Builder,
    gradient: Any,
    q: Any,
    k: Any,
    v: Any,
    bias: Any,
    result: Any,
    sums: Any,
    seed: Any,
    offset: Any,
    dropout: float,
    wanted: list[bool],
    causal: bool = False,
    *,
    scale: float | None = None,
) -> Built:
    tensors = (gradient, q, k, v, result, sums)
    found = _gradients(b, tensors, bias, dropout, causal, scale)
    return *found, _bias_gradient(b, tensors, bias, causal, scale) if wanted[3] else None


def _bias_gradient(
    b: Builder, tensors: tuple[Any, ...], bias: Any, causal: bool, scale: float | None
) -> SSAValue:
    """Return the gradient of a bias; PyTorch gives it all axes of the scores.

    Raises Unsupported for heads that share keys, along which a bias has no axis.
    """
    gradient, q, k, v, result, sums = tensors
    given = Operands.of(b, q, k, v, bias)
    if given.groups is not None:
        raise Unsupported("the gradient of a bias of attention whose heads share keys")
    rows = dims_of(q)[:-1]
    sums = sums if dims_of(sums) == rows else reshaped(b, sums, rows)
    operands = tuple(b.value(x) for x in (gradient, q, k, v, sums, result))
    assert given.mask is not None
    return b.add(AttentionGradientOp(Wanted.MASK, operands, given.mask, causal, scale))
