"""Scaled dot product attention: two products and a softmax, its sums of exponentials, its gradients."""

from __future__ import annotations

import math
from abc import ABC
from collections.abc import Mapping, Sequence
from typing import ClassVar, Self

from xdsl.dialects.builtin import FloatAttr, UnitAttr, f32
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    irdl_attr_definition,
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    prop_def,
)
from xdsl.utils.str_enum import StrEnum

from mucc.dialects.mu import tensor_rules
from mucc.dialects.mu.bounded_values import LARGEST
from mucc.dialects.mu.ops.base import AnchorOp, InferredOp
from mucc.dialects.mu.ops.elementwise import CastOp, MulOp
from mucc.dialects.mu.ops.pointwise import number
from mucc.dialects.mu.ops.reduction import ReduceOp
from mucc.dialects.mu.ops.views import ExpandOp, GeneratedOp
from mucc.dialects.mu.rules import TypeRuleError
from mucc.dialects.mu.surface import GIVEN, NUMBER, VALUE, Function, Option, Parameter, is_on, switch
from mucc.dialects.mu.syntax import WordAttr
from mucc.dialects.mu.types import Dim, Dims, Shaped, TensorType

NARROW_WEIGHT = 256.0
"""The largest weight of attention of e4m3 when it is rounded: small numbers have few bits there."""


class ScoringOp(InferredOp, ABC):
    """Base of operations on scores of queries and keys, their first operands.

    Where there are `pages`, keys `[.., P, R, D]`, and values `[.., P, R, E]`, are P pages of R rows each, and
    have no axis of sequences. The table `[B, 1, .., N]` of s32 has N pages for each index of the first axis
    of queries.
    """

    pages = opt_operand_def(TensorType)

    PAGES: ClassVar[str] = "(`pages` $pages^ `:` type($pages))?"
    """The part of an operation's assembly format for keys and values in pages: `pages %table`."""

    def rows(self, value: SSAValue) -> Attribute:
        """Return the type of the rows that are read of keys or values."""
        return self.in_all_pages.get(value, value.type)

    @property
    def in_all_pages(self) -> dict[SSAValue, TensorType]:
        """The operands with the rows of all pages, with the types of the rows that are read of them."""
        if (pages := self.pages) is None:
            return {}
        names = [n for n, _ in self.get_irdl_definition().operands if n in ("key", "value")]
        return {v: tensor_rules.in_pages(v.type, pages.type) for v in (getattr(self, name) for name in names)}

    @property
    def columns(self) -> Dim:
        """The number of keys of a sequence."""
        return Shaped.of(self.rows(self.operands[1])).dims[-2]

    def in_pages(self, operands: Mapping[str, SSAValue]) -> Self:
        """Return this operation with other operands, by name: its keys, values and `pages`."""
        names = [name for name, _ in self.get_irdl_definition().operands]
        return self.build(
            operands=[operands[name] if name in operands else getattr(self, name) for name in names],
            result_types=[self.result.type],
            properties={n: p for n, p in self.properties.items() if n != "operandSegmentSizes"},
        )


@irdl_op_definition
class AttentionOp(ScoringOp, AnchorOp):
    """`softmax(scale * q @ k.T + mask) @ v`, the softmax in f32.

    The factor is 1 / sqrt(D) where there is no `scale`, as for a run-time extent D of q. Where a mask of
    bools is false, the score is -infinity. With `causal`, row i attends to columns 0 to i. The result of a
    row whose columns are all masked is 0. `sinks`, numbers that broadcast to the scores and whose last two
    extents are 1, are the score of a further column without a value.
    """

    name = "mu.attention"

    irdl_options = (AttrSizedOperandSegments(as_property=True),)

    scale = opt_prop_def(FloatAttr)
    causal = opt_prop_def(UnitAttr)
    query = operand_def(TensorType)
    key = operand_def(TensorType)
    value = operand_def(TensorType)
    mask = opt_operand_def(TensorType)
    sinks = opt_operand_def(TensorType)

    FORMAT: ClassVar[str] = (
        "$query `,` $key `,` $value (`mask` $mask^ `:` type($mask))? (`sinks` $sinks^ `:` type($sinks))? "
        f"{ScoringOp.PAGES} "
        "(`scale` $scale^)? (`causal` $causal^)? attr-dict "
        "`:` type($query) `,` type($key) `,` type($value) `->` type($result)"
    )

    @property
    def space(self) -> Dims:
        return Shaped.of(self.result.type).dims

    def __init__(
        self,
        query: SSAValue | Operation,
        key: SSAValue | Operation,
        value: SSAValue | Operation,
        mask: SSAValue | Operation | None = None,
        causal: bool = False,
        scale: float | FloatAttr | None = None,
        sinks: SSAValue | Operation | None = None,
    ):
        """`scale` is 1 / sqrt(D) if left out."""
        q, k, v = (SSAValue.get(value) for value in (query, key, value))
        more = [None if x is None else SSAValue.get(x) for x in (mask, sinks)]
        types = [None if x is None else x.type for x in more]
        result = tensor_rules.attention(q.type, k.type, v.type, *types)
        super().__init__(
            operands=[q, k, v, *more, None],
            result_types=[result],
            properties=_properties(scale, causal, q),
        )

    def inferred(self) -> Attribute:
        types = [None if x is None else x.type for x in (self.mask, self.sinks)]
        return tensor_rules.attention(self.query.type, self.rows(self.key), self.rows(self.value), *types)


@irdl_op_definition
class ScoresOp(ScoringOp, GeneratedOp):
    """`q @ k.T` as scores that no kernel stores: those of `mu.scored_attention` compute them where needed."""

    name = "mu.scores"

    query = operand_def(TensorType)
    key = operand_def(TensorType)

    FORMAT: ClassVar[str] = (
        f"$query `,` $key {ScoringOp.PAGES} attr-dict `:` type($query) `,` type($key) `->` type($result)"
    )

    def __init__(self, query: SSAValue, key: SSAValue):
        result = tensor_rules.scores(query.type, key.type)
        super().__init__(operands=[query, key, None], result_types=[result])

    def inferred(self) -> Attribute:
        return tensor_rules.scores(self.query.type, self.rows(self.key))


@irdl_op_definition
class ScoredAttentionOp(ScoringOp, AnchorOp):
    """`softmax(scores) @ v`, the scores computed from `mu.scores` of q and k by pointwise operations.

    As with softmax, the result of a row whose scores are all -infinity is NaN, or with `sinks`, which are
    those of `mu.attention`, 0. Without softmax scores are weights: `scores @ v`.
    """

    name = "mu.scored_attention"
    STAGE: ClassVar[str] = "attention"

    irdl_options = (AttrSizedOperandSegments(as_property=True),)

    query = operand_def(TensorType)
    key = operand_def(TensorType)
    value = operand_def(TensorType)
    scores = operand_def(TensorType)
    sinks = opt_operand_def(TensorType)

    without_softmax = opt_prop_def(UnitAttr)

    FORMAT: ClassVar[str] = (
        "$query `,` $key `,` $value `scores` $scores (`sinks` $sinks^ `:` type($sinks))? "
        f"{ScoringOp.PAGES} "
        "(`without_softmax` $without_softmax^)? attr-dict "
        "`:` type($query) `,` type($key) `,` type($value) `,` type($scores) `->` type($result)"
    )

    def __init__(
        self,
        query: SSAValue,
        key: SSAValue,
        value: SSAValue,
        scores: SSAValue,
        sinks: SSAValue | None = None,
        *,
        softmax: bool = True,
    ):
        given = None if sinks is None else sinks.type
        super().__init__(
            operands=[query, key, value, scores, sinks, None],
            result_types=[tensor_rules.attention(query.type, key.type, value.type, None, given)],
            properties={"without_softmax": None if softmax else UnitAttr()},
        )

    @property
    def space(self) -> Dims:
        return Shaped.of(self.result.type).dims

    def inferred(self) -> Attribute:
        sinks = None if self.sinks is None else self.sinks.type
        rows = self.rows(self.key), self.rows(self.value)
        result = tensor_rules.attention(self.query.type, *rows, None, sinks)
        products = tensor_rules.scores(self.query.type, rows[0])
        if (given := Shaped.of(self.scores.type)).dims != products.dims:
            expected = Shaped.of(products)
            raise TypeRuleError("MU1103", f"scores {given} are not those of queries and keys, {expected}")
        return result


@irdl_op_definition
class AttentionLogSumExpOp(ScoringOp, AnchorOp):
    """The natural logarithm of the sum of a row's exponentials: of the scores of `mu.attention`, in f32.

    The kernel of attention with the same scores stores it, too. A row whose columns are all masked has
    -infinity.
    """

    name = "mu.attention_logsumexp"

    irdl_options = (AttrSizedOperandSegments(as_property=True),)

    scale = opt_prop_def(FloatAttr)
    causal = opt_prop_def(UnitAttr)
    query = operand_def(TensorType)
    key = operand_def(TensorType)
    mask = opt_operand_def(TensorType)

    FORMAT: ClassVar[str] = (
        "$query `,` $key (`mask` $mask^ `:` type($mask))? "
        f"{ScoringOp.PAGES} "
        "(`scale` $scale^)? (`causal` $causal^)? attr-dict "
        "`:` type($query) `,` type($key) `->` type($result)"
    )

    def __init__(
        self,
        query: SSAValue | Operation,
        key: SSAValue | Operation,
        mask: SSAValue | Operation | None = None,
        causal: bool = False,
        scale: float | FloatAttr | None = None,
    ):
        """`scale` is 1 / sqrt(D) if left out."""
        q, k = SSAValue.get(query), SSAValue.get(key)
        masks = [] if mask is None else [SSAValue.get(mask)]
        super().__init__(
            operands=[q, k, masks, None],
            result_types=[tensor_rules.attention_sums(q.type, k.type, masks[0].type if masks else None)],
            properties=_properties(scale, causal, q),
        )

    @property
    def space(self) -> Dims:
        return (*Shaped.of(self.result.type).dims, 1)

    def inferred(self) -> Attribute:
        mask = None if self.mask is None else self.mask.type
        return tensor_rules.attention_sums(self.query.type, self.rows(self.key), mask)

    def is_of(self, op: Operation) -> bool:
        """Whether attention has these scores."""
        return isinstance(op, AttentionOp) and _scores_of(self) == _scores_of(op)


class Wanted(StrEnum):
    """The operand of attention whose gradient is computed."""

    QUERY = "query"
    KEY = "key"
    VALUE = "value"
    MASK = "mask"


@irdl_attr_definition
class WantedAttr(WordAttr[Wanted]):
    """The operand whose gradient is computed."""

    name = "mu.wanted"


class GradientOp(InferredOp, ABC):
    """Base of gradients of attention, whose last operand but the mask is `rows`."""

    of = prop_def(WantedAttr)
    scale = opt_prop_def(FloatAttr)
    causal = opt_prop_def(UnitAttr)
    gradient = operand_def(TensorType)
    query = operand_def(TensorType)
    key = operand_def(TensorType)
    value = operand_def(TensorType)
    logsumexp = operand_def(TensorType)
    rows = operand_def(TensorType)
    mask = opt_operand_def(TensorType)

    FORMAT: ClassVar[str] = (
        "$of $gradient `,` $query `,` $key `,` $value `,` $logsumexp `,` $rows (`mask` $mask^)? "
        "(`scale` $scale^)? (`causal` $causal^)? attr-dict `:` functional-type(operands, results)"
    )

    def __init__(
        self,
        of: Wanted,
        operands: Sequence[SSAValue],
        mask: SSAValue | None = None,
        causal: bool = False,
        scale: float | FloatAttr | None = None,
    ):
        """`operands` are those but the mask, in order; `scale` is 1 / sqrt(D) if left out."""
        masks = [] if mask is None else [mask]
        types = [value.type for value in operands]
        result = tensor_rules.attention_gradient(of, types, None if mask is None else mask.type)
        super().__init__(
            operands=[*operands, masks],
            result_types=[result],
            properties={"of": WantedAttr(of), **_properties(scale, causal, operands[1])},
        )

    def inferred(self) -> Attribute:
        mask = None if self.mask is None else self.mask.type
        types = [value.type for value in self.operands[:6]]
        return tensor_rules.attention_gradient(self.of.data, types, mask)

    def is_beside(self, op: Operation) -> bool:
        """Whether another gradient is that of the same attention."""
        return isinstance(op, GradientOp) and op.name == self.name and _given(self) == _given(op)


@irdl_op_definition
class AttentionGradientOp(GradientOp):
    """The gradient of attention with respect to an operand, of the gradient of its result.

    `rows` is the result of attention, and `logsumexp` that of `mu.attention_logsumexp`. Heads that share keys
    add up, as does what a mask of numbers is added to. Weights are computed anew from scores; a row without a
    column has none.
    """

    name = "mu.attention_gradient"

    @property
    def function(self) -> str:
        return f"attention_d{'mask' if self.of.data is Wanted.MASK else self.of.data.value[0]}"


@irdl_op_definition
class AttentionBackwardOp(GradientOp, AnchorOp):
    """`mu.attention_gradient`, where `rows` are sums over the columns of gradient times result, in f32.

    One kernel computes the gradients of all operands of one attention.
    """

    name = "mu.attention_backward"

    @property
    def space(self) -> Dims:
        return Shaped.of(self.result.type).dims


def row_sums(gradient: SSAValue, result: SSAValue) -> list[Operation]:
    """Return the operations that sum gradient times result over columns, the last one in f32."""
    casts = [CastOp(v, f32) for v in (gradient, result)]
    product = MulOp(casts[0].result, casts[1].result)
    return [*casts, product, ReduceOp("sum", product.result, [len(Shaped.of(result.type).dims) - 1])]


def _properties(
    scale: float | FloatAttr | None, causal: bool, query: SSAValue
) -> dict[str, Attribute | None]:
    size = Shaped.of(query.type).dims[-1]
    if scale is None and isinstance(size, int):
        scale = 1 / math.sqrt(size)
    if isinstance(scale, float | int) and not abs(scale) <= LARGEST:
        raise TypeRuleError("MU1103", f"scale {scale} of attention is no finite number of f32")
    return {
        "scale": None if scale is None else number(scale),
        "causal": UnitAttr() if causal else None,
    }


def _scores_of(op: AttentionOp | AttentionLogSumExpOp) -> tuple[object, ...]:
    return op.query, op.key, op.mask, op.scale, op.causal, op.pages


def _given(op: GradientOp) -> tuple[object, ...]:
    return *op.operands, op.scale, op.causal


OPERANDS = (Wanted.QUERY, Wanted.KEY, Wanted.VALUE)
"""The operands whose gradients one kernel computes."""

OPERATIONS = (
    *(AttentionOp, ScoresOp, ScoredAttentionOp),
    *(AttentionLogSumExpOp, AttentionGradientOp, AttentionBackwardOp),
)
ATTRIBUTES = (WantedAttr,)


# The language


def _attention(values: Sequence[SSAValue], options: dict[str, Option]) -> Sequence[Operation]:
    query, key, value, *more = values
    given = dict(zip(str(options[GIVEN]).split()[3:], more, strict=True))
    settings = (given.get("mask"), is_on(options, "causal"), _factor(options))
    if (sinks := given.get("sinks")) is None:
        return [AttentionOp(query, key, value, *settings)]
    rank = len(tensor_rules.attention(query.type, key.type, value.type).dims)
    known = len(tensor_rules.tensor("attention", sinks.type).dims)
    if known > rank - 2:  # with an axis of extent 1 for rows, and one for columns
        return [AttentionOp(query, key, value, *settings, sinks)]
    columns = ExpandOp(sinks, [*range(rank - 2 - known), rank - 2, rank - 1])
    return [columns, AttentionOp(query, key, value, *settings, columns.result)]


def _logsumexp(values: Sequence[SSAValue], options: dict[str, Option]) -> Operation:
    query, key, *masks = values
    return AttentionLogSumExpOp(
        query, key, masks[0] if masks else None, is_on(options, "causal"), _factor(options)
    )


def _factor(options: dict[str, Option]) -> float | None:
    scale = options.get("scale")
    return float(scale) if isinstance(scale, int | float) else None


_SCORES = (Parameter("mask", VALUE, "none"), switch("causal"), Parameter("scale", NUMBER, "auto"))


def _gradient(name: str, of: Wanted, operand: str) -> Function:
    def build(values: Sequence[SSAValue], options: dict[str, Option]) -> Operation:
        query, key, value, result, logsumexp, gradient, *masks = values
        operands = (gradient, query, key, value, logsumexp, result)
        mask = masks[0] if masks else None
        return AttentionGradientOp(of, operands, mask, is_on(options, "causal"), _factor(options))

    parameters = (*(Parameter(n, VALUE) for n in ("q", "k", "v", "y", "lse", "dy")), *_SCORES)
    doc = f"The gradient of `{operand}` in `y = attention(q, k, v)`, whose `attention_logsumexp` is `lse`"
    return Function(name, parameters, doc, build)


FUNCTIONS = (
    Function(
        "attention",
        (*(Parameter(name, VALUE) for name in "qkv"), *_SCORES, Parameter("sinks", VALUE, "none")),
        "`softmax(scale * q @ k.T + mask) @ v`, scale 1 / sqrt(D); a mask of bools says which scores stay; "
        "sinks have the score of a column without a value for each head",
        _attention,
    ),
    Function(
        "attention_logsumexp",
        (*(Parameter(name, VALUE) for name in "qk"), *_SCORES),
        "`logsumexp(scale * q @ k.T + mask)` in f32; beside `attention` of the same scores it costs nothing",
        _logsumexp,
    ),
    _gradient("attention_dq", Wanted.QUERY, "q"),
    _gradient("attention_dk", Wanted.KEY, "k"),
    _gradient("attention_dv", Wanted.VALUE, "v"),
    _gradient("attention_dmask", Wanted.MASK, "mask"),
)
