"""Widening casts behind views: a product of their results can be computed in the narrow format."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.ir import Attribute, BlockArgument, Operation, SSAValue

from mucc.dialects.mu.ops import elementwise as e
from mucc.dialects.mu.ops.indexed import GatherOp, TakeAlongOp
from mucc.dialects.mu.ops.stage import PinOp
from mucc.dialects.mu.ops.views import BroadcastOp, ExpandOp, PermuteOp, SqueezeOp, TransposeOp
from mucc.dialects.mu.rules import TypeRuleError
from mucc.dialects.mu.types import Shaped, TensorType, dtype_name
from mucc.dialects.rewriting import Emit

EIGHT = ("e4m3", "e5m2", "s8", "u8", "s4", "u4")
"""Formats whose numbers f16 and bf16 hold exactly, and so f32 does."""

EXACT: dict[str, tuple[str, ...]] = {
    "f32": ("bf16", "f16", *EIGHT),
    "bf16": EIGHT,
    "f16": EIGHT,
    "s32": ("s8", "u8", "s4", "u4"),
}
"""By format, those whose numbers it holds exactly."""

SELECTING = (e.NegOp, e.AbsOp, e.MaxOp, e.MinOp, e.SelectOp, e.ReluOp)
"""Operations that give one of their operands, but for its sign: they need no rounding."""

_VIEWS = (TransposeOp, PermuteOp, ExpandOp, SqueezeOp, BroadcastOp, GatherOp, TakeAlongOp)
"""Operations that move elements."""

MOVING = ("mu.reshape", "mu.slice", "mu.flip", "mu.roll")
"""Further operations that move elements; their classes are loaded where a program has them."""


def element(value: SSAValue) -> Attribute:
    return Shaped.of(value.type).element_type


def is_widening(op: e.CastOp) -> bool:
    """Whether a cast changes no number."""
    return dtype_name(element(op.operand)) in EXACT.get(dtype_name(element(op.result)), ())


def is_rounded(value: SSAValue) -> bool:
    """Whether every number of a value is representable in its dtype, so that storing it rounds none.

    What is computed is f32 until it is stored, whatever its dtype.
    """
    seen: set[SSAValue] = set()
    pending = [value]
    while pending:
        value = pending.pop()
        if value in seen:
            continue
        seen.add(value)
        match owner := value.owner:
            case e.CastOp() | PinOp():
                continue
            case e.ConstantOp() if owner.value.value.data in (0.0, 1.0):
                continue
            case e.SelectOp():
                pending += (owner.on_true, owner.on_false)
            case Operation() if isinstance(owner, SELECTING):
                pending += owner.operands
            case Operation() if isinstance(owner, _VIEWS) or owner.name in MOVING:
                pending.append(owner.operands[0])
            case _ if isinstance(value, BlockArgument) and isinstance(value.type, TensorType):
                continue
            case _:
                return False
    return True


@dataclass(frozen=True)
class Narrow:
    """A value before a widening cast, and the views taken of the cast's result, in order."""

    value: SSAValue
    views: tuple[Operation, ...] = ()

    @property
    def dtype(self) -> str:
        return dtype_name(element(self.value))

    @staticmethod
    def of(value: SSAValue) -> Narrow | None:
        """Return the narrow value behind the widening casts of `value`; None if there is no such cast."""
        above: list[Operation] = []
        found: Narrow | None = None
        while isinstance(owner := value.owner, Operation):
            if isinstance(owner, e.CastOp) and is_widening(owner):
                if is_rounded(owner.operand):
                    found = Narrow(owner.operand, tuple(reversed(above)))
            elif isinstance(owner, _VIEWS) or owner.name == "mu.reshape":
                above.append(owner)
            else:
                break
            value = owner.operands[0]
        return found

    def build(self, emit: Emit, dtype: Attribute | None = None) -> SSAValue | None:
        """Append the views of the narrow value, or of it cast to `dtype`; None where one is impossible."""
        value = self.value
        try:
            if dtype is not None and element(value) != dtype:
                value = emit(e.CastOp(value, dtype))
            for view in self.views:
                value = emit(_again(view, value))
        except TypeRuleError:
            return None
        return value


def _again(view: Operation, value: SSAValue) -> Operation:
    """Apply a view to another value."""
    match view:
        case TransposeOp():
            return TransposeOp(value)
        case PermuteOp():
            return PermuteOp(value, view.order.get_values())
        case ExpandOp():
            return ExpandOp(value, view.axes.get_values())
        case SqueezeOp():
            return SqueezeOp(value, view.axes.get_values())
        case BroadcastOp():
            return BroadcastOp(value, Shaped.of(view.result.type).dims)
        case GatherOp():
            return GatherOp(value, view.rows)
        case TakeAlongOp():
            return TakeAlongOp(value, view.rows, view.row_axis)
        case _:
            from mucc.dialects.mu.ops.shape import ReshapeOp

            return ReshapeOp(value, Shaped.of(view.results[0].type).dims)
