"""Join concatenations: store the result of a convolution into its part of what it is concatenated to."""

from __future__ import annotations

import re
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.ir import SSAValue

from mucc.dialects.cutlass.nodes import ComputeOp, LoadOp, StoreOp
from mucc.dialects.cutlass.ops import ProgramOp, WorkspaceOp
from mucc.dialects.rewriting import Pass
from mucc.kernels.conv.op import ConvKernelOp
from mucc.kernels.lowering.joining import as_rounded, drop_unused
from mucc.kernels.map.op import MapOp


@dataclass(frozen=True)
class JoinConcatenations(Pass):
    """Concatenate a convolution's result with tensors of its extents in the kernel of the convolution.

    ```
    cutlass.conv "s0" ... { ...                          cutlass.conv "y" ... { ...
      cutlass.store %h, %t }                               %k = cutlass.load %kept
    cutlass.map "y" space [8, 64, 64, 32] {        ->      cutlass.store %k, %y axis 3 from 0
      %k = cutlass.load %kept                              cutlass.store %h, %y axis 3 from 32 }
      %x = cutlass.load %t
      cutlass.store %k, %y axis 3 from 0
      cutlass.store %x, %y axis 3 from 32 }
    ```

    The result is then neither stored nor read by itself. A convolution that the user named, or that reduces,
    pools or measures its result, stays as it is.
    """

    name = "join-concatenations"

    def apply(self, ctx: Context | None, op: ModuleOp) -> None:
        for program in (op for op in op.body.block.ops if isinstance(op, ProgramOp)):
            for kernel in list(program.kernels):
                if isinstance(kernel, MapOp) and (stored := _stored(kernel)) is not None:
                    _join(program, stored, kernel)


def _stored(kernel: MapOp) -> StoreOp | None:
    """Return the store of a convolution whose result a map concatenates; None where the map has to stay."""
    nodes = list(kernel.nodes)
    if not all(isinstance(op, LoadOp | ComputeOp | StoreOp) for op in nodes):
        return None
    if not any(isinstance(op, StoreOp) and op.part is not None for op in nodes):
        return None
    loads = [op for op in nodes if isinstance(op, LoadOp)]
    found = {store for op in loads if (store := _producer(op.source, kernel)) is not None}
    return found.pop() if len(found) == 1 else None


def _producer(source: SSAValue, reader: MapOp) -> StoreOp | None:
    """Return the only store of a convolution, to a workspace that nothing but a map of its extents reads."""
    if not isinstance(source.owner, WorkspaceOp):
        return None
    users = [use.operation for use in source.uses]
    stores = [op for op in users if isinstance(op, StoreOp)]
    if len(stores) != 1 or not isinstance(conv := stores[0].parent_op(), ConvKernelOp):
        return None
    if any(op.parent_op() is not reader for op in users if op is not stores[0]):
        return None
    is_plain = not conv.is_reduced and conv.pool is None and conv.moments is None
    is_named = re.fullmatch(r"s\d+", conv.stage.data) is None
    stores_one = len(list(conv.stores)) == 1 and stores[0].part is None
    return stores[0] if is_plain and not is_named and stores_one and conv.extents == reader.extents else None


def _join(program: ProgramOp, stored: StoreOp, kernel: MapOp) -> None:
    """Move the nodes of a map into the convolution before it, which takes its place."""
    conv, place = stored.parent_op(), stored.destination
    assert isinstance(conv, ConvKernelOp)
    block = conv.body.block
    stored.detach()
    value = as_rounded(stored, block)
    values: dict[SSAValue, SSAValue] = {}
    for op in kernel.nodes:
        if isinstance(op, LoadOp) and op.source is place:
            values[op.result] = value
            continue
        block.add_op(new := op.clone(values))
        new.location = op.location
    stored.erase()
    conv.detach()
    program.body.block.insert_op_before(conv, kernel)
    program.leave_unstored(conv.stage.data)
    conv.properties["stage"] = StringAttr(kernel.stage.data)
    kernel.detach()
    kernel.erase()
    drop_unused([place])
