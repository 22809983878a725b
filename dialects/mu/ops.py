"""Tensor operations and the structure of programs: kernels, stages, returns."""

from __future__ import annotations

from abc import ABC
from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from xdsl.dialects.builtin import (
    AffineSetAttr,
    ArrayAttr,
    DenseArrayBase,
    DictionaryAttr,
    Float32Type,
    FunctionType,
    IntegerAttr,
    StringAttr,
    UnitAttr,
    i1,
    i64,
)
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.ir.affine import AffineSet
from xdsl.irdl import (
    attr_def,
    irdl_attr_definition,
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    prop_def,
    region_def,
    result_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.traits import HasParent, IsolatedFromAbove, IsTerminator, Pure, SymbolOpInterface
from xdsl.utils.exceptions import VerifyException
from xdsl.utils.str_enum import StrEnum

from mucc.dialects.mu import index_rules, rules
from mucc.dialects.mu.entry import EntryOp
from mucc.dialects.mu.indexed import ScatterOp
from mucc.dialects.mu.pointwise import CanonicalizationTrait, ValueConstraint
from mucc.dialects.mu.syntax import FormattedOp, WordAttr
from mucc.dialects.mu.types import Dims, Shaped, TensorType, dtype_name

if TYPE_CHECKING:
    from xdsl.parser import Parser


class Compute(StrEnum):
    """The arithmetic of a contraction's products; accumulation is f32, of integers s32.

    `tf32x3` splits each f32 operand into two tf32 parts and adds three products of them, which is nearly as
    exact as `f32`, the arithmetic of the ordinary cores. e4m3 and e5m2 operands compute in e5m2 where one is
    e5m2; s8 and u8 operands in s8 where one is s8.
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
    """In which number format a contraction multiplies."""

    name = "mu.compute"

    @staticmethod
    def choices(lhs: Attribute, rhs: Attribute) -> tuple[Compute, ...]:
        """The formats that operands of two types may multiply in, the default first; none for s32."""
        dtypes = {dtype_name(Shaped.of(type).element_type) for type in (lhs, rhs)}
        if "f32" in dtypes:
            return (Compute.TF32, Compute.TF32X3, Compute.F32)
        return tuple(c for c in _NARROW if c.value in dtypes)[:1]

    @staticmethod
    def default(lhs: Attribute, rhs: Attribute) -> ComputeAttr:
        """Operands of 8 and 16 bits multiply in their own format, f32 operands in tf32."""
        return ComputeAttr(ComputeAttr.choices(lhs, rhs)[0])


_NARROW = (Compute.BF16, Compute.F16, Compute.E5M2, Compute.E4M3, Compute.S8, Compute.U8)
"""Formats of operands below 32 bits. Of two that operands have, the first is computed in."""


class Accumulation(StrEnum):
    """How exactly the products of 8-bit floats are added up."""

    F32 = "f32"
    FAST = "fast"


@irdl_attr_definition
class AccumulationAttr(WordAttr[Accumulation]):
    """`fast` leaves sums to the tensor cores, which drop low bits of them, instead of adding parts in f32."""

    name = "mu.accumulation"


class ContractionOp(FormattedOp, ABC):
    """Base of the contractions: what a stage of that kind is built around."""

    compute = prop_def(ComputeAttr)
    lhs = operand_def(TensorType)
    rhs = operand_def(TensorType)
    result = result_def(TensorType)


@irdl_op_definition
class MatmulOp(ContractionOp):
    """Contraction of the last axis of `lhs` with the second-last of `rhs`, f32 accumulation.

    `scales` are none, or those of blocks of either operand (see `rules.block_scales`).
    """

    name = "mu.matmul"

    acc = opt_prop_def(AccumulationAttr)
    lhs = operand_def(TensorType)
    rhs = operand_def(TensorType)
    scales = var_operand_def(TensorType)  # after the operands of every contraction

    FORMAT: ClassVar[str] = (
        "$compute (`acc` $acc^)? $lhs `,` $rhs (`scales` $scales^)? attr-dict "
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
    ):
        a, b = SSAValue.get(lhs), SSAValue.get(rhs)
        result = rules.matmul(a.type, b.type)
        if scales:
            rules.block_scales(a.type, b.type, [s.type for s in scales])
        super().__init__(
            operands=[a, b, scales],
            result_types=[result],
            properties={"compute": compute or ComputeAttr.default(a.type, b.type), "acc": acc},
        )

    def verify_(self) -> None:
        expected = rules.matmul(self.lhs.type, self.rhs.type)
        if self.result.type != expected:
            raise VerifyException(f"mu.matmul: result type {self.result.type} should be {expected}")
        dtype = Shaped.of(self.lhs.type).element_type
        if self.compute.data not in ComputeAttr.choices(self.lhs.type, self.rhs.type):
            raise VerifyException(f"mu.matmul: {dtype} operands do not compute in {self.compute.data}")
        if self.acc is not None and self.compute.data not in (Compute.E4M3, Compute.E5M2):
            raise VerifyException("mu.matmul: only products of 8-bit floats have another accumulation")

        if self.scales:
            self.blocks  # noqa: B018 (checks the scales)

    @property
    def blocks(self) -> tuple[int, int] | None:
        """How many rows and columns of the product share a scale, None where there are no block scales."""
        if not self.scales:
            return None
        return rules.block_scales(self.lhs.type, self.rhs.type, [s.type for s in self.scales])

    def pairs_with(self, other: MatmulOp) -> bool:
        """Whether both multiply one left operand with right operands that lie in memory alike.

        They do not if their strides are known only at run time.
        """
        if self.scales or other.scales:
            return False
        left, right = views_alike(self.lhs, other.lhs), views_alike(self.rhs, other.rhs)
        if self.properties != other.properties or left[0] is not left[1] or right[0].type != right[1].type:
            return False
        type = right[0].type
        return isinstance(type, TensorType) and type.layout.is_known


@irdl_op_definition
class GroupedMatmulOp(ContractionOp):
    """Contraction where group g of the rows of `lhs` has the matrix `rhs[g]`.

    `offsets[g]` is the end of group g: its rows are `offsets[g-1]` to `offsets[g]`, the first begins at 0
    and the last ends with the rows.
    """

    name = "mu.grouped_matmul"

    lhs = operand_def(TensorType)
    rhs = operand_def(TensorType)
    offsets = operand_def(TensorType)

    FORMAT: ClassVar[str] = (
        "$compute $lhs `,` $rhs `offsets` $offsets attr-dict `:` functional-type(operands, results)"
    )

    traits = traits_def(Pure())

    def __init__(
        self,
        lhs: SSAValue | Operation,
        rhs: SSAValue | Operation,
        offsets: SSAValue | Operation,
        compute: ComputeAttr | None = None,
    ):
        a, b, ends = SSAValue.get(lhs), SSAValue.get(rhs), SSAValue.get(offsets)
        super().__init__(
            operands=[a, b, ends],
            result_types=[index_rules.grouped_matmul(a.type, b.type, ends.type)],
            properties={"compute": compute or ComputeAttr.default(a.type, b.type)},
        )

    def verify_(self) -> None:
        expected = index_rules.grouped_matmul(self.lhs.type, self.rhs.type, self.offsets.type)
        if self.result.type != expected:
            raise VerifyException(f"mu.grouped_matmul: result type {self.result.type} should be {expected}")
        if self.compute != ComputeAttr.default(self.lhs.type, self.rhs.type):
            raise VerifyException(f"mu.grouped_matmul: operands do not compute in {self.compute.data}")


@irdl_op_definition
class TransposeOp(FormattedOp):
    """A view with the last two axes swapped (`.T`)."""

    name = "mu.transpose"

    operand = operand_def(TensorType)
    result = result_def(TensorType)

    FORMAT: ClassVar[str] = "$operand attr-dict `:` functional-type(operands, results)"

    traits = traits_def(Pure(), CanonicalizationTrait())

    def __init__(self, operand: SSAValue | Operation):
        value = SSAValue.get(operand)
        super().__init__(operands=[value], result_types=[rules.transpose(value.type)])

    def verify_(self) -> None:
        if self.result.type != (expected := rules.transpose(self.operand.type)):
            raise VerifyException(f"mu.transpose: result type {self.result.type} should be {expected}")


@irdl_op_definition
class ExpandOp(FormattedOp):
    """A view with axes of extent 1 inserted (`v[:, None]`); `axes` are positions in the result."""

    name = "mu.expand"

    axes = prop_def(DenseArrayBase.constr(i64))
    operand = operand_def(ValueConstraint)
    result = result_def(TensorType)

    FORMAT: ClassVar[str] = "$operand `axes` $axes attr-dict `:` functional-type(operands, results)"

    traits = traits_def(Pure())

    def __init__(self, operand: SSAValue | Operation, axes: Sequence[int]):
        value = SSAValue.get(operand)
        super().__init__(
            operands=[value],
            result_types=[rules.expand(value.type, axes)],
            properties={"axes": DenseArrayBase.from_list(i64, sorted(axes))},
        )

    def verify_(self) -> None:
        axes = self.axes.get_values()
        rank = len(Shaped.of(self.operand.type).dims) + len(axes)
        if tuple(axes) != rules.normalise_axes(axes, rank):
            raise VerifyException("mu.expand: axes must be sorted and counted from the front")
        if self.result.type != (expected := rules.expand(self.operand.type, axes)):
            raise VerifyException(f"mu.expand: result type {self.result.type} should be {expected}")


@irdl_op_definition
class BroadcastOp(FormattedOp):
    """A value repeated to the extents of the result."""

    name = "mu.broadcast"

    operand = operand_def(ValueConstraint)
    result = result_def(TensorType)

    FORMAT: ClassVar[str] = "$operand attr-dict `:` functional-type(operands, results)"

    traits = traits_def(Pure())

    def __init__(self, operand: SSAValue | Operation, dims: Dims):
        value = SSAValue.get(operand)
        super().__init__(operands=[value], result_types=[rules.broadcast_to(value.type, dims)])

    def verify_(self) -> None:
        expected = rules.broadcast_to(self.operand.type, Shaped.of(self.result.type).dims)
        if self.result.type != expected:
            raise VerifyException(f"mu.broadcast: result type {self.result.type} should be {expected}")


@irdl_op_definition
class RegroupOp(FormattedOp):
    """The elements of a row-major tensor, in their order, under other extents: [N, K] as [N, G, 128].

    That there are as many elements is a promise of the program. It is a look at memory: the operand is
    stored.
    """

    name = "mu.regroup"

    operand = operand_def(TensorType)
    result = result_def(TensorType)

    FORMAT: ClassVar[str] = "$operand attr-dict `:` functional-type(operands, results)"

    traits = traits_def(Pure())

    def __init__(self, operand: SSAValue | Operation, dims: Dims):
        value = SSAValue.get(operand)
        super().__init__(
            operands=[value], result_types=[TensorType.of(dims, Shaped.of(value.type).element_type)]
        )

    def verify_(self) -> None:
        for type in (self.operand.type, self.result.type):
            if not isinstance(type, TensorType) or not type.layout.is_row_major:
                raise VerifyException(f"mu.regroup: {type} is not row-major")
        if Shaped.of(self.operand.type).element_type != Shaped.of(self.result.type).element_type:
            raise VerifyException("mu.regroup: the dtype stays")


@irdl_op_definition
class DequantizeOp(FormattedOp):
    """`(w - zeros) * scales`, one scale and zero for each group of columns, at the scales' dtype."""

    name = "mu.dequantize"

    weights = operand_def(TensorType)
    scales = operand_def(TensorType)
    zeros = opt_operand_def(TensorType)
    result = result_def(TensorType)

    FORMAT: ClassVar[str] = (
        "$weights `,` $scales (`zeros` $zeros^)? attr-dict `:` functional-type(operands, results)"
    )

    traits = traits_def(Pure())

    def __init__(
        self,
        weights: SSAValue | Operation,
        scales: SSAValue | Operation,
        zeros: SSAValue | Operation | None = None,
    ):
        values = [SSAValue.get(v) for v in (weights, scales, *([] if zeros is None else [zeros]))]
        super().__init__(
            operands=[values[0], values[1], values[2:]],
            result_types=[rules.dequantize([v.type for v in values])],
        )

    @property
    def group(self) -> int:
        """How many columns share a scale."""
        return rules.group_size(Shaped.of(self.weights.type).dims[-1], Shaped.of(self.scales.type).dims[-1])

    def verify_(self) -> None:
        expected = rules.dequantize([v.type for v in self.operands])
        if self.result.type != expected:
            raise VerifyException(f"mu.dequantize: result type {self.result.type} should be {expected}")


class Reduction(StrEnum):
    SUM = "sum"
    MAX = "max"
    MIN = "min"
    AMAX = "amax"


@irdl_attr_definition
class ReductionAttr(WordAttr[Reduction]):
    """Which reduction: sum, max, min, or amax (the largest absolute value)."""

    name = "mu.reduction"


VIEWS = (TransposeOp, ExpandOp, BroadcastOp, RegroupOp)
"""Operations that look at a tensor in another shape."""


def views_alike(a: SSAValue, b: SSAValue) -> tuple[SSAValue, SSAValue]:
    """What two values look at through as many equal views as they share, counted from the end."""
    while a is not b:
        x, y = a.owner, b.owner
        if not isinstance(x, VIEWS) or type(x) is not type(y) or x.properties != y.properties:
            break
        if isinstance(x, RegroupOp) and a.type != b.type:
            break
        (a,), (b,) = x.operands, y.operands
    return a, b


@irdl_op_definition
class ReduceOp(FormattedOp):
    """Reduce over `axes`, which are dropped; the result is f32."""

    name = "mu.reduce"

    SURFACE: ClassVar[tuple[str, ...]] = tuple(Reduction)

    kind = prop_def(ReductionAttr)
    axes = prop_def(DenseArrayBase.constr(i64))
    operand = operand_def(ValueConstraint)
    result = result_def(TensorType)

    FORMAT: ClassVar[str] = "$kind $operand `axes` $axes attr-dict `:` functional-type(operands, results)"

    traits = traits_def(Pure())

    def __init__(
        self, kind: str | ReductionAttr, operand: SSAValue | Operation, axes: Sequence[int] | None = None
    ):
        """Reduce `operand` over `axes`, all axes when None; negative axes count from the end."""
        value = SSAValue.get(operand)
        positions = rules.normalise_axes(axes, len(Shaped.of(value.type).dims))
        if isinstance(kind, str):
            kind = ReductionAttr(Reduction(kind))
        super().__init__(
            operands=[value],
            result_types=[rules.reduce(value.type, positions)],
            properties={"kind": kind, "axes": DenseArrayBase.from_list(i64, positions)},
        )

    def verify_(self) -> None:
        axes = self.axes.get_values()
        if tuple(axes) != rules.normalise_axes(axes, len(Shaped.of(self.operand.type).dims)):
            raise VerifyException("mu.reduce: axes must be sorted and counted from the front")
        if self.result.type != (expected := rules.reduce(self.operand.type, axes)):
            raise VerifyException(f"mu.reduce: result type {self.result.type} should be {expected}")


@irdl_op_definition
class PinOp(FormattedOp):
    """A stage boundary that the user named: the value is stored here, later code reads the stored one."""

    name = "mu.pin"

    stage = prop_def(StringAttr)
    operand = operand_def(TensorType)
    result = result_def(TensorType)

    FORMAT: ClassVar[str] = "$stage $operand attr-dict `:` functional-type(operands, results)"

    def __init__(self, stage: str, operand: SSAValue | Operation):
        value = SSAValue.get(operand)
        super().__init__(
            operands=[value],
            result_types=[rules.stored(value.type)],
            properties={"stage": StringAttr(stage)},
        )

    def verify_(self) -> None:
        if self.result.type != (expected := rules.stored(self.operand.type)):
            raise VerifyException(f"mu.pin: result type {self.result.type} should be {expected}")


@irdl_op_definition
class KernelOp(EntryOp):
    """One entry point of a program. Parameters are tensors and f32 scalars, results are row-major tensors."""

    name = "mu.kernel"

    result_names = attr_def(ArrayAttr[StringAttr])

    traits = traits_def(SymbolOpInterface(), IsolatedFromAbove())

    def __init__(
        self,
        name: str,
        args: Sequence[tuple[str, Attribute]],
        results: Sequence[tuple[str, TensorType]],
        dims: Sequence[str],
        bound: dict[str, int] | None = None,
        promises: AffineSet | None = None,
        body: Region | None = None,
    ):
        types = [t for _, t in args]
        if body is None:
            body = Region(Block(arg_types=types))
            for (hint, _), value in zip(args, body.block.args, strict=True):
                value.name_hint = hint
        super().__init__(
            attributes={
                "sym_name": StringAttr(name),
                "function_type": FunctionType.from_lists(types, [t for _, t in results]),
                "arg_names": ArrayAttr([StringAttr(n) for n, _ in args]),
                "result_names": ArrayAttr([StringAttr(n) for n, _ in results]),
                "dims": ArrayAttr([StringAttr(d) for d in dims]),
                "bound": DictionaryAttr({k: IntegerAttr(v, i64) for k, v in bound.items()})
                if bound
                else None,
                "promises": AffineSetAttr(promises) if promises else None,
            },
            regions=[body],
        )

    @property
    def output_types(self) -> tuple[TensorType, ...]:
        return tuple(t for t in self.function_type.outputs if isinstance(t, TensorType))

    @classmethod
    def parse(cls, parser: Parser) -> KernelOp:
        attributes, region = cls.parse_parts(parser)
        return KernelOp.create(attributes=attributes, regions=[region])

    def verify_(self) -> None:
        inputs, outputs = self.function_type.inputs, self.function_type.outputs
        if len(self.arg_names) != len(inputs):
            raise VerifyException(f"{len(self.arg_names)} names for {len(inputs)} parameters")
        if len(self.result_names) != len(outputs):
            raise VerifyException(f"{len(self.result_names)} names for {len(outputs)} results")
        if tuple(a.type for a in self.body.block.args) != tuple(inputs):
            raise VerifyException("block arguments do not match the kernel's type")
        if not isinstance(last := self.body.block.last_op, ReturnOp):
            raise VerifyException("a kernel ends with mu.return")
        # The layout of a result is decided by the kernel's type, not by how the value was computed.
        if [Shaped.of(v.type) for v in last.operands] != [Shaped.of(t) for t in outputs]:
            raise VerifyException("returned values do not match the kernel's type")
        for type in inputs:
            if not isinstance(type, TensorType | Float32Type):
                raise VerifyException(f"parameters are tensors or f32 scalars, not {type}")
        if any(Shaped.of(type).element_type == i1 for type in (*inputs, *outputs)):
            raise VerifyException("a bool cannot be stored")
        for type in outputs:
            if not isinstance(type, TensorType) or not type.layout.is_row_major:
                raise VerifyException(f"results are row-major tensors, not {type}")
        known = set(self.dim_names)
        for type in (*inputs, *outputs):
            if unknown := {d for d in Shaped.of(type).dims if isinstance(d, str)} - known:
                raise VerifyException(f"undeclared dim '{min(unknown)}'")


@irdl_op_definition
class ReturnOp(FormattedOp):
    """The results of a kernel."""

    name = "mu.return"

    values = var_operand_def(TensorType)

    FORMAT: ClassVar[str] = "$values attr-dict `:` type($values)"

    traits = traits_def(IsTerminator(), HasParent(KernelOp))

    def __init__(self, values: Sequence[SSAValue | Operation]):
        super().__init__(operands=[[SSAValue.get(v) for v in values]])


class StageKind(StrEnum):
    """What a stage's device kernel is built around."""

    CONTRACTION = "contraction"
    REDUCTION = "reduction"
    MAP = "map"
    SCATTER = "scatter"


@irdl_attr_definition
class StageKindAttr(WordAttr[StageKind]):
    """The anchor of a stage."""

    name = "mu.stage_kind"


@irdl_op_definition
class StageOp(FormattedOp):
    """One device kernel: an anchor with the pointwise work that shares its tile.

    Its results are the values that it stores, at the dtype they are stored with. `pinned` says that the
    user drew its boundary. A contraction stage may hold a pair: two contractions with the same left operand.
    """

    name = "mu.stage"

    stage_name = prop_def(StringAttr)
    kind = prop_def(StageKindAttr)
    pinned = opt_prop_def(UnitAttr)
    body = region_def("single_block")
    outputs = var_result_def(TensorType)

    traits = traits_def()

    FORMAT: ClassVar[str] = "$stage_name $kind (`pinned` $pinned^)? `:` type($outputs) $body attr-dict"

    def __init__(
        self,
        name: str,
        kind: StageKind,
        result_types: Sequence[TensorType],
        body: Region,
        pinned: bool = False,
    ):
        super().__init__(
            properties={
                "stage_name": StringAttr(name),
                "kind": StageKindAttr(kind),
                "pinned": UnitAttr() if pinned else None,
            },
            result_types=[list(result_types)],
            regions=[body],
        )

    @property
    def contractions(self) -> tuple[MatmulOp, ...]:
        """The contractions in the stage, but for a grouped one: none, one, or the two of a pair."""
        return tuple(op for op in self.body.block.ops if isinstance(op, MatmulOp))

    @property
    def anchor(self) -> Operation | None:
        """The contraction, scatter, or the first reduction of a reduction stage; None for a map."""
        wanted = {
            StageKind.CONTRACTION: ContractionOp,
            StageKind.REDUCTION: ReduceOp,
            StageKind.SCATTER: ScatterOp,
        }.get(self.kind.data)
        if wanted is None:
            return None
        return next((op for op in self.body.block.ops if isinstance(op, wanted)), None)

    @property
    def space(self) -> Dims:
        """The extents that the stage's pointwise work runs over."""
        match self.anchor:
            case ContractionOp() as op:
                return Shaped.of(op.result.type).dims
            case ReduceOp() | ScatterOp() as op:
                return Shaped.of(op.operand.type).dims
            case _:
                return rules.broadcast([Shaped.of(r.type).dims for r in self.outputs])

    def verify_(self) -> None:
        if not isinstance(last := self.body.block.last_op, YieldOp):
            raise VerifyException("a stage ends with mu.yield")
        if [Shaped.of(v.type) for v in last.operands] != [Shaped.of(r.type) for r in self.outputs]:
            raise VerifyException("yielded values do not match the stage's results")
        self._verify_contractions()
        if self.kind.data is StageKind.REDUCTION and self.anchor is None:
            raise VerifyException("a reduction stage reduces nothing")
        if self.kind.data is StageKind.SCATTER and (self.anchor is None or len(self.outputs) != 1):
            raise VerifyException("a scatter stage stores one scattered value")

    def _verify_contractions(self) -> None:
        held = sum(isinstance(op, ContractionOp) for op in self.body.block.ops)
        pair = self.contractions
        allowed = (1, 2) if self.kind.data is StageKind.CONTRACTION else (0,)
        if held not in allowed:
            raise VerifyException(
                f"a {self.kind.data.value} stage holds {' or '.join(map(str, allowed))} contractions, "
                f"not {held}"
            )
        if held == 2 and not (len(pair) == 2 and pair[0].pairs_with(pair[1])):
            raise VerifyException("the contractions of a pair share their left operand and look alike")


@irdl_op_definition
class YieldOp(FormattedOp):
    """The values that a stage stores."""

    name = "mu.yield"

    values = var_operand_def(ValueConstraint)

    FORMAT: ClassVar[str] = "$values attr-dict `:` type($values)"

    traits = traits_def(IsTerminator(), HasParent(StageOp))

    def __init__(self, values: Sequence[SSAValue | Operation]):
        super().__init__(operands=[[SSAValue.get(v) for v in values]])
