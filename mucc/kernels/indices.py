"""Uses of a program's index arguments: as ends of groups of rows, or as row numbers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, NamedTuple

from xdsl.ir import BlockArgument, SSAValue

from mucc.dialects.cutlass.nodes import LoadOp, ScatterNode, StoreOp
from mucc.dialects.cutlass.ops import DeviceKernelOp, ProgramOp, WorkspaceOp
from mucc.dialects.cutlass.views import view_of
from mucc.dialects.mu.entry import EntryOp
from mucc.dialects.mu.ops.contraction import GroupedMatmulOp
from mucc.dialects.mu.ops.indexed import PickOp, ScatterOp
from mucc.dialects.mu.ops.kernel import KernelOp
from mucc.dialects.mu.ops.views import IndexMapOp, RegroupOp
from mucc.dialects.mu.types import Dim, Shaped
from mucc.kernels.registry import kind_of


class IndexUse(NamedTuple):
    """One use of an s32 argument: `rows` counts the rows that it divides into groups, or names.

    With `once` no row may be named twice. Of a `part` nothing else of the argument is used in this way.
    """

    argument: int
    kind: Literal["ends", "rows"]
    rows: Dim
    once: bool = False
    part: bool = False


def index_uses(program: ProgramOp) -> tuple[IndexUse, ...]:
    """Return the uses of index arguments, each once, in the order of the program."""
    return tuple(dict.fromkeys(_uses(program)))


def meant_uses(kernel: KernelOp) -> Iterator[IndexUse]:
    """Yield what index arguments mean in a kernel of `mu`, also where no device kernel reads them.

    All elements of a broadcast axis are the same one, so that what names them is not read. Neither is what
    only a value without uses is computed from.
    """
    for op in kernel.body.block.ops:
        match op:
            case PickOp() if (found := _argument(kernel, op.rows)) is not None:
                yield IndexUse(found[0], "rows", Shaped.of(op.operand.type).dims[op.row_axis])
            case ScatterOp() if (found := _argument(kernel, op.rows)) is not None:
                yield IndexUse(found[0], "rows", op.extent.data, once=True)
            case GroupedMatmulOp() if (found := _argument(kernel, op.offsets)) is not None:
                yield IndexUse(found[0], "ends", Shaped.of(op.lhs.type).dims[-2])
            case _:
                continue


def _uses(program: ProgramOp) -> Iterator[IndexUse]:
    for op in program.walk():
        match op:
            case DeviceKernelOp():
                for index in kind_of(op).index_tensors(op):
                    if (found := _argument(program, index.value)) is not None:
                        yield IndexUse(found[0], index.kind, index.rows, index.once, found[1])
            case PickOp() if (found := _argument(program, op.rows)) is not None:
                rows = Shaped.of(op.operand.type).dims[op.row_axis]
                yield IndexUse(found[0], "rows", rows, part=found[1])
            case ScatterNode() if (found := _argument(program, op.rows)) is not None:
                rows = Shaped.of(op.destination.type).dims[0]
                yield IndexUse(found[0], "rows", rows, once=True, part=found[1])
            case _:
                continue


def _argument(program: EntryOp, value: SSAValue) -> tuple[int, bool] | None:
    """Return the position of the argument that a value views or copies, and whether it is a part of it.

    None for a computed value.
    """
    base = view_of(value).base
    match base.owner:
        case WorkspaceOp():
            stores = [use.operation for use in base.uses if isinstance(use.operation, StoreOp)]
            copied = [s.value.owner.source for s in stores if isinstance(s.value.owner, LoadOp)]
            return _argument(program, copied[0]) if copied and view_of(copied[0]).rows is None else None
        case RegroupOp():
            return _argument(program, base.owner.operand)
        case IndexMapOp():
            found = _argument(program, base.owner.operand)
            return None if found is None else (found[0], True)
        case _:
            if isinstance(base, BlockArgument) and base.block is program.body.block:
                return base.index, False
            return None
