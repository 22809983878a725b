"""Scaled dot product attention: a composite of two products and a softmax."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar

from xdsl.dialects.builtin import FloatAttr, UnitAttr
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import irdl_op_definition, operand_def, opt_operand_def, opt_prop_def

from mucc.dialects.mu import tensor_rules
from mucc.dialects.mu.ops.base import AnchorOp, InferredOp
from mucc.dialects.mu.ops.pointwise import number
from mucc.dialects.mu.ops.views import GeneratedOp
from mucc.dialects.mu.surface import NUMBER, VALUE, Function, Option, Parameter, is_on, switch
from mucc.dialects.mu.types import Dims, Shaped, TensorType


@irdl_op_definition
class AttentionOp(InferredOp, AnchorOp):
    """`softmax(scale * q @ k.T + mask) @ v`, the softmax in f32.

    The factor is 1 / sqrt(D) where there is no `scale`, as for a run-time extent D of q. Where a mask of
    bools is false, the score is -infinity. With `causal`, row i attends to columns 0 to i. The result of a
    row whose columns are all masked is 0.
    """

    name = "mu.attention"

    scale = opt_prop_def(FloatAttr)
    causal = opt_prop_def(UnitAttr)
    query = operand_def(TensorType)
    key = operand_def(TensorType)
    value = operand_def(TensorType)
    mask = opt_operand_def(TensorType)

    FORMAT: ClassVar[str] = (
        "$query `,` $key `,` $value (`mask` $mask^)? (`scale` $scale^)? (`causal` $causal^)? attr-dict "
        "`:` functional-type(operands, results)"
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
    ):
        """`scale` is 1 / sqrt(D) if left out."""
        q, k, v = (SSAValue.get(value) for value in (query, key, value))
        masks = [] if mask is None else [SSAValue.get(mask)]
        result = tensor_rules.attention(q.type, k.type, v.type, masks[0].type if masks else None)
        size = Shaped.of(q.type).dims[-1]
        if scale is None and isinstance(size, int):
            scale = 1 / math.sqrt(size)
        super().__init__(
            operands=[q, k, v, masks],
            result_types=[result],
            properties={
                "scale": None if scale is None else number(scale),
                "causal": UnitAttr() if causal else None,
            },
        )

    def inferred(self) -> Attribute:
        mask = None if self.mask is None else self.mask.type
        return tensor_rules.attention(self.query.type, self.key.type, self.value.type, mask)


@irdl_op_definition
class ScoresOp(GeneratedOp):
    """`q @ k.T` as scores that no kernel stores: those of `mu.scored_attention` compute them where needed."""

    name = "mu.scores"

    query = operand_def(TensorType)
    key = operand_def(TensorType)

    FORMAT: ClassVar[str] = "$query `,` $key attr-dict `:` functional-type(operands, results)"

    def __init__(self, query: SSAValue, key: SSAValue):
        result = tensor_rules.scores(query.type, key.type)
        super().__init__(operands=[query, key], result_types=[result])

    def inferred(self) -> Attribute:
        return tensor_rules.scores(self.query.type, self.key.type)


@irdl_op_definition
class ScoredAttentionOp(InferredOp, AnchorOp):
    """`softmax(scores) @ v`, the scores computed from `mu.scores` of q and k by pointwise operations.

    As with softmax, the result of a row whose scores are all -infinity is NaN.
    """

    name = "mu.scored_attention"
    STAGE: ClassVar[str] = "attention"

    query = operand_def(TensorType)
    key = operand_def(TensorType)
    value = operand_def(TensorType)
    scores = operand_def(TensorType)

    FORMAT: ClassVar[str] = (
        "$query `,` $key `,` $value `scores` $scores attr-dict `:` functional-type(operands, results)"
    )

    def __init__(self, query: SSAValue, key: SSAValue, value: SSAValue, scores: SSAValue):
        operands = [query, key, value, scores]
        result = tensor_rules.attention(query.type, key.type, value.type)
        super().__init__(operands=operands, result_types=[result])

    @property
    def space(self) -> Dims:
        return Shaped.of(self.result.type).dims

    def inferred(self) -> Attribute:
        return tensor_rules.attention(self.query.type, self.key.type, self.value.type)


OPERATIONS = (AttentionOp, ScoresOp, ScoredAttentionOp)


# The language


def _attention(values: Sequence[SSAValue], options: dict[str, Option]) -> Operation:
    query, key, value, *masks = values
    mask = masks[0] if masks else None
    scale = options.get("scale")
    factor = float(scale) if isinstance(scale, int | float) else None
    return AttentionOp(query, key, value, mask, is_on(options, "causal"), factor)


FUNCTIONS = (
    Function(
        "attention",
        (
            *(Parameter(name, VALUE) for name in "qkv"),
            Parameter("mask", VALUE, "none"),
            switch("causal"),
            Parameter("scale", NUMBER, "auto"),
        ),
        "`softmax(scale * q @ k.T + mask) @ v`, scale 1 / sqrt(D); a mask of bools says which scores stay",
        _attention,
    ),
)
