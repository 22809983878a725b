"""Stages, each of which becomes one device kernel, and stage boundaries pinned by users."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from xdsl.dialects.builtin import (
    StringAttr,
    UnitAttr,
)
from xdsl.ir import Data, Operation, Region, SpacedOpaqueSyntaxAttribute, SSAValue
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

from mucc.dialects.mu import rules
from mucc.dialects.mu.ops.base import AnchorOp, check_result
from mucc.dialects.mu.ops.contraction import ContractionOp, MatmulOp
from mucc.dialects.mu.ops.elementwise import RetypeOp
from mucc.dialects.mu.ops.pointwise import CanonicalizationTrait, ElementwiseOp, ValueConstraint
from mucc.dialects.mu.ops.views import AXIS_VIEWS, ExpandOp, RegroupOp, SqueezeOp
from mucc.dialects.mu.syntax import FormattedOp
from mucc.dialects.mu.types import Dims, Shaped, TensorType

if TYPE_CHECKING:
    from xdsl.parser import AttrParser
    from xdsl.printer import Printer


@irdl_op_definition
class PinOp(FormattedOp):
    """A stage boundary named by the user: the value is stored here, and later uses read the stored value."""

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


MAP = "map"
"""The kind of a stage without an anchor, which has pointwise operations only."""


@irdl_attr_definition
class StageKindAttr(Data[str], SpacedOpaqueSyntaxAttribute):
    """The kind of a stage: that of its anchor (`AnchorOp.stage`), or `map`."""

    name = "mu.stage_kind"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> str:
        return parser.parse_identifier("a kind of stage")

    def print_parameter(self, printer: Printer) -> None:
        printer.print_identifier_or_string_literal(self.data)


def anchor_of(body: Region) -> AnchorOp | None:
    """Find the anchor in a stage's region; None where the region has pointwise operations only."""
    return next((op for op in body.block.ops if isinstance(op, AnchorOp)), None)


def kind_of_body(body: Region) -> str:
    """Return the kind of a stage with this region."""
    return MAP if (anchor := anchor_of(body)) is None else anchor.stage


def before_regrouping(value: SSAValue) -> SSAValue:
    """Return the computed value that is stored in other extents; others, and views of memory, as they are."""
    if not isinstance(op := value.owner, RegroupOp):
        return value
    computed = op.operand
    while isinstance(view := computed.owner, ExpandOp | SqueezeOp | RegroupOp) and view.parent is op.parent:
        computed = view.operand
    is_here = isinstance(owner := computed.owner, ElementwiseOp | AnchorOp) and owner.parent is op.parent
    return computed if is_here else value


def before_turning(value: SSAValue) -> SSAValue:
    """Follow a copy and views that move, insert or drop axes back to the value that they rearrange."""
    if isinstance(copy := value.owner, RetypeOp) and copy.operand.type == value.type:
        value = copy.operand
    while isinstance(view := value.owner, AXIS_VIEWS):
        value = view.operand
    return value


@irdl_op_definition
class StageOp(FormattedOp):
    """A part of a program that becomes one device kernel: an anchor and fused pointwise operations.

    Its results are the values that the kernel stores, in the dtype of the store. `pinned` marks a boundary
    that the user pinned. A contraction stage may have a pair: two contractions with the same left operand.
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
        result_types: Sequence[TensorType],
        body: Region,
        pinned: bool = False,
    ):
        super().__init__(
            properties={
                "stage_name": StringAttr(name),
                "kind": StageKindAttr(kind_of_body(body)),
                "pinned": UnitAttr() if pinned else None,
            },
            result_types=[list(result_types)],
            regions=[body],
        )

    @property
    def contractions(self) -> tuple[MatmulOp, ...]:
        """The contractions in the stage, without grouped ones: none, one, or the two of a pair."""
        return tuple(op for op in self.body.block.ops if isinstance(op, MatmulOp))

    @property
    def anchor(self) -> AnchorOp | None:
        """The anchor of the stage, the first of a pair; None for a map."""
        return anchor_of(self.body)

    @property
    def space(self) -> Dims:
        """The iteration space of the stage's pointwise operations."""
        if (anchor := self.anchor) is not None:
            return anchor.space
        return rules.broadcast([Shaped.of(v.type).dims for v in self.stored])

    @property
    def stored(self) -> tuple[SSAValue, ...]:
        """The values that the stage computes for its results, before they are regrouped."""
        last = self.body.block.last_op
        assert isinstance(last, YieldOp)
        return tuple(before_regrouping(value) for value in last.values)

    def verify_(self) -> None:
        if not isinstance(last := self.body.block.last_op, YieldOp):
            raise VerifyException("a stage ends with mu.yield")
        if [Shaped.of(v.type) for v in last.operands] != [Shaped.of(r.type) for r in self.outputs]:
            raise VerifyException("yielded values do not match the stage's results")
        self._verify_contractions()
        if (held := kind_of_body(self.body)) != self.kind.data:
            what = "has no anchor" if held == MAP else f"is built around a {held}"
            raise VerifyException(f"a {self.kind.data} stage {what}")

    def _verify_contractions(self) -> None:
        held = sum(isinstance(op, ContractionOp) for op in self.body.block.ops)
        pair = self.contractions
        allowed = (1, 2) if self.kind.data == ContractionOp.STAGE else (0,)
        if held not in allowed:
            raise VerifyException(
                f"a {self.kind.data} stage holds {' or '.join(map(str, allowed))} contractions, not {held}"
            )
        if held == 2 and not (len(pair) == 2 and pair[0].pairs_with(pair[1])):
            raise VerifyException("the contractions of a pair share their left operand and look alike")


@irdl_op_definition
class YieldOp(FormattedOp):
    """Yield the values that a stage stores."""

    name = "mu.yield"

    values = var_operand_def(ValueConstraint)

    FORMAT: ClassVar[str] = "$values attr-dict `:` type($values)"

    traits = traits_def(IsTerminator(), HasParent(StageOp))

    def __init__(self, values: Sequence[SSAValue | Operation]):
        super().__init__(operands=[[SSAValue.get(v) for v in values]])


OPERATIONS = (PinOp, StageOp, YieldOp)
ATTRIBUTES = (StageKindAttr,)
