"""Contractions: matrix products, and the number formats in which they are computed."""

from __future__ import annotations

from abc import ABC
from collections.abc import Sequence
from typing import ClassVar

from xdsl.dialects.builtin import UnitAttr
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    irdl_attr_definition,
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException
from xdsl.utils.str_enum import StrEnum

from mucc.dialects.mu import index_rules, rules, scale_rules
from mucc.dialects.mu.ops.base import AnchorOp, check_result
from mucc.dialects.mu.ops.views import views_alike
from mucc.dialects.mu.rules import TypeRuleError
from mucc.dialects.mu.surface import GIVEN, VALUE, WORD, Function, Option, Parameter
from mucc.dialects.mu.syntax import WordAttr
from mucc.dialects.mu.types import DTYPES, STORABLE, Dims, Shaped, TensorType, dtype_name


class Compute(StrEnum):
    """The number format of a contraction's products; accumulation is f32, of integers s32.

    `tf32x3` splits each f32 operand into two tf32 parts and adds three products of the parts, which is nearly
    as exact as `f32`, the arithmetic of CUDA cores. A pair of e4m3 and e5m2 computes in e5m2, a pair of s8
    and u8 in s8.
    """

    BF16 = "bf16"
    F16 = "f16"
    TF32 = "tf32"
    TF32X3 = "tf32x3"
    F32 = "f32"
    E4M3 = "e4m3"
    E5M2 = "e5m2"
    S8 = "s8"
    U8 = "u8"


@irdl_attr_definition
class ComputeAttr(WordAttr[Compute]):
    """The number format in which a contraction multiplies."""

    name = "mu.compute"

    @staticmethod
    def choices(lhs: Attribute, rhs: Attribute) -> tuple[Compute, ...]:
        """List the formats in which operands can be multiplied, the default first; none for s32."""
        dtypes = {dtype_name(Shaped.of(type).element_type) for type in (lhs, rhs)}
        if "f32" in dtypes and (rules.is_sparse(lhs) or rules.is_sparse(rhs)):
            return (Compute.TF32,)
        if "f32" in dtypes:
            return (Compute.TF32, Compute.TF32X3, Compute.F32)
        return tuple(c for c in _NARROW if c.value in dtypes)[:1]

    @staticmethod
    def default(lhs: Attribute, rhs: Attribute) -> ComputeAttr:
        """Choose the default: the operands' own format for 8 and 16 bits, tf32 for f32."""
        return ComputeAttr(ComputeAttr.choices(lhs, rhs)[0])


_NARROW = (Compute.BF16, Compute.F16, Compute.E5M2, Compute.E4M3, Compute.S8, Compute.U8)
"""Formats below 32 bits. Operands of two formats are computed in the one listed first."""


class Accumulation(StrEnum):
    """The accuracy with which products of 8-bit floats are accumulated."""

    F32 = "f32"
    FAST = "fast"


@irdl_attr_definition
class AccumulationAttr(WordAttr[Accumulation]):
    """The accumulation of 8-bit floats: `fast` sums in tensor cores alone, which lose low bits."""

    name = "mu.accumulation"


class ContractionOp(AnchorOp, ABC):
    """Base of matrix products."""

    STAGE: ClassVar[str] = "contraction"

    compute = prop_def(ComputeAttr)
    lhs = operand_def(TensorType)
    rhs = operand_def(TensorType)
    result = result_def(TensorType)

    @property
    def space(self) -> Dims:
        return Shaped.of(self.result.type).dims


@irdl_op_definition
class MatmulOp(ContractionOp):
    """Contract the last axis of `lhs` with the second-last of `rhs`, with f32 accumulation.

    `scales` are empty, or the block scales of both operands (see `scale_rules.block_scales`). A `mixed`
    product has one operand of 4 or 8 bits, which the kernel converts to the format of the other operand;
    `scales` are then those of groups of the narrow operand along K, and optionally zeros (see
    `scale_rules.group_scales`).
    """

    name = "mu.matmul"

    acc = opt_prop_def(AccumulationAttr)
    mixed = opt_prop_def(UnitAttr)
    lhs = operand_def(TensorType)
    rhs = operand_def(TensorType)
    scales = var_operand_def(TensorType)  # after the operands of every contraction

    FORMAT: ClassVar[str] = (
        "$compute (`acc` $acc^)? (`mixed` $mixed^)? $lhs `,` $rhs (`scales` $scales^)? attr-dict "
        "`:` functional-type(operands, results)"
    )

    traits = traits_def(Pure())

    def __init__(
        self,
        lhs: SSAValue | Operation,
        rhs: SSAValue | Operation,
        compute: ComputeAttr | None = None,
        acc: AccumulationAttr | None = None,
        scales: Sequence[SSAValue] = (),
        *,
        mixed: bool = False,
    ):
        a, b = SSAValue.get(lhs), SSAValue.get(rhs)
        result = rules.matmul(a.type, b.type)
        if scales and not mixed:
            scale_rules.block_scales(a.type, b.type, [s.type for s in scales])
        super().__init__(
            operands=[a, b, scales],
            result_types=[result],
            properties={
                "compute": compute or ComputeAttr.default(a.type, b.type),
                "acc": acc,
                "mixed": UnitAttr() if mixed else None,
            },
        )

    @property
    def has_plain_operands(self) -> bool:
        """Whether there are neither scales nor a narrow operand that the kernel converts."""
        return not self.scales and self.mixed is None

    def verify_(self) -> None:
        check_result(self, rules.matmul(self.lhs.type, self.rhs.type))
        dtype = Shaped.of(self.lhs.type).element_type
        if self.compute.data not in ComputeAttr.choices(self.lhs.type, self.rhs.type):
            raise VerifyException(f"mu.matmul: {dtype} operands do not compute in {self.compute.data}")
        if self.acc is not None and self.compute.data not in (Compute.E4M3, Compute.E5M2):
            raise VerifyException("mu.matmul: only products of 8-bit floats have another accumulation")

        if self.mixed is not None and rules.narrow_side(self.lhs.type, self.rhs.type) is None:
            raise VerifyException("mu.matmul: a mixed product has one operand of 4 or 8 bits, one of 16")
        if self.scales:
            _ = self.blocks, self.group  # the rules check the scales

    @property
    def group(self) -> int:
        """The number of elements along K that share a scale in a mixed product; 0 without scales."""
        if self.mixed is None or not self.scales:
            return 0
        return scale_rules.group_scales(self.lhs.type, self.rhs.type, [s.type for s in self.scales])

    @property
    def blocks(self) -> tuple[int, int] | None:
        """The numbers of rows and of columns of the product that share a scale; None without block scales."""
        if not self.scales or self.mixed is not None:
            return None
        return scale_rules.block_scales(self.lhs.type, self.rhs.type, [s.type for s in self.scales])

    def pairs_with(self, other: MatmulOp) -> bool:
        """Whether one kernel can compute both products: same left operand, right operands of equal layout.

        Layouts with run-time strides are not taken for equal.
        """
        if self.scales or other.scales or self.mixed or other.mixed:
            return False
        left, right = views_alike(self.lhs, other.lhs), views_alike(self.rhs, other.rhs)
        if self.properties != other.properties or left[0] is not left[1] or right[0].type != right[1].type:
            return False
        type = right[0].type
        return isinstance(type, TensorType) and type.layout.is_known


@irdl_op_definition
class GroupedMatmulOp(ContractionOp):
    """Multiply each group g of the rows of `lhs` with the matrix `rhs[g]`.

    `offsets[g]` is the end of group g: its rows are `offsets[g-1]` to `offsets[g]`. The first group begins at
    0, and the last ends with the last row. If given, the number `scale[g]` multiplies the product of group g,
    and the row `bias[g]` is added to it.
    """

    name = "mu.grouped_matmul"

    lhs = operand_def(TensorType)
    rhs = operand_def(TensorType)
    offsets = operand_def(TensorType)
    scale = opt_operand_def(TensorType)
    bias = opt_operand_def(TensorType)

    irdl_options = (AttrSizedOperandSegments(as_property=True),)

    FORMAT: ClassVar[str] = (
        "$compute $lhs `,` $rhs `offsets` $offsets (`scale` $scale^ `:` type($scale))? "
        "(`bias` $bias^ `:` type($bias))? attr-dict "
        "`:` type($lhs) `,` type($rhs) `,` type($offsets) `->` type($result)"
    )

    traits = traits_def(Pure())

    def __init__(
        self,
        lhs: SSAValue | Operation,
        rhs: SSAValue | Operation,
        offsets: SSAValue | Operation,
        scale: SSAValue | None = None,
        bias: SSAValue | None = None,
    ):
        a, b, ends = SSAValue.get(lhs), SSAValue.get(rhs), SSAValue.get(offsets)
        super().__init__(
            operands=[a, b, ends, scale, bias],
            result_types=[self.infer(a.type, b.type, ends.type, scale and scale.type, bias and bias.type)],
            properties={"compute": ComputeAttr.default(a.type, b.type)},
        )

    @staticmethod
    def infer(
        lhs: Attribute, rhs: Attribute, offsets: Attribute, scale: Attribute | None, bias: Attribute | None
    ) -> TensorType:
        """Infer the result type. Raises TypeRuleError where the operands do not fit."""
        return index_rules.by_group(index_rules.grouped_matmul(lhs, rhs, offsets), rhs, scale, bias)

    def verify_(self) -> None:
        scale, bias = self.scale and self.scale.type, self.bias and self.bias.type
        check_result(self, self.infer(self.lhs.type, self.rhs.type, self.offsets.type, scale, bias))
        if self.compute != ComputeAttr.default(self.lhs.type, self.rhs.type):
            raise VerifyException(f"mu.grouped_matmul: operands do not compute in {self.compute.data}")


OPERATIONS = (MatmulOp, GroupedMatmulOp)
ATTRIBUTES = (ComputeAttr, AccumulationAttr)


def _matmul(values: Sequence[SSAValue], options: dict[str, Option]) -> Operation:
    lhs, rhs = values[0].type, values[1].type
    rules.matmul(lhs, rhs)
    choices = ComputeAttr.choices(lhs, rhs)
    compute = options.get("compute") or choices[0]
    if compute in choices:
        op = MatmulOp(values[0], values[1], ComputeAttr(Compute(compute)), scales=values[2:])
        return _accumulated(op, options.get("acc"))
    sparse = "sparse " if rules.is_sparse(lhs) or rules.is_sparse(rhs) else ""
    operands = f"{sparse}{dtype_name(Shaped.of(lhs).element_type)} operands"
    raise TypeRuleError(
        "MU1010",
        f"{operands} cannot compute in {compute}",
        notes=(f"{operands} of a contraction compute in {_any_of(choices)}",),
        helps=(f"leave `compute` out{_otherwise(compute, lhs, rhs, bool(sparse))}",),
    )


def _otherwise(compute: Option, lhs: Attribute, rhs: Attribute, is_sparse: bool) -> str:
    """Return further advice on how operands can compute in a format."""
    dense = ComputeAttr.choices(Shaped.of(lhs).element_type, Shaped.of(rhs).element_type)
    if is_sparse:
        return ", or `sparse` out of the type of the matrix" if compute in dense else ""
    dtype = next(d for d in STORABLE if compute in ComputeAttr.choices(DTYPES[d], DTYPES[d]))
    return f", or cast both operands to {dtype}"


def _any_of(words: Sequence[str]) -> str:
    """Join words to a text such as `tf32, tf32x3 or f32`."""
    *first, last = words
    return f"{', '.join(first)} or {last}" if first else last


def _accumulated(op: MatmulOp, acc: Option) -> MatmulOp:
    """Set the accumulation of a product. Raises TypeRuleError MU1061 where the format does not allow it."""
    compute, reason = op.compute.data, ""
    if acc == Accumulation.FAST and op.scales:
        reason = "parts of the sum are scaled, and added up in f32"
    if acc == Accumulation.FAST and compute not in (Compute.E4M3, Compute.E5M2):
        reason = "tensor cores add up products of e4m3 and e5m2 with fewer bits than f32 has; no others"
    if acc == Accumulation.F32 and compute in (Compute.S8, Compute.U8):
        reason = "sums of integers are exact, in s32"
    if reason:
        raise TypeRuleError(
            "MU1061", f"products in {compute} are not summed in {acc}", (reason,), ("leave `acc` out",)
        )
    if acc == Accumulation.FAST:
        op.acc = AccumulationAttr(Accumulation.FAST)
    return op


def _grouped_matmul(values: Sequence[SSAValue], options: dict[str, Option]) -> Operation:
    by_group = dict(zip(str(options[GIVEN]).split()[3:], values[3:], strict=True))
    return GroupedMatmulOp(
        values[0], values[1], values[2], scale=by_group.get("scale"), bias=by_group.get("bias")
    )


FUNCTIONS = (
    Function(
        "matmul",
        (
            Parameter("a", VALUE),
            Parameter("b", VALUE),
            Parameter("compute", WORD, "auto", tuple(Compute)),
            Parameter("acc", WORD, "f32", tuple(Accumulation)),
            Parameter("scale_a", VALUE, "none"),
            Parameter("scale_b", VALUE, "none"),
        ),
        "The product `a @ b`, with its number format",
        _matmul,
    ),
    Function(
        "grouped_matmul",
        (
            Parameter("a", VALUE),
            Parameter("b", VALUE),
            Parameter("offsets", VALUE),
            Parameter("scale", VALUE, "none"),
            Parameter("bias", VALUE, "none"),
        ),
        "Rows `offsets[g-1]` to `offsets[g]` of `a` times `b[g]` and `scale[g]`, plus `bias[g]`",
        _grouped_matmul,
    ),
)
