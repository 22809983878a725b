"""Choose the dtype in which a value lies in memory between the kernel that writes it and one that reads it.

A value of 16 bits has one form in memory. What the source asks for decides: a pinned stage, an operand of a
product and a result of the value's dtype store it as such. Where a result stores it in f32, other kernels
read that. Where the source asks for nothing, it is stored in f32 if a result of 32 bits is computed from it
without a rounding on the way, so that no digit of that result is lost between kernels, and else in its own
dtype. The kernel that stores it in its own dtype for others computes on with what it stored: `v - max(v)` is
0 where `v` is largest, also where the kernel of `v` forms the maximum and another one the difference.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass, field
from typing import Any

from xdsl.dialects.builtin import f32
from xdsl.ir import Attribute, Block, Operation, SSAValue, Use

from mucc.dialects.mu.ops.base import AnchorOp
from mucc.dialects.mu.ops.elementwise import (
    AbsOp,
    CastOp,
    ElementwiseOp,
    MaxOp,
    MinOp,
    NegOp,
    RetypeOp,
    StoredOp,
)
from mucc.dialects.mu.ops.indexed import GatherOp, PickOp, ScatterOp, TakeAlongOp
from mucc.dialects.mu.ops.kernel import ReturnOp
from mucc.dialects.mu.ops.stage import PinOp
from mucc.dialects.mu.ops.views import VIEWS, BroadcastOp, IndexMapOp
from mucc.dialects.mu.rules import HALVES
from mucc.dialects.mu.types import DTYPES, Shaped
from mucc.kernels.interface import Kind

FULL = (f32, DTYPES["s32"])
"""The dtypes of results for which a value of 16 bits between kernels is too narrow."""


KindOf = Callable[[AnchorOp], Kind[Any]]
"""The kind of kernel that is built around an anchor."""


@dataclass
class StoredForms:
    """The forms in memory of a kernel's values, as far as they are not in their own dtype alone."""

    wide: dict[SSAValue, SSAValue] = field(default_factory=dict[SSAValue, SSAValue])
    """A value of 16 bits -> the same in f32, which other kernels read instead."""
    fixed: set[SSAValue] = field(default_factory=set[SSAValue])
    """Values that the source has stored in their own dtype."""

    def of(self, value: SSAValue) -> list[SSAValue]:
        """Return the forms in which a kernel stores a value for others."""
        wide = self.wide.get(value)
        if wide is None:
            return [value]
        return [value, wide] if value in self.fixed else [wide]


def stored_forms(
    block: Block,
    within: Callable[[SSAValue], Container[Operation]],
    kind_of: KindOf,
) -> StoredForms:
    """Return the forms of all values of a kernel; what is stored in f32 is cast right where it is computed.

    `within` names the operations of the device kernel that computes a value: they need it from no memory.
    `kind_of` names the kind of kernel around an anchor.
    """
    forms = StoredForms()
    full: set[SSAValue] = set()
    factors: set[SSAValue] = set()
    for op in reversed(list(block.ops)):
        for result in op.results:
            uses = list(result.uses)
            if any(_reaches(use, full, kind_of) for use in uses):
                full.add(result)
            if any(_is_factor(use, factors, kind_of) for use in uses):
                factors.add(result)
            if result in factors or any(isinstance(use.operation, PinOp | ReturnOp) for use in uses):
                forms.fixed.add(result)
    exact: set[SSAValue] = set(block.args)
    for op in list(block.ops):
        if isinstance(op, ScatterOp) and _element(op.result) in HALVES and op.result in full:
            _scatter_wide(op, forms)
        elif isinstance(op, PickOp) and op.result in full and _is_copied(op, exact):
            _pick_wide(op, forms)
        elif _is_exact(op, exact):
            exact.update(op.results)
        elif (
            isinstance(op, ElementwiseOp)
            or (isinstance(op, AnchorOp) and kind_of(op).keeps_in_flight(op))
            or (isinstance(op, IndexMapOp) and op in within(op.result))
        ) and _element(result := op.results[0]) in HALVES:
            own = within(result)
            outside = [use for use in result.uses if use.operation not in own]
            reaches = result not in forms.fixed and any(_reaches(use, full, kind_of) for use in outside)
            _store_for(outside, op, forms, reaches)
    return forms


def _store_for(outside: Sequence[Use], op: Operation, forms: StoredForms, reaches: bool) -> None:
    """Store a result of 16 bits for uses outside of its kernel; in f32 too if it `reaches` a 32-bit result.

    What is stored in 16 bits alone is rounded for all its readers, so that those inside compute the same.
    """
    if not outside or any(isinstance(use.operation, PinOp) for use in outside):
        return
    _widen(op, forms, reaches)
    result = op.results[0]
    is_read = any(not isinstance(use.operation, ReturnOp) for use in outside)
    if is_read and len(outside) < len(list(result.uses)) and result not in forms.wide:
        _round(op)


def _element(value: SSAValue) -> Attribute:
    return Shaped.of(value.type).element_type


def _is_exact(op: Operation, exact: set[SSAValue]) -> bool:
    """Whether the result is a number of its dtype already, as parameters are: storing it rounds nothing."""
    if isinstance(op, CastOp):
        return True
    moves = (*VIEWS, PickOp, ScatterOp, RetypeOp, NegOp, AbsOp, MinOp, MaxOp)
    return isinstance(op, moves) and all(
        v in exact and (_element(v) == _element(op.results[0]) or isinstance(op, PickOp | ScatterOp))
        for v in op.operands
    )


def _reaches(use: Use, full: set[SSAValue], kind_of: KindOf) -> bool:
    """Whether a use reaches a 32-bit result of the kernel with no rounding in between."""
    match op := use.operation:
        case ReturnOp():
            return _element(op.operands[use.index]) in FULL
        case CastOp():
            return op.result in full and op.element_type in FULL
        case PickOp() | ScatterOp():
            return op.result in full and use.index == 0
        case AnchorOp() if op.operands[use.index] in kind_of(op).memory_operands(op):
            return False
        case ElementwiseOp() | AnchorOp() | BroadcastOp():
            return op.results[0] in full
        case _ if isinstance(op, VIEWS):
            return op.results[0] in full
        case _:
            return False


def _is_factor(use: Use, factors: set[SSAValue], kind_of: KindOf) -> bool:
    """Whether a kernel reads a value, or a view of it, at its own dtype by this use."""
    op = use.operation
    if isinstance(op, VIEWS) or (isinstance(op, PickOp) and use.index == 0):
        return op.results[0] in factors
    return isinstance(op, AnchorOp) and op.operands[use.index] in kind_of(op).memory_operands(op)


def _widen(op: Operation, forms: StoredForms, needed: bool) -> None:
    """Store a value in f32 too, if that is needed or a result is the value in f32."""
    users = (use.operation for use in op.results[0].uses)
    casts = (user for user in users if isinstance(user, CastOp) and user.element_type == f32)
    results = (c for c in casts if any(isinstance(use.operation, ReturnOp) for use in c.result.uses))
    if (wide := next(results, None)) is not None:
        wide.detach()
    elif needed:
        wide = CastOp(op.results[0], f32)
        wide.location = op.location
    else:
        return
    block = op.parent_block()
    assert block is not None
    block.insert_op_after(wide, op)
    forms.wide[op.results[0]] = wide.result


def _round(op: Operation) -> None:
    """Insert `mu.stored` after a value, and let every use read the rounded number."""
    rounded = StoredOp(op.results[0], _element(op.results[0]))
    rounded.location = op.location
    rounded.result.name_hint = op.results[0].name_hint
    block = op.parent_block()
    assert block is not None
    block.insert_op_after(rounded, op)
    op.results[0].replace_uses_with_if(rounded.result, lambda use: use.operation is not rounded)


def _is_copied(op: PickOp, exact: set[SSAValue]) -> bool:
    """Whether a gather reads a copy of repeated or gathered elements that is stored, and rounded to 16 bits.

    Other operands of a pick lie in memory as they are (`Partition`).
    """
    value, is_copied = op.operand, False
    if _element(value) not in HALVES or value in exact:
        return False
    while isinstance(view := value.owner, (*VIEWS, PickOp)):
        is_copied |= isinstance(view, BroadcastOp | PickOp)
        value = view.operands[0]
    return is_copied and not isinstance(value.owner, PinOp)


def _pick_wide(op: PickOp, forms: StoredForms) -> None:
    """`gather(x, rows)` -> `retype(gather(cast(x, f32), rows))`, and so for `take_along`."""
    cast = CastOp(op.operand, f32)
    if isinstance(op, TakeAlongOp):
        _replace_wide(op, cast, TakeAlongOp(cast, op.rows, op.row_axis), forms)
    else:
        _replace_wide(op, cast, GatherOp(cast, op.rows), forms)


def _scatter_wide(op: ScatterOp, forms: StoredForms) -> None:
    """`scatter(x)` -> `retype(scatter(cast(x, f32)))`."""
    cast = CastOp(op.operand, f32)
    _replace_wide(op, cast, ScatterOp(cast, op.rows, op.extent.data), forms)


def _replace_wide(
    op: PickOp | ScatterOp, cast: CastOp, moved: PickOp | ScatterOp, forms: StoredForms
) -> None:
    """Replace an op that moves elements of 16 bits by one that moves their casts to f32.

    The 16-bit value becomes a view of that (`StoredForms.wide`), which other kernels read.
    """
    typed = RetypeOp(moved.result, _element(op.result))
    new: list[Operation] = [cast, moved, typed]
    for each in new:
        each.location = op.location
    block = op.parent_block()
    assert block is not None
    block.insert_ops_before(new, op)
    op.result.replace_all_uses_with(typed.result)
    forms.wide[typed.result] = moved.result
    if op.result in forms.fixed:
        forms.fixed.add(typed.result)
    op.detach()
    op.erase()
