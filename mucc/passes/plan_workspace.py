"""Plan the workspace: assign slots to intermediates; values that are never alive together share one.

Sizes are known only at run time, so the plan is symbolic: a slot is as large as the largest value
that it ever holds, and slots lie one after another.
"""

from __future__ import annotations

from typing import NamedTuple

from xdsl.context import Context
from xdsl.dialects.builtin import ArrayAttr, IntegerAttr, ModuleOp, i64
from xdsl.ir import Operation, SSAValue

from mucc.dialects.cutlass import ops as c
from mucc.dialects.cutlass.nodes import LoadNode
from mucc.dialects.mu.types import Dims, TensorType, dtype_bytes
from mucc.dialects.rewriting import Pass


class Lifetime(NamedTuple):
    """A value of the workspace: written by launch `first`, read last by launch `last`."""

    key: int
    first: int
    last: int
    size: tuple[int, Dims]
    """Bytes of an element, and the extents in sorted order."""

    def overlaps(self, other: Lifetime) -> bool:
        return self.first <= other.last and other.first <= self.last


def assign_slots(lifetimes: list[Lifetime]) -> list[list[Lifetime]]:
    """Share slots between values that are not alive together.

    Values are placed in order of their start; among the free slots one whose values have the same
    symbolic size is preferred, since sharing it costs nothing.
    """
    slots: list[list[Lifetime]] = []
    for value in sorted(lifetimes, key=lambda v: (v.first, v.key)):
        free = [s for s in slots if not any(value.overlaps(other) for other in s)]
        same = [s for s in free if any(other.size == value.size for other in s)]
        if chosen := (same or free):
            chosen[0].append(value)
        else:
            slots.append([value])
    return slots


def _launches(value: SSAValue, kernels: list[Operation]) -> list[int]:
    """Return the launches that read or write a value, directly or through a view."""
    found: list[int] = []
    for use in value.uses:
        op: Operation | None = use.operation
        while op is not None and op not in kernels:
            if op.results and not isinstance(op, LoadNode):
                found.extend(_launches(op.results[0], kernels))
            op = op.parent_op()
        if op is not None:
            found.append(kernels.index(op))
    return found


def _plan(program: c.ProgramOp) -> None:
    kernels: list[Operation] = list(program.kernels)
    values = [op for op in program.body.block.ops if isinstance(op, c.WorkspaceOp)]
    lifetimes: list[Lifetime] = []
    for key, op in enumerate(values):
        launches = _launches(op.result, kernels)
        type = op.result.type
        assert isinstance(type, TensorType)
        size = (dtype_bytes(type.element_type), tuple(sorted(type.dims, key=str)))
        lifetimes.append(Lifetime(key, min(launches), max(launches), size))
    slots = assign_slots(lifetimes)
    types: list[ArrayAttr[TensorType]] = []
    for number, slot in enumerate(slots):
        held: dict[TensorType, None] = {}
        for value in slot:
            values[value.key].slot = IntegerAttr(number, i64)
            type = values[value.key].result.type
            assert isinstance(type, TensorType)
            held[type] = None
        types.append(ArrayAttr(list(held)))
    program.slots = ArrayAttr(types)


class PlanWorkspace(Pass):
    """Assign workspace slots by liveness."""

    name = "plan-workspace"

    def apply(self, ctx: Context | None, op: ModuleOp) -> None:
        for program in op.body.block.ops:
            if isinstance(program, c.ProgramOp):
                _plan(program)
