"""Stages, each the work of one device kernel, and the boundaries that users draw."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from xdsl.dialects.builtin import (
    StringAttr,
    UnitAttr,
)
from xdsl.ir import Operation, Region, SSAValue
from xdsl.irdl import (
    irdl_attr_definition,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    region_def,
    result_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.traits import HasParent, IsTerminator
from xdsl.utils.exceptions import VerifyException
from xdsl.utils.str_enum import StrEnum

from mucc.dialects.mu import rules
from mucc.dialects.mu.ops.base import check_result
from mucc.dialects.mu.ops.contraction import ContractionOp, MatmulOp
from mucc.dialects.mu.ops.indexed import ScatterOp
from mucc.dialects.mu.ops.pointwise import CanonicalizationTrait, ValueConstraint
from mucc.dialects.mu.ops.reduction import ReduceOp
from mucc.dialects.mu.syntax import FormattedOp, WordAttr
from mucc.dialects.mu.types import Dims, Shaped, TensorType

if TYPE_CHECKING:
    pass


@irdl_op_definition
class PinOp(FormattedOp):
    """A stage boundary that the user named: the value is stored here, later code reads the stored one."""

    name = "mu.pin"

    stage = prop_def(StringAttr)
    operand = operand_def(TensorType)
    result = result_def(TensorType)

    FORMAT: ClassVar[str] = "$stage $operand attr-dict `:` functional-type(operands, results)"

    traits = traits_def(CanonicalizationTrait())

    def __init__(self, stage: str, operand: SSAValue | Operation):
        value = SSAValue.get(operand)
        super().__init__(
            operands=[value],
            result_types=[rules.stored(value.type)],
            properties={"stage": StringAttr(stage)},
        )

    def verify_(self) -> None:
        check_result(self, rules.stored(self.operand.type))


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


OPERATIONS = (PinOp, StageOp, YieldOp)
ATTRIBUTES = (StageKindAttr,)
